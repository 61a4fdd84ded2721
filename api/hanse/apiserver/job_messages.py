"""A job as users see it, made of what the store holds. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hanse.api.v1 import explanation_pb2, job_pb2
from hanse.apiserver.choices import choice_prose, choices_of, terms_by_pool
from hanse.apiserver.holds import hold_words
from hanse.apiserver.ports import Explanation, NodesAnswer, PoolVerdict
from hanse.apiserver.rows import JobRow, PartRow
from hanse.model.lifecycle import JobState, State
from hanse.model.reasons import Reason
from hanse.store.schema import ChoiceValue, LevelUseValue, PastAttempt, PastPart

BOUND: Final = "Bound"
PLACED: Final = "Placed"
RUNNING: Final = "Running"
ENDED: Final = "Ended"


def job_message(row: JobRow, *, full: bool, attempts: bool = False) -> job_pb2.Job:
    """The resource.

    Args:
        full: with the spec.
        attempts: with the history of attempts; an ended job's placement is then that of its last attempt.
    """
    message = job_pb2.Job()
    fill_job(message, row, full=full, attempts=attempts)
    return message


def fill_job(message: job_pb2.Job, row: JobRow, *, full: bool, attempts: bool = False) -> None:
    """`job_message` into a message that is there, and empty: putting one message into another copies it."""
    message.id = row.found.job
    message.name = row.head.name
    message.queue = row.head.queue
    message.revision = row.found.revision
    if row.head.retry_of:
        message.retry_of = row.head.retry_of
    last = _last_attempt(row, row.found.state) if attempts else None
    _fill_status(message.status, row, last)
    if attempts and row.past:
        message.status.attempts.extend(_attempt(a) for a in row.past.attempts)
        message.status.attempts_dropped = row.past.dropped
    if full and row.spec is not None:
        message.spec.CopyFrom(row.spec)


def _fill_status(status: job_pb2.JobStatus, row: JobRow, last: PastAttempt | None) -> None:
    """`last`: the attempt whose placement is shown when there is no other."""
    state = row.found.state
    status.state = job_pb2.JobState.ValueType(state.state)
    status.attempt = state.attempt
    status.priority = state.priority
    status.submitted_ms = state.submit_ms
    status.changed_ms = state.changed_ms
    if state.state.terminal:
        status.ended_ms = state.changed_ms
    if state.reason:
        status.reason = state.reason.name
        status.message = state.reason.prose
    if state.failures:
        status.failures = state.failures
    if state.target:
        status.target = job_pb2.JobState.ValueType(state.target)
    priority_class = (row.past.priority_class if row.past else "") or row.head.priority_class
    if priority_class:
        status.priority_class = priority_class
    if state.held:
        _fill_hold(status, row)
    _fill_times(status, _times(row.parts, last))
    _fill_conditions(status, state)
    for part in row.parts:
        _fill_placement(status.placement.add(), part)
    if last is not None and not row.parts:
        status.placement.extend(_past_placement(part) for part in last.parts)


def _fill_hold(status: job_pb2.JobStatus, row: JobRow) -> None:
    status.held = True
    status.message = hold_words(row)
    if row.past:
        status.held_by = row.past.held_by
        status.held_ms = row.past.held_ms


def reason_word(reason: Reason) -> str:
    """The wire form of a reason: its name, "" for none."""
    return reason.name if reason else ""


def _last_attempt(row: JobRow, state: JobState) -> PastAttempt | None:
    """The record of the newest attempt, if that attempt has ended."""
    ended = row.past.attempts[-1] if row.past and row.past.attempts else None
    return ended if ended is not None and ended.attempt == state.attempt else None


@dataclass(frozen=True, slots=True)
class _Times:
    """When the newest attempt got how far; 0 if it has not. A gang is placed, and runs, when its last part does."""

    bound_ms: int = 0
    placed_ms: int = 0
    started_ms: int = 0
    running_ms: int = 0


def _fill_times(status: job_pb2.JobStatus, times: _Times) -> None:
    if not times.bound_ms:
        return
    status.bound_ms = times.bound_ms
    if times.placed_ms:
        status.placed_ms = times.placed_ms
    if times.started_ms:
        status.started_ms = times.started_ms
    if times.running_ms:
        status.running_ms = times.running_ms


def _times(parts: Sequence[PartRow], last: PastAttempt | None) -> _Times:
    bindings = [p.binding for p in parts if p.binding is not None]
    if len(bindings) == 1:
        binding = bindings[0]
        return _Times(binding.bound_ms, binding.held_ms, binding.started_ms, binding.running_ms)
    if bindings:
        bound_ms = min(b.bound_ms for b in bindings)
        return _spans(bound_ms, [(b.held_ms, b.started_ms, b.running_ms) for b in bindings])
    if last is not None:
        return _spans(last.bound_ms, [(p.held_ms, p.started_ms, p.running_ms) for p in last.parts])
    return _Times()


def _spans(bound_ms: int, parts: Sequence[tuple[int, int, int]]) -> _Times:
    return _Times(
        bound_ms,
        placed_ms=_all_by([held for held, _, _ in parts]),
        started_ms=min((started for _, started, _ in parts if started), default=0),
        running_ms=_all_by([running for _, _, running in parts]),
    )


def _all_by(times: Sequence[int]) -> int:
    """When the last of them happened; 0 if one has not."""
    return max(times) if times and all(times) else 0


# ---- conditions ---------------------------------------------------------------------------------------------


_BOUND_IN: Final = frozenset({State.BOUND, State.PLACED, State.STARTING, State.RUNNING, State.STOPPING})
_PLACED_IN: Final = frozenset({State.PLACED, State.STARTING, State.RUNNING})


def _fill_conditions(status: job_pb2.JobStatus, state: JobState) -> None:
    """Bound, Placed, Running, Ended; the last one that changed carries the reason."""
    now = state.state
    blamed = ENDED if now.terminal else BOUND if now is State.PENDING else RUNNING if now is State.STOPPING else ""
    for name, holds, reached_ms in (
        (BOUND, now in _BOUND_IN, status.bound_ms),
        (PLACED, now in _PLACED_IN, status.placed_ms),
        (RUNNING, now is State.RUNNING, status.running_ms),
        (ENDED, now.terminal, 0),
    ):
        condition = status.conditions.add(
            type=name,
            status=job_pb2.CONDITION_STATUS_TRUE if holds else job_pb2.CONDITION_STATUS_FALSE,
            last_transition_ms=_since(state, reached_ms if holds else 0),
        )
        if name == blamed and state.reason:
            condition.reason = state.reason.name
            condition.message = state.reason.prose


def _since(state: JobState, reached_ms: int) -> int:
    """Since when a condition is as it is: when it was reached, else since the last change of state."""
    if reached_ms:
        return reached_ms
    never_tried = state.state is State.PENDING and state.attempt == 0
    return state.submit_ms if never_tried else state.changed_ms


# ---- placement and history ----------------------------------------------------------------------------------


def _fill_placement(message: job_pb2.Placement, part: PartRow) -> None:
    message.pool = part.pool
    binding = part.binding
    if binding is None:
        return
    message.flavor = _flavors(binding.flavors)
    message.pods = binding.pods
    for use in binding.domains:
        message.domains.add(level=use.level, count=use.count, names=use.names)
    if binding.message:
        message.message = binding.message


def _past_placement(part: PastPart) -> job_pb2.Placement:
    return job_pb2.Placement(
        pool=part.pool,
        flavor=_flavors(part.flavors),
        pods=part.pods,
        domains=[_level_use(d) for d in part.domains],
        message=part.message,
    )


def _flavors(flavors: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(flavors))


def _level_use(use: LevelUseValue) -> job_pb2.LevelUse:
    return job_pb2.LevelUse(level=use.level, count=use.count, names=use.names)


def _attempt(attempt: PastAttempt) -> job_pb2.AttemptRecord:
    return job_pb2.AttemptRecord(
        attempt=attempt.attempt,
        outcome=job_pb2.JobState.ValueType(attempt.outcome),
        reason=reason_word(Reason(attempt.reason)),
        bound_ms=attempt.bound_ms,
        ended_ms=attempt.ended_ms,
        placement=[_past_placement(p) for p in attempt.parts],
    )


def add_nodes(message: job_pb2.Job, answer: NodesAnswer) -> None:
    """Put the nodes that agents named into a job's status."""
    message.status.nodes.extend(
        job_pb2.NodePlacement(name=place.name, pod_set=place.pod_set, ranks=place.ranks, path=place.path, pool=pool)
        for pool, place in answer.places
    )
    message.status.pools_silent.extend(answer.silent)


# ---- explanations -------------------------------------------------------------------------------------------


def explanation_message(row: JobRow, explanation: Explanation) -> explanation_pb2.Explanation:
    """The answer of ExplainJob."""
    choices = choices_of(row)
    terms = terms_by_pool(choices)
    return explanation_pb2.Explanation(
        id=row.found.job,
        name=row.head.name,
        queue=row.head.queue,
        state=job_pb2.JobState.ValueType(row.found.state.state),
        reason=reason_word(explanation.reason),
        answer=explanation.answer,
        since_ms=explanation.since_ms,
        position=explanation.position,
        pools=[
            _pool(verdict, terms.get(verdict.pool, ()), choices.get(verdict.pool)) for verdict in explanation.pools
        ],
        helps=[explanation_pb2.Help(change=h.change, effect=h.effect) for h in explanation.helps],
    )


def _pool(
    verdict: PoolVerdict, terms: Iterable[explanation_pb2.Term], choice: ChoiceValue | None
) -> explanation_pb2.PoolExplanation:
    return explanation_pb2.PoolExplanation(
        pool=verdict.pool,
        fits=verdict.fits,
        reason=reason_word(verdict.reason),
        constraint=verdict.constraint,
        wanted=verdict.wanted,
        found=verdict.found,
        unit=verdict.unit,
        detail=choice_prose(choice) if verdict.chosen and choice is not None else verdict.detail,
        flavor=verdict.flavor,
        summary_age_ms=-1 if verdict.summary_age_ms is None else verdict.summary_age_ms,
        chosen=verdict.chosen,
        nodes=verdict.nodes,
        terms=terms,
    )
