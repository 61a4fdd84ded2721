"""The ledger of one cycle: shapes and quota with this cycle's decisions taken out, and what pools say of a job."""

from collections.abc import Iterator

from hanse.model.ids import FlavorName, PoolName, QueueUid
from hanse.model.queue import Charge
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.scheduler.core.choice import Choice
from hanse.scheduler.core.decision import Decision, PartPlan
from hanse.scheduler.core.pending import PendingJob
from hanse.scheduler.core.preference import preference
from hanse.scheduler.core.quota import QuotaOverlay
from hanse.scheduler.core.shapes import Shapes
from hanse.scheduler.core.sieve import ASKED_FIRST, POOLS_MIN, Sieve
from hanse.scheduler.core.snapshot import Limits, PoolView, Snapshot
from hanse.scheduler.core.verdicts import PoolVerdict, unusable_verdict, verdict_of
from hanse.shape import Ask, Fit, apply, prepare


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


class Cycle:
    """See the module.

    Attributes:
        visit: the pools that may be used, in the order of asking.
        share: how many of the first are this replica's own.
        avoiding: classes that some pool refused a moment ago.
        since: only pools that have grown since this stamp are asked by the job that is looked at; -1 for all.
        index: where all pools can be asked at once; None for a few pools.
        sieve: the same, for a fleet that is so large that this is done before pools are asked one by one.
    """

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self.snapshot = snapshot
        self.limits = limits
        self.quota = QuotaOverlay(snapshot.usage)
        self.shapes = Shapes(snapshot.pools)
        self.pools = {p.name: p for p in snapshot.pools}
        self.since = -1
        self.avoiding = frozenset(class_hash for class_hash, _ in snapshot.avoided)
        self._given: dict[PoolName, int] = {}
        self.visit, self.share = self._order()
        self._place_of = {pool.name: place for place, pool in enumerate(self.visit)}
        self.index: Sieve | None = None
        if snapshot.fleet is not None and len(self.visit) > limits.candidates_max:
            self.index = Sieve(snapshot.fleet, self.visit, self.shapes)
        self.sieve = self.index if len(self.visit) >= POOLS_MIN else None

    def _order(self) -> tuple[tuple[PoolView, ...], int]:
        """The pools that may be used, in the order of asking, and how many of the first are this replica's own."""
        pools = [p for p in self.snapshot.pools if self.unusable(p) is None]
        if not self.limits.prefer_pools:
            return tuple(pools), len(pools)
        mine = preference(self.snapshot.replica, self.snapshot.schedulers, tuple(p.name for p in self.snapshot.pools))
        pools.sort(key=lambda p: mine.places[p.name])
        return tuple(pools), sum(p.name in mine.own for p in pools) or len(pools)

    def prepared(self, request: GangRequest, flavors: tuple[FlavorName, ...]) -> Ask:
        """The request, ready to be asked of many pools; one ask for all gangs that no pool tells apart."""
        return prepare(request if self.index is None else self.index.plain(request, flavors), flavors)

    def line(self, ask: Ask, start: int = 0) -> Iterator[tuple[int, PoolView]]:
        """The pools that one job asks, each with its place: of many pools a few, then those that may hold it.

        A walk that begins at one of this replica's pools goes round these before it goes on to the others.
        """
        places = (*range(start, self.share), *range(start), *range(self.share, len(self.visit)))
        if self.since >= 0:
            places = tuple(place for place in places if self.visit[place].grown > self.since)
        if self.sieve is None or len(places) <= 2 * ASKED_FIRST:
            yield from ((place, self.visit[place]) for place in places)
            return
        first = places[:ASKED_FIRST]
        yield from ((place, self.visit[place]) for place in first)
        for place in self.sieve.worth_asking(ask, start, self.share, self.since):
            if place not in first:
                yield place, self.visit[place]

    def unusable(self, pool: PoolView) -> Reason | None:
        """Why nothing may be bound to the pool now, whatever is asked."""
        return unusable(pool, self.limits, given=self._given.get(pool.name, 0))

    def avoids(self, job: PendingJob, pool: PoolName) -> Reason | None:
        """Why the pool refused a job of this class a moment ago; None if it did not."""
        return self.snapshot.avoided.get((job.class_hash, pool))

    def quota_flavors(self, queue: QueueUid) -> tuple[FlavorName, ...]:
        """Flavors that the queue may use, in its order of preference."""
        return tuple(q.flavor for q in self.snapshot.queues[queue].queue.quotas)

    def ask(self, pool: PoolView, job: PendingJob, ask: Ask, flavors: tuple[FlavorName, ...]) -> Fit | PoolVerdict:
        """What the pool says of a job."""
        avoided = self.avoids(job, pool.name)
        if avoided is not None:
            return unusable_verdict(
                verdict_of(pool.name, flavors, pool.takes.fit(self.shapes[pool.name], ask)), avoided
            )
        if self.unusable(pool) is Reason.LAGGING:
            return PoolVerdict(pool.name, False, Reason.LAGGING, flavors[0])
        outcome = pool.takes.fit(self.shapes[pool.name], ask)
        if not isinstance(outcome, Fit):
            if self.sieve is not None:
                self.sieve.refused(ask, pool.name)
            return verdict_of(pool.name, flavors, outcome)
        in_flight = pool.unacknowledged + self._given.get(pool.name, 0)
        if not outcome.certain and in_flight >= self.limits.uncertain_max:
            text = f"{in_flight:,} decisions wait for its agent, and only the agent can tell whether this one fits"
            return PoolVerdict(pool.name, False, Reason.LAGGING, flavors[0], detail=text, nearness=0.95)
        return outcome

    def take(
        self,
        job: PendingJob,
        request: GangRequest,
        flavors: tuple[FlavorName, ...],
        charges: tuple[Charge, ...],
        pool: PoolView,
        found: Fit,
        choice: Choice,
    ) -> Decision:
        """All of a job into one pool."""
        used = [i for i, s in enumerate(request.sets) if s.count]
        counts = tuple((i, request.sets[i].count, 0) for i in used)
        own = GangRequest(tuple(request.sets[i] for i in used))
        of_used = tuple(flavors[i] for i in used)
        part = PartPlan(pool.name, pool.facts.slot, counts, own, of_used, charges, choice)
        self.use(pool, found, part)
        self.quota.give(job.queue, charges)
        return Decision(job, (part,))

    def use(self, pool: PoolView, found: Fit, part: PartPlan) -> None:
        """Takes a part out of its pool."""
        before = self.shapes[pool.name]
        after = self.shapes[pool.name] = apply(before, found.decision)
        pool.takes.put(before, part.request, part.flavors, after)
        if self.index is not None:
            self.index.taken(self._place_of[pool.name])
        self._given[pool.name] = self._given.get(pool.name, 0) + 1
