"""What happened to jobs and pools, in words: for people who look back, never for anything that decides.

Occurrences are not truth and are not stored. Each replica remembers the newest that it has seen, in a ring; a reader
gets what the rings of all replicas hold (`RingPage`), and reads on in each from where it was (`RingCursor`).
"""

from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Final

from hanse.model.ids import Attempt, JobId, PoolName, QueueUid, read_queue_of
from hanse.model.reasons import Reason

EVENTS_PER_FETCH_MAX: Final = 1_000
"""Occurrences in one page of a ring."""


@unique
class OccurrenceKind(IntEnum):
    """What happened. The numbers are those of hanse.api.v1.EventKind."""

    UNSPECIFIED = 0

    SUBMITTED = 1
    BOUND = 2
    PLACED = 3
    STARTING = 4
    RUNNING = 5
    REFUSED = 6
    STOPPING = 7
    REQUEUED = 8
    ENDED = 9
    HELD = 10
    RELEASED = 11
    PRIORITY_CHANGED = 12
    RETRIED = 13

    JOINED = 30
    EPOCH_CHANGED = 31
    ATTACHED = 32
    DETACHED = 33
    CORDONED = 34
    UNCORDONED = 35
    SUMMARY_OLD = 36
    SUMMARY_FRESH = 37
    REMOVED = 38


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One thing that happened, to a job or to a pool.

    Attributes:
        at_ms: Unix time, by the clock of whoever did it or saw it.
        job: "" for what happened to a pool.
        pool: of a job's attempt, several joined by a comma; "" where none is concerned.
        attempt: of the job; 0 where none is concerned.
        message: one sentence, without a full stop.
        revision: of the store, at which it happened; 0 for what no revision shows.
    """

    at_ms: int
    kind: OccurrenceKind
    job: JobId = JobId("")
    pool: PoolName = PoolName("")
    attempt: Attempt = Attempt(0)
    reason: Reason = Reason.UNSPECIFIED
    message: str = ""
    revision: int = 0

    @property
    def identity(self) -> tuple[int, OccurrenceKind, str, str]:
        """Equal for what two replicas saw of the same thing; of no use where the revision is 0."""
        return self.revision, self.kind, self.job, self.pool


@dataclass(frozen=True, slots=True)
class OccurrenceQuery:
    """Which occurrences are asked for: of one job, of one pool, or all; none before `since_ms`, if that is not 0; of
    jobs in these queues alone, if `queues` is not None."""

    job: JobId = JobId("")
    pool: PoolName = PoolName("")
    since_ms: int = 0
    queues: frozenset[QueueUid] | None = None

    def holds(self, occurrence: Occurrence) -> bool:
        """Whether time and queue are those that are asked for."""
        if occurrence.at_ms < self.since_ms:
            return False
        return self.queues is None or (bool(occurrence.job) and read_queue_of(occurrence.job) in self.queues)


@dataclass(frozen=True, slots=True)
class RingCursor:
    """How far a ring was read; `nonce` tells a replica's rings of different starts apart."""

    nonce: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class RingPage:
    """What a ring holds beyond a cursor, oldest first.

    Attributes:
        cursor: where to read on.
        since_ms: the ring lacks nothing that it could have seen since then; Unix time.
        more: there is more beyond the cursor; of a first page, older ones were left out.
    """

    events: tuple[Occurrence, ...]
    cursor: RingCursor
    since_ms: int
    more: bool = False
