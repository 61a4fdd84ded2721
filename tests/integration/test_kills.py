"""kill -9 of `hanse up` at any moment, start it again: nothing lost, nothing doubled, nothing partly there."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from hanse.api.v1 import job_pb2, job_service_pb2, job_service_pb2_grpc, job_spec_pb2
from tests.integration.auditor import Auditor
from tests.integration.processes import Up

KILLS = int(os.environ.get("HANSE_KILLS", "8"))
SETTLE_DEADLINE_S = 90.0
CALL_DEADLINE_S = 5.0
SEED = int(os.environ.get("HANSE_KILLS_SEED", "1"))

FLEET = """
flavors:
  - name: h100
    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
queues:
  - {name: team, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 100000}}]}
pools:
"""
POOL = """
  - name: %s
    start_s: 0.2
    start_jitter_s: 0.2
    stop_s: 0.1
    groups:
      - node_prefix: %s
        gpu: h100
        levels: [{name: rack, count: 4}, {name: host, count: 8}]
"""
ENDED = (
    job_pb2.JOB_STATE_SUCCEEDED,
    job_pb2.JOB_STATE_FAILED,
    job_pb2.JOB_STATE_CANCELLED,
    job_pb2.JOB_STATE_LOST,
)


def spec(name: str, pods: int, seconds: float, *, max_pools: int = 1) -> job_spec_pb2.JobSpec:
    pod_set = job_spec_pb2.PodSet(
        name="worker",
        count=pods,
        resources={"nvidia.com/gpu": 8},
        template=job_spec_pb2.PodTemplate(image="x", command=["sleep", str(seconds)]),
    )
    return job_spec_pb2.JobSpec(name=name, queue="team", pod_sets=[pod_set], max_pools=max_pools)


class Book:
    """A client that repeats what was not answered, and notes what was."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._number = 0
        self._open: list[job_service_pb2.SubmitJobsRequest] = []
        self.acknowledged: dict[str, int] = {}

    def _next(self) -> job_service_pb2.SubmitJobsRequest:
        jobs = []
        for _ in range(self._rng.randint(1, 5)):
            self._number += 1
            wide = self._rng.random() < 0.2
            pods = self._rng.randint(34, 40) if wide else self._rng.randint(1, 12)
            jobs.append(spec(f"job-{self._number}", pods, self._rng.uniform(0.2, 3.0), max_pools=2 if wide else 1))
        return job_service_pb2.SubmitJobsRequest(request_id=f"request-{self._number}", jobs=jobs)

    async def work(self, channel: grpc.aio.Channel) -> None:
        """Submit until cancelled or cut off."""
        stub = job_service_pb2_grpc.JobServiceStub(channel)
        while True:
            request = self._open[0] if self._open else self._next()
            self._open = [request]
            answer = await stub.SubmitJobs(request, timeout=CALL_DEADLINE_S)
            self._open = []
            for sent, job in zip(request.jobs, answer.jobs, strict=True):
                assert job.id, job.error
                self.acknowledged[job.id] = sent.pod_sets[0].count
            await asyncio.sleep(self._rng.uniform(0.02, 0.1))

    async def finish(self, channel: grpc.aio.Channel) -> None:
        """Repeat what was cut off."""
        stub = job_service_pb2_grpc.JobServiceStub(channel)
        for request in self._open:
            answer = await stub.SubmitJobs(request, timeout=CALL_DEADLINE_S)
            for sent, job in zip(request.jobs, answer.jobs, strict=True):
                assert job.id, job.error
                self.acknowledged[job.id] = sent.pod_sets[0].count


@asynccontextmanager
async def talking(up: Up) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(up.address) as channel:
        yield channel


async def quiet(auditor: Auditor, but: set[str]) -> dict[str, job_pb2.Job]:
    """The jobs, once all but some have ended."""
    async with asyncio.timeout(SETTLE_DEADLINE_S):
        while True:
            jobs = await auditor.jobs()
            if all(job.status.state in ENDED for key, job in jobs.items() if key not in but):
                return jobs
            await asyncio.sleep(0.2)


async def test_kill_minus_nine_at_any_moment_loses_doubles_and_splits_nothing(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET + "".join(POOL % (name, name) for name in ("oslo", "paris", "rome")))
    up = Up(fleet, tmp_path / "up.sqlite", tmp_path / "up.log", replicas=2)
    book = Book(rng)
    await up.start()
    async with talking(up) as channel:
        stub = job_service_pb2_grpc.JobServiceStub(channel)
        request = job_service_pb2.SubmitJobsRequest(request_id="long", jobs=[spec("long", 6, 3_600)])
        (long,) = (await stub.SubmitJobs(request, timeout=CALL_DEADLINE_S)).jobs
        book.acknowledged[long.id] = 6
    for _ in range(KILLS):
        async with talking(up) as channel:
            working = asyncio.create_task(book.work(channel))
            await asyncio.sleep(rng.uniform(0.1, 2.0))
            await up.end()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        if rng.random() < 0.3:
            await up.begin()
            await asyncio.sleep(rng.uniform(0.0, 1.5))
            await up.end()
        await up.start()
    async with talking(up) as channel:
        await book.finish(channel)
        auditor = Auditor(channel)
        jobs = await quiet(auditor, {long.id})
        found = await auditor.audit(book.acknowledged)
        assert found.all == ()
        assert set(jobs) == set(book.acknowledged), "what was submitted is what there is, no more and no less"
        assert {jobs[key].status.state for key in book.acknowledged if key != long.id} == {
            job_pb2.JOB_STATE_SUCCEEDED
        }
        assert (jobs[long.id].status.state, jobs[long.id].status.attempt) == (job_pb2.JOB_STATE_RUNNING, 1)
    assert await up.end(signal.SIGTERM) == 0
    assert len(book.acknowledged) > KILLS
