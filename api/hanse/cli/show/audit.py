"""Records of the audit log as lines: when, who, what, to what, with which outcome, why."""

from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import clock, counted
from hanse.cli.paper import Paper, Tone, columns_of, cut_to
from hanse.model.audit import AuditKind

if TYPE_CHECKING:
    from datetime import tzinfo

    from hanse.api.v1.audit_service_pb2 import AuditRecord

WHO_COLUMNS: Final = 20
VERB_COLUMNS: Final = 14
OK: Final = "OK"


def audit_line(record: "AuditRecord", paper: Paper, zone: "tzinfo | None" = None) -> str:
    """`14:02:07  ana  CancelJob  train 8f…  OK`."""
    who = cut_to(record.who, WHO_COLUMNS) if paper.cut else record.who
    verb = cut_to(record.verb, VERB_COLUMNS) if paper.cut else record.verb
    words = [subject(record), outcome(record, paper), record.message]
    return (
        f"{clock(record.at_ms, zone)}  {who}{' ' * (WHO_COLUMNS - columns_of(who))}  "
        f"{paper.paint(verb, tone(record))}{' ' * (VERB_COLUMNS - columns_of(verb))}  "
        f"{'  '.join(word for word in words if word)}"
    ).rstrip()


def subject(record: "AuditRecord") -> str:
    """Queue, job and pool, as far as they are named; of many jobs how many."""
    jobs = record.jobs[0] if len(record.jobs) == 1 else counted(len(record.jobs), "job") if record.jobs else ""
    return " ".join(word for word in (record.queue, jobs, record.pool) if word)


def outcome(record: "AuditRecord", paper: Paper) -> str:
    """A refusal by its reason; what was done needs no word."""
    return "" if record.outcome in ("", OK) else paper.paint(record.reason or record.outcome, Tone.BAD)


def tone(record: "AuditRecord") -> Tone:
    """What catches the eye."""
    if record.kind in (AuditKind.EVICTION, AuditKind.GAP):
        return Tone.WAITING
    return Tone.PLAIN if record.outcome in ("", OK) else Tone.BAD
