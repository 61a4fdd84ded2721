"""An auditor that believes nobody: it compares what a client was told, what the API says, and what clusters logged.

It shares no code with the product but the generated messages. Its sources are the client's own book of acknowledged
submissions, `JobService.ListJobs`, the store's own keys where it is etcd, and each simulated cluster's `PodLog`,
which holds every pod that was ever created and what became of it. What it looks for:

* lost: a job that was acknowledged and is not listed or not stored, a running gang that has no pods, or one that
  succeeded and never had any;
* left: a binding in the store of a job that does not run;
* doubled: pods of two attempts of one job at the same time, or an attempt whose pods were created twice, or a job
  all of whose pods succeeded in two attempts;
* partial: an attempt that had some of its pods created and never all of them. The parts of a gang over several pools
  start by one decision and not in one instant: one of them may have begun when the other cannot. Such an attempt is
  given up everywhere, so it is partial only if the job has it to this day.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import grpc

from hanse.api.v1 import job_pb2, job_service_pb2, job_service_pb2_grpc
from hanse.etcd.v3 import rpc_pb2 as etcd_pb2
from hanse.etcd.v3 import rpc_pb2_grpc as etcd_pb2_grpc
from hanse.sim.v1 import sim_pb2, sim_pb2_grpc

CALL_DEADLINE_S = 30.0
PAGE = 1000

Attempt = tuple[str, int]
LIVE = (job_pb2.JOB_STATE_RUNNING,)


@dataclass
class Life:
    """The pods of one attempt in one pool, from its cluster's log.

    Attributes:
        created: pods by name (pod set and rank), with how often each was created.
        begun_ms, ended_ms: first creation, and the last moment a pod occupied a node; None while one does.
    """

    pool: str
    created: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    begun_ms: int = 0
    ended_ms: int | None = None
    succeeded: int = 0
    running: int = 0


@dataclass(frozen=True)
class Findings:
    """What is wrong, one line each."""

    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    partial: tuple[str, ...]
    left: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return self.lost + self.doubled + self.partial + self.left


class Auditor:
    """Reads one federation.

    Args:
        channel: to a replica.
        clusters: to the servers of simulated clusters; none if the replica's address answers for them.
        etcd: to the store, if it is one.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        *,
        clusters: Sequence[grpc.aio.Channel] = (),
        etcd: grpc.aio.Channel | None = None,
    ) -> None:
        self._jobs = job_service_pb2_grpc.JobServiceStub(channel)
        self._sims = [sim_pb2_grpc.SimServiceStub(one) for one in clusters or (channel,)]
        self._store = None if etcd is None else etcd_pb2_grpc.KVStub(etcd)

    async def jobs(self) -> dict[str, job_pb2.Job]:
        """Every job that the API lists."""
        found: dict[str, job_pb2.Job] = {}
        token = ""
        while True:
            request = job_service_pb2.ListJobsRequest(page_size=PAGE, page_token=token)
            page = await self._jobs.ListJobs(request, timeout=CALL_DEADLINE_S)
            found.update((job.id, job) for job in page.jobs)
            token = page.next_page_token
            if not token:
                return found

    async def lives(self) -> dict[Attempt, list[Life]]:
        """Every attempt that ever had pods, by job and number; one life for each pool and part."""
        lives: dict[Attempt, dict[tuple[str, int], Life]] = defaultdict(dict)
        for sim in self._sims:
            described = await sim.Describe(sim_pb2.DescribeRequest(), timeout=CALL_DEADLINE_S)
            for cluster in described.clusters:
                request = sim_pb2.PodLogRequest(pool=cluster.pool, from_seq=1)
                async for batch in sim.PodLog(request, timeout=CALL_DEADLINE_S):
                    for entry in batch.entries:
                        if entry.HasField("gang"):
                            _record(lives[entry.gang.job, entry.gang.attempt], cluster.pool, entry)
        return {attempt: list(parts.values()) for attempt, parts in lives.items() if parts}

    async def audit(self, acknowledged: Mapping[str, int]) -> Findings:
        """Compare the sources; `acknowledged` maps a job's id to the pods it has."""
        jobs, lives = await self.jobs(), await self.lives()
        stored = await self._keys("state/", 2)
        bound = await self._keys("bindings/", 2)
        running = {job for job, found in jobs.items() if found.status.state in LIVE}
        missing = () if self._store is None else sorted(set(acknowledged) - stored)
        return Findings(
            lost=(*_lost(acknowledged, jobs, lives), *(f"{job}: acknowledged, and not stored" for job in missing)),
            doubled=tuple(_doubled(acknowledged, lives)),
            partial=await self._partial(acknowledged, jobs, lives),
            left=tuple(f"{job}: bound, and not running" for job in sorted(bound - running)),
        )

    async def _partial(
        self,
        acknowledged: Mapping[str, int],
        jobs: Mapping[str, job_pb2.Job],
        lives: Mapping[Attempt, list[Life]],
    ) -> tuple[str, ...]:
        found = [(attempt, line) for attempt, line in _partial(acknowledged, lives)]
        split = {job for job in {job for (job, _), _ in found} & set(jobs) if await self._may_be_split(job)}
        return tuple(
            line for attempt, line in found if attempt[0] not in split or not _given_up(attempt, jobs, lives)
        )

    async def _may_be_split(self, job: str) -> bool:
        request = job_service_pb2.GetJobRequest(job=job, view=job_service_pb2.JOB_VIEW_FULL)
        return (await self._jobs.GetJob(request, timeout=CALL_DEADLINE_S)).spec.max_pools > 1

    async def _keys(self, prefix: str, part: int) -> set[str]:
        """One part of every key below a prefix; none without a store to read."""
        if self._store is None:
            return set()
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        request = etcd_pb2.RangeRequest(key=prefix.encode(), range_end=end.encode(), keys_only=True)
        answer = await self._store.Range(request, timeout=CALL_DEADLINE_S)
        return {kv.key.decode().split("/")[part] for kv in answer.kvs}


def _record(parts: dict[tuple[str, int], Life], pool: str, entry: sim_pb2.PodLogEntry) -> None:
    counts = entry.counts
    occupying = counts.pending + counts.running + counts.stopping
    known = parts.get((pool, entry.gang.part))
    if known is None:
        if entry.kind != sim_pb2.POD_LOG_KIND_STARTED:
            return
        known = parts[pool, entry.gang.part] = Life(pool, begun_ms=entry.at_ms)
    for placed in entry.sets:
        for offset in range(len(placed.nodes)):
            known.created[placed.name, placed.first_rank + offset] += 1
    known.ended_ms = None if occupying else (known.ended_ms or entry.at_ms)
    known.succeeded, known.running = counts.succeeded, counts.running


def _lost(
    acknowledged: Mapping[str, int], jobs: Mapping[str, job_pb2.Job], lives: Mapping[Attempt, list[Life]]
) -> Iterable[str]:
    for job, pods in acknowledged.items():
        if job not in jobs:
            yield f"{job}: acknowledged, and not listed"
            continue
        status = jobs[job].status
        if status.state in LIVE:
            running = sum(life.running for life in lives.get((job, status.attempt), []))
            if running != pods:
                yield f"{job}: RUNNING in attempt {status.attempt} with {running} of {pods} pods"
        if status.state == job_pb2.JOB_STATE_SUCCEEDED and (job, status.attempt) not in lives:
            yield f"{job}: SUCCEEDED in attempt {status.attempt}, which never had pods"


def _given_up(attempt: Attempt, jobs: Mapping[str, job_pb2.Job], lives: Mapping[Attempt, list[Life]]) -> bool:
    """Whether an attempt is over, and the job went on without it."""
    job, number = attempt
    status = jobs[job].status
    over = all(life.ended_ms is not None for life in lives[attempt])
    return over and (status.attempt > number or status.state != job_pb2.JOB_STATE_SUCCEEDED)


def _doubled(acknowledged: Mapping[str, int], lives: Mapping[Attempt, list[Life]]) -> Iterable[str]:
    succeeded: dict[str, list[int]] = defaultdict(list)
    for (job, attempt), parts in sorted(lives.items()):
        pods = acknowledged.get(job, sum(len(life.created) for life in parts))
        if pods and sum(life.succeeded for life in parts) >= pods:
            succeeded[job].append(attempt)
    by_job: dict[str, list[tuple[int, Life]]] = defaultdict(list)
    for (job, attempt), parts in lives.items():
        for life in parts:
            by_job[job].append((attempt, life))
            twice = [name for name, times in life.created.items() if times > 1]
            if twice:
                yield f"{job}: attempt {attempt} created {len(twice)} pods twice in {life.pool}, {twice[0]} first"
    for job, found in by_job.items():
        yield from _overlaps(job, sorted(found, key=lambda entry: entry[1].begun_ms))
        if len(succeeded[job]) > 1:
            yield f"{job}: succeeded in attempts {succeeded[job]}"


def _overlaps(job: str, found: list[tuple[int, Life]]) -> Iterable[str]:
    for (one, first), (other, second) in pairwise(found):
        if one != other and (first.ended_ms is None or first.ended_ms > second.begun_ms):
            yield (
                f"{job}: attempt {other} began in {second.pool} at {second.begun_ms} while attempt {one}"
                f" had pods in {first.pool} until {first.ended_ms or 'now'}"
            )


def _partial(acknowledged: Mapping[str, int], lives: Mapping[Attempt, list[Life]]) -> Iterable[tuple[Attempt, str]]:
    for (job, attempt), parts in lives.items():
        created = sum(len(life.created) for life in parts)
        if job in acknowledged and created != acknowledged[job]:
            line = f"{job}: attempt {attempt} had {created} of {acknowledged[job]} pods created"
            yield (job, attempt), line
