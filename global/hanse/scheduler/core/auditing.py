"""What of the things that happen is for the audit log: what was decided about jobs and pools, and why. Pure.

How far a gang is (placed, starting, running) is nobody's decision. Who called for a change stands in the record of
the call; here stands what became of it, and what nobody called for: an eviction names its cause.
"""

from typing import Final

from hanse.model.audit import AuditKind, AuditRecord
from hanse.model.occurrence import Occurrence, OccurrenceKind
from hanse.model.reasons import Reason

SCHEDULER: Final = "scheduler"
_DECISIONS: Final = frozenset(
    {OccurrenceKind.BOUND, OccurrenceKind.REFUSED, OccurrenceKind.REQUEUED, OccurrenceKind.ENDED}
)
_POOLS: Final = frozenset(
    {
        OccurrenceKind.JOINED,
        OccurrenceKind.EPOCH_CHANGED,
        OccurrenceKind.CORDONED,
        OccurrenceKind.UNCORDONED,
        OccurrenceKind.REMOVED,
    }
)


def audited(event: Occurrence, queue: str) -> AuditRecord | None:
    """The record of an occurrence, None for what is not audited.

    Args:
        queue: of the job, by name.
    """
    if event.kind is OccurrenceKind.STOPPING:
        evicted = event.reason is not Reason.CANCELLED_BY_USER
        return _record(event, AuditKind.EVICTION if evicted else AuditKind.DECISION, SCHEDULER, queue)
    if event.kind is OccurrenceKind.REFUSED:
        return _record(event, AuditKind.DECISION, f"agent {event.pool}", queue)
    if event.kind in _DECISIONS:
        return _record(event, AuditKind.DECISION, SCHEDULER, queue)
    if event.kind in _POOLS:
        return _record(event, AuditKind.POOL, SCHEDULER, "")
    return None


def gap() -> AuditRecord:
    """Something may have happened that nobody here has seen."""
    what = "what was decided since the replica lost sight of the store was not seen, and stands in no record"
    return AuditRecord(AuditKind.GAP, SCHEDULER, "GAP", message=what)


def _record(event: Occurrence, kind: AuditKind, who: str, queue: str) -> AuditRecord:
    return AuditRecord(
        kind,
        who,
        event.kind.name,
        queue=queue,
        jobs=(event.job,) if event.job else (),
        pool=event.pool,
        attempt=event.attempt,
        reason=event.reason.name if event.reason else "",
        message=event.message,
        revision=event.revision,
    )
