"""Pending jobs, grouped by request class, in the order in which they are served: priority, then age.

Jobs of one class differ only in who waits longer, so a cycle looks at the head of each class and, once that head
does not fit, at none of the others: a thousand duplicates cost what one does. A class that was blocked is looked at
again only when something grew that could help it (`Blocked`): a pool's capacity, or its queue's quota.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hanse.model.ids import Attempt, JobId, QueueUid
from hanse.model.lifecycle import JobState


class Turn(NamedTuple):
    """The order of service; smaller is first."""

    negative_priority: int
    submit_ms: int
    job: JobId


@dataclass(frozen=True, slots=True)
class PendingJob:
    """What a decision needs of a pending job beside its request."""

    job: JobId
    queue: QueueUid
    class_hash: int
    turn: Turn
    state: JobState
    state_revision: int

    @property
    def next_attempt(self) -> Attempt:
        """Every bind takes a new attempt number (P5)."""
        return Attempt(self.state.attempt + 1)


def pending_job(job: JobId, queue: QueueUid, state: JobState, revision: int) -> PendingJob:
    """A pending job from its state record."""
    turn = Turn(-state.priority, state.submit_ms, job)
    return PendingJob(job, queue, state.class_hash, turn, state, revision)


@dataclass(slots=True)
class _Class:
    turns: list[Turn] = field(default_factory=list)


class PendingSet:
    """All pending jobs that this replica serves."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, PendingJob] = {}
        self._classes: dict[int, _Class] = {}
        self.joined: dict[int, None] = {}
        """Classes that a job has joined since somebody last looked and cleared this."""

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job: JobId) -> bool:
        return job in self._jobs

    def get(self, job: JobId) -> PendingJob | None:
        """The job, if it is pending here."""
        return self._jobs.get(job)

    def put(self, job: PendingJob) -> None:
        """The job is pending, as of this state."""
        known = self._jobs.get(job.job)
        if known is not None and (known.turn, known.class_hash) == (job.turn, job.class_hash):
            self._jobs[job.job] = job
            return
        self.remove(job.job)
        self._jobs[job.job] = job
        insort(self._classes.setdefault(job.class_hash, _Class()).turns, job.turn)
        self.joined[job.class_hash] = None

    def remove(self, job: JobId) -> None:
        """The job is pending no more, or not ours."""
        known = self._jobs.pop(job, None)
        if known is None:
            return
        turns = self._classes[known.class_hash].turns
        turns.pop(bisect_left(turns, known.turn))
        if not turns:
            del self._classes[known.class_hash]

    def remove_queue(self, queue: QueueUid) -> None:
        """Forget every job of a queue."""
        for job in [j.job for j in self._jobs.values() if j.queue == queue]:
            self.remove(job)

    def classes(self) -> Iterator[int]:
        """Hashes of the classes that have pending jobs, by their head's turn."""
        return iter(sorted(self._classes, key=lambda c: self._classes[c].turns[0]))

    def head(self, class_hash: int) -> PendingJob:
        """The first job of a class in order of service."""
        return self._jobs[self._classes[class_hash].turns[0].job]

    def head_or_none(self, class_hash: int) -> PendingJob | None:
        """The first job of a class, None if the class has no pending job any more."""
        return self.head(class_hash) if class_hash in self._classes else None

    def members(self, class_hash: int) -> Iterator[PendingJob]:
        """The jobs of a class in order of service."""
        found = self._classes.get(class_hash)
        return (self._jobs[turn.job] for turn in found.turns) if found is not None else iter(())

    def queue_positions(self, job: JobId) -> tuple[int, int]:
        """How many jobs of its queue are served before this one, and how many the queue has."""
        me = self._jobs[job]
        mine = [j.turn for j in self._jobs.values() if j.queue == me.queue]
        return sum(turn < me.turn for turn in mine), len(mine)

    def service(self, skip: Mapping[int, object]) -> "Service":
        """A cycle's walk over the jobs in order of service, without the classes in `skip`."""
        return Service(self._jobs, {c: k.turns for c, k in self._classes.items() if c not in skip})


class Service:
    """One walk: a heap of the heads of the classes; O(log classes) a step, whatever waits behind them."""

    def __init__(self, jobs: Mapping[JobId, PendingJob], classes: Mapping[int, list[Turn]]) -> None:
        self._jobs = jobs
        self._turns = classes
        self._dropped: set[int] = set()
        self._heap = [(turns[0], 0, c) for c, turns in classes.items()]
        heapq.heapify(self._heap)

    def next(self) -> PendingJob | None:
        """The next job in order of service, None at the end."""
        while self._heap:
            turn, index, class_hash = self._heap[0]
            turns = self._turns[class_hash]
            if class_hash in self._dropped or index + 1 == len(turns):
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (turns[index + 1], index + 1, class_hash))
            if class_hash not in self._dropped:
                return self._jobs[turn.job]
        return None

    def drop_class(self, class_hash: int) -> None:
        """The class does not fit: none of its other jobs has a turn in this walk."""
        self._dropped.add(class_hash)
