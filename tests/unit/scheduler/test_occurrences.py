"""What a written state means for people: a table of sentences; and nothing where nothing happened."""

from dataclasses import replace

import pytest

from hanse.model.ids import Attempt, JobId, PoolName
from hanse.model.lifecycle import JobState, State
from hanse.model.occurrence import Occurrence, OccurrenceKind
from hanse.model.reasons import Reason
from hanse.scheduler.core.occurrences import job_occurrence

JOB = JobId("q-1")
SLOTS = (PoolName("iowa"), PoolName("oslo"))
WAITS = JobState(State.PENDING, Attempt(0), 5, 1_000, 1_000, 7, reason=Reason.WAITING)
BOUND = replace(WAITS, state=State.BOUND, attempt=Attempt(1), reason=Reason.UNSPECIFIED, pools=(0,), changed_ms=2_000)
AGAIN = replace(WAITS, attempt=Attempt(1), reason=Reason.SHAPE, changed_ms=3_000)
STOPS = replace(BOUND, state=State.STOPPING, target=State.CANCELLED, reason=Reason.CANCELLED_BY_USER)
KIND = OccurrenceKind


def of(before: JobState | None, now: JobState, *, created: bool = False) -> Occurrence | None:
    return job_occurrence(JOB, before, now, created=created, revision=9, now_ms=8_000, slots=SLOTS)


TOLD: list[tuple[JobState | None, JobState, OccurrenceKind, str]] = [
    (WAITS, BOUND, KIND.BOUND, "bound to iowa as attempt 1"),
    (WAITS, replace(BOUND, pools=(0, 1)), KIND.BOUND, "bound to iowa and oslo as attempt 1"),
    (None, replace(BOUND, state=State.PLACED), KIND.PLACED, "every place is held in iowa"),
    (BOUND, replace(BOUND, state=State.STARTING), KIND.STARTING, "its pods are being started in iowa"),
    (BOUND, replace(BOUND, state=State.RUNNING), KIND.RUNNING, "all its pods run in iowa"),
    (
        BOUND,
        AGAIN,
        KIND.REFUSED,
        "iowa refused attempt 1: enough may be free in sum, but not in a shape that holds the gang",
    ),
    (
        replace(STOPS, target=State.PENDING),
        replace(AGAIN, reason=Reason.INFRASTRUCTURE),
        KIND.REQUEUED,
        "waits again after attempt 1: a node or its pods were lost",
    ),
    (BOUND, STOPS, KIND.STOPPING, "its pods are being stopped in iowa, towards CANCELLED: cancelled on request"),
    (
        replace(STOPS, target=State.PENDING),
        STOPS,
        KIND.STOPPING,
        "its pods are being stopped in iowa, towards CANCELLED: cancelled on request",
    ),
    (
        STOPS,
        replace(STOPS, state=State.CANCELLED, target=State.UNSPECIFIED, pools=()),
        KIND.ENDED,
        "CANCELLED: cancelled on request",
    ),
    (WAITS, replace(WAITS, held=True, reason=Reason.JOB_HELD), KIND.HELD, "put on hold"),
    (replace(WAITS, held=True), WAITS, KIND.RELEASED, "released, waits for places again"),
    (WAITS, replace(WAITS, priority=90), KIND.PRIORITY_CHANGED, "priority 90 instead of 5"),
]


@pytest.mark.parametrize(("before", "now", "kind", "message"), TOLD, ids=lambda value: getattr(value, "name", ""))
def test_what_happened_is_said_in_words(
    before: JobState | None, now: JobState, kind: OccurrenceKind, message: str
) -> None:
    found = of(before, now)
    assert found is not None
    assert (found.kind, found.message, found.job, found.revision) == (kind, message, JOB, 9)


def test_a_new_job_is_submitted() -> None:
    assert of(None, WAITS, created=True) == Occurrence(
        1_000, KIND.SUBMITTED, JOB, message="submitted with priority 5", revision=9
    )


def test_a_refusal_names_the_pool_and_the_reason_of_the_attempt() -> None:
    found = of(BOUND, AGAIN)
    assert found is not None
    assert (found.pool, found.attempt, found.reason, found.at_ms) == ("iowa", 1, Reason.SHAPE, 3_000)


def test_a_hold_is_told_with_the_time_at_which_it_was_seen() -> None:
    found = of(WAITS, replace(WAITS, held=True, reason=Reason.JOB_HELD))
    assert found is not None
    assert (found.at_ms, found.reason, found.pool) == (8_000, Reason.JOB_HELD, "")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (WAITS, replace(WAITS, reason=Reason.QUOTA, write_id=3)),
        (BOUND, replace(BOUND, write_id=3)),
        (STOPS, replace(STOPS, write_id=3)),
        (None, WAITS),
        (None, AGAIN),
    ],
)
def test_nothing_is_said_where_nothing_happened_or_nobody_knows(before: JobState | None, now: JobState) -> None:
    assert of(before, now) is None


def test_a_pool_that_has_no_name_yet_is_left_out() -> None:
    found = of(WAITS, replace(BOUND, pools=(0, 7)))
    assert found is not None
    assert found.pool == "iowa"
