"""One setting in the simulator's virtual time: so many replicas over one store, for a while, after a warm-up."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from bench.conflicts.agents import INCARNATION, Agents
from bench.conflicts.fleet import FLAVORS, RACK, Pool, queues
from bench.conflicts.replicas import Scheduler
from bench.conflicts.store import PricedStore
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.queue import Queue
from hanse.model.vitals import COMMITTED, CONFLICTED, PASSED
from hanse.scheduler.core.facts import SummaryFacts
from hanse.scheduler.core.ledger import Takes
from hanse.scheduler.core.snapshot import Limits
from hanse.store import keys
from hanse.store.contract import Op, Put, Store, Txn
from hanse.store.schema import (
    AttachedValue,
    FlavorValue,
    GrantValue,
    LevelValue,
    PoolConfigValue,
    QueueValue,
    ReplicaValue,
    SlotsValue,
    encode,
)
from tests.sim.loop import SimClock, SimLoop

NONCE: Final = "bench"
OPS_PER_TXN: Final = 100


@dataclass(frozen=True, slots=True)
class Setting:
    """What is run.

    Attributes:
        load: share of all GPUs that is taken throughout.
        whole: guard whole pools instead of the heads of flavors.
        gang_s, txn_s: prices.
    """

    replicas: int
    load: float
    prefer: bool
    whole: bool
    decisions_max: int
    warm_s: float
    seconds: float
    gang_s: float
    txn_s: float
    interval_s: float
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it, within the window.

    Attributes:
        gangs: bound.
        sent, conflicts: transactions, and how many of them others had overtaken.
        by_guard: which guards did not hold, by the first part of the key.
        given_up: decisions that lost every time and were planned anew.
        refused: by agents.
    """

    gangs: int
    seconds: float
    sent: int
    conflicts: int
    by_guard: dict[str, int]
    given_up: int
    refused: int

    @property
    def gangs_per_s(self) -> float:
        return self.gangs / self.seconds

    @property
    def conflict_fraction(self) -> float:
        return self.conflicts / max(1, self.sent)


def simulate(setting: Setting, pools: Sequence[Pool]) -> Outcome:
    """Run one setting; the pools are changed by it."""
    logging.disable(logging.CRITICAL)
    loop = SimLoop(Random(setting.seed))
    asyncio.set_event_loop(loop)
    found: list[Outcome] = []
    try:
        loop.run(_run(loop, setting, pools, found))
    finally:
        loop.dispose()
        asyncio.set_event_loop(None)
        logging.disable(logging.NOTSET)
    if loop.failures:
        raise RuntimeError(f"a task failed: {loop.failures[0]}")
    return found[0]


async def _run(loop: SimLoop, setting: Setting, pools: Sequence[Pool], found: list[Outcome]) -> None:
    clock = SimClock(loop)
    store = PricedStore(clock, txn_s=setting.txn_s, whole=setting.whole)
    rng = Random(setting.seed)
    names = [ReplicaId(f"r{n:02}") for n in range(setting.replicas)]
    every = queues(setting.replicas)
    await found_federation(store, names, every, pools)
    limits = Limits(decisions_max=setting.decisions_max, prefer_pools=setting.prefer)
    schedulers = [
        Scheduler(
            name, NONCE, queue, store, clock, Random(rng.getrandbits(64)), limits,
            gang_s=setting.gang_s, interval_s=setting.interval_s,
        )
        for name, queue in zip(names, every, strict=True)
    ]  # fmt: skip
    _share_memory(schedulers, pools)

    def heard(pool: PoolName, summary: SummaryFacts) -> None:
        for scheduler in schedulers:
            scheduler.world.accept_summary(pool, summary)
            scheduler.wake()

    agents = Agents(store, clock, pools, setting.load, rng, heard)
    tasks = [asyncio.create_task(agents.run()), *(asyncio.create_task(s.run()) for s in schedulers)]
    await asyncio.sleep(0.5)
    for pool in pools:
        heard(pool.name, agents.summary(pool.name))
    await asyncio.sleep(setting.warm_s)
    before, refused = _counted(schedulers), agents.refused
    await asyncio.sleep(setting.seconds)
    after = _counted(schedulers)
    after.subtract(before)
    found.append(outcome_of(after, setting.seconds, agents.refused - refused))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _share_memory(schedulers: Sequence[Scheduler], pools: Sequence[Pool]) -> None:
    """All replicas work out the same shapes: once is enough in one process. It changes no answer."""
    for pool in pools:
        takes = Takes()
        for scheduler in schedulers:
            scheduler.world.ledger(pool.name).takes = takes


def _counted(schedulers: Sequence[Scheduler]) -> Counter[str]:
    return sum((s.counts for s in schedulers), Counter())


def outcome_of(counts: Counter[str], seconds: float, refused: int) -> Outcome:
    """What the counts of all replicas come to."""
    by_guard = {k.removeprefix("conflict_"): n for k, n in sorted(counts.items()) if k.startswith("conflict_") and n}
    sent = counts[PASSED] + counts[CONFLICTED]
    return Outcome(counts[COMMITTED], seconds, sent, counts[CONFLICTED], by_guard, counts["given_up"], refused)


async def found_federation(
    store: Store, names: Sequence[ReplicaId], every: Sequence[Queue], pools: Sequence[Pool]
) -> None:
    """Everything that operators and agents have written before the first decision."""
    ops = list(_founding(names, every, pools))
    for start in range(0, len(ops), OPS_PER_TXN):
        await store.transact(Txn((), tuple(ops[start : start + OPS_PER_TXN])))


def _founding(names: Sequence[ReplicaId], every: Sequence[Queue], pools: Sequence[Pool]) -> Iterator[Op]:
    yield Put(keys.INCARNATION, str(INCARNATION).encode())
    yield Put(keys.SLOTS, encode(SlotsValue([pool.name for pool in pools])))
    for flavor in FLAVORS:
        yield Put(keys.flavor(flavor.name), encode(FlavorValue.of(flavor)))
    for slot, pool in enumerate(pools):
        config = PoolConfigValue(slot, levels=[LevelValue(RACK.key, RACK.alias)])
        yield Put(keys.pool_config(pool.name), encode(config))
        yield Put(keys.attached(pool.name), encode(AttachedValue("agent", "somebody")))
    for name, queue in zip(names, every, strict=True):
        yield Put(keys.queue(queue.name), encode(QueueValue.of(queue, created_ms=0)))
        yield Put(keys.replica(name), encode(ReplicaValue(NONCE, "", True, 0)))
        yield Put(keys.grant(f"queue.{queue.uid}"), encode(GrantValue(name, NONCE, 0)))
