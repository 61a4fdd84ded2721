"""A real server on loopback and clients of it."""

import random
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Protocol

from hanse.apiserver.access.callers import Callers
from hanse.apiserver.credentials import Credentials
from hanse.apiserver.ports import AgentDetails, AuditLog, AuditTrail, PoolView
from hanse.apiserver.serving import NO_CREDENTIALS, serve
from hanse.apiserver.settings import ApiSettings
from hanse.client import AsyncClient
from tests.unit.apiserver.stage import Stage, stage


class Kept(AuditLog, AuditTrail, Protocol):
    """A log that is all there is."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that listens, what is behind it, and a client."""

    on: Stage
    address: str
    client: AsyncClient


@asynccontextmanager
async def served(
    *,
    settings: ApiSettings | None = None,
    credentials: Credentials = NO_CREDENTIALS,
    callers: Callers | None = None,
    pools: Sequence[PoolView] = (),
    details: AgentDetails | None = None,
    audit: Kept | None = None,
    token: str = "",
) -> AsyncIterator[Served]:
    async with (
        stage(*pools, settings=settings, details=details, audit=audit) as on,
        serve(on.api, listen="127.0.0.1:0", credentials=credentials, callers=callers) as serving,
        AsyncClient(serving.address, token=token, rng=random.Random(3)) as client,
    ):
        yield Served(on, serving.address, client)


def free_port() -> int:
    """A port that nobody listens on."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
