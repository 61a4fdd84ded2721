"""What `hanse doctor` asks the server for. What is refused, or not answered, is noted, and the rest is asked all the
same: half an answer is what somebody with a broken installation has."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import time
from typing import TYPE_CHECKING, Final, TypeVar

from hanse.model.errors import HanseError
from hanse.model.lifecycle import State

if TYPE_CHECKING:
    from hanse.api.v1.access_service_pb2 import WhoAmIResponse
    from hanse.api.v1.config_pb2 import Flavor
    from hanse.api.v1.job_pb2 import Job
    from hanse.api.v1.pool_pb2 import Pool
    from hanse.api.v1.queue_pb2 import Queue
    from hanse.api.v1.server_service_pb2 import FederationStatus, ServerInfo
    from hanse.client import AsyncClient

T = TypeVar("T")

JOBS_LOOKED_AT_MAX: Final = 200
"""Of those that wait: what they ask of the topology."""


@dataclass(slots=True)
class Gathered:
    """What is known of an installation.

    Attributes:
        version: of this command.
        server: HOST:PORT that was asked.
        tls: the connection is encrypted.
        asked_ms, answered_ms: this machine's clock before the server told its own, and after.
        refused: by what was asked for, why it was not told.
    """

    version: str
    server: str
    tls: bool
    asked_ms: int = 0
    answered_ms: int = 0
    info: "ServerInfo | None" = None
    status: "FederationStatus | None" = None
    who: "WhoAmIResponse | None" = None
    pools: "Sequence[Pool] | None" = None
    queues: "Sequence[Queue] | None" = None
    flavors: "Sequence[Flavor] | None" = None
    waiting: "Sequence[Job] | None" = None
    refused: dict[str, HanseError] = field(default_factory=dict)


async def gather(client: "AsyncClient", found: Gathered) -> Gathered:
    """Ask for everything, each part by itself; if nobody answers at all, for nothing more."""
    found.asked_ms = _now_ms()
    found.info = await _asked(found, "server", client.server_info)
    found.answered_ms = _now_ms()
    if found.info is None and found.refused["server"].reason in NOBODY:
        return found
    found.who = await _asked(found, "whoami", client.who_am_i)
    found.status = await _asked(found, "status", client.status)
    found.pools = await _asked(found, "pools", client.pools)
    found.queues = await _asked(found, "queues", lambda: client.queues(status=True))
    found.flavors = await _asked(found, "flavors", client.flavors)
    found.waiting = await _asked(found, "jobs", lambda: _waiting(client))
    return found


NOBODY: Final = frozenset({"SERVER_UNREACHABLE", "DEADLINE_EXCEEDED", "SERVER_ADDRESS_INVALID"})


async def _waiting(client: "AsyncClient") -> "Sequence[Job]":
    page = await client.jobs_page(states=[State.PENDING], page_size=JOBS_LOOKED_AT_MAX, specs=True)
    return page.jobs


async def _asked(found: Gathered, what: str, ask: Callable[[], Awaitable[T]]) -> T | None:
    try:
        return await ask()
    except HanseError as error:
        found.refused[what] = error
        return None


def _now_ms() -> int:
    return int(time() * 1_000)
