"""A Prometheus endpoint: `GET /metrics` over HTTP/1.1; and what a kubelet probes, `/livez` and `/readyz`.

It is asked a few times a minute by a scraper or two, so it serves one request a connection, takes SCRAPES_MAX pages
at a time, and hangs up on whoever needs longer than DEADLINE_S to ask or to read. Whoever asks slowly keeps nobody
else from asking: of ASKING_MAX who have not finished, the one who began first is hung up on when another comes, so
probes are answered whatever others do. Tables are copied on the event loop; the page is written on a thread, because
a large fleet has thousands of lines.

Rejected: the HTTP server of the standard library. It has a thread for each connection and no deadline.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from hanse.kit.health import HEALTH
from hanse.kit.telemetry.exposition import CONTENT_TYPE
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted

log = logging.getLogger(__name__)

PATH: Final = "/metrics"
LIVE_PATH: Final = "/livez"
READY_PATH: Final = "/readyz"
DEADLINE_S: Final = 5.0
SCRAPES_MAX: Final = 8
ASKING_MAX: Final = 64
"""Connections whose request is not complete yet."""
REQUEST_BYTES_MAX: Final = 8_192

Page = Callable[[], Awaitable[str]]


@asynccontextmanager
async def prometheus_endpoint(address: str, page: Page) -> AsyncIterator[str]:
    """Serve while the block runs; the address at which it listens.

    Raises:
        InvalidArgument: nobody can listen at that address.
    """
    host, port = _parsed(address)
    endpoint = _Endpoint(page)
    try:
        server = await asyncio.start_server(endpoint.serve, host, port, limit=REQUEST_BYTES_MAX)
    except OSError as error:
        what = f"cannot listen at {quoted(address)}: {error.strerror or error}; choose another one"
        raise InvalidArgument(what, reason="LISTEN", path="--prometheus") from error
    bound_host, bound_port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{bound_host}:{bound_port}"
    finally:
        server.close()
        await endpoint.close()


def _parsed(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidArgument(f"{quoted(address)} is not HOST:PORT", reason="ADDRESS", path="--prometheus")
    return host.strip("[]"), int(port)


class _Endpoint:
    def __init__(self, page: Page) -> None:
        self._page = page
        self._asking: dict[asyncio.Task[None], None] = {}
        self._answering: dict[asyncio.Task[None], None] = {}
        self._paging: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._asking) >= ASKING_MAX:
            next(iter(self._asking)).cancel()
        self._asking[task] = None
        try:
            async with asyncio.timeout(DEADLINE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                del self._asking[task]
                self._answering[task] = None
                writer.write(await self._answer(head, task))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.LimitOverrunError, asyncio.IncompleteReadError) as error:
            log.info("scrape_failed", extra={"cause": str(error) or type(error).__name__})
        except asyncio.CancelledError:
            log.info("scrape_failed", extra={"cause": "others came while it was asked"})
        finally:
            self._asking.pop(task, None)
            self._answering.pop(task, None)
            self._paging.discard(task)
            writer.close()

    async def close(self) -> None:
        """Hang up on everybody."""
        tasks = [*self._asking, *self._answering]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, head: bytes, task: "asyncio.Task[None]") -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "only GET\n", body=True)
        if path == LIVE_PATH.encode() or (path == READY_PATH.encode() and HEALTH.ready):
            return _response("200 OK", "ok\n", body=method == b"GET")
        if path == READY_PATH.encode():
            return _response("503 Service Unavailable", "not ready\n", body=method == b"GET")
        if path != PATH.encode():
            what = f"metrics are at {PATH}, probes at {LIVE_PATH} and {READY_PATH}\n"
            return _response("404 Not Found", what, body=method == b"GET")
        if len(self._paging) >= SCRAPES_MAX:
            return _response("503 Service Unavailable", "others are being served\n", body=method == b"GET")
        self._paging.add(task)
        return _response("200 OK", await self._page(), body=method == b"GET", content_type=CONTENT_TYPE)


def _response(status: str, text: str, *, body: bool, content_type: str = "text/plain; charset=utf-8") -> bytes:
    data = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}\r\n"
        "Connection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n"
    )
    return head.encode() + (data if body else b"")
