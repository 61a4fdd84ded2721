"""Gangs that wait, for both sides alike."""

from bench.hierarchy.stream import Gang
from hanse.model.ids import Attempt
from hanse.model.lifecycle import JobState, State
from hanse.scheduler.core.pending import PendingJob, pending_job


def waiting(gang: Gang) -> PendingJob:
    """The gang as the scheduler's core sees a pending job: all of one priority, first come first served."""
    at_ms = round(gang.arrival_s * 1e3)
    state = JobState(State.PENDING, Attempt(0), 0, at_ms, at_ms, gang.class_hash)
    return pending_job(gang.job, gang.queue, state, 1)
