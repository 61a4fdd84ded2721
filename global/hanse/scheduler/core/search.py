"""The pool for a job: the best of this replica's own, by a look over all of them or by asking one after the other."""

import random
from typing import NamedTuple

from hanse.model.ids import FlavorName
from hanse.scheduler.core.choice import Rank, rank_of
from hanse.scheduler.core.cycle import Cycle
from hanse.scheduler.core.pending import PendingJob
from hanse.scheduler.core.ranking import BEST, Candidate
from hanse.scheduler.core.verdicts import PoolVerdict
from hanse.shape import Ask, Fit


class _Walk(NamedTuple):
    """Where a job begins to look; it ends when `enough` pools hold it, or once one does at place `until`."""

    start: int
    enough: int
    until: int


class Search:
    """Looks for pools in one cycle.

    Args:
        rng: draws where walks begin; without one every pool is asked.
    """

    def __init__(self, cycle: Cycle, rng: random.Random | None) -> None:
        self._cycle = cycle
        self._rng = rng
        self._comparisons = cycle.limits.comparisons_max
        # else all replicas would like the same pool best
        self._prefers = cycle.limits.prefer_pools or len(cycle.snapshot.schedulers) < 2

    def best(
        self, job: PendingJob, ask: Ask, flavors: tuple[FlavorName, ...], verdicts: list[PoolVerdict]
    ) -> tuple[list[Candidate], int, int]:
        """The best pools, at most BEST, then how many hold the job, and of how many.

        Args:
            verdicts: what pools say that were asked and do not hold it is added.
        """
        found = self._ranked(job, ask, flavors, verdicts)
        return found if found[0] else self._walked(job, ask, flavors, verdicts)

    def _ranked(
        self, job: PendingJob, ask: Ask, flavors: tuple[FlavorName, ...], verdicts: list[PoolVerdict]
    ) -> tuple[list[Candidate], int, int]:
        """The best of this replica's pools, how many of these may hold the job, and how many there are."""
        index, few = self._cycle.index, self._cycle.sieve is None and self._cycle.share <= self._comparisons
        if index is None or few or not self._prefers:
            return [], 0, 0
        alone = self._cycle.sieve is None or job.class_hash in self._cycle.avoiding
        ranking = index.ranking(ask, job.class_hash if alone else 0, self._cycle.share, self._cycle.since)

        def said(place: int) -> Fit | None:
            outcome = self._cycle.ask(self._cycle.visit[place], job, ask, flavors)
            if isinstance(outcome, Fit):
                return outcome
            verdicts.append(outcome)
            return None

        return ranking.best(said, self._cycle.limits.ranked_max), len(ranking), self._cycle.share

    def _walked(
        self, job: PendingJob, ask: Ask, flavors: tuple[FlavorName, ...], verdicts: list[PoolVerdict]
    ) -> tuple[list[Candidate], int, int]:
        """The best of the pools that a walk asks, how many hold the job, and how many were asked."""
        best: list[Candidate] = []
        fits = asked = 0
        walk = self._walk()
        for place, pool in self._cycle.line(ask, walk.start):
            if fits and place >= walk.until:
                break
            asked += 1
            outcome = self._cycle.ask(pool, job, ask, flavors)
            if isinstance(outcome, PoolVerdict):
                verdicts.append(outcome)
                continue
            best.append(Candidate(rank_of(outcome, pool.facts.cost), place, outcome))
            best = sorted(best, key=_rank)[:BEST]
            fits += 1
            if fits == walk.enough:
                break
        return best, fits, asked

    def _walk(self) -> _Walk:
        """Where one job begins to ask, and when it need ask no more."""
        pools = len(self._cycle.visit)
        if pools <= self._cycle.limits.candidates_max or self._rng is None:
            return _Walk(0, pools, pools)
        if self._cycle.share <= self._comparisons:
            self._comparisons -= self._cycle.share
            return _Walk(0, self._cycle.share, self._cycle.share)
        return _Walk(self._rng.randrange(self._cycle.share), self._cycle.limits.candidates_sampled, self._cycle.share)


def _rank(candidate: Candidate) -> Rank:
    return candidate.rank
