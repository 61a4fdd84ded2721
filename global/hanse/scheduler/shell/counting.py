"""What commits and moves of jobs count, in the words of the metrics."""

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from hanse.kit.telemetry import metrics
from hanse.model.ids import queue_of
from hanse.model.lifecycle import State
from hanse.model.resources import DEVICE_MILLI
from hanse.scheduler.core.plan import Decision
from hanse.scheduler.core.world import World
from hanse.store import keys
from hanse.store.contract import Conflict, Guard
from hanse.store.moves import PlannedMove, ended_attempt
from hanse.store.usage import spans_of_attempt

log = logging.getLogger(__name__)

MOVED_TOLD_MAX: Final = 4
"""Keys that a line about a conflict names."""

_KINDS: Final = {"state": "state", "queues": "queue", "cohorts": "queue", "grants": "grant"}


def count_committed(decisions: Sequence[Decision], now_ms: int) -> None:
    """These jobs are bound, by one transaction."""
    metrics.TRANSACTIONS.add(1, "committed")
    metrics.JOB_MOVES.add(len(decisions), State.BOUND.name)
    for decision in decisions:
        waited_s = (now_ms - decision.job.state.changed_ms) / 1e3
        metrics.JOB_STATE_DURATION.record(waited_s, State.PENDING.name)


def count_usage(move: PlannedMove, world: World) -> None:
    """A move is in effect: if it ended an attempt, what that used."""
    attempt = ended_attempt(move)
    if attempt is None:
        return
    uid = queue_of(move.job)
    facts = world.queues.get(uid)
    for span in spans_of_attempt(attempt):
        if span.milli_gpus:
            gpu_s = span.milli_gpus * max(0, span.to_ms - span.from_ms) / (1e3 * DEVICE_MILLI)
            metrics.USAGE_GPU_DURATION.add(gpu_s, facts.queue.name if facts else uid, span.flavor, span.pool)


def moved_of(guards: Iterable[Guard], conflict: Conflict) -> frozenset[str]:
    """The keys that a transaction compared and that had moved."""
    return frozenset(guard.key for guard in guards if conflict.current.get(guard.key, 0) != guard.revision)


def tell_conflict(moved: Collection[str], jobs: int) -> None:
    """A transaction that binds so many jobs did not pass, because these keys had moved."""
    metrics.TRANSACTIONS.add(1, "conflict")
    for key in moved:
        metrics.CONFLICTS.add(1, kind_of(key))
    log.info("commit_conflict", extra={"jobs": jobs, "moved": _told(moved)})


def tell_report_conflict(moved: Collection[str], reports: int) -> None:
    """A transaction of so many reports did not pass, because these keys had moved."""
    for key in moved:
        metrics.REPORT_CONFLICTS.add(1, kind_of(key))
    log.info("report_conflict", extra={"reports": reports, "moved": _told(moved)})


def _told(moved: Collection[str]) -> str:
    """Some of the keys, and how many more there are."""
    more = len(moved) - MOVED_TOLD_MAX
    return ", ".join(sorted(moved)[:MOVED_TOLD_MAX]) + (f" and {more} more" if more > 0 else "")


def kind_of(key: str) -> str:
    """What a guard's key is about."""
    if key.startswith(keys.POOLS):
        return "head" if "/head/" in key else "agent" if key.endswith("/agent") else "pool"
    return _KINDS.get(key.partition("/")[0], "")
