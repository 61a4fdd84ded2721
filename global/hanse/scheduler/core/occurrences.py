"""What a new state of a job means for people: an occurrence, or nothing that they would notice. Pure.

A state says nearly all by itself, so no record of every live job is needed. What came before decides between a
refusal and a way back from an attempt, and shows holds and priorities; where it is not known, nothing is said rather
than something that may be wrong. A state that is written anew and says the same is nothing.
"""

from collections.abc import Sequence
from typing import Final

from hanse.model.ids import JobId, PoolName
from hanse.model.lifecycle import JobState, State
from hanse.model.occurrence import Occurrence, OccurrenceKind
from hanse.model.reasons import Reason

_REACHED: Final = {
    State.BOUND: OccurrenceKind.BOUND,
    State.PLACED: OccurrenceKind.PLACED,
    State.STARTING: OccurrenceKind.STARTING,
    State.RUNNING: OccurrenceKind.RUNNING,
    State.STOPPING: OccurrenceKind.STOPPING,
    State.SUCCEEDED: OccurrenceKind.ENDED,
    State.FAILED: OccurrenceKind.ENDED,
    State.CANCELLED: OccurrenceKind.ENDED,
    State.LOST: OccurrenceKind.ENDED,
}
_OF_A_WAITING_JOB: Final = frozenset(
    {OccurrenceKind.SUBMITTED, OccurrenceKind.HELD, OccurrenceKind.RELEASED, OccurrenceKind.PRIORITY_CHANGED}
)
_SEEN_NOW: Final = frozenset({OccurrenceKind.HELD, OccurrenceKind.RELEASED, OccurrenceKind.PRIORITY_CHANGED})
"""What does not change the state: the record does not say when it was."""


def job_occurrence(
    job: JobId,
    before: JobState | None,
    now: JobState,
    *,
    created: bool,
    revision: int,
    now_ms: int,
    slots: Sequence[PoolName],
) -> Occurrence | None:
    """What became of a job with its new state.

    Args:
        before: its state before that, None if it is not known or there was none.
        created: the job is new.
        slots: names of pools by number.
    """
    kind = OccurrenceKind.SUBMITTED if created else _kind(before, now)
    if kind is OccurrenceKind.UNSPECIFIED:
        return None
    waits = kind in _OF_A_WAITING_JOB
    numbers = now.pools or (before.pools if before is not None else ())
    pools = [slots[number] for number in numbers if number < len(slots)] if not waits else []
    return Occurrence(
        at_ms=now_ms if kind in _SEEN_NOW else now.changed_ms,
        kind=kind,
        job=job,
        pool=PoolName(",".join(pools)),
        attempt=now.attempt,
        reason=Reason.UNSPECIFIED if waits and kind is not OccurrenceKind.HELD else now.reason,
        message=_sentence(kind, before, now, " and ".join(pools)),
        revision=revision,
    )


def _kind(before: JobState | None, now: JobState) -> OccurrenceKind:
    if before is None:
        return _REACHED.get(now.state, OccurrenceKind.UNSPECIFIED)
    if (before.state, before.attempt, before.target) != (now.state, now.attempt, now.target):
        if now.state is not State.PENDING:
            return _REACHED[now.state]
        return OccurrenceKind.REFUSED if before.state is State.BOUND else OccurrenceKind.REQUEUED
    if now.state is not State.PENDING:
        return OccurrenceKind.UNSPECIFIED
    if before.held != now.held:
        return OccurrenceKind.HELD if now.held else OccurrenceKind.RELEASED
    return OccurrenceKind.PRIORITY_CHANGED if before.priority != now.priority else OccurrenceKind.UNSPECIFIED


def _sentence(kind: OccurrenceKind, before: JobState | None, now: JobState, where: str) -> str:
    """What happened, in words."""
    there = f" in {where}" if where else ""
    why = f": {now.reason.prose}" if now.reason else ""
    match kind:
        case OccurrenceKind.SUBMITTED:
            return f"submitted with priority {now.priority}"
        case OccurrenceKind.BOUND:
            return f"bound to {where or 'a pool'} as attempt {now.attempt}"
        case OccurrenceKind.PLACED:
            return f"every place is held{there}"
        case OccurrenceKind.STARTING:
            return f"its pods are being started{there}"
        case OccurrenceKind.RUNNING:
            return f"all its pods run{there}"
        case OccurrenceKind.REFUSED:
            return f"{where or 'its pool'} refused attempt {now.attempt}{why}"
        case OccurrenceKind.STOPPING:
            return f"its pods are being stopped{there}, towards {now.target.name}{why}"
        case OccurrenceKind.REQUEUED:
            return f"waits again after attempt {now.attempt}{why}"
        case OccurrenceKind.ENDED:
            return f"{now.state.name}{why}"
        case OccurrenceKind.HELD:
            return "put on hold"
        case OccurrenceKind.RELEASED:
            return "released, waits for places again"
        case OccurrenceKind.PRIORITY_CHANGED:
            return f"priority {now.priority} instead of {before.priority if before is not None else 'another'}"
        case _:
            return ""
