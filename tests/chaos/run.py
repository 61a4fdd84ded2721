"""One run: clients work and faults rage for some minutes, everything is mended, books are compared.

What has to hold at the end, whatever happened: every job that a client was told of is there and has ended as it
should, with all of its pods or none and never twice (the auditor), no queue ever took more than its quota (S6), what
every pool says is free is what its cluster counts (S9), and nothing waits any more (L4).
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from hanse.api.v1 import job_pb2, job_service_pb2, job_service_pb2_grpc, pool_pb2
from hanse.client import AsyncClient
from hanse.client.objects import object_of_spec
from hanse.sim.v1 import sim_pb2, sim_pb2_grpc
from hanse.up.fleet import load_fleet
from tests.chaos.faults import Faults
from tests.chaos.quota import QuotaWatch
from tests.chaos.site import Site, site
from tests.integration.auditor import Auditor
from tests.integration.workload import ENDED, POOL, RETRY_S, Book, spec

REPLICAS: Final = 4
POOLS: Final = ("bergen", "danzig", "lubeck", "novgorod", "riga", "stettin", "visby", "wismar")
QUEUES: Final = {"salt": 640, "cloth": 640, "amber": 400}
"""GPUs that each may take: fewer together than the 2,048 there are, so that quota is what jobs wait for. The largest
job needs 320, and 48 are taken all the time."""

SUBMIT_PAUSE_S: Final = 4.0
CANCEL_SHARE: Final = 0.1
READY_DEADLINE_S: Final = 120.0
QUIET_DEADLINE_S: Final = 300.0
CALL_DEADLINE_S: Final = 10.0
LOOK_EVERY_S: Final = 0.5
LONG_S: Final = 36_000.0
FLAVORS: Final = """
flavors:
  - name: h100
    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
queues:
"""


@dataclass
class Report:
    """What came of a run.

    Attributes:
        wrong: one line for each violation; empty if everything held.
        faults: how many of each kind.
        missing: kinds that this machine does not allow, and why.
    """

    jobs: int = 0
    pods: int = 0
    attempts_max: int = 0
    wrong: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


class Client(Book):
    """A book that also cancels some of what it submitted.

    Attributes:
        cancelled: ids of jobs whose end it ordered.
        unheard: those of them of which it has not heard that the order was taken.
    """

    def __init__(self, rng: random.Random, queue: str) -> None:
        super().__init__(rng, queue)
        self._dice = random.Random(rng.random())
        self.cancelled: set[str] = set()
        self.unheard: set[str] = set()

    async def trouble(self, channels: Sequence[grpc.aio.Channel]) -> None:
        """Submit and cancel until it is cancelled itself."""
        await asyncio.gather(self.work_on(channels, SUBMIT_PAUSE_S), self._change_its_mind(channels))

    async def _change_its_mind(self, channels: Sequence[grpc.aio.Channel]) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(0.5, 4.0))
            fresh = [job for job in list(self.acknowledged)[-20:] if job not in self.cancelled]
            if not fresh or self._dice.random() > CANCEL_SHARE * 5:
                continue
            job = self._dice.choice(fresh)
            self.cancelled.add(job)
            self.unheard.add(job)
            try:
                await self._cancel(self._dice.choice(channels), job)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(RETRY_S)

    async def insist(self, channel: grpc.aio.Channel) -> None:
        """Order once more what was not heard: a job that runs for long would run on. Raises AioRpcError."""
        for job in sorted(self.unheard):
            await self._cancel(channel, job)

    async def _cancel(self, channel: grpc.aio.Channel, job: str) -> None:
        stub = job_service_pb2_grpc.JobServiceStub(channel)
        request = job_service_pb2.CancelJobRequest(job=job, request_id=f"cancel-{job}")
        try:
            await stub.CancelJob(request, timeout=CALL_DEADLINE_S)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:  # it has ended another way
                raise
        self.unheard.discard(job)


async def run(folder: Path, minutes: float, seed: int, tell: Callable[[str], None]) -> Report:
    """See the module."""
    rng = random.Random(seed)
    fleet = folder / "fleet.yaml"
    queues = "".join(
        f"  - {{name: {name}, quotas: [{{flavor: h100, nominal: {{nvidia.com/gpu: {gpus}}}}}]}}\n"
        for name, gpus in QUEUES.items()
    )
    fleet.write_text(f"{FLAVORS}{queues}pools:\n" + "".join(POOL % (name, name) for name in POOLS))
    report = Report()
    async with site(folder, fleet, POOLS, replicas=REPLICAS) as at:
        report.missing = at.missing
        uids = await _ready(at, fleet)
        tell(f"up: {len(at.all)} processes, {len(at.relays)} relays")
        quota = QuotaWatch(at.etcd.endpoints, {uids[name]: gpus for name, gpus in QUEUES.items()})
        following = asyncio.create_task(quota.follow(), name="quota")
        faults = Faults(at, tuple(QUEUES), rng, tell)
        clients = [Client(random.Random(rng.random()), name) for name in QUEUES]
        async with at.channels() as channels:
            longs = await _long_jobs(clients, channels)
            work = [asyncio.create_task(client.trouble(channels)) for client in clients]
            rage = asyncio.create_task(faults.rage())
            done, _ = await asyncio.wait([*work, rage], timeout=minutes * 60, return_when=asyncio.FIRST_COMPLETED)
            for task in (*work, rage):
                task.cancel()
            await asyncio.gather(*work, rage, return_exceptions=True)
            for task in done:
                task.result()
            tell("mending")
            await faults.mend()
            for client in clients:
                await _finish(client, channels)
        report.faults = dict(faults.count)
        acknowledged = {job: pods for client in clients for job, pods in client.acknowledged.items()}
        cancelled = {job for client in clients for job in client.cancelled}
        async with at.auditor() as auditor:
            await _judge(report, at, auditor, acknowledged, cancelled, longs)
        await quota.caught_up()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        report.wrong += quota.found
        for name, gpus in QUEUES.items():
            tell(f"queue {name}: at most {quota.most[uids[name]]} of {gpus} GPUs")
    return report


async def _ready(at: Site, fleet: Path) -> dict[str, str]:
    """The settings are in and every replica sees every pool; the uid of each queue."""
    async with at.client() as client:
        objects = [object_of_spec(one) for one in load_fleet(fleet).resources]
        await client.apply([getattr(one, one.WhichOneof("object") or "") for one in objects])
        uids = {queue.name: queue.uid for queue in await client.queues()}
    async with asyncio.timeout(READY_DEADLINE_S):
        for number in range(len(at.addresses)):
            async with at.client(number) as client:
                while not await _sees_all(client):  # noqa: ASYNC110 - other processes' doing
                    await asyncio.sleep(LOOK_EVERY_S)
    return uids


async def _sees_all(client: AsyncClient) -> bool:
    healthy = {pool.name for pool in await client.pools() if pool.health is pool_pb2.POOL_HEALTH_HEALTHY}
    return healthy >= set(POOLS)


async def _long_jobs(clients: Sequence[Client], channels: Sequence[grpc.aio.Channel]) -> set[str]:
    """One job of each client that outlives the run."""
    found: set[str] = set()
    for client, queue in zip(clients, QUEUES, strict=True):
        request = job_service_pb2.SubmitJobsRequest(
            request_id=f"long-{queue}", jobs=[spec(f"long-{queue}", 6, LONG_S, queue=queue)]
        )
        found.update(await client.note(channels[0], request))
    return found


async def _finish(client: Client, channels: Sequence[grpc.aio.Channel]) -> None:
    """What was cut off is asked again until it is answered."""
    async with asyncio.timeout(READY_DEADLINE_S):
        while True:
            try:
                await client.finish(channels[0])
                await client.insist(channels[0])
            except grpc.aio.AioRpcError:
                await asyncio.sleep(RETRY_S)
            else:
                return


async def _judge(
    report: Report,
    at: Site,
    auditor: Auditor,
    acknowledged: dict[str, int],
    cancelled: set[str],
    longs: set[str],
) -> None:
    jobs = await _quiet(auditor, longs - cancelled, report)
    report.jobs, report.pods = len(acknowledged), sum(acknowledged.values())
    report.attempts_max = max((job.status.attempt for job in jobs.values()), default=0)
    found = await auditor.audit(acknowledged)
    report.wrong += [f"lost: {line}" for line in found.lost]
    report.wrong += [f"doubled: {line}" for line in found.doubled]
    report.wrong += [f"partial: {line}" for line in found.partial]
    report.wrong += [f"left: {line}" for line in found.left]
    report.wrong += [f"unknown to every client: {job}" for job in sorted(set(jobs) - set(acknowledged))]
    for job in sorted(set(acknowledged) & set(jobs)):
        wanted = {job_pb2.JOB_STATE_RUNNING} if job in longs else {job_pb2.JOB_STATE_SUCCEEDED}
        if job in cancelled:
            wanted |= {job_pb2.JOB_STATE_CANCELLED}
        state = jobs[job].status.state
        if state not in wanted:
            report.wrong.append(f"{job}: {job_pb2.JobState.Name(state)} ({jobs[job].status.reason})")
    report.wrong += await _free_as_counted(at)


async def _quiet(auditor: Auditor, running: set[str], report: Report) -> dict[str, job_pb2.Job]:
    """The jobs, once all but some have ended; those that do not in time are noted."""
    ends_s = time.monotonic() + QUIET_DEADLINE_S
    while True:
        jobs = await auditor.jobs()
        waiting = [key for key, job in jobs.items() if job.status.state not in ENDED and key not in running]
        restarting = [key for key in running if jobs[key].status.state != job_pb2.JOB_STATE_RUNNING]
        if not waiting and not restarting:
            return jobs
        if time.monotonic() > ends_s:
            for key in [*waiting, *restarting]:
                status = jobs[key].status
                report.wrong.append(f"L1, L4: {key} is still {job_pb2.JobState.Name(status.state)} ({status.reason})")
            return jobs
        await asyncio.sleep(LOOK_EVERY_S)


async def _free_as_counted(at: Site) -> list[str]:
    """S9: what every replica says of every pool against the cluster itself, once the summaries have come."""
    counted: dict[str, tuple[int, int]] = {}
    for address in at.clusters:
        async with grpc.aio.insecure_channel(address) as channel:
            stub: sim_pb2_grpc.SimServiceAsyncStub = sim_pb2_grpc.SimServiceStub(channel)
            for one in (await stub.Describe(sim_pb2.DescribeRequest(), timeout=CALL_DEADLINE_S)).clusters:
                counted[one.pool] = (one.free_gpus, one.gpus)
    ends_s = time.monotonic() + READY_DEADLINE_S
    while True:
        wrong: list[str] = []
        for number in range(len(at.addresses)):
            async with at.client(number) as client:
                for pool in await client.pools():
                    said = (pool.free_gpus, pool.gpus)
                    if said != counted[pool.name]:
                        what = f"{said[0]} of {said[1]} GPUs free, its cluster counts {counted[pool.name]}"
                        wrong.append(f"S9: r{number} says of {pool.name} {what}")
        if not wrong or time.monotonic() > ends_s:
            return wrong
        await asyncio.sleep(LOOK_EVERY_S)
