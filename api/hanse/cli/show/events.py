"""What happened as lines: when, to whom, what, in words."""

from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import clock
from hanse.cli.paper import Paper, Tone, columns_of, cut_to, joined
from hanse.model.occurrence import OccurrenceKind

if TYPE_CHECKING:
    from datetime import tzinfo

    from hanse.api.v1.event_pb2 import Event
    from hanse.api.v1.event_service_pb2 import TailEventsResponse

SUBJECT_COLUMNS: Final = 24
KIND_COLUMNS: Final = 13
_SHORT: Final = {OccurrenceKind.PRIORITY_CHANGED: "priority", OccurrenceKind.EPOCH_CHANGED: "epoch"}
_TONES: Final = {
    OccurrenceKind.RUNNING: Tone.GOOD,
    OccurrenceKind.ATTACHED: Tone.GOOD,
    OccurrenceKind.SUMMARY_FRESH: Tone.GOOD,
    OccurrenceKind.REFUSED: Tone.WAITING,
    OccurrenceKind.STOPPING: Tone.WAITING,
    OccurrenceKind.REQUEUED: Tone.WAITING,
    OccurrenceKind.HELD: Tone.WAITING,
    OccurrenceKind.CORDONED: Tone.WAITING,
    OccurrenceKind.DETACHED: Tone.BAD,
    OccurrenceKind.SUMMARY_OLD: Tone.BAD,
}


def events_page(found: "TailEventsResponse", paper: Paper) -> str:
    """A line for each event."""
    if not found.events:
        return "nothing of that is remembered\n"
    return joined(event_line(event, paper) for event in found.events)


def event_line(event: "Event", paper: Paper, zone: "tzinfo | None" = None) -> str:
    """`14:02:07  llama3-70b-training  bound  bound to iowa-h100 as attempt 1`."""
    subject = (event.name or event.job) if event.job else event.pool
    if paper.cut:
        subject = cut_to(subject, SUBJECT_COLUMNS)
    word, tone = _kind(event.kind)
    gap = " " * (SUBJECT_COLUMNS - columns_of(subject))
    painted = paper.paint(word, tone) + " " * (KIND_COLUMNS - len(word))
    return f"{clock(event.at_ms, zone)}  {subject}{gap}  {painted}  {event.message}".rstrip()


def _kind(number: int) -> tuple[str, Tone]:
    """The word for what happened; the number of what this version does not know."""
    try:
        kind = OccurrenceKind(number)
    except ValueError:
        return str(number), Tone.PLAIN
    return _SHORT.get(kind, kind.name.lower().replace("_", " ")), _TONES.get(kind, Tone.PLAIN)
