"""The one state machine of a job, as a pure function, and the 64-byte record that it moves.

    PENDING --Bind--> BOUND --Held--> PLACED --Started--> STARTING --Running--> RUNNING --Finished--> SUCCEEDED
       ^                |Refused         |                    |                    |
       +----------------+                +---- Stop, Broken --+--------------------+--> STOPPING --Released-->
                                                                                        PENDING|CANCELLED|FAILED

Every writer (api, scheduler, link) asks `transition` and writes its answer in one transaction that is guarded by
the state key's modification revision. The answer says what becomes of the attempt's bindings in that same
transaction, so a state and its bindings can never disagree.

Rules (ids of the protocol's small print):

* P5: every Bind takes a new attempt number, also after a refusal; an event of another attempt is ignored.
* P11: whatever happens to one part of a gang writes the job's state key, also if the state stays what it is, so two
  links that act on two parts at once cannot both believe that the other part is still there.
* P12: a binding outlives the terminal state of its job until its agent reports the release.
* P13: a job that is STOPPING towards PENDING and turns out to have succeeded is SUCCEEDED.
* S8: nothing leaves a terminal state.
* Only a job that waits can be put on hold or get another priority: what its places were won by is not taken back.
  So a hold never outlives PENDING, and a job that comes back from an attempt comes back without one.

Levels, not edges: reports are coalesced, so `Running` may find a job that is still BOUND; the states between are
passed, not required. STOPPING is the exception: only `Released` leaves it.

Rejected: a table of (state, event) pairs with callbacks. The decisions depend on attempt, parts and target, and a
`match` in which mypy checks exhaustiveness reads like the rules above.
"""

import struct
from dataclasses import dataclass, replace
from enum import IntEnum, unique
from typing import Final

from hanse.model.ids import Attempt, Part
from hanse.model.job import POOLS_PER_JOB_MAX
from hanse.model.reasons import Reason


@unique
class State(IntEnum):
    """Where a job is in its life. The numbers are stored; never renumber."""

    UNSPECIFIED = 0
    PENDING = 1
    BOUND = 2
    PLACED = 3
    STARTING = 4
    RUNNING = 5
    STOPPING = 6
    SUCCEEDED = 7
    FAILED = 8
    CANCELLED = 9
    LOST = 10

    @property
    def terminal(self) -> bool:
        """Whether the state is final."""
        return self in TERMINAL

    @property
    def live(self) -> bool:
        """Whether an attempt may hold capacity."""
        return self in LIVE


TERMINAL: Final = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.LOST})
LIVE: Final = frozenset({State.BOUND, State.PLACED, State.STARTING, State.RUNNING, State.STOPPING})


@dataclass(frozen=True, slots=True)
class JobState:
    """The mutable half of a job: 64 bytes in the store, so that a million of them load as columns.

    Attributes:
        target: where STOPPING leads; UNSPECIFIED elsewhere.
        attempt: number of the newest attempt; 0 before the first.
        failures: attempts that failed by the owner's fault.
        max_retries, requeue_infrastructure: the restart policy, copied here so that transitions need no spec.
        class_hash: hash of the request class (`model.request.class_hash`).
        pools: slots of the pools that hold the newest attempt's bindings, in order of part.
        write_id: identity of the transaction that wrote this value (P3); 0 only in values never stored.
        held: the owner or an operator asked that it stays pending; only then is it true.
        traced: its traceparent, which is stored with its spec, is sampled.
        amended: something was changed since it was submitted, and stands beside its history.
    """

    state: State
    attempt: Attempt
    priority: int
    submit_ms: int
    changed_ms: int
    class_hash: int
    reason: Reason = Reason.WAITING
    target: State = State.UNSPECIFIED
    failures: int = 0
    max_retries: int = 0
    requeue_infrastructure: bool = True
    held: bool = False
    pools: tuple[int, ...] = ()
    write_id: int = 0
    traced: bool = False
    amended: bool = False


_FORMAT_VERSION: Final = 1
_POOL_NONE: Final = 0xFFFF
_PACKING: Final = struct.Struct("<BBBBHHHHIiIQQQ" + "H" * POOLS_PER_JOB_MAX)
STATE_BYTES: Final = 64
_FLAG_REQUEUE: Final = 1
_FLAG_HELD: Final = 2
_FLAG_TRACED: Final = 4
_FLAG_AMENDED: Final = 8
RETRIES_MAX: Final = 0xFFFF


def encode_state(state: JobState) -> bytes:
    """The 64-byte record, little-endian: version, state, target, flags, reason, failures, max_retries, spare,
    attempt, priority, changed (seconds after submit), submit_ms, class_hash, write_id, eight pool slots."""
    flags = (
        (_FLAG_REQUEUE if state.requeue_infrastructure else 0)
        | (_FLAG_HELD if state.held else 0)
        | (_FLAG_TRACED if state.traced else 0)
        | (_FLAG_AMENDED if state.amended else 0)
    )
    slots = state.pools + (_POOL_NONE,) * (POOLS_PER_JOB_MAX - len(state.pools))
    changed_s = max(0, min(0xFFFFFFFF, (state.changed_ms - state.submit_ms) // 1000))
    changed_rest_ms = max(0, (state.changed_ms - state.submit_ms) % 1000)
    return _PACKING.pack(
        _FORMAT_VERSION, state.state, state.target, flags,
        state.reason, min(state.failures, RETRIES_MAX), state.max_retries, changed_rest_ms,
        state.attempt, state.priority, changed_s, state.submit_ms, state.class_hash, state.write_id,
        *slots,
    )  # fmt: skip


def decode_state(data: bytes) -> JobState:
    """The inverse of `encode_state`.

    Raises:
        ValueError: not a record of a version that is known.
    """
    if len(data) != STATE_BYTES or data[0] != _FORMAT_VERSION:
        raise ValueError(f"a job state record has {STATE_BYTES} bytes and version {_FORMAT_VERSION}")
    (_, state, target, flags, reason, failures, max_retries, rest_ms,
     attempt, priority, changed_s, submit_ms, class_hash, write_id, *slots) = _PACKING.unpack(data)  # fmt: skip
    return JobState(
        state=State(state),
        attempt=Attempt(attempt),
        priority=priority,
        submit_ms=submit_ms,
        changed_ms=submit_ms + changed_s * 1000 + rest_ms,
        class_hash=class_hash,
        reason=Reason(reason),
        target=State(target),
        failures=failures,
        max_retries=max_retries,
        requeue_infrastructure=bool(flags & _FLAG_REQUEUE),
        held=bool(flags & _FLAG_HELD),
        pools=tuple(s for s in slots if s != _POOL_NONE),
        write_id=write_id,
        traced=bool(flags & _FLAG_TRACED),
        amended=bool(flags & _FLAG_AMENDED),
    )


# ---- events -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bind:
    """A scheduler gives the job places: one pool slot for each part, in order."""

    pools: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """An agent could not place a part: nothing is held there, and this attempt ends. `others`: see Released."""

    attempt: Attempt
    part: Part
    others: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Held:
    """An agent holds a part. `waiting` other parts are not held yet."""

    attempt: Attempt
    part: Part
    waiting: int


@dataclass(frozen=True, slots=True)
class Started:
    """An agent began to run a part's pods."""

    attempt: Attempt
    part: Part


@dataclass(frozen=True, slots=True)
class Running:
    """All pods of a part run. `waiting` other parts do not yet."""

    attempt: Attempt
    part: Part
    waiting: int


@dataclass(frozen=True, slots=True)
class Finished:
    """All pods of a part succeeded and occupy nothing. `waiting` other parts have not finished."""

    attempt: Attempt
    part: Part
    waiting: int


@dataclass(frozen=True, slots=True)
class Broken:
    """A part cannot go on: a pod failed, or a node or pods were lost (`infrastructure`)."""

    attempt: Attempt
    part: Part
    reason: Reason
    infrastructure: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """Somebody orders the job to end as `target` (CANCELLED, FAILED), or to go back to PENDING.

    `attempt`: only this attempt is to end; a job that is past it is left alone. None: whatever it does.
    """

    target: State
    reason: Reason
    attempt: Attempt | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """Every pod of a part is gone, without all of them having succeeded (that is Finished).

    `others`: parts of the attempt that have a binding and have not finished, this one not counted.
    """

    attempt: Attempt
    part: Part
    others: int


@dataclass(frozen=True, slots=True)
class DeclaredLost:
    """An operator gives up the pool: the job is LOST, its bindings stay until released (P12)."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class SetHold:
    """Somebody puts a waiting job on hold, or lets it wait for places again."""

    held: bool


@dataclass(frozen=True, slots=True)
class SetPriority:
    """Somebody gives a waiting job another priority."""

    priority: int


Event = (
    Bind
    | Refused
    | Held
    | Started
    | Running
    | Finished
    | Broken
    | Stop
    | Released
    | DeclaredLost
    | SetHold
    | SetPriority
)


@unique
class Bindings(IntEnum):
    """What becomes of the attempt's bindings in the same transaction."""

    KEEP = 0
    CREATE = 1  # one for each part of the new attempt
    START = 2  # every binding: desired becomes start
    STOP = 3  # every binding: desired becomes stop
    DROP = 4  # the binding of the event's part
    DROP_AND_STOP = 5  # the event's part is dropped, every other is told to stop
    DROP_ALL = 6  # every binding of the attempt


@dataclass(frozen=True, slots=True)
class Moved:
    """Write `state` (even if it equals the old one but for write_id) and do `bindings`."""

    state: JobState
    bindings: Bindings = Bindings.KEEP


@dataclass(frozen=True, slots=True)
class Ignored:
    """The event changes nothing and needs no write: it is late, or its content is already true.

    `drop`: the binding that the event speaks of belongs to no live attempt and is to be deleted all the same.
    """

    why: str
    drop: bool = False


@dataclass(frozen=True, slots=True)
class Illegal:
    """The caller asked for something that this state does not allow."""

    why: str


Transition = Moved | Ignored | Illegal


def transition(job: JobState, event: Event, *, now_ms: int) -> Transition:
    """Decide what an event makes of a job. Pure; `now_ms` only stamps `changed_ms`.

    Events of agents never are `Illegal`: a late or repeated report is `Ignored`.
    """
    match event:
        case Bind():
            return _bind(job, event, now_ms)
        case Stop():
            return _stop(job, event, now_ms)
        case DeclaredLost():
            return _declared_lost(job, event, now_ms)
        case SetHold():
            return _set_hold(job, event)
        case SetPriority():
            return _set_priority(job, event)
        case Refused() | Held() | Started() | Running() | Finished() | Broken() | Released():
            ends_part = isinstance(event, Refused | Finished | Released)
            if event.attempt != job.attempt:
                return Ignored("of another attempt", drop=ends_part)
            if job.state.terminal:
                return Ignored("the job has ended", drop=ends_part)
            if job.state is State.PENDING:
                return Ignored("the attempt is over", drop=ends_part)
            return _reported(job, event, now_ms)


def _moved(job: JobState, state: State, reason: Reason, now_ms: int, bindings: Bindings = Bindings.KEEP) -> Moved:
    changed_ms = now_ms if state is not job.state else job.changed_ms
    pools = () if bindings is Bindings.DROP_ALL or state is State.PENDING else job.pools
    moved = replace(job, state=state, reason=reason, target=State.UNSPECIFIED, changed_ms=changed_ms, pools=pools)
    return Moved(replace(moved, held=False) if moved.held else moved, bindings)


def _bind(job: JobState, event: Bind, now_ms: int) -> Transition:
    if job.state is not State.PENDING:
        return Illegal(f"only a pending job can be bound, this one is {job.state.name}")
    if job.held:
        return Illegal("the job is on hold")
    if not 1 <= len(event.pools) <= POOLS_PER_JOB_MAX:
        return Illegal(f"an attempt has 1 to {POOLS_PER_JOB_MAX} parts")
    bound = replace(
        job,
        state=State.BOUND,
        reason=Reason.UNSPECIFIED,
        attempt=Attempt(job.attempt + 1),
        changed_ms=now_ms,
        pools=event.pools,
    )
    return Moved(bound, Bindings.CREATE)


def _set_hold(job: JobState, event: SetHold) -> Transition:
    if job.state is State.PENDING:
        if job.held == event.held:
            return Ignored(f"it is {'already' if job.held else 'not'} on hold")
        reason = Reason.JOB_HELD if event.held else Reason.WAITING
        return Moved(replace(job, held=event.held, reason=reason, amended=True))
    if job.state.terminal:
        return Illegal(f"the job has already ended as {job.state.name}")
    if not event.held:
        return Ignored("it is not on hold")
    return Illegal(f"only a job that waits can be put on hold, this one is {_place(job)}")


def _set_priority(job: JobState, event: SetPriority) -> Transition:
    if job.state is State.PENDING:
        return Moved(replace(job, priority=event.priority, amended=True))
    if job.state.terminal:
        return Illegal(f"the job has already ended as {job.state.name}")
    return Illegal(f"only a job that waits can get another priority, this one is {_place(job)}")


def _place(job: JobState) -> str:
    """Where a live job is, in words that say whether it will wait again."""
    return f"{job.state.name} towards {job.target.name}" if job.state is State.STOPPING else job.state.name


def _stopping(job: JobState, target: State, reason: Reason, now_ms: int, bindings: Bindings) -> Moved:
    moved = _moved(job, State.STOPPING, reason, now_ms, bindings)
    return Moved(replace(moved.state, target=target, pools=job.pools), bindings)


def _reported(
    job: JobState, event: Refused | Held | Started | Running | Finished | Broken | Released, now_ms: int
) -> Transition:
    """A report of the job's present attempt, which has not ended."""
    match event:
        case Refused():
            return _refused(job, event, now_ms)
        case Broken():
            return _broken(job, event, now_ms)
        case Finished():
            return _finished(job, event, now_ms)
        case Released():
            return _released(job, event, now_ms)
        case Held() | Started() | Running():
            return _progressed(job, event, now_ms)


def _progressed(job: JobState, event: Held | Started | Running, now_ms: int) -> Transition:
    """A part came forward. Split gangs pass PLACED only when every part is held, by one decision to start."""
    split = len(job.pools) > 1
    match event, job.state:
        case Held(), State.BOUND if event.waiting == 0:
            if split:
                return _moved(job, State.STARTING, Reason.UNSPECIFIED, now_ms, Bindings.START)
            return _moved(job, State.PLACED, Reason.UNSPECIFIED, now_ms)
        case Started(), State.BOUND | State.PLACED:
            return _moved(job, State.STARTING, Reason.UNSPECIFIED, now_ms)
        case Running(), State.BOUND | State.PLACED | State.STARTING if event.waiting == 0:
            return _moved(job, State.RUNNING, Reason.UNSPECIFIED, now_ms)
        case _:
            return _touched(job)


def _touched(job: JobState) -> Transition:
    """P11: a part of a split gang moved, the job did not; its state key is written all the same."""
    if len(job.pools) > 1:
        return Moved(job)
    return Ignored("nothing new")


def _refused(job: JobState, event: Refused, now_ms: int) -> Transition:
    if job.state is State.STOPPING:
        return _after_part(job, event.others, now_ms)
    if job.state is not State.BOUND:
        # It was held, and its cluster knows nothing of it: the store was restored to before its end.
        return _lost_part(job, event, now_ms)
    if event.others == 0:
        return _moved(job, State.PENDING, event.reason, now_ms, Bindings.DROP_ALL)
    return _stopping(job, State.PENDING, Reason.PART_REFUSED, now_ms, Bindings.DROP_AND_STOP)


def _broken(job: JobState, event: Broken, now_ms: int) -> Transition:
    if job.state is State.STOPPING:
        return _touched(job)
    if event.infrastructure:
        target = State.PENDING if job.requeue_infrastructure else State.FAILED
        return _stopping(job, target, event.reason, now_ms, Bindings.STOP)
    failed = replace(job, failures=job.failures + 1)
    target = State.PENDING if failed.failures <= job.max_retries else State.FAILED
    return _stopping(failed, target, event.reason, now_ms, Bindings.STOP)


def _finished(job: JobState, event: Finished, now_ms: int) -> Transition:
    if event.waiting > 0:
        return _touched(job)
    if job.state is State.STOPPING and job.target is not State.PENDING:
        return _moved(job, job.target, job.reason, now_ms, Bindings.DROP_ALL)
    return _moved(job, State.SUCCEEDED, Reason.COMPLETED, now_ms, Bindings.DROP_ALL)


def _stop(job: JobState, event: Stop, now_ms: int) -> Transition:
    if event.attempt is not None and (event.attempt != job.attempt or not job.state.live):
        return Ignored("the attempt is over")
    if job.state.terminal:
        return Illegal(f"the job has already ended as {job.state.name}")
    if job.state is State.PENDING:
        if event.target is State.PENDING:
            return Ignored("it is pending")
        return _moved(job, event.target, event.reason, now_ms)
    if job.state is State.STOPPING:
        if job.target is State.PENDING and event.target is not State.PENDING:
            return Moved(replace(job, target=event.target, reason=event.reason))
        return Ignored(f"it is already stopping towards {job.target.name}")
    return _stopping(job, event.target, event.reason, now_ms, Bindings.STOP)


def _released(job: JobState, event: Released, now_ms: int) -> Transition:
    if job.state is State.STOPPING:
        return _after_part(job, event.others, now_ms)
    # Nobody asked this attempt to stop, yet its pods are gone: the places were lost with their nodes.
    return _lost_part(job, event, now_ms)


def _lost_part(job: JobState, event: Refused | Released, now_ms: int) -> Transition:
    lost = Broken(event.attempt, event.part, Reason.INFRASTRUCTURE, infrastructure=True)
    broken = _broken(job, lost, now_ms)
    if not isinstance(broken, Moved):
        return broken
    if event.others > 0:
        return Moved(broken.state, Bindings.DROP_AND_STOP)
    return _after_part(broken.state, event.others, now_ms)


def _after_part(job: JobState, others: int, now_ms: int) -> Transition:
    """A part of a STOPPING job is gone; with the last one that had not finished the job reaches its target."""
    if others > 0:
        return Moved(job, Bindings.DROP)
    return _moved(job, job.target, job.reason, now_ms, Bindings.DROP_ALL)


def _declared_lost(job: JobState, event: DeclaredLost, now_ms: int) -> Transition:
    if event.attempt != job.attempt or not job.state.live:
        return Ignored("no live attempt of that number")
    moved = _moved(job, State.LOST, Reason.POOL_LOST, now_ms, Bindings.STOP)
    return Moved(replace(moved.state, pools=job.pools), Bindings.STOP)
