"""What a replica needs of the pools whose agents are attached to other replicas, beyond the store.

Two things: an answer to a question that only an agent knows (nodes, logs, the nearest miss), and the pool's newest
summary while the bus does not bring it (P14). Both are asked of the replica that has the agent's stream: the store
says which one, and where it listens. A third thing is asked of every replica: what it remembers of what happened.

Nobody decides whether the bus works: such a judge is wrong at the worst moment. A pool's summary that is older than
what a working bus delivers is asked for, whatever the cause; with the bus up that concerns idle pools only, and the
answer is that there is nothing newer. Rejected: moving agents to the replica that plans (the other way that P14
allows): several replicas may plan for the same pool, and each move costs an epoch.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from hanse.kit.clock import Clock
from hanse.kit.stream import StreamClosed
from hanse.model.audit import AuditPage, AuditQuery
from hanse.model.detail import DetailReply, ExecInput, Question
from hanse.model.fence import Epoch
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.occurrence import OccurrenceQuery, RingCursor, RingPage
from hanse.model.summary import KnownSummary, PoolSummary
from hanse.model.vitals import Vitals
from hanse.scheduler.core.world import World
from hanse.wire.peer import SUMMARIES_PER_FETCH_MAX

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
FRESH_S: Final = 2.5
"""A summary that came within this time is not asked for: agents send one in two seconds while something happens."""

FETCH_DEADLINE_S: Final = 1.0


class Pieces(Protocol):
    """An answer that comes in pieces."""

    async def next(self) -> DetailReply | None:
        """The next piece, None after the last. Raises StreamClosed when the last will never come."""
        ...

    async def tell(self, value: ExecInput) -> None:
        """Hand on an input, when there is room for it. Raises StreamClosed."""
        ...

    def close(self) -> None:
        """No more of it, please; never raises."""
        ...


class Asked(Protocol):
    """Somebody who hands questions to the agent of one pool."""

    def ask(self, question: Question) -> Pieces:
        """Ask. Raises StreamClosed if the agent takes no more questions."""
        ...


class Peer(Protocol):
    """Another replica, in a process of its own."""

    def pool(self, name: PoolName) -> Asked:
        """Who hands on questions to the agent of a pool that is attached there."""
        ...

    async def fetch(self, known: Sequence[KnownSummary]) -> tuple[PoolSummary, ...]:
        """Newer summaries than these, of pools that are attached there. Raises StreamClosed, TimeoutError."""
        ...

    async def events(self, query: OccurrenceQuery, cursor: RingCursor) -> RingPage:
        """What it remembers beyond a cursor. Raises StreamClosed, TimeoutError."""
        ...

    async def vitals(self) -> Vitals:
        """How it is. Raises StreamClosed, TimeoutError."""
        ...

    async def audited(self, query: AuditQuery) -> AuditPage:
        """What it has written down. Raises StreamClosed, TimeoutError."""
        ...


class Peers(Protocol):
    """How to reach other processes."""

    def at(self, address: str) -> Peer:
        """The replica that listens there; nothing is sent yet."""
        ...

    def keep(self, addresses: Sequence[str]) -> None:
        """Let go what leads to any other address."""
        ...


class Elsewhere:
    """The pools that are attached to other processes' replicas, as one replica asks for them.

    Args:
        beside: replicas of this process, which need no asking.
    """

    def __init__(
        self,
        peers: Peers,
        world: World,
        clock: Clock,
        *,
        replica: ReplicaId,
        beside: Callable[[ReplicaId], bool],
        take: Callable[[PoolSummary], None],
    ) -> None:
        self._peers = peers
        self._world = world
        self._clock = clock
        self._replica = replica
        self._beside = beside
        self._take = take

    def pool(self, name: PoolName) -> Asked | None:
        """Who hands on questions to the agent of a pool; None if it is attached nowhere else."""
        address = self._addresses().get(ReplicaId(self._world.attached_to(name)))
        return self._peers.at(address).pool(name) if address else None

    def _addresses(self) -> Mapping[ReplicaId, str]:
        """Where the other processes' live replicas listen."""
        return {
            name: facts.address
            for name, facts in sorted(self._world.replicas.items())
            if facts.address and name != self._replica and not self._beside(name)
        }

    async def events(
        self, query: OccurrenceQuery, cursors: Mapping[str, RingCursor], *, deadline_s: float
    ) -> tuple[dict[str, RingPage], tuple[ReplicaId, ...]]:
        """What each other process's replica remembers beyond its cursor, and who did not answer in time."""
        addresses = self._addresses()
        asked = (
            self._events(address, query, cursors.get(name, RingCursor()), deadline_s)
            for name, address in addresses.items()
        )
        answers = dict(zip(addresses, await asyncio.gather(*asked), strict=True))
        found = {str(name): page for name, page in answers.items() if page is not None}
        return found, tuple(name for name, page in answers.items() if page is None)

    async def _events(
        self, address: str, query: OccurrenceQuery, cursor: RingCursor, deadline_s: float
    ) -> RingPage | None:
        try:
            async with asyncio.timeout(deadline_s):
                return await self._peers.at(address).events(query, cursor)
        except (StreamClosed, TimeoutError) as error:
            log.info("peer_silent", extra={"address": address, "cause": str(error) or "no answer in time"})
            return None

    async def vitals(self, *, deadline_s: float) -> dict[ReplicaId, Vitals]:
        """How each other process's replica is, as far as it answers in time."""
        addresses = self._addresses()
        asked = (self._vitals(address, deadline_s) for address in addresses.values())
        answers = zip(addresses, await asyncio.gather(*asked), strict=True)
        return {name: vitals for name, vitals in answers if vitals is not None}

    async def _vitals(self, address: str, deadline_s: float) -> Vitals | None:
        try:
            async with asyncio.timeout(deadline_s):
                return await self._peers.at(address).vitals()
        except (StreamClosed, TimeoutError) as error:
            log.info("peer_silent", extra={"address": address, "cause": str(error) or "no answer in time"})
            return None

    async def audited(
        self, query: AuditQuery, *, deadline_s: float
    ) -> tuple[dict[str, AuditPage], tuple[ReplicaId, ...]]:
        """What each other process's replica has written down, and who did not answer in time."""
        addresses = self._addresses()
        answers = await asyncio.gather(*(self._audited(address, query, deadline_s) for address in addresses.values()))
        named = list(zip(addresses, answers, strict=True))
        found = {str(name): page for name, page in named if page is not None}
        return found, tuple(name for name, page in named if page is None)

    async def _audited(self, address: str, query: AuditQuery, deadline_s: float) -> AuditPage | None:
        try:
            async with asyncio.timeout(deadline_s):
                return await self._peers.at(address).audited(query)
        except (StreamClosed, TimeoutError) as error:
            log.info("peer_silent", extra={"address": address, "cause": str(error) or "no answer in time"})
            return None

    async def run(self) -> None:
        """Fetch summaries that are not fresh, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            addresses = self._addresses()
            self._peers.keep(tuple(addresses.values()))
            wanted = self._wanted(addresses)
            await asyncio.gather(*(self._fetch(addresses[name], known) for name, known in wanted.items()))

    def _wanted(self, addresses: Mapping[ReplicaId, str]) -> dict[ReplicaId, list[KnownSummary]]:
        """What to ask of whom: the oldest first, as many as one call takes."""
        oldest: list[tuple[float, ReplicaId, KnownSummary]] = []
        now_s = self._clock.monotonic()
        for name in self._world.pool_names():
            at = ReplicaId(self._world.attached_to(name))
            came_s, known = self._known(name)
            if at in addresses and now_s - came_s > FRESH_S:
                oldest.append((came_s, at, known))
        wanted: dict[ReplicaId, list[KnownSummary]] = {}
        for _, at, known in sorted(oldest, key=lambda entry: entry[0]):
            wanted.setdefault(at, []).append(known)
        return {at: known[:SUMMARIES_PER_FETCH_MAX] for at, known in wanted.items()}

    def _known(self, name: PoolName) -> tuple[float, KnownSummary]:
        summary = self._world.ledger(name).summary
        if summary is None:
            return float("-inf"), KnownSummary(name)
        order = summary.order
        return summary.received_s, KnownSummary(name, Epoch(order.incarnation, order.epoch_revision), order.sequence)

    async def _fetch(self, address: str, known: Sequence[KnownSummary]) -> None:
        try:
            async with asyncio.timeout(FETCH_DEADLINE_S):
                found = await self._peers.at(address).fetch(known)
        except (StreamClosed, TimeoutError) as error:
            log.info("peer_silent", extra={"address": address, "cause": str(error) or "no answer in time"})
            return
        for summary in found:
            self._take(summary)
