"""uvicorn, with deadlines that it does not have: for the head of a request, and for a reader who takes nothing.

A connection has HEAD_DEADLINE_S to bring a whole head, also the second one on a connection that is kept; and what
waits to be sent is taken within WRITE_DEADLINE_S or the connection is cut. So whoever dribbles costs one socket for
seconds. Signals belong to the process, not to this server.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from hanse.console.limits import (
    CONNECTIONS_MAX,
    HEAD_BYTES_MAX,
    HEAD_DEADLINE_S,
    KEEP_ALIVE_S,
    STOP_GRACE_S,
    WRITE_DEADLINE_S,
)
from hanse.kit.tls import TlsFiles
from hanse.model.errors import Unavailable

logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what it has to say about bad requests is for nobody


class GuardedProtocol(H11Protocol):
    """One connection with deadlines."""

    _head: asyncio.TimerHandle | None = None
    _head_bytes: int = 0
    _write: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self._head is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_head()
        if self._head is not None:
            end = data.find(b"\r\n\r\n")
            self._head_bytes += len(data) if end < 0 else end
            if self._head_bytes > HEAD_BYTES_MAX:
                self.transport.abort()
                return
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._cancel_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head()
        self._cancel_write()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._cancel_write()
        self._write = self.loop.call_later(WRITE_DEADLINE_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_write()
        super().resume_writing()

    def _expect_head(self) -> None:
        self._head_bytes = 0
        self._head = self.loop.call_later(HEAD_DEADLINE_S, self._late)

    def _late(self) -> None:
        self._head = None
        self.transport.abort()

    def _cancel_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _cancel_write(self) -> None:
        if self._write is not None:
            self._write.cancel()
            self._write = None


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises Unavailable: reason ADDRESS_UNUSABLE."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host.strip("[]"), port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise Unavailable(
            f"the console cannot listen on {host}:{port}: {error.strerror or error}; "
            "stop what listens there, or name another address",
            reason="ADDRESS_UNUSABLE",
            path="console",
        ) from None
    return sock


@asynccontextmanager
async def served(app: ASGIApp, sock: socket.socket, tls: TlsFiles | None) -> AsyncIterator[None]:
    """Answer on the socket while the block runs."""
    config = uvicorn.Config(
        app,
        http=GuardedProtocol,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_GRACE_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        ssl_certfile=str(tls.cert) if tls is not None and tls.cert is not None else None,
        ssl_keyfile=str(tls.key) if tls is not None and tls.key is not None else None,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[sock]), name="console")
    try:
        yield
    finally:
        server.should_exit = True
        for connection in list(server.server_state.connections):
            if isinstance(connection, H11Protocol) and connection.cycle is not None:
                connection.cycle.keep_alive = False
        try:
            await asyncio.wait_for(asyncio.shield(task), STOP_GRACE_S + 2)
        except TimeoutError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
