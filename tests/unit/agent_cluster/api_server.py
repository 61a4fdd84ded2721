"""An API server that answers what a test tells it to, over HTTP on the loopback."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hanse.agent.cluster.kubernetes.api import Api, Kubeconfig


@dataclass(frozen=True)
class Answer:
    """One answer: a status, headers, and pieces of a body; after the last one the connection is cut."""

    status: int = 200
    pieces: Sequence[bytes] = ()
    headers: tuple[str, ...] = ()


def whole(body: Any, status: int = 200, *headers: str) -> Answer:
    """A JSON body."""
    return Answer(status, [json.dumps(body).encode()], headers)


def lines(*events: Any) -> Answer:
    """Lines of a watch, each as a piece; bytes are sent as they are."""
    return Answer(
        pieces=[event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n" for event in events]
    )


@dataclass
class Script:
    """Answers in turn, and what was asked for; the last answer goes on for ever."""

    answers: list[Answer]
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        url = urlsplit(head.split()[1])
        self.accepted.append(next(line for line in head.splitlines() if line.lower().startswith("accept:")))
        self.asked.append((url.path, {name: values[0] for name, values in parse_qs(url.query).items()}))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        writer.write(f"HTTP/1.1 {answer.status} X\r\nConnection: close\r\n".encode())
        writer.write("".join(f"{line}\r\n" for line in answer.headers).encode() + b"\r\n")
        for piece in answer.pieces:
            writer.write(piece)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(
    folder: Path, *answers: Answer, tls: ssl.SSLContext | None = None, ca: bytes = b""
) -> AsyncIterator[tuple[Api, Script]]:
    """A client of a server that answers like that; with `tls` one that is trusted by the certificate in `ca.pem`."""
    script = Script(list(answers))
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    cluster = {"server": f"http://127.0.0.1:{port}"}
    if tls is not None:
        (folder / "ca.pem").write_bytes(ca)
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(folder / "ca.pem")}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    api = Api(Kubeconfig(path), reload_every_s=0.0)
    try:
        yield api, script
    finally:
        await api.close()
        server.close()
        await server.wait_closed()
