"""The guarded move of a job: every writer (api, scheduler, link) changes a job's state through this module.

A move reads a job's state and the bindings of its newest attempt, asks `lifecycle.transition`, and yields the guards
and operations of one transaction: the state key is always compared and, whenever a binding changes, always written
(P11). So whoever holds the newest revision of the state key knows that no binding of the attempt moved behind it.

Planning is apart from committing, because a link packs the moves of many jobs into one transaction and bisects it
when a guard fails; `commit_move` is the simple case of one job.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

import msgspec

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.errors import NotFound, Unavailable
from hanse.model.ids import JobId, Part, PoolName
from hanse.model.lifecycle import (
    Bindings,
    Broken,
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
    encode_state,
    transition,
)
from hanse.model.report import GangReport, GangStatus
from hanse.store import keys
from hanse.store.contract import (
    READ_KEYS_MAX,
    Committed,
    Conflict,
    Delete,
    Guard,
    KeyValue,
    ModRevisionIs,
    Op,
    Put,
    ReadResult,
    Store,
    Txn,
    Unknown,
)
from hanse.store.schema import (
    PAST_ATTEMPTS_MAX,
    BindingValue,
    Desired,
    LevelUseValue,
    PastAttempt,
    PastPart,
    PastValue,
    Progress,
    SlotsValue,
    decode,
    decode_binding,
    decode_state,
    encode,
)
from hanse.store.usage import milli_gpus_of, price_of, spent_with

log = logging.getLogger(__name__)

MOVE_TRIES_MAX: Final = 16
"""Conflicts after which a single move gives up and tells its caller to try again."""

WriteId = Callable[[], int]
"""Gives a positive 63-bit number that no other write carries."""


@dataclass(frozen=True, slots=True)
class PartView:
    """One binding of the newest attempt."""

    key: keys.BindingKey
    value: BindingValue


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as of one revision: its state, the bindings of its newest attempt, its history."""

    job: JobId
    state: JobState
    state_revision: int
    parts: Mapping[Part, PartView]
    past: PastValue
    revision: int


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """Guards and operations of one job's move, what its state was, and what becomes of state, bindings, history."""

    job: JobId
    before: JobState
    state: JobState
    guards: tuple[Guard, ...]
    ops: tuple[Op, ...]
    parts: Mapping[Part, PartView]
    past: PastValue

    def view(self, revision: int) -> JobView:
        """The job as the move leaves it, if it took effect at that revision."""
        return JobView(self.job, self.state, revision, self.parts, self.past, revision)


Plan = PlannedMove | Ignored | Illegal


@dataclass(frozen=True, slots=True)
class Amendment:
    """What is remembered of a SetHold or SetPriority beside the state record, which has no room for it.

    Attributes:
        by: who asked for it.
        priority_class: name of the class that has the new priority; "" leaves the one that is remembered.
    """

    by: str = ""
    priority_class: str = ""


NO_AMENDMENT: Final = Amendment()


async def read_slots(store: Store) -> tuple[PoolName, ...]:
    """Pool names by slot number."""
    found = (await store.read([keys.SLOTS])).items.get(keys.SLOTS)
    return tuple(PoolName(p) for p in decode(found.value, SlotsValue).pools) if found else ()


async def read_jobs(store: Store, jobs: Sequence[JobId]) -> dict[JobId, JobView]:
    """The jobs that exist, each with the bindings of its newest attempt.

    State and bindings come from two reads. A binding that moves in between does so together with its state key, so
    a plan made from such a torn view fails its guard; it never passes.
    """
    views: dict[JobId, JobView] = {}
    jobs_per_read = READ_KEYS_MAX // 2
    for start in range(0, len(jobs), jobs_per_read):
        views.update(await _read_some(store, jobs[start : start + jobs_per_read]))
    return views


async def _read_some(store: Store, jobs: Sequence[JobId]) -> dict[JobId, JobView]:
    first = await store.read([keys.SLOTS, *(keys.state(j) for j in jobs)])
    slots = decode(first.items[keys.SLOTS].value, SlotsValue).pools if keys.SLOTS in first.items else []
    states = {j: first.items[keys.state(j)] for j in jobs if keys.state(j) in first.items}
    decoded = {j: decode_state(kv.value) for j, kv in states.items()}
    wanted: list[str] = []
    for job, state in decoded.items():
        wanted.extend(_binding_keys(job, state, slots))
        if has_past(state):
            wanted.append(keys.past(job))
    second = await store.read(wanted) if wanted else first
    return {j: _view(j, decoded[j], states[j], second, slots) for j in decoded}


def has_past(state: JobState) -> bool:
    """Whether there may be a history: an attempt or a part of one has ended, or something was amended."""
    return state.attempt > int(state.state.live) or len(state.pools) > 1 or state.amended


def _binding_keys(job: JobId, state: JobState, slots: Sequence[str]) -> list[str]:
    return [
        keys.binding(PoolName(slots[slot]), job, state.attempt, Part(part)) for part, slot in enumerate(state.pools)
    ]


def _view(job: JobId, state: JobState, kv: KeyValue, read: ReadResult, slots: Sequence[str]) -> JobView:
    parts: dict[Part, PartView] = {}
    for text in _binding_keys(job, state, slots):
        found = read.items.get(text)
        if found is not None:
            key = keys.parse_binding(text)
            parts[key.part] = PartView(key, decode_binding(found.value))
    past = read.items.get(keys.past(job))
    value = decode(past.value, PastValue) if past is not None else PastValue()
    return JobView(job, state, kv.mod_revision, parts, value, read.revision)


# ---- reports ------------------------------------------------------------------------------------------------


_PROGRESS: Final[Mapping[GangStatus, Progress]] = {
    GangStatus.HELD: Progress.HELD,
    GangStatus.STARTED: Progress.STARTED,
    GangStatus.RUNNING: Progress.RUNNING,
    GangStatus.BROKEN: Progress.BROKEN,
    GangStatus.FINISHED: Progress.FINISHED,
}


def event_of(view: JobView, report: GangReport) -> Event | None:
    """The event that a report is for this job, counting its other parts; None for a status that is not known."""
    mine = report.part
    others = [p.value for part, p in view.parts.items() if part != mine]
    unfinished = sum(p.progress != Progress.FINISHED for p in others)
    absent = len(view.state.pools) - 1 - len(others)
    attempt, part = report.attempt, report.part
    match report.status:
        case GangStatus.REFUSED:
            return Refused(attempt, part, unfinished, report.reason)
        case GangStatus.HELD:
            return Held(attempt, part, absent + sum(p.progress < Progress.HELD for p in others))
        case GangStatus.STARTED:
            return Started(attempt, part)
        case GangStatus.RUNNING:
            return Running(attempt, part, absent + sum(p.progress < Progress.RUNNING for p in others))
        case GangStatus.FINISHED if absent and view.state.state is State.STOPPING:
            # The job cannot succeed any more, a part was released without: this one is over like that one.
            return Released(attempt, part, unfinished)
        case GangStatus.FINISHED:
            return Finished(attempt, part, absent + unfinished)
        case GangStatus.BROKEN:
            return Broken(attempt, part, report.reason, report.infrastructure)
        case GangStatus.RELEASED:
            return Released(attempt, part, unfinished)
        case GangStatus.UNSPECIFIED:
            return None
        case _:
            assert_never(report.status)


def _reported(value: BindingValue, report: GangReport) -> BindingValue:
    """The binding with what the report says of it; progress never goes back."""
    progress = max(int(_PROGRESS.get(report.status, Progress.NONE)), value.progress)
    domains = [LevelUseValue(d.level, d.count, list(d.names)) for d in report.domains] or value.domains
    return msgspec.structs.replace(
        value,
        progress=progress,
        domains=domains,
        held_ms=report.held_ms or value.held_ms,
        started_ms=report.started_ms or value.started_ms,
        running_ms=report.running_ms or value.running_ms,
        message=report.message or value.message,
    )


# ---- planning -----------------------------------------------------------------------------------------------


def plan_move(
    view: JobView,
    event: Event,
    *,
    now_ms: int,
    write_id: int,
    report: GangReport | None = None,
    amendment: Amendment = NO_AMENDMENT,
) -> Plan:
    """What an event makes of a job, as one transaction's guards and operations. Never for Bind: see the committer.

    Attributes of `report`, if there is one, are kept in the binding of its part; those of `amendment` beside the
    job's history, if the event is SetHold or SetPriority.
    """
    moved = transition(view.state, event, now_ms=now_ms)
    if not isinstance(moved, Moved):
        return moved
    parts = dict(view.parts)
    if report is not None and report.part in parts:
        part = parts[report.part]
        parts[report.part] = PartView(part.key, _reported(part.value, report))
    state = replace(moved.state, write_id=write_id)
    state_key = keys.state(view.job)
    left = _left_of(view, parts, moved.bindings, report, write_id)
    past = _past_of(view, parts, moved, event, report, amendment, now_ms)
    ops: list[Op] = [Put(state_key, encode_state(state)), *_binding_ops(view.parts, left)]
    if past is not view.past:
        ops.append(Put(keys.past(view.job), encode(past)))
    guards = (ModRevisionIs(state_key, view.state_revision),)
    return PlannedMove(view.job, view.state, state, guards, tuple(ops), left, past)


def _left_of(
    view: JobView, parts: Mapping[Part, PartView], what: Bindings, report: GangReport | None, write_id: int
) -> dict[Part, PartView]:
    """The bindings that stay, as they are from now on."""
    mine = report.part if report is not None else None
    left: dict[Part, PartView] = {}
    for number in sorted(parts):
        part, before = parts[number], view.parts[number].value
        desired = part.value.desired
        match what:
            case Bindings.DROP_ALL:
                continue
            case Bindings.DROP | Bindings.DROP_AND_STOP if number == mine:
                continue
            case Bindings.START:
                desired = int(Desired.START)
            case Bindings.STOP | Bindings.DROP_AND_STOP:
                desired = int(Desired.STOP)
            case Bindings.KEEP | Bindings.DROP | Bindings.CREATE:
                pass
            case _:
                assert_never(what)
        if desired != before.desired or part.value != before:
            value = msgspec.structs.replace(part.value, desired=desired, write_id=write_id)
            part = PartView(part.key, value)
        left[number] = part
    return left


def _binding_ops(before: Mapping[Part, PartView], left: Mapping[Part, PartView]) -> list[Op]:
    """What makes the bindings that were there those that are left."""
    ops: list[Op] = []
    for number in sorted(before):
        part = left.get(number)
        if part is None:
            ops.append(Delete(before[number].key.text))
        elif part is not before[number]:
            ops.append(Put(part.key.text, encode(part.value)))
    return ops


def _past_of(
    view: JobView,
    parts: Mapping[Part, PartView],
    moved: Moved,
    event: Event,
    report: GangReport | None,
    amendment: Amendment,
    now_ms: int,
) -> PastValue:
    """The job's history from now on; the very same object if nothing is added."""
    state = moved.state
    if isinstance(event, SetHold | SetPriority):
        return _amended(view, state, amendment, now_ms)
    if view.state.state.live and (state.state is State.PENDING or state.state.terminal):
        return _with_attempt(view, parts, state, now_ms)
    if report is not None and moved.bindings in (Bindings.DROP, Bindings.DROP_AND_STOP) and report.part in parts:
        gone = {**view.past.gone, report.part: _past_part(parts[report.part], gone_ms=now_ms)}
        return msgspec.structs.replace(view.past, gone=gone)
    return view.past


def _with_attempt(view: JobView, parts: Mapping[Part, PartView], state: JobState, now_ms: int) -> PastValue:
    """The attempt that ends, appended to the job's history."""
    every = {**view.past.gone, **{int(number): _past_part(part) for number, part in parts.items()}}
    attempt = PastAttempt(
        attempt=view.state.attempt,
        bound_ms=min((p.value.bound_ms for p in parts.values()), default=0),
        ended_ms=now_ms,
        reason=int(state.reason),
        outcome=int(state.state),
        parts=[every[number] for number in sorted(every)],
    )
    attempts = [*view.past.attempts, attempt]
    extra = max(0, len(attempts) - PAST_ATTEMPTS_MAX)
    return msgspec.structs.replace(
        view.past,
        attempts=attempts[extra:],
        dropped=view.past.dropped + extra,
        gone={},
        spent=spent_with(view.past.spent, attempts[:extra]) if extra else view.past.spent,
    )


def _amended(view: JobView, state: JobState, amendment: Amendment, now_ms: int) -> PastValue:
    return msgspec.structs.replace(
        view.past,
        priority_class=amendment.priority_class or view.past.priority_class,
        held_by=(view.past.held_by if view.state.held else amendment.by) if state.held else "",
        held_ms=(view.past.held_ms if view.state.held else now_ms) if state.held else 0,
    )


def _past_part(part: PartView, *, gone_ms: int = 0) -> PastPart:
    value = part.value
    return PastPart(
        pool=part.key.pool,
        flavors=list(value.flavors),
        pods=value.pods,
        domains=value.domains,
        held_ms=value.held_ms,
        started_ms=value.started_ms,
        running_ms=value.running_ms,
        message=value.message,
        milli_gpus=milli_gpus_of(value),
        price=price_of(value),
        gone_ms=gone_ms,
    )


def ended_attempt(move: PlannedMove) -> PastAttempt | None:
    """The attempt that a move ends, as its history tells of it."""
    ends = move.before.state.live and not move.state.state.live
    return move.past.attempts[-1] if ends and move.past.attempts else None


def count_move(before: JobState, after: JobState) -> None:
    """A move is in effect: count the state that was entered, and the time in the one that was left."""
    if after.state is not before.state:
        metrics.JOB_MOVES.add(1, after.state.name)
        metrics.JOB_STATE_DURATION.record((after.changed_ms - before.changed_ms) / 1e3, before.state.name)


def drop_orphan(key: keys.BindingKey, mod_revision: int) -> tuple[tuple[Guard, ...], tuple[Op, ...]]:
    """Delete a binding that belongs to no live attempt, once its agent has released it (P12)."""
    return (ModRevisionIs(key.text, mod_revision),), (Delete(key.text),)


# ---- the simple case ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MoveDone:
    """The move is in effect; `revision` is the transaction's."""

    state: JobState
    revision: int


MoveResult = MoveDone | Ignored | Illegal


async def commit_move(
    store: Store,
    job: JobId,
    event: Event,
    *,
    clock: Clock,
    write_id: WriteId,
    guards: tuple[Guard, ...] = (),
    ops: tuple[Op, ...] = (),
) -> MoveResult:
    """Move one job, trying again on conflicts; the caller's `guards` and `ops` join the same transaction.

    An unknown outcome is settled by reading: the state key carries our write id, or it still is what we compared
    (then the next try, which rewrites that key, kills the lost one), or somebody else moved it (then ours cannot
    pass any more).

    Raises:
        NotFound: there is no such job.
        Unavailable: MOVE_TRIES_MAX conflicts or unknown outcomes in a row.
    """
    tried: set[int] = set()
    for _ in range(MOVE_TRIES_MAX):
        view = (await read_jobs(store, [job])).get(job)
        if view is None:
            raise NotFound(f"there is no job {job}", reason="JOB_NOT_FOUND")
        if view.state.write_id in tried:
            return MoveDone(view.state, view.state_revision)
        number = write_id()
        plan = plan_move(view, event, now_ms=clock.now_ms(), write_id=number)
        if not isinstance(plan, PlannedMove):
            return plan
        tried.add(number)
        match await store.transact(Txn((*plan.guards, *guards), (*plan.ops, *ops))):
            case Committed(revision):
                count_move(plan.before, plan.state)
                return MoveDone(plan.state, revision)
            case Conflict() | Unknown() as other:
                said = {"job": job, "event": type(event).__name__, "outcome": type(other).__name__}
                log.info("move_tried_again", extra=said)
    raise Unavailable(f"job {job} changes faster than this call can follow; try again", reason="CONFLICT")


__all__ = [
    "MOVE_TRIES_MAX",
    "NO_AMENDMENT",
    "Amendment",
    "JobView",
    "MoveDone",
    "MoveResult",
    "PartView",
    "Plan",
    "PlannedMove",
    "WriteId",
    "commit_move",
    "count_move",
    "drop_orphan",
    "ended_attempt",
    "event_of",
    "has_past",
    "plan_move",
    "read_jobs",
    "read_slots",
]
