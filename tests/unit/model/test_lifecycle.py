"""The state machine of a job, as a table of sentences."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.model.ids import Attempt, Part
from hanse.model.lifecycle import (
    STATE_BYTES,
    TERMINAL,
    Bind,
    Bindings,
    Broken,
    DeclaredLost,
    Event,
    Finished,
    Held,
    Ignored,
    Illegal,
    JobState,
    Moved,
    Refused,
    Released,
    Running,
    SetHold,
    SetPriority,
    Started,
    State,
    Stop,
    decode_state,
    encode_state,
    transition,
)
from hanse.model.reasons import Reason

A1, P0 = Attempt(1), Part(0)
PENDING = JobState(State.PENDING, Attempt(0), 0, 1_000, 1_000, 7)
BOUND = replace(PENDING, state=State.BOUND, attempt=A1, pools=(3,))
SPLIT = replace(BOUND, pools=(3, 4))


def at(state: State, base: JobState = BOUND, **changes: object) -> JobState:
    return replace(base, state=state, **changes)  # type: ignore[arg-type]


def stopping(target: State, base: JobState = BOUND) -> JobState:
    return replace(base, state=State.STOPPING, target=target, reason=Reason.CANCELLED_BY_USER)


MOVES: list[tuple[str, JobState, Event, State, Bindings]] = [
    ("a pending job is bound", PENDING, Bind((3,)), State.BOUND, Bindings.CREATE),
    ("a held single part is placed", BOUND, Held(A1, P0, 0), State.PLACED, Bindings.KEEP),
    ("a started part passes PLACED", BOUND, Started(A1, P0), State.STARTING, Bindings.KEEP),
    ("running may find it still bound", BOUND, Running(A1, P0, 0), State.RUNNING, Bindings.KEEP),
    ("success from bound, reports coalesced", BOUND, Finished(A1, P0, 0), State.SUCCEEDED, Bindings.DROP_ALL),
    ("success", at(State.RUNNING), Finished(A1, P0, 0), State.SUCCEEDED, Bindings.DROP_ALL),
    ("a refusal goes straight back", BOUND, Refused(A1, P0, 0, Reason.SHAPE), State.PENDING, Bindings.DROP_ALL),
    (
        "a refused part stops the others",
        SPLIT,
        Refused(A1, P0, 1, Reason.SHAPE),
        State.STOPPING,
        Bindings.DROP_AND_STOP,
    ),
    ("the last held part starts all", SPLIT, Held(A1, P0, 0), State.STARTING, Bindings.START),
    ("one held part of two only touches", SPLIT, Held(A1, P0, 1), State.BOUND, Bindings.KEEP),
    (
        "cancel of a pending job ends it",
        PENDING,
        Stop(State.CANCELLED, Reason.CANCELLED_BY_USER),
        State.CANCELLED,
        Bindings.KEEP,
    ),
    (
        "cancel of a running job stops it first",
        at(State.RUNNING),
        Stop(State.CANCELLED, Reason.CANCELLED_BY_USER),
        State.STOPPING,
        Bindings.STOP,
    ),
    (
        "an order for this attempt ends it",
        at(State.RUNNING),
        Stop(State.PENDING, Reason.DRAINED, A1),
        State.STOPPING,
        Bindings.STOP,
    ),
    (
        "release reaches its target",
        stopping(State.CANCELLED),
        Released(A1, P0, 0),
        State.CANCELLED,
        Bindings.DROP_ALL,
    ),
    (
        "release of one part waits",
        stopping(State.CANCELLED, SPLIT),
        Released(A1, P0, 1),
        State.STOPPING,
        Bindings.DROP,
    ),
    ("P13: it had succeeded", stopping(State.PENDING), Finished(A1, P0, 0), State.SUCCEEDED, Bindings.DROP_ALL),
    ("a cancel stands", stopping(State.CANCELLED), Finished(A1, P0, 0), State.CANCELLED, Bindings.DROP_ALL),
    (
        "a refusal of what was held: the store was set back to before its end",
        at(State.RUNNING),
        Refused(A1, P0, 0, Reason.SHAPE),
        State.PENDING,
        Bindings.DROP_ALL,
    ),
    ("pods gone unasked", at(State.RUNNING), Released(A1, P0, 0), State.PENDING, Bindings.DROP_ALL),
    (
        "infrastructure requeues",
        at(State.RUNNING),
        Broken(A1, P0, Reason.INFRASTRUCTURE, infrastructure=True),
        State.STOPPING,
        Bindings.STOP,
    ),
    ("a pool is given up", at(State.RUNNING), DeclaredLost(A1), State.LOST, Bindings.STOP),
]


@pytest.mark.parametrize(("name", "job", "event", "state", "bindings"), MOVES, ids=[m[0] for m in MOVES])
def test_moves(name: str, job: JobState, event: Event, state: State, bindings: Bindings) -> None:
    moved = transition(job, event, now_ms=5_000)
    assert isinstance(moved, Moved), name
    assert (moved.state.state, moved.bindings) == (state, bindings)


def test_every_bind_takes_a_new_attempt_also_after_a_refusal() -> None:
    refused = transition(BOUND, Refused(A1, P0, 0, Reason.SHAPE), now_ms=2_000)
    assert isinstance(refused, Moved)
    bound = transition(refused.state, Bind((5,)), now_ms=3_000)
    assert isinstance(bound, Moved)
    assert bound.state.attempt == 2


def test_a_late_refusal_of_an_old_attempt_changes_nothing() -> None:
    second = replace(BOUND, attempt=Attempt(2))
    late = transition(second, Refused(A1, P0, 0, Reason.SHAPE), now_ms=2_000)
    assert late == Ignored("of another attempt", drop=True)


REPORTS: list[Event] = [
    Refused(A1, P0, 0, Reason.SHAPE),
    Held(A1, P0, 0),
    Started(A1, P0),
    Running(A1, P0, 0),
    Finished(A1, P0, 0),
    Broken(A1, P0, Reason.POD_FAILED, infrastructure=False),
    Released(A1, P0, 0),
]


@pytest.mark.parametrize("event", REPORTS, ids=lambda event: type(event).__name__)
def test_a_report_said_twice_changes_nothing_once_the_attempt_is_over(event: Event) -> None:
    waiting = replace(PENDING, attempt=A1, reason=Reason.DURATION_EXCEEDED)
    again = transition(waiting, event, now_ms=2_000)
    assert again == Ignored("the attempt is over", drop=isinstance(event, Refused | Finished | Released))


def test_own_failures_count_and_infrastructure_does_not() -> None:
    job = at(State.RUNNING, max_retries=1)
    lost = transition(job, Broken(A1, P0, Reason.INFRASTRUCTURE, infrastructure=True), now_ms=1)
    failed = transition(job, Broken(A1, P0, Reason.POD_FAILED, infrastructure=False), now_ms=1)
    again = transition(replace(job, failures=1), Broken(A1, P0, Reason.POD_FAILED, infrastructure=False), now_ms=1)
    assert isinstance(lost, Moved)
    assert isinstance(failed, Moved)
    assert isinstance(again, Moved)
    assert (lost.state.failures, lost.state.target) == (0, State.PENDING)
    assert (failed.state.failures, failed.state.target) == (1, State.PENDING)
    assert (again.state.failures, again.state.target) == (2, State.FAILED)


def test_a_cancel_overrides_the_way_back_to_pending_but_not_an_end() -> None:
    cancel = Stop(State.CANCELLED, Reason.CANCELLED_BY_USER)
    back = transition(stopping(State.PENDING), cancel, now_ms=1)
    assert isinstance(back, Moved)
    assert back.state.target is State.CANCELLED
    assert isinstance(transition(stopping(State.FAILED), cancel, now_ms=1), Ignored)


@pytest.mark.parametrize(
    "job", [at(State.PENDING), at(State.SUCCEEDED), replace(at(State.RUNNING), attempt=Attempt(2))]
)
@pytest.mark.parametrize("target", [State.PENDING, State.FAILED])
def test_an_order_for_an_attempt_that_is_over_changes_nothing(job: JobState, target: State) -> None:
    assert isinstance(transition(job, Stop(target, Reason.DRAINED, A1), now_ms=1), Ignored)


def test_a_job_on_hold_is_not_bound() -> None:
    assert isinstance(transition(replace(PENDING, held=True), Bind((1,)), now_ms=1), Illegal)


@pytest.mark.parametrize("held", [True, False])
def test_a_waiting_job_is_put_on_hold_and_released(held: bool) -> None:
    job = replace(PENDING, held=not held, priority=3)
    moved = transition(job, SetHold(held), now_ms=9_000)
    reason = Reason.JOB_HELD if held else Reason.WAITING
    assert moved == Moved(replace(job, held=held, reason=reason, amended=True))
    assert isinstance(transition(moved.state, SetHold(held), now_ms=9_000), Ignored)


@pytest.mark.parametrize("state", [s for s in State if s not in {State.UNSPECIFIED, State.PENDING}])
def test_only_a_waiting_job_can_be_put_on_hold_or_get_another_priority(state: State) -> None:
    assert isinstance(transition(at(state), SetHold(True), now_ms=1), Illegal)
    assert isinstance(transition(at(state), SetPriority(9), now_ms=1), Illegal)
    released = transition(at(state), SetHold(False), now_ms=1)
    assert isinstance(released, Illegal if state.terminal else Ignored)


def test_a_waiting_job_gets_another_priority_and_keeps_its_hold_and_its_age() -> None:
    job = replace(PENDING, held=True, reason=Reason.JOB_HELD)
    assert transition(job, SetPriority(-4), now_ms=9_000) == Moved(replace(job, priority=-4, amended=True))


def test_the_hold_of_a_job_ends_with_the_job() -> None:
    ended = transition(replace(PENDING, held=True), Stop(State.CANCELLED, Reason.CANCELLED_BY_USER), now_ms=1)
    assert isinstance(ended, Moved)
    assert (ended.state.state, ended.state.held) == (State.CANCELLED, False)


def test_a_binding_of_a_lost_job_is_dropped_once_released() -> None:
    lost = at(State.LOST)
    assert transition(lost, Released(A1, P0, 0), now_ms=1) == Ignored("the job has ended", drop=True)


EVENTS = st.one_of(
    st.builds(Bind, st.just((1,))),
    st.builds(Refused, st.just(A1), st.just(P0), st.integers(0, 1), st.just(Reason.SHAPE)),
    st.builds(Held, st.just(A1), st.just(P0), st.integers(0, 1)),
    st.builds(Started, st.just(A1), st.just(P0)),
    st.builds(Running, st.just(A1), st.just(P0), st.integers(0, 1)),
    st.builds(Finished, st.just(A1), st.just(P0), st.integers(0, 1)),
    st.builds(Broken, st.just(A1), st.just(P0), st.just(Reason.POD_FAILED), st.booleans()),
    st.builds(Stop, st.sampled_from([State.PENDING, State.CANCELLED, State.FAILED]), st.just(Reason.DRAINED)),
    st.builds(Released, st.just(A1), st.just(P0), st.integers(0, 1)),
    st.builds(DeclaredLost, st.just(A1)),
    st.builds(SetHold, st.booleans()),
    st.builds(SetPriority, st.integers(-9, 9)),
)


@given(st.lists(EVENTS, max_size=12), st.booleans())
def test_a_terminal_state_stays_and_the_attempt_never_falls(events: list[Event], split: bool) -> None:
    job = SPLIT if split else BOUND
    for event in events:
        moved = transition(job, event, now_ms=9_000)
        if not isinstance(moved, Moved):
            continue
        assert job.state not in TERMINAL
        assert job.state is not State.PENDING or isinstance(event, Bind | Stop | SetHold | SetPriority)
        assert moved.state.attempt >= job.attempt
        assert (moved.state.target is State.UNSPECIFIED) == (moved.state.state is not State.STOPPING)
        if moved.bindings is Bindings.CREATE:
            assert job.state is State.PENDING
            assert not job.held
        assert moved.state.state is State.PENDING or not moved.state.held
        job = moved.state


@given(
    st.sampled_from(list(State)),
    st.integers(0, 2**31 - 1),
    st.integers(-(10**9), 10**9),
    st.integers(0, 2**42),
    st.integers(0, 2**31),
    st.integers(0, 2**63 - 1),
    st.lists(st.integers(0, 65_534), max_size=8),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_the_record_holds_64_bytes_and_everything(
    state: State,
    attempt: int,
    priority: int,
    submit_ms: int,
    age_ms: int,
    class_hash: int,
    pools: list[int],
    held: bool,
    requeue: bool,
    traced: bool,
    amended: bool,
) -> None:
    job = JobState(
        state,
        Attempt(attempt),
        priority,
        submit_ms,
        submit_ms + age_ms,
        class_hash,
        pools=tuple(pools),
        held=held,
        requeue_infrastructure=requeue,
        traced=traced,
        amended=amended,
    )
    data = encode_state(job)
    assert len(data) == STATE_BYTES
    assert decode_state(data) == job


@pytest.mark.parametrize("data", [b"", b"\x02" + bytes(63), bytes(64), b"\x01" * 63])
def test_a_record_of_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="job state record"):
        decode_state(data)
