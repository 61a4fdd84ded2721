"""Client histories, judged for linearizability by what people were told alone.

Every call that concerns one job is an operation with a beginning, an end, and an answer. A job is a register of its
own, so a history is judged job by job: is there one order of its operations, in which none comes before another that
had ended before it began, and after which a job could have given just these answers? The search is that of Wing and
Gong ("Testing and Verifying Concurrent Objects", 1993) with Lowe's memory of what was tried: a set of operations and
the state after them is looked at once.

The job that the answers are held against is a small one: whether it exists, where in its life it is, whether it is on
hold, its priority, whether it was told to end. Between operations the federation moves it by itself, along the arrows
of `_MOVES`. Beside the search, the revisions that answers carry must be those of one order too: no call sees an older
revision than one that ended before it began, and one revision of a job is one content.

A restore of the store ends every history: what was said before is judged then, and forgotten (P15).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, unique
from typing import Final

from google.protobuf.message import Message

from hanse.api.v1 import job_pb2, job_service_pb2, job_spec_pb2
from hanse.model.errors import HanseError, NotFound
from hanse.model.ids import JobId
from tests.sim.fleet import PRIORITIES
from tests.sim.verdict import Court

OPERATIONS_MAX: Final = 24
"""Of one history that is searched at once; a longer one is judged in pieces that begin anywhere."""


@unique
class Life(Enum):
    """Where a job is, as far as its owner is concerned."""

    ABSENT = 0
    WAITING = 1
    PLACED = 2
    STOPPING = 3
    ENDED = 4
    GONE = 5


_MOVES: Final[dict[Life, tuple[Life, ...]]] = {
    Life.ABSENT: (),
    Life.WAITING: (Life.PLACED, Life.STOPPING, Life.ENDED),
    Life.PLACED: (Life.WAITING, Life.STOPPING, Life.ENDED),
    Life.STOPPING: (Life.WAITING, Life.ENDED),
    Life.ENDED: (Life.GONE,),
    Life.GONE: (),
}
"""What the federation does by itself."""

LIVES: Final = {
    job_pb2.JOB_STATE_PENDING: Life.WAITING,
    job_pb2.JOB_STATE_BOUND: Life.PLACED,
    job_pb2.JOB_STATE_PLACED: Life.PLACED,
    job_pb2.JOB_STATE_STARTING: Life.PLACED,
    job_pb2.JOB_STATE_RUNNING: Life.PLACED,
    job_pb2.JOB_STATE_STOPPING: Life.STOPPING,
    job_pb2.JOB_STATE_SUCCEEDED: Life.ENDED,
    job_pb2.JOB_STATE_FAILED: Life.ENDED,
    job_pb2.JOB_STATE_CANCELLED: Life.ENDED,
    job_pb2.JOB_STATE_LOST: Life.ENDED,
}


@dataclass(frozen=True, slots=True)
class Job:
    """The register."""

    life: Life = Life.ABSENT
    held: bool = False
    priority: int = 0
    told_to_end: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What an answer says of a job."""

    life: Life
    held: bool
    priority: int
    revision: int
    content: tuple[int, ...] = ()

    @classmethod
    def of(cls, job: job_pb2.Job) -> "Seen":
        status = job.status
        content = (status.state, status.attempt, status.target, status.held, status.priority)
        return cls(LIVES[status.state], status.held, status.priority, job.revision, content)

    def agrees(self, job: Job) -> bool:
        """Whether the register is what was seen."""
        return (self.life, self.held, self.priority) == (job.life, job.held, job.priority)


@dataclass(frozen=True, slots=True)
class Operation:
    """One call, as far as one job is concerned.

    Attributes:
        method: of the API.
        ended_s: infinite if nobody ever heard of it; then it may have happened at any time, or never.
        answer: what was seen; a refusal by its reason; None if nothing was.
        wanted: the priority that was asked for.
    """

    method: str
    began_s: float
    ended_s: float
    answer: Seen | str | None = None
    wanted: int = 0

    @property
    def open(self) -> bool:
        """Whether it was never answered."""
        return self.ended_s == float("inf")

    def told(self) -> str:
        return f"{self.method} [{self.began_s:.3f}, {self.ended_s:.3f}] → {self.answer}"


def _moved(job: Job) -> Iterator[Job]:
    """The job as it may have become by itself, itself included."""
    yield job
    seen = {job.life}
    todo = [job.life]
    while todo:
        for life in _MOVES[todo.pop()]:
            back = job.told_to_end and life is Life.WAITING  # who was told to end waits no more
            if life not in seen and not back and not (job.held and life is Life.PLACED):
                seen.add(life)
                todo.append(life)
                yield replace(job, life=life, held=False)


def _submit(job: Job, done: Operation) -> Job | None:
    return replace(job, life=Life.WAITING, priority=done.wanted) if job.life is Life.ABSENT else job


def _read(job: Job, done: Operation) -> Job | None:
    if isinstance(done.answer, Seen):
        return job if done.answer.agrees(job) else None
    return job if job.life in (Life.ABSENT, Life.GONE) else None


def _cancel(job: Job, done: Operation) -> Job | None:
    """A waiting job ends at once, one that is placed stops; its answer is looked up later, so it says only that."""
    if isinstance(done.answer, str):
        return job if job.life in (Life.ABSENT, Life.ENDED, Life.GONE) else None
    match job.life:
        case Life.ABSENT | Life.GONE:
            return None
        case Life.WAITING:
            return replace(job, life=Life.ENDED, held=False, told_to_end=True)
        case Life.PLACED | Life.STOPPING:
            return replace(job, life=Life.STOPPING, told_to_end=True)
        case Life.ENDED:
            return job


def _hold(job: Job, done: Operation) -> Job | None:
    if isinstance(done.answer, str):
        return job if job.life is not Life.WAITING else None
    held = replace(job, held=True)
    return held if job.life is Life.WAITING and _answered(held, done) else None


def _release(job: Job, done: Operation) -> Job | None:
    if isinstance(done.answer, str):
        return job if job.life in (Life.ABSENT, Life.ENDED, Life.GONE) else None
    free = replace(job, held=False)
    return free if job.life not in (Life.ABSENT, Life.GONE) and _answered(free, done) else None


def _update(job: Job, done: Operation) -> Job | None:
    if isinstance(done.answer, str):
        return job if job.life is not Life.WAITING else None
    hurried = replace(job, priority=done.wanted)
    return hurried if job.life is Life.WAITING and _answered(hurried, done) else None


def _answered(job: Job, done: Operation) -> bool:
    return not isinstance(done.answer, Seen) or done.answer.agrees(job)


_EFFECTS: Final[dict[str, Callable[[Job, Operation], Job | None]]] = {
    "SubmitJobs": _submit,
    "RetryJob": _submit,
    "GetJob": _read,
    "ListJobs": _read,
    "CancelJob": _cancel,
    "HoldJob": _hold,
    "ReleaseJob": _release,
    "UpdateJob": _update,
}
"""What each method makes of a job; None if the job could not have given that answer."""


def linearizable(operations: Iterable[Operation], begins: Iterable[Job] = (Job(),)) -> bool:
    """Whether one order explains every answer, for a job that was one of `begins` before."""
    every = tuple(operations)
    tried: set[tuple[int, Job]] = set()
    todo = [(0, job) for job in begins]
    whole = sum(1 << number for number, one in enumerate(every) if not one.open)
    while todo:
        done, job = todo.pop()
        if done & whole == whole:
            return True
        if (done, job) in tried:
            continue
        tried.add((done, job))
        todo.extend(_next(every, done, job))
    return False


def _next(every: tuple[Operation, ...], done: int, job: Job) -> Iterator[tuple[int, Job]]:
    """Everything that may come next: an operation that began before any other that is left had ended."""
    left = [(number, one) for number, one in enumerate(every) if not done >> number & 1]
    first_end_s = min(one.ended_s for _, one in left)
    states = tuple(_moved(job))
    for number, one in left:
        if one.began_s <= first_end_s:
            for state in states:
                after = _EFFECTS[one.method](state, one)
                if after is not None:
                    yield done | 1 << number, after


ANYTHING: Final = tuple(
    Job(life, held, priority, told)
    for life in Life
    for held in (False, True)
    for priority in (0, 100)
    for told in (False, True)
)
"""Every job that there may be, for a history whose beginning nobody knows."""


# ---- recording ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _History:
    operations: list[Operation] = field(default_factory=list)
    contents: dict[int, tuple[int, ...]] = field(default_factory=dict)
    whole: bool = True


class Histories:
    """What people did to jobs since the store began its present life."""

    def __init__(self, court: Court, now_s: Callable[[], float]) -> None:
        self._accuse = court.accuse
        self._now_s = now_s
        self._jobs: dict[JobId, _History] = {}
        self._known_from_start = True

    def restarted(self) -> None:
        """The store was set back: nobody knows what is in it.

        Calls that are on their way now may have had their effect already, and are in no history yet. What was seen up
        to here is therefore not judged.
        """
        self._jobs.clear()
        self._known_from_start = False

    def lost(self, method: str, job: JobId, began_s: float, *, wanted: int = 0) -> None:
        """Nobody will ever hear what became of a call."""
        history = self._jobs.setdefault(job, _History(whole=self._known_from_start))
        history.operations.append(Operation(method, began_s, float("inf"), wanted=wanted))

    def answered(self, method: str, job: JobId, began_s: float, said: Seen | str | None, *, wanted: int = 0) -> None:
        """A call that concerns this job was answered; None if the answer says nothing of the job as it is."""
        ended_s = self._now_s()
        history = self._jobs.setdefault(job, _History(whole=self._known_from_start))
        if isinstance(said, Seen):
            self._check_revision(job, history, said, began_s)
        history.operations.append(Operation(method, began_s, ended_s, said, wanted))
        if len(history.operations) >= OPERATIONS_MAX:
            self._judge(job, history)
            history.operations, history.whole = [one for one in history.operations if one.open], False

    def listed(self, jobs: Iterable[job_pb2.Job], began_s: float) -> None:
        """A list was answered: a read of each job on it."""
        for job in jobs:
            self.answered("ListJobs", JobId(job.id), began_s, Seen.of(job))

    def _check_revision(self, job: JobId, history: _History, said: Seen, began_s: float) -> None:
        for one in history.operations:
            if isinstance(one.answer, Seen) and one.ended_s < began_s and one.answer.revision > said.revision:
                what = f"{job} was seen at revision {one.answer.revision}, and later at {said.revision}"
                self._accuse("S8", f"{what}: answers are not of one order", job)
        if history.contents.setdefault(said.revision, said.content) != said.content:
            self._accuse("S8", f"{job} was seen with two contents at revision {said.revision}", job)

    def judge(self) -> None:
        """Search every history."""
        for job, history in self._jobs.items():
            self._judge(job, history)

    def _judge(self, job: JobId, history: _History) -> None:
        if not linearizable(history.operations, (Job(),) if history.whole else ANYTHING):
            told = "; ".join(one.told() for one in sorted(history.operations, key=lambda one: one.began_s))
            self._accuse("S8", f"no order explains what was answered about {job}: {told}", job)

    # ---- by method

    def heard(self, method: str, request: Message, answer: Message | HanseError, began_s: float) -> None:
        """Write down what a call was answered, for every job that it concerns."""
        match request, answer:
            case job_service_pb2.GetJobRequest(), job_pb2.Job():
                self.answered(method, JobId(answer.id), began_s, Seen.of(answer))
            case job_service_pb2.GetJobRequest(), NotFound():
                self.answered(method, JobId(request.job), began_s, "NOT_FOUND")
            case job_service_pb2.ListJobsRequest(), job_service_pb2.ListJobsResponse():
                self.listed(answer.jobs, began_s)
            case job_service_pb2.SubmitJobsRequest(), job_service_pb2.SubmitJobsResponse():
                for spec, job in zip(request.jobs, answer.jobs, strict=True):
                    if job.id:
                        self.answered(method, JobId(job.id), began_s, None, wanted=priority_of(spec))
            case job_service_pb2.RetryJobRequest(), job_pb2.Job():
                self.answered(method, JobId(answer.id), began_s, None, wanted=answer.status.priority)
            case _ if method in _CHANGES:
                self._changed(method, request, answer, began_s)

    def _changed(self, method: str, request: Message, answer: Message | HanseError, began_s: float) -> None:
        job = JobId(getattr(request, "job"))  # noqa: B009 - each of these names a job
        wanted = _PRIORITY.get(getattr(request, "priority_class", ""), 0)
        said = Seen.of(answer) if isinstance(answer, job_pb2.Job) else str(getattr(answer, "reason", ""))
        self.answered(method, job, began_s, said, wanted=wanted)


_CHANGES: Final = frozenset({"CancelJob", "HoldJob", "ReleaseJob", "UpdateJob"})
_PRIORITY: Final = {"": 0, **{one.name: one.value for one in PRIORITIES}}


def priority_of(spec: job_spec_pb2.JobSpec) -> int:
    """The priority that a job is submitted with."""
    return _PRIORITY[spec.priority_class]
