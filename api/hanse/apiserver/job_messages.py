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
    message = job_pb2.Job(
        id=row.found.job,
        name=row.head.name,
        queue=row.head.queue,
        status=_status(row, attempts=attempts),
        revision=row.found.revision,
        retry_of=row.head.retry_of,
    )
    if full and row.spec is not None:
        message.spec.CopyFrom(row.spec)
    return message


def _status(row: JobRow, *, attempts: bool) -> job_pb2.JobStatus:
    state = row.found.state
    last = _last_attempt(row, state) if attempts else None
    times = _times(row.parts, last)
    return job_pb2.JobStatus(
        state=job_pb2.JobState.ValueType(state.state),
        attempt=state.attempt,
        reason=reason_word(state.reason),
        message=hold_words(row) if state.held else state.reason.prose if state.reason else "",
        conditions=_conditions(state, times),
        placement=[_placement(p) for p in row.parts] or ([_past_placement(p) for p in last.parts] if last else []),
        attempts=[_attempt(a) for a in row.past.attempts] if attempts and row.past else [],
        target=job_pb2.JobState.ValueType(state.target),
        failures=state.failures,
        held=state.held,
        priority=state.priority,
        submitted_ms=state.submit_ms,
        changed_ms=state.changed_ms,
        ended_ms=state.changed_ms if state.state.terminal else 0,
        attempts_dropped=row.past.dropped if attempts and row.past else 0,
        priority_class=(row.past.priority_class if row.past else "") or row.head.priority_class,
        held_by=row.past.held_by if state.held and row.past else "",
        held_ms=row.past.held_ms if state.held and row.past else 0,
        bound_ms=times.bound_ms,
        placed_ms=times.placed_ms,
        started_ms=times.started_ms,
        running_ms=times.running_ms,
    )


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


def _times(parts: Sequence[PartRow], last: PastAttempt | None) -> _Times:
    bindings = [p.binding for p in parts if p.binding is not None]
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


def _conditions(state: JobState, times: _Times) -> list[job_pb2.Condition]:
    """Bound, Placed, Running, Ended; the last one that changed carries the reason."""
    now = state.state
    reached = {
        BOUND: now in {State.BOUND, State.PLACED, State.STARTING, State.RUNNING, State.STOPPING},
        PLACED: now in {State.PLACED, State.STARTING, State.RUNNING},
        RUNNING: now is State.RUNNING,
        ENDED: now.terminal,
    }
    since = {BOUND: times.bound_ms, PLACED: times.placed_ms, RUNNING: times.running_ms}
    blamed = ENDED if now.terminal else BOUND if now is State.PENDING else RUNNING if now is State.STOPPING else ""
    return [
        job_pb2.Condition(
            type=name,
            status=job_pb2.CONDITION_STATUS_TRUE if holds else job_pb2.CONDITION_STATUS_FALSE,
            reason=reason_word(state.reason) if name == blamed else "",
            message=state.reason.prose if name == blamed and state.reason else "",
            last_transition_ms=_since(state, since.get(name, 0) if holds else 0),
        )
        for name, holds in reached.items()
    ]


def _since(state: JobState, reached_ms: int) -> int:
    """Since when a condition is as it is: when it was reached, else since the last change of state."""
    if reached_ms:
        return reached_ms
    never_tried = state.state is State.PENDING and state.attempt == 0
    return state.submit_ms if never_tried else state.changed_ms


# ---- placement and history ----------------------------------------------------------------------------------


def _placement(part: PartRow) -> job_pb2.Placement:
    message = job_pb2.Placement(pool=part.pool)
    if part.binding is not None:
        message.flavor = _flavors(part.binding.flavors)
        message.pods = part.binding.pods
        message.domains.extend(_level_use(d) for d in part.binding.domains)
        message.message = part.binding.message
    return message


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
