"""Users who submit, repeat themselves, cancel and lose their connection; operators who change their minds.

Each person is a process of its own at the far end of a lossy connection: a call may never arrive, its answer may be
lost, its server may die in the middle. So a person repeats it with the same request id, at another server, until
somebody answers. What was answered goes into the books, and the books are what the federation is held to: a job that
was acknowledged exists for ever, a repeated request names the same jobs, a job that was cancelled runs no more.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message

from hanse.api.v1 import job_pb2, job_service_pb2, pool_service_pb2, queue_pb2, queue_service_pb2
from hanse.apiserver.context import ANONYMOUS
from hanse.model.errors import AlreadyExists, HanseError, NotFound, ResourceExhausted, Unavailable
from hanse.model.ids import FlavorName, JobId, job_id, queue_of
from hanse.model.job import JobSpec, PodSet, PodTemplate
from hanse.model.lifecycle import State
from hanse.store.schema import BindingValue
from hanse.wire.job import spec_to_wire
from tests.sim.fleet import GPU, PER_GPU, PRIORITIES, draw_job
from tests.sim.giving import Giving
from tests.sim.histories import priority_of
from tests.sim.leaving import Leaving
from tests.sim.loop import Actor
from tests.sim.telling import told_spec
from tests.sim.watchers import Watcher

if TYPE_CHECKING:
    from tests.sim.world import World

CALL_DEADLINE_S: Final = 8.0
RETRY_S: Final = (0.1, 2.0)
DRAIN_DEADLINES_S: Final = (0, 0, 1, 5)
AWAY_S: Final = (1.0, 20.0)
BATCH_MAX: Final = 3
RIVALS_FACTOR: Final = 2
RIVAL_PODS_MAX: Final = 32
READ_EVERY_S: Final = 6.0


_MAY_RETRY: Final = frozenset({State.FAILED, State.CANCELLED, State.LOST})


def _told(answer: Message | HanseError) -> str:
    return answer.reason if isinstance(answer, HanseError) else type(answer).__name__


class Books:
    """What people asked for, and what they were told.

    Attributes:
        asked: every job that was ever sent, whether or not anybody heard of it; ids follow from the requests.
        specs: jobs that were acknowledged.
        by_request: what each request was answered with, in each life of the store.
    """

    def __init__(self) -> None:
        self.asked: dict[JobId, JobSpec] = {}
        self.specs: dict[JobId, JobSpec] = {}
        self.by_request: dict[tuple[str, int], tuple[JobId, ...]] = {}
        self.refused: dict[str, str] = {}
        self.open_calls = 0


class People:
    """The users and operators of a run."""

    def __init__(self, world: "World", rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._tasks: list[asyncio.Task[None]] = []
        self._requests = 0
        self.books = Books()
        self.watcher = Watcher(world, Random(f"{rng.random()}"))

    def begin(self, jobs: int, within_s: float) -> None:
        """Submit so many jobs within that time, and start the operators."""
        swarm = self._world.weather.swarm
        number = 0
        while number < jobs:
            batch = [
                draw_job(self._rng, swarm, number + i, self._world.fleet.queues)
                for i in range(min(self._rng.randint(1, BATCH_MAX), jobs - number))
            ]
            number += len(batch)
            self._go(self._submit(batch, self._rng.uniform(0.0, within_s)), "user")
        self._every(READ_EVERY_S, self._look, "reader")
        self._world.loop.spawn(Actor("watcher"), self.watcher.run(), name="watcher")
        self._every(swarm.cancel_every_s, self._cancel, "user")
        self._every(swarm.job_hold_every_s, self._hold_job, "user")
        self._every(swarm.priority_every_s, self._hurry, "user")
        self._every(swarm.retry_every_s, self._retry, "user")
        self._every(swarm.cordon_every_s, self._cordon, "operator")
        self._every(swarm.hold_every_s, self._hold, "operator")
        self._every(swarm.quota_every_s, self._change_quota, "operator")
        self._every(swarm.drain_every_s, self._drain, "operator")
        self._every(swarm.limit_every_s, self._change_limits, "operator")
        giving = Giving(self._world, self._rng, self._insist)
        self._every(swarm.give_every_s, giving.give, "operator")
        self._every(swarm.regroup_every_s, giving.regroup, "operator")
        self._every(swarm.leave_every_s, Leaving(self._world, self._rng, self._insist).once, "operator")

    def submit_rival(self, job: JobId, bound: BindingValue) -> None:
        """Somebody wants, just now and more urgently, what is left of the quota beside this binding, and one more."""
        if len(self.books.asked) >= RIVALS_FACTOR * self._world.weather.swarm.jobs:
            return
        name, value = self._world.view.queues[queue_of(job)]
        charge = bound.charges[0]
        nominal = next(quota.amounts.get(GPU, 0) for quota in value.quotas if quota.flavor == charge.flavor)
        used = self._world.view.used.get(queue_of(job), {}).get((charge.flavor, GPU), 0)
        count = max(1, min(nominal - used - charge.amounts.get(GPU, 0) + 1, RIVAL_PODS_MAX))
        pods = PodSet(
            "s0", count, count, PER_GPU, (FlavorName(charge.flavor),), template=PodTemplate("train", ("train",))
        )
        rival = JobSpec(f"rival-{len(self.books.asked)}", name, (pods,), priority_class="high")
        self._go(self._submit([rival], 0.0), "user")

    def _go(self, work: "object", who: str) -> None:
        actor = Actor(f"{who}-{len(self._tasks)}")
        self._tasks.append(self._world.loop.spawn(actor, work, name=actor.name))  # type: ignore[arg-type]

    def _every(self, every_s: float, act: Callable[[], "object"], who: str) -> None:
        if every_s:
            self._go(self._repeatedly(every_s, act), who)

    async def _repeatedly(self, every_s: float, act: Callable[[], "object"]) -> None:
        until_s = self._world.loop.time() + self._world.weather.swarm.faults_s
        while True:
            pause_s = self._rng.expovariate(1.0 / every_s)
            if self._world.loop.time() + pause_s > until_s:
                return
            await asyncio.sleep(pause_s)
            await act()  # type: ignore[misc]  # each is a coroutine function

    @property
    def busy(self) -> bool:
        """Whether anybody still has something to do."""
        return any(not task.done() for task in self._tasks)

    # ---- calls

    def _request_id(self) -> str:
        self._requests += 1
        return f"req-{self._requests}"

    async def _insist(self, method: str, request: Message) -> Message | HanseError:
        """Repeat a call until it is answered; an answer may be a refusal."""
        era, began_s = -1, 0.0
        while True:
            if era != self._world.store.era:  # what an earlier life of the store did is gone
                era, began_s = self._world.store.era, self._world.loop.time()
            try:
                answer = await self._world.call(method, request, CALL_DEADLINE_S)
                if era == self._world.store.era:
                    self._world.histories.heard(method, request, answer, began_s)
                    return answer
            except (Unavailable, ResourceExhausted, TimeoutError) as error:
                self._world.story.note(f"hears no answer to {method}: {error}")
                await asyncio.sleep(self._rng.uniform(*RETRY_S))
            except HanseError as error:
                if type(error) is HanseError:
                    self._world.court.accuse(
                        "crash", f"{method} failed by a mistake of the server: {error.__cause__!r}"
                    )
                if era == self._world.store.era:
                    self._world.histories.heard(method, request, error, began_s)
                    return error

    # ---- users

    async def _submit(self, batch: list[JobSpec], delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        request = job_service_pb2.SubmitJobsRequest(
            request_id=self._request_id(),
            jobs=[spec_to_wire(spec) for spec in batch],
            atomic=self._rng.random() < 0.3,
        )
        for index, spec in enumerate(batch):
            uid = next(queue.uid for queue in self._world.fleet.queues if queue.name == spec.queue)
            job = job_id(uid, ANONYMOUS, request.request_id, index)
            self.books.asked[job] = spec
            self._world.story.note(f"asks for {job} ({spec.name}): {told_spec(spec)}", job)
        swarm, weather = self._world.weather.swarm, self._world.weather
        if weather.hits(swarm.user_crash_p):
            await self._shout(request, batch)
            if self._rng.random() < 0.5:
                return  # nobody ever asks again; if the jobs are there, they run
            await asyncio.sleep(self._rng.uniform(*AWAY_S))
        self._settle(request, batch, await self._insist("SubmitJobs", request))
        if weather.hits(swarm.user_repeat_p):
            await asyncio.sleep(self._rng.uniform(*AWAY_S))
            self._settle(request, batch, await self._insist("SubmitJobs", request))
            if (request.request_id, self._world.store.era) in self.books.by_request:
                await self._reuse(request)

    async def _shout(self, request: job_service_pb2.SubmitJobsRequest, batch: list[JobSpec]) -> None:
        """Send a call and lose the connection before anybody can answer."""
        began_s = self._world.loop.time()
        for index, spec in enumerate(batch):
            uid = next(queue.uid for queue in self._world.fleet.queues if queue.name == spec.queue)
            job = job_id(uid, ANONYMOUS, request.request_id, index)
            self._world.histories.lost("SubmitJobs", job, began_s, wanted=priority_of(request.jobs[index]))
        try:
            await self._world.call("SubmitJobs", request, self._rng.uniform(0.0, 0.1))
        except (TimeoutError, HanseError):
            return

    async def _reuse(self, request: job_service_pb2.SubmitJobsRequest) -> None:
        """The same id with another body must be refused."""
        other = job_service_pb2.SubmitJobsRequest()
        other.CopyFrom(request)
        other.jobs[0].name += "-other"
        era = self._world.store.era
        answer = await self._insist("SubmitJobs", other)
        if not isinstance(answer, AlreadyExists) and era == self._world.store.era:
            self._world.court.accuse("S8", f"request {request.request_id} was accepted with two bodies: {answer}")

    def _settle(
        self, request: job_service_pb2.SubmitJobsRequest, batch: list[JobSpec], answer: Message | HanseError
    ) -> None:
        """Write an answer into the books, and compare it with what is there."""
        if isinstance(answer, HanseError):
            self._world.note(f"{request.request_id} is refused: {answer}")
            self.books.refused[request.request_id] = str(answer)
            return
        assert isinstance(answer, job_service_pb2.SubmitJobsResponse)
        ids = tuple(JobId(job.id) for job in answer.jobs)
        if not any(ids):
            return  # nothing was stored, and nothing is remembered: the same request may fare better another time
        known = self.books.by_request.setdefault((request.request_id, self._world.store.era), ids)
        if known != ids:
            self._world.court.accuse(
                "S8", f"{request.request_id} was answered with {known} and with {ids}", *known, *ids
            )
        for job, spec in zip(ids, batch, strict=True):
            if job:
                self.books.specs[job] = spec
                self._world.story.note(f"hears that {job} ({spec.name}) is accepted", job)
                self._world.store_checks.acknowledged(job)

    async def _cancel(self) -> None:
        if not self.books.specs:
            return
        job = self._rng.choice(tuple(self.books.specs))
        request = job_service_pb2.CancelJobRequest(job=job, request_id=self._request_id())
        self._world.story.note(f"cancels {job}", job)
        answer = await self._insist("CancelJob", request)
        self._world.story.note(f"hears about the cancel of {job}: {type(answer).__name__}", job)
        if not isinstance(answer, HanseError):
            self._world.store_checks.cancelled(job)
        await self._look_at(job)

    async def _hold_job(self) -> None:
        """Put a job on hold for a while. It may run already, or end meanwhile; whoever holds it also releases it."""
        if not self.books.specs:
            return
        job = self._rng.choice(tuple(self.books.specs))
        self._world.story.note(f"puts {job} on hold", job)
        held = await self._insist("HoldJob", job_service_pb2.HoldJobRequest(job=job, request_id=self._request_id()))
        self._world.story.note(f"hears about the hold of {job}: {_told(held)}", job)
        await self._look_at(job)
        if isinstance(held, HanseError):
            return
        self._world.store_checks.held(job)
        await asyncio.sleep(self._rng.uniform(*AWAY_S))
        self._world.story.note(f"releases {job}", job)
        self._world.store_checks.releasing(job)
        await self._insist("ReleaseJob", job_service_pb2.ReleaseJobRequest(job=job, request_id=self._request_id()))

    async def _hurry(self) -> None:
        """Give a job another priority; the answer shows it, whenever it comes."""
        if not self.books.specs:
            return
        job = self._rng.choice(tuple(self.books.specs))
        wanted = self._rng.choice(PRIORITIES)
        self._world.story.note(f"gives {job} the priority {wanted.name}", job)
        request = job_service_pb2.UpdateJobRequest(job=job, priority_class=wanted.name, request_id=self._request_id())
        answer = await self._insist("UpdateJob", request)
        self._world.story.note(f"hears about the priority of {job}: {_told(answer)}", job)
        if isinstance(answer, job_pb2.Job) and answer.status.priority != wanted.value:
            what = f"{job} was given the priority {wanted.name} and has {answer.status.priority}"
            self._world.court.accuse("S8", what, job)
        await self._look_at(job)

    async def _look_at(self, job: JobId) -> None:
        """Whoever has changed something looks at it, wherever he is answered."""
        await self._insist("GetJob", job_service_pb2.GetJobRequest(job=job))

    async def _retry(self) -> None:
        """Try a job again that has ended badly, perhaps twice with one request id: it is one job all the same."""
        states = self._world.view.states
        ended = [job for job in self.books.specs if job in states and states[job].state in _MAY_RETRY]
        if not ended or len(self.books.asked) >= RIVALS_FACTOR * self._world.weather.swarm.jobs:
            return
        old, request_id = self._rng.choice(ended), self._request_id()
        new = job_id(queue_of(old), ANONYMOUS, request_id, 0)
        spec = self.books.asked[new] = self.books.specs[old]
        request = job_service_pb2.RetryJobRequest(job=old, request_id=request_id)
        self._world.story.note(f"tries {old} again, as {new}", old, new)
        for _ in range(self._rng.randint(1, 2)):
            answer = await self._insist("RetryJob", request)
            self._world.story.note(f"hears about the retry of {old}: {_told(answer)}", old, new)
            if not isinstance(answer, job_pb2.Job):
                return
            if (answer.id, answer.retry_of) != (new, old):
                self._world.court.accuse("S8", f"the retry of {old} is {answer.id}, not {new}", old, new)
            self.books.specs[new] = spec
            self._world.store_checks.acknowledged(new)

    async def _look(self) -> None:
        """Read something, as dashboards do; a job that was acknowledged is found by whoever asks."""
        job = self._rng.choice(tuple(self.books.specs) or (JobId(""),))
        reads: tuple[tuple[str, Message], ...] = (
            ("GetJob", job_service_pb2.GetJobRequest(job=job, nodes=self._rng.random() < 0.5)),
            ("ExplainJob", job_service_pb2.ExplainJobRequest(job=job)),
            ("ListJobs", job_service_pb2.ListJobsRequest(page_size=5)),
            ("ListPools", pool_service_pb2.ListPoolsRequest()),
        )
        method, request = self._rng.choice(reads)
        answer = await self._insist(method, request)
        if job and isinstance(answer, NotFound) and not self._world.store_checks.is_dropped(job):
            self._world.court.accuse("S8", f"{job} was acknowledged, and {method} does not find it: {answer}", job)

    # ---- operators

    async def _cordon(self) -> None:
        pool = self._rng.choice(self._world.fleet.pools)
        cordon = pool_service_pb2.CordonPoolRequest(name=pool, reason="maintenance", request_id=self._request_id())
        self._world.story.note(f"cordons {pool}", pool)
        await self._insist("CordonPool", cordon)
        await asyncio.sleep(self._rng.uniform(*AWAY_S))
        await self._uncordon(pool)

    async def _drain(self) -> None:
        """Move a pool's jobs elsewhere, now and then with a deadline, and take it back after a while."""
        pool = self._rng.choice(self._world.fleet.pools)
        deadline_s = self._rng.choice(DRAIN_DEADLINES_S)
        drain = pool_service_pb2.DrainPoolRequest(name=pool, deadline_s=deadline_s, request_id=self._request_id())
        self._world.story.note(f"drains {pool}, deadline {deadline_s or 'none'}", pool)
        await self._insist("DrainPool", drain)
        await asyncio.sleep(self._rng.uniform(*AWAY_S))
        await self._uncordon(pool)

    async def _uncordon(self, pool: str) -> None:
        uncordon = pool_service_pb2.UncordonPoolRequest(name=pool, request_id=self._request_id())
        self._world.story.note(f"uncordons {pool}", pool)
        await self._insist("UncordonPool", uncordon)

    async def _hold(self) -> None:
        name = self._rng.choice(self._world.fleet.queues).name
        self._world.story.note(f"holds queue {name}")
        await self._insist("HoldQueue", queue_service_pb2.HoldQueueRequest(name=name, request_id=self._request_id()))
        await asyncio.sleep(self._rng.uniform(*AWAY_S))
        self._world.story.note(f"releases queue {name}")
        release = queue_service_pb2.ReleaseQueueRequest(name=name, request_id=self._request_id())
        await self._insist("ReleaseQueue", release)

    async def _change_limits(self) -> None:
        """Let fewer or more jobs of a queue run at a time, perhaps fewer than do."""
        queue = self._rng.choice(self._world.fleet.queues)
        found = await self._insist("GetQueue", queue_service_pb2.GetQueueRequest(name=queue.name))
        if not isinstance(found, queue_pb2.Queue):
            return
        changed = queue_pb2.Queue()
        changed.CopyFrom(found)
        changed.revision = 0
        changed.limits.running_jobs_max = self._rng.choice((0, 1, 2, 4))
        self._world.story.note(f"lets {changed.limits.running_jobs_max or 'all'} jobs of {queue.name} run at a time")
        request = queue_service_pb2.UpdateQueueRequest(queue=changed, request_id=self._request_id())
        await self._insist("UpdateQueue", request)

    async def _change_quota(self) -> None:
        """Lower or raise one flavor's quota, perhaps below what is in use."""
        queue = self._rng.choice(self._world.fleet.queues)
        found = await self._insist("GetQueue", queue_service_pb2.GetQueueRequest(name=queue.name))
        if not isinstance(found, queue_pb2.Queue):
            return
        changed = queue_pb2.Queue()
        changed.CopyFrom(found)
        changed.revision = 0
        self._rng.choice(changed.quotas).nominal[GPU] = self._rng.choice((4, 8, 16, 32, 64))
        self._world.story.note(f"changes the quota of {queue.name}")
        request = queue_service_pb2.UpdateQueueRequest(queue=changed, request_id=self._request_id())
        await self._insist("UpdateQueue", request)
