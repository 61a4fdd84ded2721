"""The main steps of a job as its own record tells them, for what no replica remembers any more. Pure.

The record keeps when each attempt was bound, placed, started, running and over, and why; not when the job was put on
hold or given another priority. What a replica remembers is better (it has a revision) and wins: of an attempt that
was seen from its beginning the record adds nothing, so that who looks back reads what who follows has read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hanse.apiserver.rows import JobRow
from hanse.model.ids import Attempt, JobId, PoolName
from hanse.model.lifecycle import State
from hanse.model.occurrence import Occurrence, OccurrenceKind
from hanse.model.reasons import Reason

_IN_WORDS: Final = (
    (OccurrenceKind.PLACED, "every place is held in"),
    (OccurrenceKind.STARTING, "its pods are being started in"),
    (OccurrenceKind.RUNNING, "all its pods run in"),
)


@dataclass(frozen=True, slots=True)
class _Tried:
    """An attempt: where it was, and when its parts were held, started and running; 0 for what has not happened."""

    number: Attempt
    bound_ms: int
    pools: tuple[str, ...]
    parts: Sequence[tuple[int, int, int]]


def completed(row: JobRow, remembered: Sequence[Occurrence], since_ms: int) -> list[Occurrence]:
    """What is remembered of a job, and the steps of its record that are missing there, in order."""
    steps = list(from_record(row))
    known = {(event.kind, event.attempt) for event in remembered}
    whole = {event.attempt for event in remembered if event.kind is OccurrenceKind.BOUND}
    missing = [s for s in steps if (s.kind, s.attempt) not in known and (s.attempt not in whole or _is_end(s))]
    missing = [s for s in missing if s.at_ms >= since_ms]
    return _merged(missing, [_pointed(row, event, steps[0]) for event in remembered])


def _pointed(row: JobRow, event: Occurrence, submitted: Occurrence) -> Occurrence:
    """A submission with the job that it tries again, which only the spec's envelope knows."""
    again = event.kind is OccurrenceKind.SUBMITTED and row.head.retry_of
    return replace(event, message=submitted.message) if again else event


def _is_end(event: Occurrence) -> bool:
    return event.kind is OccurrenceKind.ENDED


def _merged(missing: list[Occurrence], told: list[Occurrence]) -> list[Occurrence]:
    """Both by time; what is remembered keeps its order."""
    found: list[Occurrence] = []
    for event in told:
        while missing and missing[0].at_ms <= event.at_ms:
            found.append(missing.pop(0))
        found.append(event)
    return [*found, *missing]


def from_record(row: JobRow) -> Iterator[Occurrence]:
    """The steps that the record of a job keeps, in order; the first is its submission."""
    state, job = row.found.state, row.found.job
    again = f" as a retry of {row.head.retry_of}" if row.head.retry_of else ""
    yield Occurrence(state.submit_ms, OccurrenceKind.SUBMITTED, job, message=f"submitted{again}")
    for past in row.past.attempts if row.past is not None else ():
        parts = [(p.held_ms, p.started_ms, p.running_ms) for p in past.parts]
        tried = _Tried(Attempt(past.attempt), past.bound_ms, tuple(p.pool for p in past.parts), parts)
        yield from _steps(job, tried)
        yield _over(job, tried, State(past.outcome), Reason(past.reason), past.ended_ms)
    bindings = [part for part in row.parts if part.binding is not None]
    if bindings:
        values = [part.binding for part in bindings if part.binding is not None]
        times = [(b.held_ms, b.started_ms, b.running_ms) for b in values]
        pools = tuple(part.pool for part in bindings)
        yield from _steps(job, _Tried(state.attempt, min(b.bound_ms for b in values), pools, times))
    if state.state.terminal and not _ended_in_past(row):
        yield _ended(job, state.attempt, "", state.state, state.reason, state.changed_ms)
    if state.held and row.past is not None:
        yield Occurrence(row.past.held_ms, OccurrenceKind.HELD, job, reason=Reason.JOB_HELD, message="put on hold")


def _ended_in_past(row: JobRow) -> bool:
    """Whether the job's last attempt, which has ended, ended the job."""
    attempts = row.past.attempts if row.past is not None else []
    return bool(attempts) and State(attempts[-1].outcome).terminal


def _steps(job: JobId, tried: _Tried) -> Iterator[Occurrence]:
    where, pool = " and ".join(tried.pools), PoolName(",".join(tried.pools))
    bound = f"bound to {where} as attempt {tried.number}"
    yield Occurrence(tried.bound_ms, OccurrenceKind.BOUND, job, pool, tried.number, message=bound)
    for index, (kind, words) in enumerate(_IN_WORDS):
        times = [part[index] for part in tried.parts]
        if times and all(times):
            at_ms = min(times) if kind is OccurrenceKind.STARTING else max(times)
            yield Occurrence(at_ms, kind, job, pool, tried.number, message=f"{words} {where}")


def _over(job: JobId, tried: _Tried, outcome: State, reason: Reason, at_ms: int) -> Occurrence:
    pool, why = PoolName(",".join(tried.pools)), f": {reason.prose}" if reason else ""
    if outcome.terminal:
        return _ended(job, tried.number, pool, outcome, reason, at_ms)
    if any(held for held, _, _ in tried.parts):
        told = f"waits again after attempt {tried.number}{why}"
        return Occurrence(at_ms, OccurrenceKind.REQUEUED, job, pool, tried.number, reason, told)
    told = f"{' and '.join(tried.pools) or 'its pool'} refused attempt {tried.number}{why}"
    return Occurrence(at_ms, OccurrenceKind.REFUSED, job, pool, tried.number, reason, told)


def _ended(job: JobId, attempt: Attempt, pool: str, state: State, reason: Reason, at_ms: int) -> Occurrence:
    why = f": {reason.prose}" if reason else ""
    return Occurrence(at_ms, OccurrenceKind.ENDED, job, PoolName(pool), attempt, reason, f"{state.name}{why}")
