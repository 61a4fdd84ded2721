"""A console over a written stage on the loopback, and a client that sends exactly what a test says."""

import asyncio
import gzip
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from hanse.apiserver.access.callers import Callers
from hanse.apiserver.access.policy import TRUSTING, Policy
from hanse.apiserver.credentials import Credentials
from hanse.apiserver.ports import AgentDetails, AuditLog, Explainer, PoolView
from hanse.console.serving import console
from hanse.kit.clock import SystemClock
from tests.unit.apiserver.stage import Stage, stage

PATIENCE_S: Final = 15.0
OURS: Final = {"X-Hanse-Console": "1"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: `headers` by their lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        plain = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        return json.loads(plain)

    @property
    def reason(self) -> str:
        reason: str = self.json["error"]["reason"]
        return reason


@dataclass(slots=True)
class Console:
    """A console that answers."""

    on: Stage
    url: str
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    async def ask(
        self, path: str, *, method: str = "GET", body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own."""
        data = b"" if body is None else json.dumps(body).encode()
        shown = {"Host": f"127.0.0.1:{self.place[1]}", "Connection": "close", "Content-Length": str(len(data))}
        shown |= {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())} if self.cookies else {}
        shown |= headers or {}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in shown.items()), "", ""]
        return await self.raw("\r\n".join(lines).encode() + data)

    async def raw(self, data: bytes) -> Answer:
        """Send these bytes, and read until the server hangs up."""
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(*self.place)
            writer.write(data)
            try:
                taken = await reader.read()
            except ConnectionError:
                taken = b""
            writer.close()
        return parsed(taken)

    async def order(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Answer:
        """A change, as the page sends it."""
        return await self.ask(path, method="POST", body=body, headers={**OURS, **(headers or {})})

    @asynccontextmanager
    async def stream(self, path: str, last: str = "") -> AsyncIterator[AsyncIterator[tuple[str, str, Any]]]:
        """Server-sent events as (id, event, value)."""
        reader, writer = await asyncio.open_connection(*self.place)
        mark = f"Last-Event-ID: {last}\r\n" if last else ""
        cookie = "".join(f"Cookie: {k}={v}\r\n" for k, v in self.cookies.items())
        writer.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n{cookie}{mark}\r\n".encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        assert b"text/event-stream" in head, head
        try:
            yield _events(reader)
        finally:
            writer.close()


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[tuple[str, str, Any]]:
    while True:
        try:
            block = await asyncio.wait_for(reader.readuntil(b"\n\n"), PATIENCE_S)
        except asyncio.IncompleteReadError:
            return
        fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if ": " in line)
        if "event" in fields:
            yield fields.get("id", ""), fields["event"], json.loads(fields["data"])


def parsed(taken: bytes) -> Answer:
    """An answer that was read whole; status 0 if the server hung up without one."""
    head, _, body = taken.partition(b"\r\n\r\n")
    if not head:
        return Answer(0, {}, b"")
    first, *rest = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    if headers.get("transfer-encoding") == "chunked":
        body = _joined(body)
    return Answer(int(first.split()[1]), headers, body)


def _joined(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        count = int(size, 16)
        whole, body = whole + body[:count], body[count + 2 :]
    return whole


@asynccontextmanager
async def served(
    *pools: PoolView,
    tokens: Credentials | None = None,
    policy: Policy = TRUSTING,
    policies: Callable[[], Policy] | None = None,
    explainer: Explainer | None = None,
    details: AgentDetails | None = None,
    audit: AuditLog | None = None,
) -> AsyncIterator[Console]:
    async with (
        stage(*pools, explainer=explainer, details=details, audit=audit) as on,
        console(
            on.api,
            listen="127.0.0.1:0",
            callers=Callers(lambda: tokens or Credentials(), policies or (lambda: policy)),
            tls=None,
            clock=SystemClock(),
            rng=random.Random(1),
        ) as url,
    ):
        yield Console(on, url)
