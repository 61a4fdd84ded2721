"""The pending jobs of one queue as they were read at once: columns instead of objects, since most wait for long.

A row is one job; rows are in order of job id. Which rows a class has, in order of service, is worked out once. A job
that is touched leaves its row for good. An object is made for whoever asks for a job, and is not kept.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hanse.model.ids import JobId, QueueUid
from hanse.model.lifecycle import decode_state
from hanse.model.state_columns import Records
from hanse.scheduler.core.pending_job import PendingJob, Turn, pending_job

JobIds = NDArray[np.bytes_]
Revisions = NDArray[np.int64]


class WaitingRows:
    """See the module.

    Args:
        jobs: ids as ASCII, in order.
        found: their states, all pending, none on hold.
        revisions: at which each was written.
    """

    def __init__(self, queue: QueueUid, jobs: JobIds, found: Records, revisions: Revisions) -> None:
        self.queue = queue
        self._ids = jobs
        self._records = found
        self._revisions = revisions
        self._alive = np.ones(len(self._ids), np.bool_)
        self._urgency = -found["priority"].astype(np.int64)
        order = np.lexsort((found["submit_ms"], self._urgency, found["class_hash"])).astype(np.int32)
        numbers, starts = np.unique(found["class_hash"][order], return_index=True)
        rows = np.split(order, starts[1:]) if len(order) else []
        self._rows: dict[int, NDArray[np.int32]] = dict(zip(numbers.tolist(), rows, strict=True))
        self._left: dict[int, int] = {number: len(own) for number, own in self._rows.items()}
        self._first = dict.fromkeys(self._rows, 0)
        self._count = len(self._ids)

    def __len__(self) -> int:
        return self._count

    def classes(self) -> Iterator[int]:
        """Classes that have jobs here."""
        return iter(self._left)

    def find(self, job: JobId) -> int:
        """The row of a job, -1 if it has none."""
        name = job.encode()
        row = int(np.searchsorted(self._ids, name))
        return row if row < len(self._ids) and self._ids[row] == name and self._alive[row] else -1

    def job(self, row: int) -> PendingJob:
        """The job of a row."""
        state = decode_state(self._records[row].tobytes())
        return pending_job(JobId(self._ids[row].decode()), self.queue, state, int(self._revisions[row]))

    def take(self, row: int) -> None:
        """The job of a row has none any more."""
        number = int(self._records["class_hash"][row])
        self._alive[row] = False
        self._count -= 1
        self._left[number] -= 1
        if not self._left[number]:
            del self._left[number]

    def first(self, class_hash: int) -> int:
        """The row of the first job of a class in order of service, -1 if there is none."""
        if class_hash not in self._left:
            return -1
        rows, at = self._rows[class_hash], self._first[class_hash]
        while not self._alive[rows[at]]:
            at += 1
        self._first[class_hash] = at
        return int(rows[at])

    def turn(self, row: int) -> Turn:
        """When the job of a row is served."""
        return Turn(int(self._urgency[row]), int(self._records["submit_ms"][row]), JobId(self._ids[row].decode()))

    def members(self, class_hash: int) -> Iterator[PendingJob]:
        """The jobs of a class in order of service."""
        if class_hash in self._left:
            for row in self._rows[class_hash][self._first[class_hash] :]:
                if self._alive[row]:
                    yield self.job(int(row))

    def before(self, turn: Turn) -> int:
        """How many jobs are served before that turn."""
        submit_ms = self._records["submit_ms"]
        earlier = np.arange(len(self._ids)) < np.searchsorted(self._ids, turn.job.encode())
        first = (submit_ms < turn.submit_ms) | ((submit_ms == turn.submit_ms) & earlier)
        urgent = (self._urgency < turn.negative_priority) | ((self._urgency == turn.negative_priority) & first)
        return int((urgent & self._alive).sum())
