"""What tests that kill things submit: a small fleet, short gangs, and a client that notes what was acknowledged.

The client holds to its request ids: what was not answered is asked again, of whichever replica answers, until it is.
So what it has written down is exactly what there has to be.
"""

import asyncio
import random
from collections.abc import Sequence

import grpc

from hanse.api.v1 import job_pb2, job_service_pb2, job_service_pb2_grpc, job_spec_pb2
from tests.integration.auditor import Auditor

SETTLE_DEADLINE_S = 90.0
CALL_DEADLINE_S = 5.0
RETRY_S = 0.1

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


def spec(name: str, pods: int, seconds: float, *, max_pools: int = 1, queue: str = "team") -> job_spec_pb2.JobSpec:
    pod_set = job_spec_pb2.PodSet(
        name="worker",
        count=pods,
        resources={"nvidia.com/gpu": 8},
        template=job_spec_pb2.PodTemplate(image="x", command=["sleep", str(seconds)]),
    )
    return job_spec_pb2.JobSpec(name=name, queue=queue, pod_sets=[pod_set], max_pools=max_pools)


class Book:
    """A client that repeats what was not answered, and notes what was.

    Args:
        queue: into which it submits.

    Attributes:
        acknowledged: pods of each job that was accepted, by id.
    """

    def __init__(self, rng: random.Random, queue: str = "team") -> None:
        self._rng = rng
        self._queue = queue
        self._number = 0
        self._open: job_service_pb2.SubmitJobsRequest | None = None
        self.acknowledged: dict[str, int] = {}

    def _next(self) -> job_service_pb2.SubmitJobsRequest:
        jobs = []
        for _ in range(self._rng.randint(1, 5)):
            self._number += 1
            wide = self._rng.random() < 0.2
            pods = self._rng.randint(34, 40) if wide else self._rng.randint(1, 12)
            seconds = self._rng.uniform(0.2, 3.0)
            pools = 2 if wide else 1
            jobs.append(spec(f"job-{self._number}", pods, seconds, max_pools=pools, queue=self._queue))
        return job_service_pb2.SubmitJobsRequest(request_id=f"{self._queue}-{self._number}", jobs=jobs)

    async def work(self, channel: grpc.aio.Channel) -> None:
        """Submit until cancelled or cut off, no faster than the fleet runs it: what is left has to drain."""
        while True:
            await self.submit(channel)
            await asyncio.sleep(self._rng.uniform(0.1, 0.6))

    async def work_on(self, channels: Sequence[grpc.aio.Channel], pause_s: float) -> None:
        """Submit until cancelled, to whichever replica answers."""
        while True:
            for channel in channels:
                try:
                    await self.submit(channel)
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(RETRY_S)
            await asyncio.sleep(self._rng.uniform(0.2, 1.0) * pause_s)

    async def submit(self, channel: grpc.aio.Channel) -> None:
        """Submit what was cut off, or something new. Raises AioRpcError."""
        self._open = self._open or self._next()
        await self.note(channel, self._open)
        self._open = None

    async def note(
        self,
        channel: grpc.aio.Channel,
        request: job_service_pb2.SubmitJobsRequest,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> list[str]:
        """Submit, and write down what is accepted; the jobs' ids. Raises AioRpcError."""
        stub = job_service_pb2_grpc.JobServiceStub(channel)
        answer = await stub.SubmitJobs(request, timeout=CALL_DEADLINE_S, metadata=metadata)
        for sent, job in zip(request.jobs, answer.jobs, strict=True):
            assert job.id, job.error
            self.acknowledged[job.id] = sum(pods.count for pods in sent.pod_sets)
        return [job.id for job in answer.jobs]

    async def finish(self, channel: grpc.aio.Channel) -> None:
        """Repeat what was cut off."""
        if self._open is not None:
            await self.submit(channel)


async def quiet(auditor: Auditor, but: set[str]) -> dict[str, job_pb2.Job]:
    """The jobs, once all but some have ended."""
    async with asyncio.timeout(SETTLE_DEADLINE_S):
        while True:
            jobs = await auditor.jobs()
            if all(job.status.state in ENDED for key, job in jobs.items() if key not in but):
                return jobs
            await asyncio.sleep(0.2)
