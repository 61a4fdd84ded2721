"""Spans of a job's way, told by whichever process ends a stage, with the time at which it began.

No span is open anywhere: a stage that begins in one process and ends in another has its beginning carried along (in
the job's state, its binding, a report), and is told whole when it ends. So a process that dies takes only the stages
with it that it would have ended.

`TRACER` is the process's: off until somebody `begin`s it with a sink, and then for jobs whose traceparent is sampled.
While it is off, telling a stage costs one comparison. The sink must not block; it drops what it cannot take.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Final, TypeAlias

from hanse.kit.telemetry.trace_context import (
    TraceContext,
    is_sampled,
    job_span_id,
    own_traceparent,
    parse_traceparent,
    stage_span_id,
)
from hanse.model.fence import GangKey
from hanse.model.ids import JobId

Attribute: TypeAlias = str | int | float | bool


@unique
class Stage(StrEnum):
    """What a span is about; the value is the name of the span after `hanse.`."""

    JOB = "job"
    SUBMIT = "submit"
    QUEUE = "queue"
    PLAN = "plan"
    COMMIT = "commit"
    LINK = "link"
    PLACE = "place"
    START = "start"
    STARTUP = "startup"
    RUN = "run"
    STOP = "stop"
    END = "end"

    @property
    def prose(self) -> str:
        """From when to when, and who tells it."""
        return _PROSE[self]


_PROSE: Final[Mapping[Stage, str]] = {
    Stage.JOB: "the job's whole life, from submit to its terminal state; parent of all others",
    Stage.SUBMIT: "API: from the call until the job is stored",
    Stage.QUEUE: "scheduler: from when the job became pending to the cycle that found it a place",
    Stage.PLAN: "scheduler: from the begin of that cycle to its plan",
    Stage.COMMIT: "scheduler: from the plan until it is in the store, conflicts and new tries included",
    Stage.LINK: "link server: from the commit until the binding is sent to the agent",
    Stage.PLACE: "agent: from the arrival of the binding until every pod has its node, and the cluster the record",
    Stage.START: "agent: from there until the pods are told to run",
    Stage.STARTUP: "agent: from there until all pods run",
    Stage.RUN: "agent: from there until the pods have ended, as far as the agent knows when",
    Stage.STOP: "agent: from the arrival of the order to stop until nothing is left",
    Stage.END: "link server: from the agent's last report until it is in effect",
}


@dataclass(frozen=True, slots=True)
class Span:
    """One finished span.

    Attributes:
        parent_id: 0 for a root.
        scope: the part of the product that tells it: `api`, `scheduler`, `link`, `agent`.
        start_ms, end_ms: wall times in milliseconds since 1970.
        error: why it failed; "" if it did not.
    """

    name: str
    trace_id: int
    span_id: int
    parent_id: int
    scope: str
    start_ms: int
    end_ms: int
    error: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


Sink: TypeAlias = Callable[[Span], None]


class Tracer:
    """See the module.

    Attributes:
        on: somebody takes spans.
        ratio: share of jobs whose trace is followed, of those that come without a traceparent.
    """

    def __init__(self) -> None:
        self.on = False
        self.ratio = 0.0
        self._sink: Sink | None = None

    def begin(self, sink: Sink, *, ratio: float) -> None:
        """From now on give spans to `sink`."""
        self.on, self.ratio, self._sink = True, ratio, sink

    def end(self) -> None:
        """Tell nothing any more."""
        self.on, self.ratio, self._sink = False, 0.0, None

    def own(self, job: JobId) -> str:
        """The traceparent of a job whose submitter brought none."""
        return own_traceparent(job, self.ratio)

    def follows(self, traceparent: str) -> bool:
        """Whether spans of that trace are told."""
        return self.on and is_sampled(traceparent)

    def stage(
        self,
        traceparent: str,
        stage: Stage,
        gang: GangKey,
        /,
        *,
        scope: str,
        start_ms: int,
        end_ms: int,
        error: str = "",
        **attributes: Attribute,
    ) -> None:
        """One stage of a job has ended. Attributes are named `hanse.…` by their keyword."""
        context = self._context(traceparent)
        if context is None:
            return
        parent = job_span_id(gang.job)
        root = stage is Stage.JOB
        above = context.span_id if context.span_id != parent else 0
        self._tell(
            Span(
                name=f"hanse.{stage}",
                trace_id=context.trace_id,
                span_id=parent if root else stage_span_id(gang, stage),
                parent_id=above if root else parent,
                scope=scope,
                start_ms=min(start_ms, end_ms),
                end_ms=end_ms,
                error=error,
                attributes=_attributes(gang, attributes),
            )
        )

    def _context(self, traceparent: str) -> TraceContext | None:
        return parse_traceparent(traceparent) if self.follows(traceparent) else None

    def _tell(self, span: Span) -> None:
        if self._sink is not None:
            self._sink(span)


def _attributes(gang: GangKey, given: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """The job's id, attempt and part where there are some, and what else is given and not empty."""
    named: dict[str, Attribute] = {"hanse.job": gang.job}
    if gang.attempt:
        named |= {"hanse.attempt": gang.attempt, "hanse.part": gang.part}
    return named | {f"hanse.{name}": value for name, value in given.items() if value != ""}


TRACER: Final = Tracer()
"""The tracer of this process."""
