"""Why a class found no place: what the pools say, also those that were not asked, and one reason for all."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from hanse.model.ids import FlavorName, PoolName
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.scheduler.core.cycle import Cycle
from hanse.scheduler.core.pending import PendingJob
from hanse.scheduler.core.verdicts import (
    Blocked,
    PoolVerdict,
    at_pool,
    dominant_reason,
    unusable_pool,
    unusable_verdict,
    verdict_of,
)
from hanse.shape import fit, prepare

UNTAKEN_ASKED_MAX: Final = 8
"""Pools that may not be used, or not for a choice of flavors, and are asked all the same, for the reason alone."""

NEAREST_ASKED_MAX: Final = 8
"""Pools of a large fleet whose verdicts a blocked class carries."""


class Reasons:
    """Tells why classes wait, in one cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle

    def blocked(
        self,
        job: PendingJob,
        request: GangRequest,
        choices: Sequence[tuple[FlavorName, ...]],
        shorts: Mapping[tuple[FlavorName, ...], PoolVerdict],
        verdicts: Sequence[PoolVerdict],
        before: Blocked | None,
    ) -> Blocked:
        """A class that found no place, with the pools that were not asked this time."""
        quota = [
            self._told(pool.name, request, flavors, short, refused=self._cycle.avoids(job, pool.name))
            for flavors, short in shorts.items()
            for pool in self._cycle.visit[:UNTAKEN_ASKED_MAX]
        ]
        unusable = self._unusable(request, choices, shorts)
        verdicts = (*verdicts, *self._nearest(job, request, [c for c in choices if c not in shorts]))
        asked = {v.pool for v in (*verdicts, *quota, *unusable)}
        kept = [v for v in before.verdicts if v.pool not in asked] if before is not None else []
        every = (*verdicts, *quota, *unusable, *kept)
        excluded = len(shorts) == len(choices)
        reason = Reason.QUOTA if excluded else dominant_reason(every, self._cycle.snapshot)
        return Blocked(reason, every, self._cycle.snapshot.growth, quota_bound=bool(shorts) or not choices)

    def _nearest(
        self, job: PendingJob, request: GangRequest, choices: Sequence[tuple[FlavorName, ...]]
    ) -> list[PoolVerdict]:
        """Of a large fleet, what the nearest pools say, and those that refused such a job a moment ago."""
        if self._cycle.sieve is None:
            return []
        avoided = [pool for pool in self._cycle.visit if self._cycle.avoids(job, pool.name) is not None]
        skipped = {pool.name for pool in self._cycle.visit if self._cycle.unusable(pool) is not None}.union(
            p.name for p in avoided
        )
        found: list[PoolVerdict] = []
        for flavors in choices:
            ask = prepare(request, flavors)
            for pool in (*self._cycle.sieve.nearest(ask, NEAREST_ASKED_MAX, skipped), *avoided):
                outcome = self._cycle.ask(pool, job, ask, flavors)
                if isinstance(outcome, PoolVerdict):
                    found.append(outcome)
        return found

    def _unusable(
        self,
        request: GangRequest,
        choices: Sequence[tuple[FlavorName, ...]],
        shorts: Mapping[tuple[FlavorName, ...], PoolVerdict],
    ) -> list[PoolVerdict]:
        """Pools that may not be used now; a few of them are asked how near they would be otherwise."""
        found = {p.name: why for p in self._cycle.snapshot.pools if (why := self._cycle.unusable(p)) is not None}
        nearness = {
            name: max((self._told(name, request, c, shorts.get(c)).nearness for c in choices), default=0.0)
            for name in islice((name for name in found if name in self._cycle.shapes), UNTAKEN_ASKED_MAX)
        }
        return [unusable_pool(name, why, nearness.get(name, 0.0) / 2) for name, why in found.items()]

    def _told(
        self,
        pool: PoolName,
        request: GangRequest,
        flavors: tuple[FlavorName, ...],
        short: PoolVerdict | None,
        *,
        refused: Reason | None = None,
    ) -> PoolVerdict:
        """What a pool that is not taken says: its shape, or quota where the shape would hold the gang."""
        verdict = verdict_of(pool, flavors, fit(self._cycle.shapes[pool], request, flavors))
        if verdict.fits and short is not None:
            verdict = at_pool(short, pool)
        return unusable_verdict(verdict, refused) if refused is not None else verdict
