"""One scheduling cycle as a pure function: which pending job goes to which pool, and why the others wait.

Jobs are taken in order of service. For each, the flavors that its queue has quota for are tried in order of
preference; for each flavor the best pool is taken: fewest domains from the top level down, then fewest hosts, then
the cheapest, then the tightest (see `choice`). What is decided is taken from the cycle's own copy of shapes and
quota, so later jobs see it. Of a small fleet every pool is asked; a larger one is looked over at once, and a few are
asked in the order of what they can be at best (`ranking`).

An elastic gang that fits nowhere with all its pods, and whose quota has no room for them, gets as many as fit (see
`elastic`); a pool that holds all of them comes before one that holds fewer. Its minimum explains why it waits.

A job that does not fit never stops those behind it (best effort; reservation and backfill are a layer above). Its
whole class is dropped for the cycle, since capacity only shrinks within one.

The pools of a large fleet are dealt out among the replicas that schedule (see `preference`), and a replica looks at
its own first. Pools that are somebody else's are asked when none of its own holds the job, so heads seldom collide.
Where that is switched off, all replicas would like the same pool best: the first jobs of a cycle are compared with
all pools, and for the others a walk begins at one that is drawn for each. Nothing depends on that but speed.

A class that finds no place is told one reason, and `explain` tells the same one: a hold of the queue, quota if it
excludes every choice of flavors, else that of the pool which is nearest to holding the gang. A pool that may not be
used now counts half as near as its shape.

A class that is blocked in a fleet of many pools carries the verdicts of the nearest pools, not of all.

Rejected: sampling. With two of 20 pools, large gangs waited 1.4 times as long in the worst hundredth of cases as in
one tree of all nodes, and 0.7 % of all GPUs were stranded (`BENCH=hierarchy`). Rejected as well: asking every pool
for every job. At 1,000 pools it costs 30 times as much.
"""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.queue import Charge
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.scheduler.core.choice import Choice, Standing, standing
from hanse.scheduler.core.cycle import Cycle, unusable
from hanse.scheduler.core.decision import Decision, PartPlan, Plan, part_request
from hanse.scheduler.core.elastic import largest
from hanse.scheduler.core.flavors import FLAVOR_CHOICES_MAX, flavor_choices
from hanse.scheduler.core.pending import PendingJob, Service
from hanse.scheduler.core.quota import charges_for, charges_of, jobs_full, shortfall
from hanse.scheduler.core.reasons import Reasons
from hanse.scheduler.core.search import Search
from hanse.scheduler.core.snapshot import Limits, PoolView, Snapshot
from hanse.scheduler.core.splitting import Splitter
from hanse.scheduler.core.verdicts import Blocked, PoolVerdict, jobs_verdict, quota_verdict
from hanse.shape import Fit, fit

_NOTHING_BEFORE: Final[Mapping[int, "Blocked"]] = MappingProxyType({})


def run_cycle(
    snapshot: Snapshot,
    service: Service,
    requests: Mapping[int, GangRequest],
    limits: Limits,
    rng: random.Random,
    before: Mapping[int, Blocked] = _NOTHING_BEFORE,
) -> Plan:
    """Plan one cycle.

    Args:
        service: the pending jobs in order of service.
        requests: the request of each class; a class without one is left out (its spec is being read).
        before: classes that were blocked by capacity alone in an earlier cycle; they ask only pools grown since.
        rng: draws where the walk over a large fleet begins; equal arguments and seed give equal plans (S10).
    """
    decider = _Decider(snapshot, limits, rng)
    decisions: list[Decision] = []
    blocked: dict[int, Blocked] = {}
    failed: dict[int, str] = {}
    looked = 0
    unread = False
    while len(decisions) < limits.decisions_max and looked < limits.classes_max:
        job = service.next()
        if job is None:
            return Plan(tuple(decisions), blocked, failed, exhausted=False, unread=unread)
        request = requests.get(job.class_hash)
        if request is None:
            unread = True
            service.drop_class(job.class_hash)
            continue
        try:
            outcome = decider.decide(job, request, before.get(job.class_hash))
        except Exception as error:
            failed[job.class_hash] = f"{type(error).__name__}: {error}"
            service.drop_class(job.class_hash)
            continue
        if isinstance(outcome, Blocked):
            blocked[job.class_hash] = outcome
            service.drop_class(job.class_hash)
            looked += 1
        else:
            decisions.append(outcome)
    return Plan(tuple(decisions), blocked, failed, exhausted=True, unread=unread)


def verify(snapshot: Snapshot, decisions: Sequence[Decision], limits: Limits) -> tuple[Decision, ...]:
    """Of decisions that lost a race, those that still hold on a newer snapshot, with the same pools and flavors."""
    decider = _Decider(snapshot, limits)
    return tuple(d for d in decisions if decider.still_holds(d))


class _Decider:
    """Decides the jobs of one cycle, one after the other."""

    def __init__(self, snapshot: Snapshot, limits: Limits, rng: random.Random | None = None) -> None:
        self._cycle = Cycle(snapshot, limits)
        self._search = Search(self._cycle, rng)
        self._splitter = Splitter(self._cycle)
        self._reasons = Reasons(self._cycle)

    def decide(self, job: PendingJob, request: GangRequest, before: Blocked | None = None) -> Decision | Blocked:
        """Give the job its places, or say why not."""
        facts = self._cycle.snapshot.queues.get(job.queue)
        stamp = self._cycle.snapshot.growth
        if facts is None or facts.root not in self._cycle.snapshot.grants:
            return Blocked(Reason.WAITING, (), stamp, quota_bound=True)
        if facts.queue.held:
            return Blocked(Reason.QUEUE_HELD, (), stamp, quota_bound=True)
        if jobs_full(facts.queue, self._cycle.quota):
            return Blocked(Reason.QUOTA, (jobs_verdict(facts.queue),), stamp, quota_bound=True)
        self._cycle.since = before.stamp if before is not None else -1
        verdicts: list[PoolVerdict] = []
        choices = tuple(flavor_choices(request, self._cycle.quota_flavors(job.queue), self._cycle.snapshot.flavors))
        shorts: dict[tuple[FlavorName, ...], PoolVerdict] = {}
        for flavors in choices:
            charges = charges_for(request, flavors)
            short = shortfall(facts.queue, charges, self._cycle.quota)
            if short is not None:
                shorts[flavors] = quota_verdict(facts.queue.name, short)
                continue
            decision = self._place(job, request, flavors, charges, verdicts)
            if decision is not None:
                return decision
        if request.is_elastic:
            return self._decide_smaller(job, request, choices, before)
        return self._reasons.blocked(job, request, choices, shorts, verdicts, before)

    def _decide_smaller(
        self, job: PendingJob, request: GangRequest, choices: Sequence[tuple[FlavorName, ...]], before: Blocked | None
    ) -> Decision | Blocked:
        """An elastic gang that fits nowhere with all its pods: as many as fit, or why not even its minimum does."""
        queue = self._cycle.snapshot.queues[job.queue].queue
        least = request.at_least
        verdicts: list[PoolVerdict] = []
        shorts: dict[tuple[FlavorName, ...], PoolVerdict] = {}
        sized: list[tuple[GangRequest, tuple[FlavorName, ...]]] = []
        for flavors in choices:
            short = shortfall(queue, charges_for(least, flavors), self._cycle.quota)
            if short is not None:
                shorts[flavors] = quota_verdict(queue.name, short)
            elif self._holds(job, least, flavors, verdicts):
                sized.append((largest(request, partial(self._holds, job, flavors=flavors)), flavors))
        if not sized:
            several = [(self._splitter.largest(job, request, each), each) for each in choices if each not in shorts]
            sized = [(most, each) for most, each in several if most is not None]
        for most, flavors in sorted(sized, key=lambda s: -s[0].pods):
            decision = self._place(job, most, flavors, charges_for(most, flavors), verdicts)
            if decision is not None:
                return decision
        return self._reasons.blocked(job, least, choices, shorts, verdicts, before)

    def _holds(
        self,
        job: PendingJob,
        request: GangRequest,
        flavors: tuple[FlavorName, ...],
        verdicts: list[PoolVerdict] | None = None,
    ) -> bool:
        """Whether quota has room and some pool holds the gang; what the pools that do not say is added."""
        queue = self._cycle.snapshot.queues[job.queue].queue
        if shortfall(queue, charges_for(request, flavors), self._cycle.quota) is not None:
            return False
        ask = self._cycle.prepared(request, flavors)
        for _, pool in self._cycle.line(ask):
            outcome = self._cycle.ask(pool, job, ask, flavors)
            if isinstance(outcome, Fit):
                return True
            if verdicts is not None:
                verdicts.append(outcome)
        return False

    def _place(
        self,
        job: PendingJob,
        request: GangRequest,
        flavors: tuple[FlavorName, ...],
        charges: tuple[Charge, ...],
        verdicts: list[PoolVerdict],
    ) -> Decision | None:
        ask = self._cycle.prepared(request, flavors)
        best, fits, asked = self._search.best(job, ask, flavors, verdicts)
        if not best:
            return self._splitter.split(job, request, flavors, charges)
        _, won, found = best[0]
        second = _standing(self._cycle.visit[best[1].place], best[1].found) if len(best) > 1 else None
        pool = self._cycle.visit[won]
        choice = Choice(_standing(pool, found), second, fits, asked)
        return self._cycle.take(job, request, flavors, charges, pool, found, choice)

    def still_holds(self, decision: Decision) -> bool:
        """Whether a decision of an older snapshot holds on this one; if so, it is taken here."""
        facts = self._cycle.snapshot.queues.get(decision.job.queue)
        if facts is None or facts.queue.held or facts.root not in self._cycle.snapshot.grants:
            return False
        charges = tuple(c for part in decision.parts for c in part.charges)
        totals = charges_of((c.flavor, 1, c.amount) for c in charges)
        if shortfall(facts.queue, totals, self._cycle.quota) is not None or jobs_full(facts.queue, self._cycle.quota):
            return False
        found: list[tuple[PoolView, Fit]] = []
        for part in decision.parts:
            pool = self._cycle.pools.get(part.pool)
            if pool is None or self._cycle.unusable(pool) is not None:
                return False
            outcome = fit(self._cycle.shapes[part.pool], part.request, part.flavors)
            if not isinstance(outcome, Fit):
                return False
            found.append((pool, outcome))
        for (pool, outcome), part in zip(found, decision.parts, strict=True):
            self._cycle.use(pool, outcome, part)
        self._cycle.quota.give(decision.job.queue, totals)
        return True


def _standing(pool: PoolView, found: Fit) -> Standing:
    return standing(pool.name, found, pool.facts.cost)


__all__ = [
    "FLAVOR_CHOICES_MAX",
    "Decision",
    "PartPlan",
    "Plan",
    "flavor_choices",
    "part_request",
    "run_cycle",
    "unusable",
    "verify",
]
