"""What pools' agents do as far as places go: take them in order of revision, refuse what has none, give them back.

They keep the fleet at one load: as many GPUs as gangs take anew are given back by the gangs that have run longest,
whatever the replicas' rate is. So a rate is what replicas can do at that load, never what the load lets them do.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from bench.conflicts.fleet import FILLING, Pool
from hanse.kit.clock import Clock
from hanse.model.fence import GangKey
from hanse.model.ids import PoolName
from hanse.model.lifecycle import Refused
from hanse.model.reasons import Reason
from hanse.scheduler.core.facts import SummaryFacts, SummaryOrder
from hanse.shape import decode, encode
from hanse.store import keys
from hanse.store.contract import Delete, Event, EventKind, Store, Txn, prefix_end
from hanse.store.moves import commit_move
from hanse.store.schema import decode_binding

SUMMARY_INTERVAL_S: Final = 2.0
"""As agents are set by default."""

INCARNATION: Final = 1

Heard = Callable[[PoolName, SummaryFacts], None]


class Agents:
    """The agents of all pools.

    Attributes:
        refused: decisions that had no places.

    Args:
        load: share of all GPUs that is kept taken.
        heard: told of every summary.
    """

    def __init__(
        self, store: Store, clock: Clock, pools: Sequence[Pool], load: float, rng: Random, heard: Heard
    ) -> None:
        self.refused = 0
        self._store = store
        self._clock = clock
        self._pools: Mapping[PoolName, Pool] = {pool.name: pool for pool in pools}
        self._rng = rng
        self._heard = heard
        self._revision = 0
        self._sequence = 0
        filling = [(pool.name, key, gpus) for pool in pools for key, gpus in pool.filling]
        rng.shuffle(filling)
        self._running = deque(filling)
        self._taken = sum(gpus for _, _, gpus in filling)
        self._most = load * sum(pool.gpus for pool in pools)

    def summary(self, pool: PoolName) -> SummaryFacts:
        """What the pool says of its capacity now."""
        self._sequence += 1
        shape = decode(encode(self._pools[pool].ledger.inventory.shape()))
        order = SummaryOrder(INCARNATION, 1, self._sequence)
        at_ms = self._clock.now_ms()
        return SummaryFacts(
            order, self._revision, self._clock.monotonic(), at_ms, shape, None, settings_revision=10**9
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="bindings")
            for pool in self._pools:
                group.create_task(self._tell(pool), name=f"summaries-{pool}")

    async def _tell(self, pool: PoolName) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, SUMMARY_INTERVAL_S))
        while True:
            self._heard(pool, self.summary(pool))
            await asyncio.sleep(SUMMARY_INTERVAL_S)

    async def _follow(self) -> None:
        start, end = keys.BINDINGS, prefix_end(keys.BINDINGS)
        first = (await self._store.read([])).revision + 1
        async with self._store.watch(start, end, from_revision=first) as watch:
            async for batch in watch:
                made = [
                    e for e in batch.events if e.kind is EventKind.PUT and e.kv.create_revision == e.kv.mod_revision
                ]
                for event in sorted(made, key=_order):
                    await self._place(event)
                self._revision = batch.revision
                await self._end_oldest()

    async def _place(self, event: Event) -> None:
        key, value = keys.parse_binding(event.kv.key), decode_binding(event.kv.value)
        gang = GangKey(key.job, key.attempt, key.part)
        request = value.gang_request()
        if self._pools[key.pool].place(gang, request, value.flavors[0]):
            self._running.append((key.pool, gang, request.gpus))
            self._taken += request.gpus
            return
        self.refused += 1
        refusal = Refused(key.attempt, key.part, 0, Reason.SHAPE)
        await commit_move(
            self._store, key.job, refusal, clock=self._clock, write_id=lambda: self._rng.getrandbits(62)
        )

    async def _end_oldest(self) -> None:
        while self._taken > self._most:
            pool, gang, gpus = self._running.popleft()
            self._pools[pool].ledger.give(gang)
            self._taken -= gpus
            if not gang.job.startswith(FILLING):
                binding = keys.binding(pool, gang.job, gang.attempt, gang.part)
                await self._store.transact(Txn((), (Delete(binding), Delete(keys.state(gang.job)))))


def _order(event: Event) -> tuple[int, int]:
    return event.kv.create_revision, decode_binding(event.kv.value).order
