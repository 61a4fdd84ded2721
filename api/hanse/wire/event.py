"""Occurrences as messages of the public API."""

from hanse.api.v1 import event_pb2
from hanse.model.occurrence import Occurrence


def event_to_wire(event: Occurrence, *, name: str = "") -> event_pb2.Event:
    """The message; a reason is its name, "" for none; `name` is that of the job."""
    return event_pb2.Event(
        at_ms=event.at_ms,
        kind=event_pb2.EventKind.ValueType(event.kind),
        job=event.job,
        pool=event.pool,
        attempt=event.attempt,
        reason=event.reason.name if event.reason else "",
        message=event.message,
        revision=event.revision,
        name=name,
    )
