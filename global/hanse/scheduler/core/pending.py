"""Pending jobs, grouped by request class, in the order in which they are served: priority, then age.

Jobs of one class differ only in who waits longer, so a cycle looks at the head of each class and, once that head
does not fit, at none of the others: a thousand duplicates cost what one does. A class that was blocked is looked at
again only when something grew that could help it (`Blocked`): a pool's capacity, or its queue's quota.

What was read of a queue at once stays in columns (`WaitingRows`) until it is touched; what came or changed since are
objects. Nobody who asks sees the difference.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping

from hanse.model.ids import JobId, QueueUid, queue_of
from hanse.scheduler.core.pending_job import PendingJob, Turn, pending_job
from hanse.scheduler.core.waiting_rows import WaitingRows


class PendingSet:
    """All pending jobs that this replica serves."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, PendingJob] = {}
        self._turns: dict[int, list[Turn]] = {}  # of these, by class
        self._rows: dict[QueueUid, WaitingRows] = {}
        self._rows_of: dict[int, WaitingRows] = {}  # by class
        self.joined: dict[int, None] = {}
        """Classes that a job has joined since somebody last looked and cleared this."""

    def __len__(self) -> int:
        return len(self._jobs) + sum(len(rows) for rows in self._rows.values())

    def __contains__(self, job: JobId) -> bool:
        return job in self._jobs or self._row(job) is not None

    def get(self, job: JobId) -> PendingJob | None:
        """The job, if it is pending here."""
        known = self._jobs.get(job)
        if known is not None:
            return known
        found = self._row(job)
        return found[0].job(found[1]) if found is not None else None

    def _row(self, job: JobId) -> tuple[WaitingRows, int] | None:
        rows = self._rows.get(queue_of(job)) if self._rows else None
        row = rows.find(job) if rows is not None else -1
        return (rows, row) if rows is not None and row >= 0 else None

    def load(self, rows: WaitingRows) -> None:
        """Many jobs of a queue, of which none is known here, are pending."""
        if not len(rows):
            return
        self._rows[rows.queue] = rows
        for number in list(rows.classes()):
            if number in self._rows_of:  # a damaged record names a class of another queue
                for job in list(rows.members(number)):
                    self.put(job)
            else:
                self._rows_of[number] = rows
                self.joined[number] = None

    def put(self, job: PendingJob) -> None:
        """The job is pending, as of this state."""
        known = self._jobs.get(job.job)
        if known is not None and (known.turn, known.class_hash) == (job.turn, job.class_hash):
            self._jobs[job.job] = job
            return
        self.remove(job.job)
        self._jobs[job.job] = job
        insort(self._turns.setdefault(job.class_hash, []), job.turn)
        self.joined[job.class_hash] = None

    def remove(self, job: JobId) -> None:
        """The job is pending no more, or not ours."""
        known = self._jobs.pop(job, None)
        if known is None:
            self._take_row(job)
            return
        turns = self._turns[known.class_hash]
        turns.pop(bisect_left(turns, known.turn))
        if not turns:
            del self._turns[known.class_hash]

    def _take_row(self, job: JobId) -> None:
        found = self._row(job)
        if found is None:
            return
        rows, row = found
        rows.take(row)
        if not len(rows):
            self._forget_rows(rows.queue)

    def remove_queue(self, queue: QueueUid) -> None:
        """Forget every job of a queue."""
        for job in [j.job for j in self._jobs.values() if j.queue == queue]:
            self.remove(job)
        self._forget_rows(queue)

    def _forget_rows(self, queue: QueueUid) -> None:
        rows = self._rows.pop(queue, None)
        if rows is not None:
            self._rows_of = {number: other for number, other in self._rows_of.items() if other is not rows}

    def classes(self) -> Iterator[int]:
        """Hashes of the classes that have pending jobs, by their head's turn."""
        heads = {number: turn for number in self._numbers() if (turn := self._head_turn(number)) is not None}
        return iter(sorted(heads, key=heads.__getitem__))

    def _numbers(self) -> Iterator[int]:
        yield from self._turns
        for rows in self._rows.values():
            yield from (number for number in rows.classes() if number not in self._turns)

    def _head_turn(self, class_hash: int) -> Turn | None:
        rows, turns = self._rows_of.get(class_hash), self._turns.get(class_hash)
        row = rows.first(class_hash) if rows is not None else -1
        if rows is None or row < 0:
            return turns[0] if turns else None
        return min(turns[0], rows.turn(row)) if turns else rows.turn(row)

    def head(self, class_hash: int) -> PendingJob:
        """The first job of a class in order of service. Raises KeyError if it has none."""
        found = self.head_or_none(class_hash)
        if found is None:
            raise KeyError(class_hash)
        return found

    def head_or_none(self, class_hash: int) -> PendingJob | None:
        """The first job of a class, None if the class has no pending job any more."""
        return next(self.members(class_hash), None)

    def members(self, class_hash: int) -> Iterator[PendingJob]:
        """The jobs of a class in order of service."""
        turns, rows = self._turns.get(class_hash, ()), self._rows_of.get(class_hash)
        touched = (self._jobs[turn.job] for turn in turns)
        if rows is None:
            return touched
        return heapq.merge(touched, rows.members(class_hash), key=lambda job: job.turn)

    def queue_positions(self, job: JobId) -> tuple[int, int]:
        """How many jobs of its queue are served before this one, and how many the queue has."""
        me = self.get(job)
        if me is None:
            raise KeyError(job)
        mine = [j.turn for j in self._jobs.values() if j.queue == me.queue]
        rows = self._rows.get(me.queue)
        before, more = (rows.before(me.turn), len(rows)) if rows is not None else (0, 0)
        return sum(turn < me.turn for turn in mine) + before, len(mine) + more

    def service(self, skip: Mapping[int, object]) -> "Service":
        """A cycle's walk over the jobs in order of service, without the classes in `skip`."""
        numbers = [number for number in self._numbers() if number not in skip]
        return Service(lambda: {number: self.members(number) for number in numbers})


class Service:
    """One walk: a heap of the heads of the classes; O(log classes) a step, whatever waits behind them.

    Args:
        classes: the jobs of each class in order of service, from the first one on.
    """

    def __init__(self, classes: Callable[[], Mapping[int, Iterator[PendingJob]]]) -> None:
        self._classes = classes
        self._members = classes()
        self._dropped: set[int] = set()
        heads = ((number, next(jobs, None)) for number, jobs in self._members.items())
        self._heap = [(job.turn, number, job) for number, job in heads if job is not None]
        heapq.heapify(self._heap)

    def next(self) -> PendingJob | None:
        """The next job in order of service, None at the end."""
        while self._heap:
            _, number, job = self._heap[0]
            after = next(self._members[number], None) if number not in self._dropped else None
            if after is None:
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (after.turn, number, after))
            if number not in self._dropped:
                return job
        return None

    def afresh(self) -> "Service":
        """The same walk from its beginning, as long as nobody has touched the jobs."""
        return Service(self._classes)

    def drop_class(self, class_hash: int) -> None:
        """The class does not fit: none of its other jobs has a turn in this walk."""
        self._dropped.add(class_hash)


__all__ = ["PendingJob", "PendingSet", "Service", "Turn", "pending_job"]
