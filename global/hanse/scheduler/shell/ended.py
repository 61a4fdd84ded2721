"""A job that has ended, whole, as it leaves the store."""

from dataclasses import dataclass

from hanse.api.v1 import job_spec_pb2
from hanse.model.ids import JobId
from hanse.model.lifecycle import JobState
from hanse.store.schema import PastValue, SpecEnvelope


@dataclass(frozen=True, slots=True)
class EndedJob:
    """All that the store holds of a job that has ended; `spec` is None if it is damaged."""

    job: JobId
    state: JobState
    state_revision: int
    envelope: SpecEnvelope | None
    spec: job_spec_pb2.JobSpec | None
    past: PastValue | None
