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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from types import MappingProxyType
from typing import Final, NamedTuple

from hanse.model.ids import FlavorName, PoolName, QueueUid
from hanse.model.queue import Charge
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, SetRequest
from hanse.scheduler.core.choice import Choice, Rank, Standing, rank_of, standing
from hanse.scheduler.core.elastic import largest
from hanse.scheduler.core.pending import PendingJob, Service
from hanse.scheduler.core.preference import preference
from hanse.scheduler.core.quota import QuotaOverlay, charges_for, charges_of, jobs_full, shortfall
from hanse.scheduler.core.ranking import BEST, Candidate
from hanse.scheduler.core.shapes import Shapes
from hanse.scheduler.core.sieve import ASKED_FIRST, POOLS_MIN, Sieve
from hanse.scheduler.core.snapshot import Limits, PoolView, Snapshot
from hanse.scheduler.core.verdicts import (
    Blocked,
    PoolVerdict,
    at_pool,
    dominant_reason,
    jobs_verdict,
    quota_verdict,
    unusable_verdict,
    verdict_of,
)
from hanse.shape import Ask, Fit, apply, fit, fit_ask, prepare

_NOTHING_BEFORE: Final[Mapping[int, "Blocked"]] = MappingProxyType({})

FLAVOR_CHOICES_MAX: Final = 16
"""Combinations of flavors over pod sets that are tried for one job."""

UNTAKEN_ASKED_MAX: Final = 8
"""Pools that may not be used, or not for a choice of flavors, and are asked all the same, for the reason alone."""

NEAREST_ASKED_MAX: Final = 8
"""Pools of a large fleet whose verdicts a blocked class carries."""


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
    """

    decisions: tuple[Decision, ...]
    blocked: Mapping[int, Blocked]
    failed: Mapping[int, str]
    exhausted: bool


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
    cycle = _Cycle(snapshot, limits, rng)
    decisions: list[Decision] = []
    blocked: dict[int, Blocked] = {}
    failed: dict[int, str] = {}
    looked = 0
    while len(decisions) < limits.decisions_max and looked < limits.classes_max:
        job = service.next()
        if job is None:
            return Plan(tuple(decisions), blocked, failed, exhausted=False)
        request = requests.get(job.class_hash)
        if request is None:
            service.drop_class(job.class_hash)
            continue
        try:
            outcome = cycle.decide(job, request, before.get(job.class_hash))
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
    return Plan(tuple(decisions), blocked, failed, exhausted=True)


def verify(snapshot: Snapshot, decisions: Sequence[Decision], limits: Limits) -> tuple[Decision, ...]:
    """Of decisions that lost a race, those that still hold on a newer snapshot, with the same pools and flavors."""
    cycle = _Cycle(snapshot, limits)
    return tuple(d for d in decisions if cycle.still_holds(d))


def flavor_choices(
    request: GangRequest, quotas: Sequence[FlavorName], known: Sequence[FlavorName]
) -> Iterator[tuple[FlavorName, ...]]:
    """Flavors for each pod set, in order of preference, at most FLAVOR_CHOICES_MAX combinations.

    A set that names none takes any flavor that the queue has quota for, the same for all such sets.
    """
    allowed = [f for f in quotas if f in known]
    nothing = [FlavorName("")]
    own = [[f for f in s.flavors if f in allowed] or nothing for s in request.sets]
    free = any(not s.flavors for s in request.sets)
    choices = (
        tuple(f if s.flavors else shared for s, f in zip(request.sets, combination, strict=True))
        for shared in (allowed if free else nothing)
        for combination in product(*own)
    )
    return islice((c for c in choices if all(c)), FLAVOR_CHOICES_MAX)


def unusable(pool: PoolView, limits: Limits, *, given: int = 0) -> Reason | None:
    """Why nothing may be bound to the pool now, whatever is asked.

    Args:
        given: bindings that a cycle has given it and that the view does not know of.
    """
    if pool.facts.cordoned:
        return Reason.CORDONED
    if not pool.attached:
        return Reason.DETACHED
    if pool.planned is None or pool.age_s > limits.summary_age_max_s:
        return Reason.STALE
    if pool.unacknowledged + given >= limits.unacknowledged_max:
        return Reason.LAGGING
    return None


class _Walk(NamedTuple):
    """Where a job begins to look; it ends when `enough` pools hold it, or once one does at place `until`."""

    start: int
    enough: int
    until: int


class _Cycle:
    """The ledger of one cycle: shapes and quota with this cycle's decisions taken out."""

    def __init__(self, snapshot: Snapshot, limits: Limits, rng: random.Random | None = None) -> None:
        self._snapshot = snapshot
        self._limits = limits
        self._rng = rng
        self._quota = QuotaOverlay(snapshot.usage)
        self._shapes = Shapes(snapshot.pools)
        self._given: dict[PoolName, int] = {}
        self._pools = {p.name: p for p in snapshot.pools}
        self._visit, self._share = self._order()
        self._place_of = {pool.name: place for place, pool in enumerate(self._visit)}
        self._prefers = limits.prefer_pools or len(snapshot.schedulers) < 2  # else all would like the same pool best
        self._since = -1
        self._comparisons = limits.comparisons_max
        self._sieve: Sieve | None = None
        if snapshot.fleet is not None and len(self._visit) >= POOLS_MIN:
            self._sieve = Sieve(snapshot.fleet, self._visit, self._shapes)

    def _order(self) -> tuple[tuple[PoolView, ...], int]:
        """The pools that may be used, in the order of asking, and how many of the first are this replica's own."""
        pools = [p for p in self._snapshot.pools if self.unusable(p) is None]
        if not self._limits.prefer_pools:
            return tuple(pools), len(pools)
        mine = preference(
            self._snapshot.replica, self._snapshot.schedulers, tuple(p.name for p in self._snapshot.pools)
        )
        pools.sort(key=lambda p: mine.places[p.name])
        return tuple(pools), sum(p.name in mine.own for p in pools) or len(pools)

    def _walk(self) -> _Walk:
        """Where one job begins to ask, and when it need ask no more."""
        pools = len(self._visit)
        if pools <= self._limits.candidates_max or self._rng is None:
            return _Walk(0, pools, pools)
        if self._share <= self._comparisons:
            self._comparisons -= self._share
            return _Walk(0, self._share, self._share)
        return _Walk(self._rng.randrange(self._share), self._limits.candidates_sampled, self._share)

    def _line(self, ask: Ask, start: int = 0) -> Iterator[tuple[int, PoolView]]:
        """The pools that one job asks, each with its place: of many pools a few, then those that may hold it.

        A walk that begins at one of this replica's pools goes round these before it goes on to the others.
        """
        places = (*range(start, self._share), *range(start), *range(self._share, len(self._visit)))
        if self._since >= 0:
            places = tuple(place for place in places if self._visit[place].grown > self._since)
        if self._sieve is None or len(places) <= 2 * ASKED_FIRST:
            yield from ((place, self._visit[place]) for place in places)
            return
        first = places[:ASKED_FIRST]
        yield from ((place, self._visit[place]) for place in first)
        for place in self._sieve.worth_asking(ask, start, self._share, self._since):
            if place not in first:
                yield place, self._visit[place]

    def unusable(self, pool: PoolView) -> Reason | None:
        """Why nothing may be bound to the pool now, whatever is asked."""
        return unusable(pool, self._limits, given=self._given.get(pool.name, 0))

    # ---- deciding ------------------------------------------------------------------------------------------

    def decide(self, job: PendingJob, request: GangRequest, before: Blocked | None = None) -> Decision | Blocked:
        """Give the job its places, or say why not."""
        facts = self._snapshot.queues.get(job.queue)
        stamp = self._snapshot.growth
        if facts is None or facts.root not in self._snapshot.grants:
            return Blocked(Reason.WAITING, (), stamp, quota_bound=True)
        if facts.queue.held:
            return Blocked(Reason.QUEUE_HELD, (), stamp, quota_bound=True)
        if jobs_full(facts.queue, self._quota):
            return Blocked(Reason.QUOTA, (jobs_verdict(facts.queue),), stamp, quota_bound=True)
        self._since = before.stamp if before is not None else -1
        verdicts: list[PoolVerdict] = []
        choices = tuple(flavor_choices(request, self.quota_flavors(job.queue), self._snapshot.flavors))
        shorts: dict[tuple[FlavorName, ...], PoolVerdict] = {}
        for flavors in choices:
            charges = charges_for(request, flavors)
            short = shortfall(facts.queue, charges, self._quota)
            if short is not None:
                shorts[flavors] = quota_verdict(facts.queue.name, short)
                continue
            decision = self._place(job, request, flavors, charges, verdicts)
            if decision is not None:
                return decision
        if request.is_elastic:
            return self._decide_smaller(job, request, choices, before)
        return self._blocked(job, request, choices, shorts, verdicts, before)

    def _decide_smaller(
        self, job: PendingJob, request: GangRequest, choices: Sequence[tuple[FlavorName, ...]], before: Blocked | None
    ) -> Decision | Blocked:
        """An elastic gang that fits nowhere with all its pods: as many as fit, or why not even its minimum does."""
        queue = self._snapshot.queues[job.queue].queue
        least = request.at_least
        verdicts: list[PoolVerdict] = []
        shorts: dict[tuple[FlavorName, ...], PoolVerdict] = {}
        sized: list[tuple[GangRequest, tuple[FlavorName, ...]]] = []
        for flavors in choices:
            short = shortfall(queue, charges_for(least, flavors), self._quota)
            if short is not None:
                shorts[flavors] = quota_verdict(queue.name, short)
            elif self._holds(job, least, flavors, verdicts):
                sized.append((largest(request, partial(self._holds, job, flavors=flavors)), flavors))
        for most, flavors in sorted(sized, key=lambda s: -s[0].pods):
            decision = self._place(job, most, flavors, charges_for(most, flavors), verdicts)
            if decision is not None:
                return decision
        return self._blocked(job, least, choices, shorts, verdicts, before)

    def _holds(
        self,
        job: PendingJob,
        request: GangRequest,
        flavors: tuple[FlavorName, ...],
        verdicts: list[PoolVerdict] | None = None,
    ) -> bool:
        """Whether quota has room and some pool holds the gang; what the pools that do not say is added."""
        queue = self._snapshot.queues[job.queue].queue
        if shortfall(queue, charges_for(request, flavors), self._quota) is not None:
            return False
        ask = prepare(request, flavors)
        for _, pool in self._line(ask):
            outcome = self._fit(pool, job, ask, flavors)
            if isinstance(outcome, Fit):
                return True
            if verdicts is not None:
                verdicts.append(outcome)
        return False

    def quota_flavors(self, queue: QueueUid) -> tuple[FlavorName, ...]:
        """Flavors that the queue may use, in its order of preference."""
        return tuple(q.flavor for q in self._snapshot.queues[queue].queue.quotas)

    def _place(
        self,
        job: PendingJob,
        request: GangRequest,
        flavors: tuple[FlavorName, ...],
        charges: tuple[Charge, ...],
        verdicts: list[PoolVerdict],
    ) -> Decision | None:
        ask = prepare(request, flavors)
        best, fits, asked = self._ranked(job, ask, flavors, verdicts)
        if not best:
            best, fits, asked = self._walked(job, ask, flavors, verdicts)
        if not best:
            return self._split(job, request, flavors, charges)
        _, won, found = best[0]
        second = _standing(self._visit[best[1].place], best[1].found) if len(best) > 1 else None
        pool = self._visit[won]
        choice = Choice(_standing(pool, found), second, fits, asked)
        return self._take(job, request, flavors, charges, pool, found, choice)

    def _ranked(
        self, job: PendingJob, ask: Ask, flavors: tuple[FlavorName, ...], verdicts: list[PoolVerdict]
    ) -> tuple[list[Candidate], int, int]:
        """The best of this replica's pools, how many of these may hold the job, and how many there are."""
        if self._sieve is None or not self._prefers:
            return [], 0, 0
        ranking = self._sieve.ranking(ask, job.class_hash, self._share, self._since)

        def said(place: int) -> Fit | None:
            outcome = self._fit(self._visit[place], job, ask, flavors)
            if isinstance(outcome, Fit):
                return outcome
            verdicts.append(outcome)
            return None

        return ranking.best(said, self._limits.ranked_max), len(ranking), self._share

    def _walked(
        self, job: PendingJob, ask: Ask, flavors: tuple[FlavorName, ...], verdicts: list[PoolVerdict]
    ) -> tuple[list[Candidate], int, int]:
        """The best of the pools that a walk asks, how many hold the job, and how many were asked."""
        best: list[Candidate] = []
        fits = asked = 0
        walk = self._walk()
        for place, pool in self._line(ask, walk.start):
            if fits and place >= walk.until:
                break
            asked += 1
            outcome = self._fit(pool, job, ask, flavors)
            if isinstance(outcome, PoolVerdict):
                verdicts.append(outcome)
                continue
            best.append(Candidate(rank_of(outcome, pool.facts.cost), place, outcome))
            best = sorted(best, key=_rank)[:BEST]
            fits += 1
            if fits == walk.enough:
                break
        return best, fits, asked

    def _fit(self, pool: PoolView, job: PendingJob, ask: Ask, flavors: tuple[FlavorName, ...]) -> Fit | PoolVerdict:
        if self._avoids(job, pool.name):
            return unusable_verdict(
                verdict_of(pool.name, flavors, fit_ask(self._shapes[pool.name], ask)), Reason.REFUSED
            )
        if self.unusable(pool) is Reason.LAGGING:
            return PoolVerdict(pool.name, False, Reason.LAGGING, flavors[0])
        outcome = fit_ask(self._shapes[pool.name], ask)
        if not isinstance(outcome, Fit):
            if self._sieve is not None:
                self._sieve.refused(ask, pool.name)
            return verdict_of(pool.name, flavors, outcome)
        in_flight = pool.unacknowledged + self._given.get(pool.name, 0)
        if not outcome.certain and in_flight >= self._limits.uncertain_max:
            text = f"{in_flight:,} decisions wait for its agent, and only the agent can tell whether this one fits"
            return PoolVerdict(pool.name, False, Reason.LAGGING, flavors[0], detail=text, nearness=0.95)
        return outcome

    def _take(
        self,
        job: PendingJob,
        request: GangRequest,
        flavors: tuple[FlavorName, ...],
        charges: tuple[Charge, ...],
        pool: PoolView,
        found: Fit,
        choice: Choice,
    ) -> Decision:
        used = [i for i, s in enumerate(request.sets) if s.count]
        counts = tuple((i, request.sets[i].count, 0) for i in used)
        own = GangRequest(tuple(request.sets[i] for i in used))
        of_used = tuple(flavors[i] for i in used)
        part = PartPlan(pool.name, pool.facts.slot, counts, own, of_used, charges, choice)
        self._use(pool, found, part)
        self._quota.give(job.queue, charges)
        return Decision(job, (part,))

    def _use(self, pool: PoolView, found: Fit, part: PartPlan) -> None:
        before = self._shapes[pool.name]
        after = self._shapes[pool.name] = apply(before, found.decision)
        pool.takes.put(before, part.request, part.flavors, after)
        if self._sieve is not None:
            self._sieve.taken(self._place_of[pool.name])
        self._given[pool.name] = self._given.get(pool.name, 0) + 1

    # ---- splitting -----------------------------------------------------------------------------------------

    def _split(
        self, job: PendingJob, request: GangRequest, flavors: tuple[FlavorName, ...], charges: tuple[Charge, ...]
    ) -> Decision | None:
        """A gang over several pools, if its owner allows it: fewest pools, cut between slices.

        Only gangs of one pod set without a required level are cut: a required level means one domain, and a domain
        never reaches over pools; neither does what is meant by one value of a label.
        """
        if request.max_pools < 2 or len(request.sets) != 1:
            return None
        if request.sets[0].topology.required or request.sets[0].topology.same:
            return None
        rooms = self._rooms(job, request.sets[0], flavors, request.max_pools)
        chosen: list[tuple[PoolView, int]] = []
        left = request.sets[0].count
        for room, pool in rooms[: request.max_pools]:
            take = min(room, left)
            chosen.append((pool, take))
            left -= take
            if left == 0:
                return self._take_parts(job, request, flavors, charges, chosen)
        return None

    def _rooms(
        self, job: PendingJob, want: SetRequest, flavors: tuple[FlavorName, ...], pools: int
    ) -> list[tuple[int, PoolView]]:
        """How many pods each pool could hold, in whole slices, most first: at least the first so many pools."""
        step = want.topology.slices[0].size if want.topology.slices else 1
        most = (want.count - 1) // step * step
        if self._sieve is None:
            found = [(self._room(p, job, want, flavors, step, most), p) for p in self._visit]
        else:
            found = self._sieved_rooms(job, want, flavors, step, most, pools)
        return sorted(((r, p) for r, p in found if r > 0), key=lambda e: (-e[0], e[1].name))

    def _sieved_rooms(
        self, job: PendingJob, want: SetRequest, flavors: tuple[FlavorName, ...], step: int, most: int, pools: int
    ) -> list[tuple[int, PoolView]]:
        """`_rooms` of a large fleet, of so many pools with the most room and perhaps of others."""
        assert self._sieve is not None
        found: list[tuple[int, PoolView]] = []
        for held, pool in self._sieve.held(prepare(part_request(want, want.count), flavors), want.count):
            rooms = sorted((room for room, _ in found), reverse=True)[:pools]
            if len(rooms) == pools and rooms[-1] > held:
                break
            found.append((self._room(pool, job, want, flavors, step, min(most, held // step * step)), pool))
        return found

    def _room(
        self,
        pool: PoolView,
        job: PendingJob,
        want: SetRequest,
        flavors: tuple[FlavorName, ...],
        step: int,
        most: int,
    ) -> int:
        """The most pods, a multiple of `step` up to `most`, that fit, by bisection (fitting is monotone)."""
        low, high = 0, most // step
        middle = high
        while low < high:
            ask = prepare(part_request(want, middle * step), flavors)
            if isinstance(self._fit(pool, job, ask, flavors), Fit):
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        return low * step

    def _take_parts(
        self,
        job: PendingJob,
        request: GangRequest,
        flavors: tuple[FlavorName, ...],
        charges: tuple[Charge, ...],
        chosen: Sequence[tuple[PoolView, int]],
    ) -> Decision | None:
        found: list[tuple[PoolView, int, Fit]] = []
        for pool, count in chosen:
            outcome = self._fit(pool, job, prepare(part_request(request.sets[0], count), flavors), flavors)
            if not isinstance(outcome, Fit):
                return None
            found.append((pool, count, outcome))
        parts: list[PartPlan] = []
        first_rank = 0
        for pool, count, outcome in found:
            want = part_request(request.sets[0], count)
            counts = ((0, count, first_rank),)
            part = PartPlan(pool.name, pool.facts.slot, counts, want, flavors, charges_for(want, flavors))
            self._use(pool, outcome, part)
            parts.append(part)
            first_rank += count
        self._quota.give(job.queue, charges)
        return Decision(job, tuple(parts))

    # ---- verifying -----------------------------------------------------------------------------------------

    def still_holds(self, decision: Decision) -> bool:
        """Whether a decision of an older snapshot holds on this one; if so, it is taken here."""
        facts = self._snapshot.queues.get(decision.job.queue)
        if facts is None or facts.queue.held or facts.root not in self._snapshot.grants:
            return False
        charges = tuple(c for part in decision.parts for c in part.charges)
        totals = charges_of((c.flavor, 1, c.amount) for c in charges)
        if shortfall(facts.queue, totals, self._quota) is not None or jobs_full(facts.queue, self._quota):
            return False
        found: list[tuple[PoolView, Fit]] = []
        for part in decision.parts:
            pool = self._pools.get(part.pool)
            if pool is None or self.unusable(pool) is not None:
                return False
            outcome = fit(self._shapes[part.pool], part.request, part.flavors)
            if not isinstance(outcome, Fit):
                return False
            found.append((pool, outcome))
        for (pool, outcome), part in zip(found, decision.parts, strict=True):
            self._use(pool, outcome, part)
        self._quota.give(decision.job.queue, totals)
        return True

    def _blocked(
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
            self._told(pool.name, request, flavors, short, refused=self._avoids(job, pool.name))
            for flavors, short in shorts.items()
            for pool in self._visit[:UNTAKEN_ASKED_MAX]
        ]
        unusable = self._unusable(request, choices, shorts)
        verdicts = (*verdicts, *self._nearest(job, request, [c for c in choices if c not in shorts]))
        asked = {v.pool for v in (*verdicts, *quota, *unusable)}
        kept = [v for v in before.verdicts if v.pool not in asked] if before is not None else []
        every = (*verdicts, *quota, *unusable, *kept)
        excluded = len(shorts) == len(choices)
        reason = Reason.QUOTA if excluded else dominant_reason(every, self._snapshot)
        return Blocked(reason, every, self._snapshot.growth, quota_bound=bool(shorts) or not choices)

    def _nearest(
        self, job: PendingJob, request: GangRequest, choices: Sequence[tuple[FlavorName, ...]]
    ) -> list[PoolVerdict]:
        """Of a large fleet, what the nearest pools say, and those that refused such a job a moment ago."""
        if self._sieve is None:
            return []
        avoided = [pool for pool in self._visit if self._avoids(job, pool.name)]
        skipped = {pool.name for pool in self._visit if self.unusable(pool) is not None}.union(
            p.name for p in avoided
        )
        found: list[PoolVerdict] = []
        for flavors in choices:
            ask = prepare(request, flavors)
            for pool in (*self._sieve.nearest(ask, NEAREST_ASKED_MAX, skipped), *avoided):
                outcome = self._fit(pool, job, ask, flavors)
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
        found = {p.name: why for p in self._snapshot.pools if (why := self.unusable(p)) is not None}
        nearness = {
            name: max((self._told(name, request, c, shorts.get(c)).nearness for c in choices), default=0.0)
            for name in islice((name for name in found if name in self._shapes), UNTAKEN_ASKED_MAX)
        }
        return [
            PoolVerdict(name, False, why, FlavorName(""), nearness=nearness.get(name, 0.0) / 2)
            for name, why in found.items()
        ]

    def _told(
        self,
        pool: PoolName,
        request: GangRequest,
        flavors: tuple[FlavorName, ...],
        short: PoolVerdict | None,
        *,
        refused: bool = False,
    ) -> PoolVerdict:
        """What a pool that is not taken says: its shape, or quota where the shape would hold the gang."""
        verdict = verdict_of(pool, flavors, fit(self._shapes[pool], request, flavors))
        if verdict.fits and short is not None:
            verdict = at_pool(short, pool)
        return unusable_verdict(verdict, Reason.REFUSED) if refused else verdict

    def _avoids(self, job: PendingJob, pool: PoolName) -> bool:
        """Whether the pool refused a job of this class a moment ago."""
        return (job.class_hash, pool) in self._snapshot.avoided


def _standing(pool: PoolView, found: Fit) -> Standing:
    return standing(pool.name, found, pool.facts.cost)


def _rank(candidate: Candidate) -> Rank:
    return candidate.rank


def part_request(want: SetRequest, count: int) -> GangRequest:
    """The request for `count` pods of a set, all or none."""
    return GangRequest((replace(want, count=count, min_count=count),))
