"""Stages of traced jobs that end in a replica: queue, plan, commit; link; and with the last report the job's life.

Most of it is told by a job's state alone, so its traceparent is read later (`hanse.store.traces`). The link has it at
hand, because a binding travels with it.
"""

from collections.abc import Sequence

from hanse.kit.clock import Clock
from hanse.kit.telemetry import TRACER, Stage
from hanse.model.desired import Binding
from hanse.model.ids import PoolName
from hanse.model.report import GangReport
from hanse.scheduler.core.plan import Decision
from hanse.store.moves import PlannedMove
from hanse.store.traces import JobTraces, whole_job


class Traces:
    """What one replica tells."""

    def __init__(self, jobs: JobTraces, clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock
        self._cycle_ms = 0
        self._planned_ms = 0

    def planned(self, cycle_ms: int) -> None:
        """The cycle that began then has its plan, which is committed next."""
        self._cycle_ms, self._planned_ms = cycle_ms, self._clock.now_ms()

    def bound(self, decisions: Sequence[Decision], revision: int) -> None:
        """These decisions of the plan are in the store."""
        if not TRACER.on:
            return
        now_ms = self._clock.now_ms()
        for decision in decisions:
            state = decision.job.state
            gang = whole_job(decision.job.job, decision.job.next_attempt)
            for stage, start_ms, end_ms in (
                (Stage.QUEUE, state.changed_ms, self._cycle_ms),
                (Stage.PLAN, self._cycle_ms, self._planned_ms),
                (Stage.COMMIT, self._planned_ms, now_ms),
            ):
                self._jobs.stage(
                    state,
                    stage,
                    gang,
                    scope="scheduler",
                    start_ms=start_ms,
                    end_ms=end_ms,
                    pool=",".join(part.pool for part in decision.parts),
                    revision=revision,
                    reason=state.reason.name if stage is Stage.QUEUE else "",
                )

    def moved(self, pool: PoolName, report: GangReport, heard_ms: int, move: PlannedMove, revision: int) -> None:
        """A report is in effect; if it was the last one, the job's life is told."""
        if not (TRACER.on and move.state.traced and move.state.state.terminal):
            return
        now_ms = self._clock.now_ms()
        self._jobs.stage(
            move.state,
            Stage.END,
            report.key,
            scope="link",
            start_ms=heard_ms,
            end_ms=now_ms,
            pool=pool,
            revision=revision,
            reason=move.state.reason.name,
        )
        self._jobs.ended(report.job, move.state, scope="link", now_ms=now_ms)


def tell_sent(pool: PoolName, binding: Binding, *, bound_ms: int, now_ms: int) -> None:
    """A new binding is on its way to the agent."""
    TRACER.stage(
        binding.trace,
        Stage.LINK,
        binding.key,
        scope="link",
        start_ms=bound_ms,
        end_ms=now_ms,
        pool=pool,
        revision=binding.create_revision,
    )
