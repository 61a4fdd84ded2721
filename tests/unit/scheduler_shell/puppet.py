"""A replica on a memory store, and an agent that says just what a test tells it to."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hanse.agent.core.inventory import Inventory
from hanse.kit.clock import SystemClock
from hanse.kit.stream import Stream, connected_pair
from hanse.kit.telemetry.trace_context import is_sampled
from hanse.link.v1 import link_pb2 as pb
from hanse.model.attach import Hello, Refusal, Welcome
from hanse.model.desired import Binding, Desired
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Attempt, FlavorName, JobId, PoolName, QueueName, ReplicaId
from hanse.model.job import JobSpec, PodSet
from hanse.model.lifecycle import JobState, State, decode_state, encode_state
from hanse.model.report import GangReport, GangStatus, Reports
from hanse.model.request import class_hash, gang_request
from hanse.model.resources import Resources
from hanse.model.summary import PoolSummary
from hanse.scheduler.core.retention import Retention
from hanse.scheduler.shell.departures import Archive
from hanse.scheduler.shell.replica import Replica, ReplicaConfig
from hanse.shape import encode
from hanse.store import keys, schema
from hanse.store.contract import Put, Store, Txn
from hanse.store.memory import MemoryStore
from hanse.wire.job import spec_to_wire
from hanse.wire.link import LINK_VERSION, FromAgent, FromReplica, from_replica, to_replica
from tests.unit.scheduler.worlds import GPU, H100, QUEUE, RACK, flavor, inventory, queue

DEADLINE_S = 10.0
CLOCK = SystemClock()
RETENTION = Retention()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, yielding to everybody else in between."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - the conditions are of many parts, none of which signals
            await asyncio.sleep(0.002)


async def settings(store: Store, quota: int = 640) -> None:
    """One flavor, one queue with so much quota."""
    ops = (
        Put(keys.flavor(H100), schema.encode(schema.FlavorValue.of(flavor(H100)))),
        Put(
            keys.queue(QueueName("research")), schema.encode(schema.QueueValue.of(queue({H100: quota}), created_ms=1))
        ),
    )
    await store.transact(Txn((), ops))


async def submit(
    store: Store, number: int, pods: int, *, max_pools: int = 1, retries: int = 0, trace: str = ""
) -> JobId:
    """A pending job, written as the API writes it."""
    job = JobId(f"{QUEUE}-{number:016d}")
    pod_set = PodSet("worker", pods, pods, Resources({GPU: 8}), (FlavorName("h100"),))
    spec = JobSpec(f"job-{number}", QueueName("research"), (pod_set,), max_pools=max_pools)
    state = JobState(
        State.PENDING,
        attempt=Attempt(0),
        priority=0,
        submit_ms=number,
        changed_ms=number,
        class_hash=class_hash(QUEUE, gang_request(spec)),
        max_retries=retries,
        traced=is_sampled(trace),
    )
    envelope = schema.SpecEnvelope("me", "request", trace, spec_to_wire(spec).SerializeToString())
    ops = (Put(keys.spec(job), schema.encode_spec(envelope)), Put(keys.state(job), encode_state(state)))
    await store.transact(Txn((), ops))
    return job


async def state_of(store: Store, job: JobId) -> JobState:
    return decode_state((await store.read([keys.state(job)])).items[keys.state(job)].value)


async def wait_state(store: Store, job: JobId, *states: State) -> JobState:
    """The job's state once it is one of these."""
    async with asyncio.timeout(DEADLINE_S):
        while (found := await state_of(store, job)).state not in states:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    return found


class Puppet:
    """An agent under a test's control; it keeps what it was told."""

    def __init__(self, pool: str, stream: Stream[pb.AttachRequest, pb.AttachResponse], free: Inventory) -> None:
        self.pool = PoolName(pool)
        self.stream = stream
        self.inventory = free
        self.epoch = Epoch()
        self.told: list[FromReplica] = []
        self.desired: dict[GangKey, Binding] = {}
        self.complete = False
        self.refusal: Refusal | None = None
        self._sequence = 0
        self._reading = asyncio.create_task(self._read())

    async def say(self, value: FromAgent) -> None:
        await self.stream.send(to_replica(value))

    async def hello(self, instance: str = "i1", cluster: str = "") -> None:
        await self.say(Hello(LINK_VERSION, self.pool, instance, cluster or f"cluster-{self.pool}", levels=(RACK,)))

    async def attached(self) -> "Puppet":
        await self.hello()
        await until(lambda: self.complete or self.refusal is not None)
        return self

    async def summary(self, observed: int, *, stopping: int = 0) -> None:
        self._sequence += 1
        shape = encode(self.inventory.shape())
        empty = encode(self.inventory.empty_shape())
        known = PoolSummary(self.pool, self.epoch, self._sequence, observed, 0, shape, empty, stopping_gangs=stopping)
        await self.say(known)

    async def report(self, key: GangKey, status: GangStatus, *, epoch: Epoch | None = None, **more: object) -> None:
        self._sequence += 1
        report = GangReport(key.job, key.attempt, key.part, status, **more)  # type: ignore[arg-type]
        await self.say(Reports(epoch or self.epoch, self._sequence, (report,)))

    async def bound(self, job: JobId) -> GangKey:
        """The key of a binding of the job, once it is desired here."""
        await until(lambda: any(k.job == job for k in self.desired))
        return next(k for k in self.desired if k.job == job)

    def ended(self) -> bool:
        """Whether the replica has ended the stream."""
        return self._reading.done()

    def close(self) -> None:
        self._reading.cancel()
        self.stream.close()

    async def _read(self) -> None:
        while True:
            value = from_replica(await self.stream.receive())
            self.told.append(value)
            match value:
                case Welcome(epoch):
                    self.epoch = epoch
                case Refusal():
                    self.refusal = value
                case Desired():
                    self.desired.update({b.key: b for b in value.bindings})
                    for key in value.removed:
                        self.desired.pop(key, None)
                    self.complete = self.complete or value.complete_end
                case _:
                    pass


class Stage:
    """A store, replicas and puppets."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.replicas: list[Replica] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._puppets: list[Puppet] = []

    async def replica(
        self, name: str = "r0", *, seed: int = 1, archive: Archive | None = None, retention: Retention = RETENTION
    ) -> Replica:
        config = ReplicaConfig(ReplicaId(name), lease_ttl_s=5.0, retention=retention)
        replica = Replica(config, self.store, None, CLOCK, random.Random(seed), archive=archive)
        self.replicas.append(replica)
        self._tasks.append(asyncio.create_task(replica.run(), name=name))
        await until(lambda: replica.feed.loaded.is_set() and replica.roots.alive.is_set())
        return replica

    def puppet(self, replica: Replica, pool: str, racks: dict[str, int]) -> Puppet:
        mine: Stream[pb.AttachRequest, pb.AttachResponse]
        theirs: Stream[pb.AttachResponse, pb.AttachRequest]
        mine, theirs = connected_pair()
        self._tasks.append(asyncio.create_task(replica.serve_link(theirs), name=f"link-{pool}"))
        puppet = Puppet(pool, mine, inventory(racks))
        self._puppets.append(puppet)
        return puppet

    async def close(self) -> None:
        for puppet in self._puppets:
            puppet.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def stage(store: Store | None = None, *, quota: int = 640) -> AsyncIterator[Stage]:
    found = Stage(store or MemoryStore(CLOCK))
    await settings(found.store, quota)
    try:
        yield found
    finally:
        await found.close()
