"""An API server without a transport: its services over a memory store, a written fleet, faults on order."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.api.v1 import config_pb2, config_service_pb2, job_service_pb2, job_spec_pb2, queue_pb2
from hanse.apiserver.context import CallContext
from hanse.apiserver.ports import (
    AgentDetails,
    ExecPiece,
    Explainer,
    FlavorView,
    LogEntry,
    NodesAnswer,
    PartAt,
    PodRef,
    PoolHealth,
    PoolOffer,
    PoolView,
)
from hanse.apiserver.server_info import Identity
from hanse.apiserver.services import ApiServices
from hanse.apiserver.settings import ApiSettings
from hanse.kit.clock import SystemClock
from hanse.model.detail import ExecInput, RackUse
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, PoolName, QueueName, QueueUid
from hanse.model.job import JobSpec, PodSet, Topology
from hanse.model.lifecycle import JobState, decode_state
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.resources import Resources
from hanse.model.selectors import Operator, Requirement
from hanse.store import keys
from hanse.store.contract import (
    RANGE_ITEMS_MAX,
    READ_DEADLINE_S,
    WRITE_DEADLINE_S,
    Outcome,
    RangeResult,
    ReadResult,
    Store,
    Txn,
    Unknown,
    Watch,
    prefix_end,
)
from hanse.store.memory import MemoryStore
from hanse.wire.job import spec_to_wire

GPU: Final = "nvidia.com/gpu"
H100: Final = FlavorName("h100")
RACK: Final = Level("topology/rack", "rack")
HOST: Final = Resources({GPU: 8, "cpu": 64_000, "memory": 2**40, "pods": 110})
CTX: Final = CallContext(principal="ann")

Rule = Callable[[Txn], str]
"""What happens to a transaction: "" nothing, or `lost` (not applied, unknown), `silent` (applied, unknown), `late`
(applied when the test says so, unknown)."""


class FaultyStore:
    """A store whose answers to writes are lost on order."""

    def __init__(self, core: Store) -> None:
        self.core = core
        self.rule: Rule = lambda txn: ""
        self.late: list[Txn] = []
        self.txns: list[Txn] = []

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Outcome:
        what = self.rule(txn)
        self.txns.append(txn)
        if what == "late":
            self.late.append(txn)
        elif what != "lost":
            outcome = await self.core.transact(txn)
            return outcome if not what else Unknown("the answer was lost")
        return Unknown("the request was lost")

    async def deliver(self) -> list[Outcome]:
        """Now the late ones arrive."""
        late, self.late = self.late, []
        return [await self.core.transact(txn) for txn in late]

    async def read(self, wanted: Sequence[str], *, deadline_s: float = READ_DEADLINE_S) -> ReadResult:
        return await self.core.read(wanted)

    async def range(
        self,
        start: str,
        end: str,
        *,
        limit: int = RANGE_ITEMS_MAX,
        at_revision: int = 0,
        keys_only: bool = False,
        deadline_s: float = READ_DEADLINE_S,
    ) -> RangeResult:
        return await self.core.range(start, end, limit=limit, at_revision=at_revision, keys_only=keys_only)

    def watch(self, start: str, end: str, *, from_revision: int) -> Watch:
        return self.core.watch(start, end, from_revision=from_revision)

    async def lease_grant(self, ttl_s: float) -> int:
        return await self.core.lease_grant(ttl_s)

    async def lease_keep_alive(self, lease: int) -> float:
        return await self.core.lease_keep_alive(lease)

    async def lease_revoke(self, lease: int) -> None:
        await self.core.lease_revoke(lease)

    async def compact(self, revision: int) -> None:
        await self.core.compact(revision)

    async def close(self) -> None:
        await self.core.close()


class WrittenFleet:
    """Pools that a test wrote down."""

    def __init__(self, *pools: PoolView) -> None:
        self._pools = pools
        self._version = 1
        self._news = asyncio.Event()

    def offers(self) -> tuple[PoolOffer, ...]:
        return tuple(pool.offer for pool in self._pools)

    def pools(self) -> tuple[PoolView, ...]:
        return self._pools

    def become(self, *pools: PoolView) -> None:
        self._pools = pools
        self._version += 1
        self._news.set()

    def version(self) -> int:
        return self._version

    async def changed(self, since: int) -> int:
        while self._version <= since:
            self._news.clear()
            await self._news.wait()
        return self._version

    def used(self, queue: QueueUid) -> Mapping[FlavorName, Resources] | None:
        return {H100: Resources({GPU: 16})}


class WrittenDetails:
    """Agents that a test wrote down."""

    def __init__(self, answer: NodesAnswer, lines: Mapping[PoolName, tuple[str, ...]]) -> None:
        self.answer = answer
        self.lines = lines
        self.asked: list[tuple[PoolName, ...]] = []
        self.pods: list[PodRef] = []
        self.used: tuple[RackUse, ...] | None = None

    async def nodes(self, job: JobId, attempt: Attempt, parts: Sequence[PartAt], *, deadline_s: float) -> NodesAnswer:
        assert deadline_s <= 1.0
        return self.answer

    async def explain_nodes(
        self, job: JobId, spec: JobSpec, pools: Sequence[PoolName], *, deadline_s: float
    ) -> Mapping[PoolName, tuple[str, ...]]:
        self.asked.append(tuple(pools))
        return self.lines

    async def explain_placed(
        self, job: JobId, attempt: Attempt, parts: Sequence[PartAt], *, deadline_s: float
    ) -> Mapping[PoolName, tuple[str, ...]]:
        return {part.pool: ("1 block",) for part in parts}

    async def racks(self, pool: PoolName, *, deadline_s: float) -> tuple[RackUse, ...] | None:
        assert deadline_s <= 1.0
        return self.used

    async def logs(self, pod: PodRef, *, tail_lines: int, follow: bool) -> AsyncIterator[tuple[LogEntry, ...]]:
        self.pods.append(pod)
        yield (LogEntry("step 1", 5), LogEntry("step 2", 6))

    async def exec(
        self, pod: PodRef, *, command: Sequence[str], tty: bool, inputs: AsyncIterator[ExecInput] | None
    ) -> AsyncIterator[ExecPiece]:
        self.pods.append(pod)
        yield ExecPiece(stdout=" ".join(command).encode())
        if inputs is not None:
            async for value in inputs:
                yield ExecPiece(stderr=value.data)
        yield ExecPiece(exit_code=3)


def pool(name: str, racks: int, hosts: int, *, flavor: FlavorName = H100) -> PoolView:
    """A pool of empty racks, each with so many hosts of 8 GPUs."""
    found = Inventory([Flavor(flavor, 0, (Requirement("gpu", Operator.IN, (flavor,)),))], [(RACK,)])
    for rack in range(racks):
        for host in range(hosts):
            labels = {"gpu": str(flavor), RACK.key: f"r{rack}"}
            found.set_node(NodeFacts(NodeName(f"{name}-{rack}-{host}"), labels, (), HOST), Resources())
    shape = found.shape()
    nodes = racks * hosts
    return PoolView(
        name=PoolName(name),
        levels=(RACK,),
        flavors=(FlavorView(flavor, nodes, 8 * nodes, 8 * nodes, nodes),),
        nodes=nodes,
        gpus=8 * nodes,
        free_gpus=8 * nodes,
        health=PoolHealth.HEALTHY,
        attached=True,
        summary_age_ms=0,
        shape=shape,
        empty_shape=shape,
    )


def spec(
    name: str = "train", *, queue: str = "research", count: int = 2, required: str = "", gpus: int = 8
) -> JobSpec:
    """A job of one pod set."""
    workers = PodSet("worker", count, count, Resources({GPU: 8}), topology=Topology(required=required))
    return JobSpec(name, QueueName(queue), (workers,))


def batch(
    *jobs: JobSpec | job_spec_pb2.JobSpec, request_id: str = "", atomic: bool = False
) -> job_service_pb2.SubmitJobsRequest:
    """A batch of specs."""
    messages = [spec_to_wire(job) if isinstance(job, JobSpec) else job for job in jobs]
    return job_service_pb2.SubmitJobsRequest(request_id=request_id, jobs=messages, atomic=atomic)


def many(number: int, *, request_id: str = "", atomic: bool = False) -> job_service_pb2.SubmitJobsRequest:
    """A batch of so many jobs, more than one transaction holds from 43 on."""
    return batch(*(spec(f"job-{i:04d}") for i in range(number)), request_id=request_id, atomic=atomic)


@dataclass(frozen=True, slots=True)
class Stage:
    """A server, and what is behind it."""

    api: ApiServices
    store: FaultyStore
    fleet: WrittenFleet

    async def submit(self, request: job_service_pb2.SubmitJobsRequest) -> job_service_pb2.SubmitJobsResponse:
        return await self.api.jobs.submit_jobs(CTX, request)

    async def states(self) -> dict[JobId, JobState]:
        """Every job that is stored."""
        page = await self.store.core.range(keys.STATES, prefix_end(keys.STATES))
        return {keys.job_of(kv.key): decode_state(kv.value) for kv in page.items}

    async def count(self, prefix: str) -> int:
        """How many keys lie below a prefix."""
        return len((await self.store.core.range(prefix, prefix_end(prefix))).items)


def objects() -> config_service_pb2.ApplyRequest:
    """A flavor, two priority classes, and the queue `research`."""
    quota = queue_pb2.FlavorQuota(flavor="h100", nominal={GPU: 8_192})
    return config_service_pb2.ApplyRequest(
        objects=[
            config_service_pb2.ConfigObject(queue=queue_pb2.Queue(name="research", quotas=[quota])),
            config_service_pb2.ConfigObject(flavor=config_pb2.Flavor(name="h100")),
            config_service_pb2.ConfigObject(
                priority_class=config_pb2.PriorityClass(name="normal", value=5, default=True)
            ),
            config_service_pb2.ConfigObject(priority_class=config_pb2.PriorityClass(name="urgent", value=90)),
        ]
    )


@asynccontextmanager
async def stage(
    *pools: PoolView,
    explainer: Explainer | None = None,
    details: AgentDetails | None = None,
    settings: ApiSettings | None = None,
    audit: Any = None,
    seed: int = 1,
) -> AsyncIterator[Stage]:
    """A running server with the objects of `objects()`."""
    clock = SystemClock()
    store = FaultyStore(MemoryStore(clock))
    fleet = WrittenFleet(*pools)
    api = ApiServices(
        store,
        identity=Identity("0.0.test", "memory", "r0"),
        clock=clock,
        rng=random.Random(seed),
        fleet=fleet,
        explainer=explainer,
        details=details,
        settings=settings or ApiSettings(),
        audit=audit,
        trail=audit,
    )
    async with api.running():
        answer = await api.config.apply(CTX, objects())
        assert not [result.error for result in answer.results if result.HasField("error")]
        yield Stage(api, store, fleet)
    await store.close()


@asynccontextmanager
async def second(on: Stage, *, seed: int = 2) -> AsyncIterator[Stage]:
    """Another replica over the same store."""
    api = ApiServices(
        on.store,
        identity=Identity("0.0.test", "memory", "r1"),
        clock=SystemClock(),
        rng=random.Random(seed),
        fleet=on.fleet,
    )
    async with api.running():
        yield replace(on, api=api)
