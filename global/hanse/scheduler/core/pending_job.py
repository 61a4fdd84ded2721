"""One pending job as decisions see it, and its place in the order of service."""

from dataclasses import dataclass
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
