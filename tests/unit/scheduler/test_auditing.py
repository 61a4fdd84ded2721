"""What of the things that happen stands in the audit log, and as whose doing."""

import pytest

from hanse.model.audit import AuditKind
from hanse.model.ids import Attempt, JobId, PoolName
from hanse.model.occurrence import Occurrence, OccurrenceKind
from hanse.model.reasons import Reason
from hanse.scheduler.core.auditing import audited

KIND = OccurrenceKind
JOB = JobId("aaaaaaaa-0123456789abcdef")


def event(kind: OccurrenceKind, reason: Reason = Reason.UNSPECIFIED, *, job: JobId = JOB) -> Occurrence:
    return Occurrence(5, kind, job, PoolName("oslo"), Attempt(2), reason, "in words", 7)


@pytest.mark.parametrize(
    ("kind", "reason", "expected", "who"),
    [
        (KIND.BOUND, Reason.UNSPECIFIED, AuditKind.DECISION, "scheduler"),
        (KIND.REFUSED, Reason.REFUSED, AuditKind.DECISION, "agent oslo"),
        (KIND.REQUEUED, Reason.INFRASTRUCTURE, AuditKind.DECISION, "scheduler"),
        (KIND.ENDED, Reason.COMPLETED, AuditKind.DECISION, "scheduler"),
        (KIND.STOPPING, Reason.CANCELLED_BY_USER, AuditKind.DECISION, "scheduler"),
        (KIND.STOPPING, Reason.DRAINED, AuditKind.EVICTION, "scheduler"),
        (KIND.STOPPING, Reason.PREEMPTED, AuditKind.EVICTION, "scheduler"),
        (KIND.STOPPING, Reason.POOL_LOST, AuditKind.EVICTION, "scheduler"),
    ],
)
def test_a_decision_about_a_job_names_its_cause(
    kind: OccurrenceKind, reason: Reason, expected: AuditKind, who: str
) -> None:
    record = audited(event(kind, reason), "vision")
    assert record is not None
    assert (record.kind, record.who, record.verb) == (expected, who, kind.name)
    assert (record.queue, record.jobs, record.pool, record.attempt) == ("vision", (JOB,), "oslo", 2)
    assert record.reason == (reason.name if reason else "")
    assert (record.message, record.revision) == ("in words", 7)


@pytest.mark.parametrize("kind", [KIND.JOINED, KIND.EPOCH_CHANGED, KIND.CORDONED, KIND.UNCORDONED, KIND.REMOVED])
def test_what_becomes_of_a_pool(kind: OccurrenceKind) -> None:
    record = audited(event(kind, job=JobId("")), "")
    assert record is not None
    assert (record.kind, record.queue, record.jobs) == (AuditKind.POOL, "", ())


@pytest.mark.parametrize(
    "kind", [KIND.SUBMITTED, KIND.PLACED, KIND.STARTING, KIND.RUNNING, KIND.HELD, KIND.RETRIED, KIND.SUMMARY_OLD]
)
def test_what_nobody_decided_or_a_call_has_said_already(kind: OccurrenceKind) -> None:
    assert audited(event(kind), "vision") is None
