"""The steps that a job's own record tells, and how they stand beside what replicas remember."""

from dataclasses import replace

from hanse.apiserver.past_events import completed, from_record
from hanse.apiserver.rows import Found, Head, JobRow, PartRow
from hanse.model.ids import Attempt, JobId, Part, PoolName
from hanse.model.lifecycle import JobState, State
from hanse.model.occurrence import Occurrence, OccurrenceKind
from hanse.model.reasons import Reason
from hanse.store.schema import BindingValue, Desired, PastAttempt, PastPart, PastValue

JOB = JobId("q-1")
WAITS = JobState(State.PENDING, Attempt(0), 5, 1_000, 1_000, 7, reason=Reason.WAITING)
KIND = OccurrenceKind


def row(state: JobState, *attempts: PastAttempt, retry_of: str = "", parts: tuple[PartRow, ...] = ()) -> JobRow:
    past = PastValue(list(attempts), held_by="ann", held_ms=1_500)
    return JobRow(Found(JOB, state, 9), Head("train", "research", {}, retry_of=retry_of), parts, past=past)


def attempt(number: int, outcome: State, reason: Reason, *parts: PastPart) -> PastAttempt:
    return PastAttempt(number, number * 2_000, number * 2_000 + 900, int(reason), int(outcome), list(parts))


def steps(found: JobRow) -> list[tuple[int, OccurrenceKind, int, str]]:
    return [(e.at_ms, e.kind, e.attempt, e.message) for e in from_record(found)]


def test_every_attempt_is_told_with_its_way_and_its_end() -> None:
    refused = attempt(1, State.PENDING, Reason.SHAPE, PastPart("iowa"))
    lost = attempt(2, State.PENDING, Reason.INFRASTRUCTURE, PastPart("oslo", held_ms=4_100, started_ms=4_200))
    parts = (PastPart("iowa", held_ms=6_100, started_ms=6_300, running_ms=6_400),)
    two = (*parts, PastPart("oslo", held_ms=6_200, started_ms=6_200, running_ms=6_500))
    done = attempt(3, State.SUCCEEDED, Reason.COMPLETED, *two)
    ended = replace(WAITS, state=State.SUCCEEDED, attempt=Attempt(3), reason=Reason.COMPLETED, changed_ms=6_900)
    assert steps(row(ended, refused, lost, done)) == [
        (1_000, KIND.SUBMITTED, 0, "submitted"),
        (2_000, KIND.BOUND, 1, "bound to iowa as attempt 1"),
        (2_900, KIND.REFUSED, 1, f"iowa refused attempt 1: {Reason.SHAPE.prose}"),
        (4_000, KIND.BOUND, 2, "bound to oslo as attempt 2"),
        (4_100, KIND.PLACED, 2, "every place is held in oslo"),
        (4_200, KIND.STARTING, 2, "its pods are being started in oslo"),
        (4_900, KIND.REQUEUED, 2, f"waits again after attempt 2: {Reason.INFRASTRUCTURE.prose}"),
        (6_000, KIND.BOUND, 3, "bound to iowa and oslo as attempt 3"),
        (6_200, KIND.PLACED, 3, "every place is held in iowa and oslo"),
        (6_200, KIND.STARTING, 3, "its pods are being started in iowa and oslo"),
        (6_500, KIND.RUNNING, 3, "all its pods run in iowa and oslo"),
        (6_900, KIND.ENDED, 3, f"SUCCEEDED: {Reason.COMPLETED.prose}"),
    ]


def test_a_job_that_ended_while_it_waited_and_one_on_hold() -> None:
    cancelled = replace(WAITS, state=State.CANCELLED, reason=Reason.CANCELLED_BY_USER, changed_ms=3_000)
    assert steps(row(cancelled))[1:] == [(3_000, KIND.ENDED, 0, f"CANCELLED: {Reason.CANCELLED_BY_USER.prose}")]
    assert steps(row(replace(WAITS, held=True)))[1:] == [(1_500, KIND.HELD, 0, "put on hold")]
    assert steps(row(WAITS, retry_of="q-0")) == [(1_000, KIND.SUBMITTED, 0, "submitted as a retry of q-0")]


def test_the_attempt_that_lives_is_told_as_far_as_it_came() -> None:
    binding = BindingValue(int(Desired.START), [], [], [], bound_ms=2_000, held_ms=2_100)
    parts = (PartRow(Part(0), PoolName("iowa"), binding),)
    found = row(replace(WAITS, state=State.PLACED, attempt=Attempt(1), pools=(0,)), parts=parts)
    assert [(kind, number) for _, kind, number, _ in steps(found)][1:] == [(KIND.BOUND, 1), (KIND.PLACED, 1)]


def test_what_is_remembered_wins_and_the_record_tells_the_rest() -> None:
    first = attempt(1, State.PENDING, Reason.SHAPE, PastPart("iowa"))
    second = attempt(2, State.FAILED, Reason.POD_FAILED, PastPart("oslo", held_ms=4_100, started_ms=4_200))
    found = row(replace(WAITS, state=State.FAILED, attempt=Attempt(2), changed_ms=4_900), first, second)
    seen = [
        Occurrence(4_000, KIND.BOUND, JOB, PoolName("oslo"), Attempt(2), message="bound", revision=7),
        Occurrence(4_900, KIND.ENDED, JOB, PoolName("oslo"), Attempt(2), message="ended", revision=8),
    ]
    told = completed(found, seen, 0)
    assert [(e.kind, e.attempt, e.revision) for e in told] == [
        (KIND.SUBMITTED, 0, 0),
        (KIND.BOUND, 1, 0),
        (KIND.REFUSED, 1, 0),
        (KIND.BOUND, 2, 7),
        (KIND.ENDED, 2, 8),
    ]
    assert completed(found, seen[:1], 4_500)[-1].kind is KIND.ENDED
    assert [e.kind for e in completed(found, [], 4_150)] == [KIND.STARTING, KIND.ENDED]
