"""How a replica reaches the others: by calls that are slow, and that nobody answers who is dead or paused (P14)."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hanse.kit.stream import StreamClosed
from hanse.model.audit import AuditPage, AuditQuery
from hanse.model.detail import Question
from hanse.model.ids import PoolName
from hanse.model.occurrence import OccurrenceQuery, RingCursor, RingPage
from hanse.model.summary import KnownSummary, PoolSummary
from hanse.model.vitals import Vitals
from hanse.scheduler.shell.peers import Asked, Peer, Peers, Pieces
from tests.sim.weather import Answer

if TYPE_CHECKING:
    from tests.sim.world import World

DEADLINE_S: Final = 5.0
NOT_HERE: Final = "no such call in a simulation"


class SimPeers:
    """The replicas of a world, by their names."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def at(self, address: str) -> Peer:
        return SimPeer(self._world, address)

    def keep(self, addresses: Sequence[str]) -> None:
        """There are no connections to let go."""


class SimPeer:
    """One of them, whether or not it is there."""

    def __init__(self, world: "World", name: str) -> None:
        self._world = world
        self._name = name

    async def fetch(self, known: Sequence[KnownSummary]) -> tuple[PoolSummary, ...]:
        world = self._world
        answer: Answer[tuple[PoolSummary, ...]] = Answer(world.loop)
        lag_s = world.weather.lag(world.weather.swarm.link_lag_s)
        world.loop.world_later(lag_s, self._serve, tuple(known), answer)
        return await answer.get(DEADLINE_S)

    def _serve(self, known: tuple[KnownSummary, ...], answer: Answer[tuple[PoolSummary, ...]]) -> None:
        process = next((site.process for site in self._world.replicas if site.name == self._name), None)
        if process is None or process.replica is None:
            answer.give(None, StreamClosed(f"{self._name} does not run"))
            return
        self._world.loop.spawn(process.actor, self._answer(process.replica.newer_than(known), answer), name="peer")

    async def _answer(self, found: tuple[PoolSummary, ...], answer: Answer[tuple[PoolSummary, ...]]) -> None:
        await asyncio.sleep(self._world.weather.lag(self._world.weather.swarm.link_lag_s))
        answer.give(found)

    def pool(self, name: PoolName) -> Asked:
        return _Silent()

    async def events(self, query: OccurrenceQuery, cursor: RingCursor) -> RingPage:
        raise StreamClosed(NOT_HERE)

    async def vitals(self) -> Vitals:
        raise StreamClosed(NOT_HERE)

    async def audited(self, query: AuditQuery) -> AuditPage:
        raise StreamClosed(NOT_HERE)


class _Silent:
    """Agents are asked only by the replica that they are attached to."""

    def ask(self, question: Question) -> Pieces:
        raise StreamClosed(NOT_HERE)


def _are_peers(peers: SimPeers) -> Peers:
    """For the type checker: the model keeps the contract."""
    return peers
