"""Which trace a job belongs to, as every process computes it from the job's traceparent and id alone.

A traceparent is stored with the job's spec and travels with its bindings. Either the submitter brought one, then the
job joins that trace; or it is made here, from the job's id. Span ids derive from what a span is about, so a process
that ends a stage knows its parent without having seen it, and a stage that is told twice is one span:

    the caller's span ──▶ job ──▶ submit, queue, plan, commit, link, place, …        (the caller's trace)
                          job ──▶ submit, queue, plan, commit, link, place, …        (a trace of its own)

In a trace of its own the job's span is the root: the traceparent that is stored names it.

Whether a trace is followed is decided once, when the job is submitted, and is the traceparent's sampled flag.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from hanse.model.fence import GangKey
from hanse.model.ids import JobId

_FORM: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED: Final = frozenset("13579bdf")
_RATIO_BITS: Final = 64
_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A traceparent, understood."""

    trace_id: int
    span_id: int
    sampled: bool

    @property
    def text(self) -> str:
        """As W3C writes it."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.sampled):02x}"


def parse_traceparent(text: str) -> TraceContext | None:
    """The context that a traceparent says; None if it is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    trace_id, span_id = int(found[1], 16), int(found[2], 16)
    return TraceContext(trace_id, span_id, is_sampled(text)) if trace_id and span_id else None


def is_sampled(traceparent: str) -> bool:
    """Whether it says so; quick, for those that are not."""
    return traceparent[-1:] in _SAMPLED


def own_traceparent(job: JobId, ratio: float) -> str:
    """The traceparent of a job whose submitter brought none; a share of `ratio` of all jobs is sampled."""
    digest = _digest(_TRACE_BYTES + _SPAN_BYTES, job)
    trace_id = int.from_bytes(digest[:_TRACE_BYTES], "big") | 1
    sampled = (trace_id & ((1 << _RATIO_BITS) - 1)) < ratio * (1 << _RATIO_BITS)
    return TraceContext(trace_id, int.from_bytes(digest[_TRACE_BYTES:], "big") | 1, sampled).text


def job_span_id(job: JobId) -> int:
    """Of the span of the job's whole life."""
    return int.from_bytes(_digest(_TRACE_BYTES + _SPAN_BYTES, job)[_TRACE_BYTES:], "big") | 1


def stage_span_id(gang: GangKey, stage: str) -> int:
    """Of the span of one stage of one part of one attempt."""
    return int.from_bytes(_digest(_SPAN_BYTES, stage, gang.job, str(gang.attempt), str(gang.part)), "big") | 1


def _digest(size: int, *parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=size).digest()
