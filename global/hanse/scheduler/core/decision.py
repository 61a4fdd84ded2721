"""What a cycle decides: a job with the pools that take it, and all decisions of a cycle together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hanse.model.ids import FlavorName, PoolName
from hanse.model.queue import Charge
from hanse.model.request import GangRequest, SetRequest
from hanse.scheduler.core.choice import Choice
from hanse.scheduler.core.pending import PendingJob
from hanse.scheduler.core.verdicts import Blocked


@dataclass(frozen=True, slots=True)
class PartPlan:
    """One part of a decided job.

    Attributes:
        counts: (index of the pod set, pods of it here, rank of its first pod here).
        request: placement's view of exactly this part.
        flavors: one for each set of `request`.
        choice: why this pool; None for a part of a gang that is split.
    """

    pool: PoolName
    slot: int
    counts: tuple[tuple[int, int, int], ...]
    request: GangRequest
    flavors: tuple[FlavorName, ...]
    charges: tuple[Charge, ...]
    choice: Choice | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A job and the pools that take it; more than one part is committed as hold."""

    job: PendingJob
    parts: tuple[PartPlan, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a cycle proposes.

    Attributes:
        blocked: by class hash, every class that was looked at and did not fit.
        failed: by class hash, the cause of an exception in deciding it: a bug that must not stop everybody else.
        exhausted: a limit ended the cycle before every class had its turn: run another one at once.
        unread: classes were left out because their requests are not known yet.
    """

    decisions: tuple[Decision, ...]
    blocked: Mapping[int, Blocked]
    failed: Mapping[int, str]
    exhausted: bool
    unread: bool = False


def part_request(want: SetRequest, count: int) -> GangRequest:
    """The request for `count` pods of a set, all or none."""
    return GangRequest((replace(want, count=count, min_count=count),))
