"""What a pool, or quota, says of a request, and the one reason to show for a class that waits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from hanse.model.ids import FlavorName, PoolName, QueueName
from hanse.model.queue import Queue
from hanse.model.reasons import Reason
from hanse.scheduler.core.snapshot import Snapshot
from hanse.shape import Fit, NoFit

QUOTA_NEARNESS: Final = 0.9
"""A pool whose shape holds the job and whose quota does not is nearer than any whose shape does not."""

UNUSABLE_REMEMBERED: Final = 4_096


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """Whether a pool holds a request, and if not, which constraint fails by how much.

    Attributes:
        nearness: 0..1, how close it is; 1 for a fit.
    """

    pool: PoolName
    fits: bool
    reason: Reason
    flavor: FlavorName
    constraint: str = ""
    wanted: int = 0
    found: int = 0
    detail: str = ""
    nearness: float = 0.0


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a class waits, and what was looked at.

    Attributes:
        verdicts: of pools and of quota, as far as they were asked: in a large fleet, of the nearest pools.
        stamp: the newest growth that was looked at; only pools that have grown since are asked again.
        quota_bound: quota stood in the way of some choice of flavors: more of it means to ask every pool again.
    """

    reason: Reason
    verdicts: tuple[PoolVerdict, ...]
    stamp: int
    quota_bound: bool


def verdict_of(pool: PoolName, flavors: tuple[FlavorName, ...], outcome: Fit | NoFit) -> PoolVerdict:
    """A pool's verdict from its shape's answer."""
    if isinstance(outcome, Fit):
        return PoolVerdict(pool, True, Reason.UNSPECIFIED, flavors[0], nearness=1.0)
    no = outcome
    return PoolVerdict(pool, False, no.reason, flavors[0], no.constraint, no.wanted, no.found, no.detail, no.nearness)


def unusable_verdict(shape: PoolVerdict, reason: Reason, detail: str = "") -> PoolVerdict:
    """The verdict of a pool that may not be used now, whatever its shape says: half as near as that."""
    return replace(shape, fits=False, reason=reason, detail=detail or shape.detail, nearness=shape.nearness / 2)


@lru_cache(UNUSABLE_REMEMBERED)
def unusable_pool(pool: PoolName, reason: Reason, nearness: float) -> PoolVerdict:
    """The verdict of a pool that may not be used now. Equal ones are one object: while agents are away, as after a
    cold start, every class that waits has one of every pool."""
    return PoolVerdict(pool, False, reason, FlavorName(""), nearness=nearness)


def at_pool(short: PoolVerdict, pool: PoolName) -> PoolVerdict:
    """The verdict of quota where a pool's shape would hold the gang."""
    return replace(short, pool=pool, nearness=max(short.nearness, QUOTA_NEARNESS))


def quota_verdict(queue: QueueName, short: tuple[FlavorName, str, int, int]) -> PoolVerdict:
    """The verdict of a queue's quota on a choice of flavors that it has no room for."""
    flavor, resource, wanted, left = short
    detail = f"queue {queue} may use {left:,} more {resource} of {flavor}, the job needs {wanted:,}"
    nearness = left / wanted if wanted else 0.0
    return PoolVerdict(
        PoolName(""), False, Reason.QUOTA, flavor, f"quota of {flavor} {resource}", wanted, left, detail, nearness
    )


def jobs_verdict(queue: Queue) -> PoolVerdict:
    """The verdict of a queue of which as many jobs run as may."""
    most = queue.limits.running_jobs_max
    detail = f"queue {queue.name} runs {most:,} job{'' if most == 1 else 's'}, as many as it may at a time"
    return PoolVerdict(
        PoolName(""), False, Reason.QUOTA, FlavorName(""), f"running jobs of {queue.name}", 1, 0, detail, 0.0
    )


def dominant_reason(verdicts: Sequence[PoolVerdict], snapshot: Snapshot) -> Reason:
    """The one reason to show for a job: that of the verdict which is nearest to a fit.

    A pool that could hold the job says more than one that has no such flavor; quota says most when no pool was asked.
    """
    if not snapshot.pools:
        return Reason.NO_POOLS
    if not verdicts:
        return Reason.QUOTA  # no flavor that the queue may use was left to ask for
    return max(verdicts, key=lambda v: (v.nearness, -int(v.reason))).reason
