"""A cluster as its agent meets it: calls that fail before, in the middle or after, writes that arrive too late.

The port promises that of a write any prefix may be in effect after `ClusterUnavailable`, and that pods of a gang may
have been created in part. Both happen here, as does the worst: a write that arrives seconds after its agent has given
up, died, or been superseded. Only the epoch in the cluster keeps that one out (P8).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

from hanse.agent.cluster.port import (
    PORT_DEADLINE_S,
    Claim,
    ClusterEvent,
    ClusterState,
    ClusterUnavailable,
    ClusterWrite,
    Epoch,
    ExecInput,
    ExecOutput,
    GangKey,
    NodeFacts,
    PodCommand,
    PodStatus,
    Superseded,
    Wanted,
    WatchLost,
    WriteResult,
)
from hanse.agent.cluster.simulated import SimulatedCluster
from hanse.simcluster.inputs import EpochId
from tests.sim.cluster_checks import ClusterChecks, ObservedEngine
from tests.sim.loop import Actor, Life
from tests.sim.story import Story
from tests.sim.weather import Weather, send_call

T = TypeVar("T")

WATCH_BATCHES_MAX: Final = 64


class FaultyCluster:
    """A `ClusterPort` for one agent."""

    def __init__(
        self,
        inner: SimulatedCluster,
        engine: ObservedEngine,
        actor: Actor,
        weather: Weather,
        checks: ClusterChecks,
        story: Story,
    ) -> None:
        self._inner = inner
        self._engine = engine
        self._actor = actor
        self._weather = weather
        self._checks = checks
        self._story = story

    async def read_claim(self) -> Claim:
        return await self._call(self._inner.read_claim)

    async def claim(self, federation: str, epoch: Epoch, revision: int) -> Claim:
        return await self._call(lambda: self._inner.claim(federation, epoch, revision))

    async def list(self) -> ClusterState:
        return await self._call(self._inner.list)

    async def nodes(self) -> tuple[NodeFacts, ...]:
        return (await self.list()).nodes

    def exec(self, command: PodCommand, stdin: AsyncIterator[ExecInput] | None) -> AsyncIterator[ExecOutput]:
        return self._inner.exec(command, stdin)

    async def lacking(self, wanted: Wanted) -> tuple[str, ...]:
        return await self._call(lambda: self._inner.lacking(wanted))

    async def pods(self, key: GangKey) -> tuple[PodStatus, ...]:
        return await self._call(lambda: self._inner.pods(key))

    def logs(
        self, key: GangKey, *, pod_set: str, rank: int, follow: bool, tail: int
    ) -> AsyncIterator[tuple[str, ...]]:
        return self._inner.logs(key, pod_set=pod_set, rank=rank, follow=follow, tail=tail)

    async def write(self, epoch: Epoch, ops: Sequence[ClusterWrite]) -> tuple[WriteResult, ...]:
        todo = tuple(ops)
        weather, swarm = self._weather, self._weather.swarm
        if weather.hits(swarm.cluster_late_p):
            return await self._write_late(epoch, todo)
        if todo and weather.hits(swarm.cluster_error_p):
            return await self._write_prefix(epoch, todo)
        return await self._call(lambda: self._apply(epoch, todo, self._inner.write(epoch, todo)))

    async def watch(self, version: int) -> AsyncIterator[tuple[ClusterEvent, ...]]:
        weather = self._weather
        batches: asyncio.Queue[tuple[ClusterEvent, ...] | None] = asyncio.Queue(WATCH_BATCHES_MAX)
        pumping = weather.loop.world_task(self._pump(version, batches), name="cluster-watch")
        every_s = weather.swarm.cluster_watch_lost_every_s
        lost_at_s = weather.loop.time() + (weather.rng.expovariate(1.0 / every_s) if every_s else float("inf"))
        try:
            while (batch := await batches.get()) is not None:
                await asyncio.sleep(weather.lag(weather.swarm.cluster_lag_s))
                if weather.loop.time() >= lost_at_s:
                    break
                yield batch
            raise WatchLost("the watch broke: list again")
        finally:
            pumping.cancel()

    async def _pump(self, version: int, batches: "asyncio.Queue[tuple[ClusterEvent, ...] | None]") -> None:
        """Read the cluster's own watch in the world, so that its timers belong to no agent."""
        try:
            async for batch in self._inner.watch(version):
                if self._actor.life is Life.DEAD:
                    return
                await batches.put(batch)
        except (WatchLost, ClusterUnavailable):
            await batches.put(None)

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        weather, swarm = self._weather, self._weather.swarm
        answer = send_call(weather, swarm.cluster_lag_s, call, "cluster-call")
        failed = weather.hits(swarm.cluster_error_p)
        try:
            value = await answer.get(PORT_DEADLINE_S)
        except TimeoutError:
            raise ClusterUnavailable("the cluster did not answer in time") from None
        if failed:
            raise ClusterUnavailable("the connection broke before the answer came")
        return value

    async def _write_prefix(self, epoch: Epoch, ops: tuple[ClusterWrite, ...]) -> tuple[WriteResult, ...]:
        """Only the first operations happen, and of a start that comes next only the first pods."""
        rng = self._weather.rng
        whole, pods = rng.randrange(len(ops)), rng.randint(0, 3)
        self._story.note(f"of a write of {len(ops)} only {whole} happen, and {pods} pods", self._engine.pool)
        await self._call(
            lambda: self._apply(epoch, ops, self._inner.write_prefix(epoch, ops, whole=whole, pods=pods))
        )
        raise ClusterUnavailable("the connection broke in the middle of a write")

    async def _write_late(self, epoch: Epoch, ops: tuple[ClusterWrite, ...]) -> tuple[WriteResult, ...]:
        weather = self._weather
        delay_s = weather.rng.uniform(0.0, weather.swarm.late_max_s)
        weather.loop.world_task(self._arrive_late(epoch, ops, delay_s), name="cluster-late")
        await asyncio.sleep(weather.rng.uniform(0.0, PORT_DEADLINE_S))
        raise ClusterUnavailable("the connection broke while the request was on its way")

    async def _arrive_late(self, epoch: Epoch, ops: tuple[ClusterWrite, ...], delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        if self._engine.dead:
            return
        try:
            await self._apply(epoch, ops, self._inner.write(epoch, ops))
        except (ClusterUnavailable, Superseded) as error:
            self._story.note(f"a write {delay_s:.1f}s late is refused: {error}", self._engine.pool)
            return
        self._story.note(f"a write of {self._actor.name} takes effect {delay_s:.1f}s late", self._engine.pool)

    async def _apply(
        self, epoch: Epoch, ops: tuple[ClusterWrite, ...], writing: Awaitable[tuple[WriteResult, ...]]
    ) -> tuple[WriteResult, ...]:
        results = await writing
        if ops:
            claimed = self._engine.claim.epoch
            self._checks.wrote(self._engine.pool, EpochId(epoch.incarnation, epoch.revision), claimed)
        return results
