"""Reason codes: why a job waits, was refused, stopped or ended; each with prose, each with a stable number.

The number is what the 64-byte state record stores, so a value is never renumbered or reused.
"""

from enum import IntEnum, unique


@unique
class Reason(IntEnum):
    """Machine-readable reasons. The name is the wire form, `prose` the sentence for people."""

    UNSPECIFIED = 0

    # Why a job waits.
    WAITING = 1
    QUOTA = 2
    SHAPE = 3
    FLAVOR = 4
    LEVEL_UNKNOWN = 5
    SELECTOR = 6
    TAINT = 7
    CORDONED = 8
    STALE = 9
    NO_POOLS = 10
    DETACHED = 11
    CONFLICT = 12
    LAGGING = 13
    QUEUE_HELD = 14
    RESOURCES = 15
    REFUSED = 16
    BACKOFF = 17
    BLOCKED_BY_OLDER = 18
    JOB_HELD = 19
    DRAINED = 20
    NEVER_FITS = 21
    NEEDS = 22

    # Why a job stops or has ended.
    CANCELLED_BY_USER = 40
    POD_FAILED = 41
    INFRASTRUCTURE = 42
    DURATION_EXCEEDED = 43
    RETRIES_EXHAUSTED = 44
    POOL_LOST = 45
    START_SKEW = 46
    PART_REFUSED = 47
    COMPLETED = 48
    PREEMPTED = 49

    @property
    def prose(self) -> str:
        """One sentence for people, without a full stop."""
        return _PROSE[self]


_PROSE: dict[Reason, str] = {
    Reason.UNSPECIFIED: "no reason recorded",
    Reason.WAITING: "waits for the next scheduling cycle",
    Reason.QUOTA: "the queue's quota has no room for it",
    Reason.SHAPE: "enough may be free in sum, but not in a shape that holds the gang",
    Reason.FLAVOR: "the pool has no hosts of a flavor that the job accepts",
    Reason.LEVEL_UNKNOWN: "the pool has no topology level of that name",
    Reason.SELECTOR: "no host has the labels that the job selects",
    Reason.TAINT: "hosts carry taints that the job does not tolerate",
    Reason.CORDONED: "the pool is cordoned",
    Reason.STALE: "the pool's last summary is too old to plan with",
    Reason.NO_POOLS: "no pool has joined yet",
    Reason.DETACHED: "the pool's agent is not attached",
    Reason.CONFLICT: "other decisions took the room first; it is planned again",
    Reason.LAGGING: "the pool has too many decisions that its agent has not acknowledged",
    Reason.QUEUE_HELD: "the queue is on hold",
    Reason.RESOURCES: "no host offers the CPU, memory or other resources that one pod asks for",
    Reason.REFUSED: "the pool agent refused the placement",
    Reason.BACKOFF: "waits a moment after repeated refusals",
    Reason.BLOCKED_BY_OLDER: "waits behind a job that is ahead of it in the queue",
    Reason.JOB_HELD: "the job is on hold",
    Reason.DRAINED: "the pool is being drained",
    Reason.NEVER_FITS: "no pool could hold it even when empty",
    Reason.NEEDS: "the pool's cluster lacks something that the job's pods name",
    Reason.CANCELLED_BY_USER: "cancelled on request",
    Reason.POD_FAILED: "a pod failed",
    Reason.INFRASTRUCTURE: "a node or its pods were lost",
    Reason.DURATION_EXCEEDED: "ran longer than its duration limit",
    Reason.RETRIES_EXHAUSTED: "failed more often than its restart policy allows",
    Reason.POOL_LOST: "the pool was declared lost",
    Reason.START_SKEW: "its parts did not start within the allowed time of each other",
    Reason.PART_REFUSED: "one of its pools refused its part",
    Reason.COMPLETED: "all pods succeeded",
    Reason.PREEMPTED: "made room for a job of higher priority",
}
