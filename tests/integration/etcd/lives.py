"""Whole lives of jobs, written to a store by the product's own code, without a cluster that takes time over them.

Jobs are submitted through the API. What a scheduler and an agent's link would write of each is planned by the same
`transition` and `plan_move`, and packed as densely as they pack it; nobody has to place anything for it.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Final

from hanse.api.v1 import job_service_pb2, job_spec_pb2
from hanse.apiserver.context import CallContext
from hanse.apiserver.server_info import Identity
from hanse.apiserver.services import ApiServices
from hanse.kit.clock import SystemClock
from hanse.model.ids import Attempt, JobId, Part, PoolName
from hanse.model.job import Topology
from hanse.model.lifecycle import Bind, JobState, Moved, encode_state, transition
from hanse.model.report import GangReport, GangStatus
from hanse.model.request import SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Selector
from hanse.store import keys
from hanse.store.contract import Committed, Guard, ModRevisionIs, Op, Put, Store, Txn
from hanse.store.moves import JobView, PlannedMove, event_of, plan_move, read_jobs
from hanse.store.schema import (
    Amounts,
    BindingValue,
    BoundSet,
    Desired,
    PoolConfigValue,
    SetRequestValue,
    SlotsValue,
    encode,
)
from tests.unit.apiserver.stage import CTX, GPU, WrittenFleet, objects

POOL: Final = PoolName("p0")
JOBS_PER_TXN: Final = 40
CLOCK: Final = SystemClock()
REPORTED: Final = (GangStatus.HELD, GangStatus.STARTED, GangStatus.RUNNING, GangStatus.FINISHED)
"""What an agent reports of a job that goes well, if no two of it meet in one report."""

Spec = Callable[[int], job_spec_pb2.JobSpec]


def small_spec(number: int, *, manifest: str = "") -> job_spec_pb2.JobSpec:
    """A gang of 16 hosts, with a command and a few variables; `manifest`: what it was imported from."""
    template = job_spec_pb2.PodTemplate(
        image="registry.example.org/training/llama:2026-11-30",
        command=["torchrun", "--nnodes=16", "--nproc-per-node=8", "train.py", f"--run=run-{number:07d}"],
    )
    workers = job_spec_pb2.PodSet(
        name="worker", count=16, resources={GPU: 8, "cpu": 64_000, "memory": 2**38}, template=template
    )
    spec = job_spec_pb2.JobSpec(name=f"pretrain-{number:07d}", queue="research", pod_sets=[workers])
    spec.labels.update({"team": "foundation", "experiment": f"{number % 97}"})
    if manifest:
        spec.manifest.text = manifest
    return spec


def noise(rng: random.Random, size_bytes: int) -> str:
    """Text that hardly gets smaller."""
    return rng.randbytes(size_bytes // 2).hex()


class Lives:
    """A queue, a pool, and jobs that live through both."""

    def __init__(self, store: Store, api: ApiServices, spec: Spec = small_spec) -> None:
        self._store = store
        self._api = api
        self._spec = spec
        self._names = count(1)
        self._ids = count(1)

    async def run(self, jobs: int) -> list[JobId]:
        """So many jobs, from their submission, as one batch, to their end."""
        ids = await self.submit(jobs)
        await self._move(ids, self._bound)
        for status in REPORTED:
            await self._move(ids, lambda view, status=status: self._reported(view, status))  # type: ignore[misc]
        return ids

    async def submit(self, jobs: int) -> list[JobId]:
        """A batch. Raises what a client is told."""
        numbers = [next(self._names) for _ in range(jobs)]
        request = job_service_pb2.SubmitJobsRequest(
            request_id=f"batch-{numbers[0]}", jobs=[self._spec(number) for number in numbers]
        )
        answer = await self._api.jobs.submit_jobs(CTX, request)
        assert all(job.id for job in answer.jobs), answer.jobs[0].error
        return [JobId(job.id) for job in answer.jobs]

    async def _move(
        self, jobs: Sequence[JobId], plan: Callable[[JobView], tuple[Sequence[Guard], Sequence[Op]]]
    ) -> None:
        """One move of each job, until nobody is in the way."""
        for at in range(0, len(jobs), JOBS_PER_TXN):
            some = jobs[at : at + JOBS_PER_TXN]
            outcome = None
            while not isinstance(outcome, Committed):
                plans = [plan(view) for view in (await read_jobs(self._store, some)).values()]
                assert len(plans) == len(some)
                outcome = await self._store.transact(
                    Txn(_joined(guards for guards, _ in plans), _joined(ops for _, ops in plans))
                )

    def _bound(self, view: JobView) -> tuple[Sequence[Guard], Sequence[Op]]:
        now_ms, write_id = CLOCK.now_ms(), next(self._ids)
        moved = transition(view.state, Bind((0,)), now_ms=now_ms)
        assert isinstance(moved, Moved)
        state: JobState = replace(moved.state, write_id=write_id)
        binding = keys.binding(POOL, view.job, Attempt(state.attempt), Part(0))
        ops = (Put(keys.state(view.job), encode_state(state)), Put(binding, _binding(now_ms, write_id)))
        return (ModRevisionIs(keys.state(view.job), view.state_revision),), ops

    def _reported(self, view: JobView, status: GangStatus) -> tuple[Sequence[Guard], Sequence[Op]]:
        now_ms = CLOCK.now_ms()
        report = GangReport(view.job, view.state.attempt, Part(0), status, held_ms=now_ms, started_ms=now_ms)
        event = event_of(view, report)
        assert event is not None
        plan = plan_move(view, event, now_ms=now_ms, write_id=next(self._ids), report=report)
        assert isinstance(plan, PlannedMove), plan
        return plan.guards, plan.ops


def _joined(parts: Iterable[Sequence[Op]] | Iterable[Sequence[Guard]]) -> tuple:  # type: ignore[type-arg]
    return tuple(one for part in parts for one in part)


def _binding(now_ms: int, write_id: int) -> bytes:
    each = Resources({GPU: 8, "cpu": 64_000, "memory": 2**38})
    return encode(
        BindingValue(
            desired=int(Desired.START),
            sets=[BoundSet(0, 16, 0, "h100")],
            request=[SetRequestValue.of(SetRequest(16, 16, each, (), Selector(), (), Topology()))],
            charges=[Amounts("h100", {GPU: 128})],
            bound_ms=now_ms,
            write_id=write_id,
        )
    )


@asynccontextmanager
async def lives(store: Store, spec: Spec = small_spec) -> AsyncIterator[Lives]:
    """An API server over the store, with the queue and the pool that jobs need."""
    api = ApiServices(
        store,
        identity=Identity("0.0.test", "etcd", "r0"),
        clock=CLOCK,
        rng=random.Random(1),
        fleet=WrittenFleet(),
    )
    async with api.running():
        await api.config.apply(CallContext(principal="operator"), objects())
        ops = (
            Put(keys.SLOTS, encode(SlotsValue([POOL]))),
            Put(keys.pool_config(POOL), encode(PoolConfigValue(0))),
        )
        await store.transact(Txn((), ops))
        yield Lives(store, api, spec)
