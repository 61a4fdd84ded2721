"""What a commit counts, in the words of the metrics."""

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from hanse.kit.telemetry import metrics
from hanse.model.lifecycle import State
from hanse.scheduler.core.plan import Decision
from hanse.store import keys
from hanse.store.contract import Conflict, Guard

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
