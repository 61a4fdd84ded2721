"""The same, measured: replicas as processes over a real etcd, each as fast as its processor lets it be.

One process has all agents and holds the load; every replica is a process of its own with the parts of `replicas`, and
nothing has a price. What pools say of their capacity goes through etcd too, under keys that no replica follows. On
few cores the processes take turns, so rates say little; how often they collide says more.
"""

import asyncio
import multiprocessing
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.context import ForkServerContext
from multiprocessing.queues import Queue
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from bench.conflicts.agents import INCARNATION, Agents
from bench.conflicts.fleet import grow, pools, queues
from bench.conflicts.replicas import Scheduler
from bench.conflicts.store import with_versions
from bench.conflicts.virtual import NONCE, Outcome, Setting, found_federation, outcome_of
from hanse.kit.clock import SystemClock
from hanse.model.ids import PoolName, ReplicaId
from hanse.scheduler.core.facts import SummaryFacts, SummaryOrder
from hanse.scheduler.core.snapshot import Limits
from hanse.shape import decode, encode
from hanse.store import keys
from hanse.store.contract import WRITE_DEADLINE_S, Put, Txn, prefix_end
from hanse.store.contract import Outcome as Result
from hanse.store.etcd import EtcdOptions, EtcdStore
from tests.services.etcd import EtcdServers

SAID: Final = "said/"
"""Keys of summaries: pool by pool, behind all that replicas follow."""

HEAD: Final = struct.Struct("<QQ")
TELL_EVERY_S: Final = 0.1
ENDS_MAX_S: Final = 120.0


class VersionedStore(EtcdStore):
    """etcd with guards on whole pools; see `store`."""

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Result:
        return await super().transact(with_versions(txn), deadline_s=deadline_s)


def measure(settings: Sequence[Setting], size: int, nodes: int) -> Iterator[tuple[Setting, Outcome]]:
    """Run every setting on an etcd of its own."""
    for setting in settings:
        with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-conflicts-") as folder:
            servers = EtcdServers(Path(folder))
            try:
                servers.start()
                yield setting, _measure(setting, servers.endpoints, size, nodes)
            finally:
                servers.stop()


def _measure(setting: Setting, endpoints: tuple[str, ...], size: int, nodes: int) -> Outcome:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    told: Queue[object] = context.Queue()
    with _begun(context, _agents, (setting, endpoints, size, nodes, told)):
        told.get(timeout=ENDS_MAX_S)
        counts: Counter[str] = Counter()
        with _all_begun(context, setting, endpoints, told):
            for _ in range(setting.replicas):
                found = told.get(timeout=ENDS_MAX_S)
                assert isinstance(found, Counter)
                counts.update(found)
    return outcome_of(counts, setting.seconds, counts["refused"])


@contextmanager
def _all_begun(
    context: ForkServerContext, setting: Setting, endpoints: tuple[str, ...], told: "Queue[object]"
) -> Iterator[None]:
    children = [
        context.Process(target=_replica, args=(setting, number, endpoints, told))
        for number in range(setting.replicas)
    ]
    for child in children:
        child.start()
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.join()


@contextmanager
def _begun(context: ForkServerContext, target: object, args: tuple[object, ...]) -> Iterator[None]:
    child = context.Process(target=target, args=args)  # type: ignore[arg-type]
    child.start()
    try:
        yield
    finally:
        child.kill()
        child.join()


async def _opened(setting: Setting, endpoints: tuple[str, ...]) -> EtcdStore:
    kind = VersionedStore if setting.whole else EtcdStore
    return await kind.open(EtcdOptions(endpoints=endpoints))


# ---- the agents ----------------------------------------------------------------------------------------------


def _agents(setting: Setting, endpoints: tuple[str, ...], size: int, nodes: int, told: "Queue[object]") -> None:
    asyncio.run(_run_agents(setting, endpoints, size, nodes, told))


async def _run_agents(
    setting: Setting, endpoints: tuple[str, ...], size: int, nodes: int, told: "Queue[object]"
) -> None:
    rng = Random(setting.seed)
    every = pools(size, nodes)
    grow(every, setting.load, rng)
    store = await _opened(setting, endpoints)
    names = [ReplicaId(f"r{n:02}") for n in range(setting.replicas)]
    await found_federation(store, names, queues(setting.replicas), every)
    newest: dict[PoolName, SummaryFacts] = {}
    agents = Agents(store, SystemClock(), every, setting.load, rng, newest.__setitem__)
    newest.update({pool.name: agents.summary(pool.name) for pool in every})
    running = asyncio.create_task(agents.run(), name="agents")
    told.put("ready")
    while not running.done():
        said, ops = dict(newest), []
        newest.clear()
        for name, summary in said.items():
            head = HEAD.pack(summary.order.sequence, summary.observed_revision)
            ops.append(Put(f"{SAID}{name}", head + encode(summary.shape)))
        if ops:
            await store.transact(Txn((), tuple(ops)))
        await asyncio.sleep(TELL_EVERY_S)
    await running


# ---- one replica ---------------------------------------------------------------------------------------------


def _replica(setting: Setting, number: int, endpoints: tuple[str, ...], told: "Queue[object]") -> None:
    asyncio.run(_run_replica(setting, number, endpoints, told))


async def _run_replica(setting: Setting, number: int, endpoints: tuple[str, ...], told: "Queue[object]") -> None:
    store = await _opened(setting, endpoints)
    limits = replace(Limits(), prefer_pools=setting.prefer)
    name, queue = ReplicaId(f"r{number:02}"), queues(setting.replicas)[number]
    scheduler = Scheduler(
        name, NONCE, queue, store, SystemClock(), Random(number), limits,
        gang_s=0.0, interval_s=setting.interval_s,
    )  # fmt: skip
    running = asyncio.create_task(scheduler.run(), name="replica")
    hearing = asyncio.create_task(_hear(store, scheduler), name="summaries")
    await asyncio.sleep(setting.warm_s)
    before = scheduler.counts
    await asyncio.sleep(setting.seconds)
    counts = scheduler.counts
    for task in (running, hearing):
        if task.done():
            task.result()
    counts.subtract(before)
    counts["refused"] = sum(n for word, n in counts.items() if word.startswith("refused_"))
    told.put(counts)
    await asyncio.sleep(ENDS_MAX_S)


async def _hear(store: EtcdStore, scheduler: Scheduler) -> None:
    first = await store.range(SAID, prefix_end(SAID))
    for kv in first.items:
        _accept(scheduler, kv.key, kv.value)
    async with store.watch(SAID, prefix_end(SAID), from_revision=first.revision + 1) as watch:
        async for batch in watch:
            for event in batch.events:
                _accept(scheduler, event.kv.key, event.kv.value)


def _accept(scheduler: Scheduler, key: str, value: bytes) -> None:
    sequence, revision = HEAD.unpack_from(value)
    order = SummaryOrder(INCARNATION, 1, sequence)
    clock = SystemClock()
    shape = decode(value[HEAD.size :])
    facts = SummaryFacts(order, revision, clock.monotonic(), clock.now_ms(), shape, None, settings_revision=10**9)
    scheduler.world.accept_summary(PoolName(keys.pool_of(key)), facts)
    scheduler.wake()
