"""The agent's stages of traced jobs: from the arrival of a binding to the end of its pods.

A binding brings its job's traceparent; only bindings whose trace is followed are remembered here. A stage is told
when a report says that it is over, with the times that the report carries. Stages that were over before this agent
began were told by the agent before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.telemetry import TRACER, Stage
from hanse.model.desired import Binding, DesiredAction
from hanse.model.fence import GangKey
from hanse.model.ids import PoolName
from hanse.model.report import GangReport, GangStatus

TRACED_MAX: Final = 20_000
"""Gangs that are followed at a time; beyond it the oldest are told no more."""

_ENDED: Final = frozenset({GangStatus.FINISHED, GangStatus.BROKEN, GangStatus.RELEASED, GangStatus.REFUSED})
_FAILED: Final = frozenset({GangStatus.REFUSED, GangStatus.BROKEN})
_GONE: Final = frozenset({GangStatus.FINISHED, GangStatus.RELEASED, GangStatus.REFUSED})


@dataclass(slots=True)
class _Followed:
    """What is known of a gang whose trace is followed."""

    trace: str
    revision: int
    pods: int
    desired_ms: int
    stop_ms: int = 0
    told: set[Stage] = field(default_factory=set)


class GangTraces:
    """See the module."""

    def __init__(self, pool: PoolName, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock
        self._since_ms = clock.now_ms()
        self._gangs: dict[GangKey, _Followed] = {}

    def desired(self, bindings: Iterable[Binding], removed: Iterable[GangKey] = ()) -> None:
        """These bindings have come, and these are gone."""
        if not TRACER.on:
            return
        now_ms = self._clock.now_ms()
        for binding in bindings:
            known = self._gangs.get(binding.key)
            if known is not None and binding.action is DesiredAction.STOP:
                known.stop_ms = known.stop_ms or now_ms
            elif known is None and binding.action is not DesiredAction.STOP and TRACER.follows(binding.trace):
                self._follow(binding, now_ms)
        for key in removed:
            self._gangs.pop(key, None)

    def _follow(self, binding: Binding, now_ms: int) -> None:
        if len(self._gangs) >= TRACED_MAX:
            del self._gangs[next(iter(self._gangs))]
        self._gangs[binding.key] = _Followed(binding.trace, binding.create_revision, binding.pods, now_ms)

    def reported(self, reports: Sequence[GangReport]) -> None:
        """These reports were sent."""
        if not self._gangs:
            return
        for report in reports:
            known = self._gangs.get(report.key)
            if known is not None:
                self._tell(known, report)
                if report.status in _GONE:
                    del self._gangs[report.key]

    def _tell(self, known: _Followed, report: GangReport) -> None:
        """The stages that are over, each once; a failure is that of the last of them."""
        stages = [stage for stage in _stages(known, report, self._clock.now_ms()) if self._is_news(known, *stage)]
        failed = report.status in _FAILED
        for number, (stage, start_ms, end_ms) in enumerate(stages, 1):
            known.told.add(stage)
            last = failed and number == len(stages)
            TRACER.stage(
                known.trace,
                stage,
                report.key,
                scope="agent",
                start_ms=start_ms,
                end_ms=end_ms,
                error=(report.message or report.reason.prose) if last else "",
                pool=self._pool,
                revision=known.revision,
                pods=known.pods,
                reason=report.reason.name if last else "",
            )

    def _is_news(self, known: _Followed, stage: Stage, start_ms: int, end_ms: int) -> bool:
        return start_ms > 0 and end_ms >= self._since_ms and stage not in known.told


def _stages(known: _Followed, report: GangReport, now_ms: int) -> Iterator[tuple[Stage, int, int]]:
    """Every stage with its begin and end as the report has them; 0 for what has not happened, or nobody knows."""
    status = report.status
    held_ms, started_ms, running_ms = report.held_ms, report.started_ms, report.running_ms
    yield Stage.PLACE, known.desired_ms, now_ms if status is GangStatus.REFUSED else held_ms
    yield Stage.START, held_ms, started_ms
    yield Stage.STARTUP, started_ms, running_ms or (now_ms if status is GangStatus.BROKEN else 0)
    yield Stage.RUN, running_ms, now_ms if status in _ENDED else 0
    yield Stage.STOP, known.stop_ms, now_ms if status is GangStatus.RELEASED else 0
