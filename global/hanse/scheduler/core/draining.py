"""Which jobs leave a pool that is drained, and when: one after the other, and each only when there is room for it.

A job that was started last has done least, so the youngest goes first. Before the deadline nothing is stopped that
could not start again at once elsewhere: a drain costs a job its time since the last checkpoint, and never its turn.
From the deadline on, what is left is stopped whether or not there is room.

What a restart policy says is not known here; see `scheduler.shell.drains`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hanse.model.ids import Attempt, JobId, PoolName
from hanse.scheduler.core.facts import BindingFacts
from hanse.scheduler.core.plan import flavor_choices, unusable
from hanse.scheduler.core.quota import QuotaOverlay, charges_for, shortfall
from hanse.scheduler.core.snapshot import Limits, Snapshot
from hanse.shape import Fit, fit_ask, prepare

AT_ONCE: Final = 1
"""Jobs of a pool that one replica moves at a time."""

OVERDUE_AT_ONCE: Final = 16
"""The same after the deadline, in one look."""


@dataclass(frozen=True, slots=True)
class Resident:
    """A job with pods in the pool, by its newest attempt there.

    Attributes:
        parts: its bindings in the pool.
    """

    job: JobId
    attempt: Attempt
    parts: tuple[BindingFacts, ...]

    @property
    def born(self) -> tuple[int, JobId]:
        """Sorts residents by age, oldest first."""
        return max(part.create_revision for part in self.parts), self.job


def residents(bindings: Iterable[BindingFacts]) -> list[Resident]:
    """The jobs of a pool's bindings, the youngest first."""
    parts: dict[JobId, list[BindingFacts]] = {}
    for binding in bindings:
        parts.setdefault(binding.job, []).append(binding)
    found: list[Resident] = []
    for job, every in parts.items():
        newest = max(part.attempt for part in every)
        found.append(Resident(job, newest, tuple(part for part in every if part.attempt == newest)))
    return sorted(found, key=lambda one: one.born, reverse=True)


def leaving(
    snapshot: Snapshot, limits: Limits, pool: PoolName, here: Sequence[Resident], *, moving: int, overdue: bool
) -> list[Resident]:
    """Who may be told to leave now, in this order; whoever carries it out stops at the bound.

    Args:
        here: the pool's residents that the caller answers for and that are not leaving yet, youngest first.
        moving: jobs that have left and do not run elsewhere yet.
    """
    if overdue:
        return list(here)
    if moving >= AT_ONCE:
        return []
    return [one for one in here if has_room(snapshot, limits, one, but=pool)]


def has_room(snapshot: Snapshot, limits: Limits, one: Resident, *, but: PoolName) -> bool:
    """Whether another pool would hold each of the resident's parts now, with a flavor that its quota allows."""
    return all(_fits_elsewhere(snapshot, limits, part, but) for part in one.parts)


def _fits_elsewhere(snapshot: Snapshot, limits: Limits, part: BindingFacts, but: PoolName) -> bool:
    facts = snapshot.queues.get(part.queue)
    if facts is None:
        return False
    quotas = tuple(quota.flavor for quota in facts.queue.quotas)
    overlay = QuotaOverlay(snapshot.usage)
    for flavors in flavor_choices(part.request, quotas, snapshot.flavors):
        same = flavors == part.flavors  # what it holds already pays for that
        if not same and shortfall(facts.queue, charges_for(part.request, flavors), overlay) is not None:
            continue
        ask = prepare(part.request, flavors)
        for pool in snapshot.pools:
            if pool.name == but or pool.shape is None or unusable(pool, limits) is not None:
                continue
            if isinstance(fit_ask(pool.shape, ask), Fit):
                return True
    return False
