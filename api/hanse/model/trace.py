"""Trace contexts: which of all that is logged and measured belongs to one job."""

TRACE_ID_CHARS = 32


def trace_id(traceparent: str) -> str:
    """The part of a W3C traceparent that all spans of a trace share; "" if the text is none."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 and len(parts[1]) == TRACE_ID_CHARS else ""
