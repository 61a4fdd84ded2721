"""What a commit counts, in the words of the metrics."""

from collections.abc import Iterable, Sequence
from typing import Final

from hanse.kit.telemetry import metrics
from hanse.model.lifecycle import State
from hanse.scheduler.core.plan import Decision
from hanse.store import keys

_KINDS: Final = {"state": "state", "queues": "queue", "cohorts": "queue", "grants": "grant"}


def count_committed(decisions: Sequence[Decision], now_ms: int) -> None:
    """These jobs are bound, by one transaction."""
    metrics.TRANSACTIONS.add(1, "committed")
    metrics.JOB_MOVES.add(len(decisions), State.BOUND.name)
    for decision in decisions:
        waited_s = (now_ms - decision.job.state.changed_ms) / 1e3
        metrics.JOB_STATE_DURATION.record(waited_s, State.PENDING.name)


def count_conflict(moved: Iterable[str]) -> None:
    """A transaction did not pass, because these keys had moved."""
    metrics.TRANSACTIONS.add(1, "conflict")
    for key in moved:
        metrics.CONFLICTS.add(1, kind_of(key))


def kind_of(key: str) -> str:
    """What a guard's key is about."""
    if key.startswith(keys.POOLS):
        return "head" if "/head/" in key else "agent" if key.endswith("/agent") else "pool"
    return _KINDS.get(key.partition("/")[0], "")
