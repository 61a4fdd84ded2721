"""A gang over several pools, if its owner allows it."""

from collections.abc import Sequence

from hanse.model.ids import FlavorName
from hanse.model.queue import Charge
from hanse.model.request import GangRequest, SetRequest
from hanse.scheduler.core.cycle import Cycle
from hanse.scheduler.core.decision import Decision, PartPlan, part_request
from hanse.scheduler.core.dividing import POOLS_MAX, divide
from hanse.scheduler.core.elastic import largest
from hanse.scheduler.core.pending import PendingJob
from hanse.scheduler.core.quota import charges_for, shortfall
from hanse.scheduler.core.snapshot import PoolView
from hanse.shape import Fit, prepare


class Splitter:
    """Splits gangs in one cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle

    def split(
        self, job: PendingJob, request: GangRequest, flavors: tuple[FlavorName, ...], charges: tuple[Charge, ...]
    ) -> Decision | None:
        """A gang over several pools, if it may be cut: over which see `dividing`, and between slices."""
        if not _may_split(request):
            return None
        rooms = self._rooms(job, request.sets[0], flavors)
        facts = [pool.facts for _, pool in rooms]
        between = self._cycle.limits.links.between
        parts = divide(
            [room for room, _ in rooms],
            request.sets[0].count,
            request.max_pools,
            lambda one, other: between(facts[one], facts[other]),
            lambda place: facts[place].cost,
        )
        if parts is None:
            return None
        chosen = [(rooms[place][1], take) for place, take in parts]
        return self._take_parts(job, request, flavors, charges, chosen)

    def largest(self, job: PendingJob, request: GangRequest, flavors: tuple[FlavorName, ...]) -> GangRequest | None:
        """As many pods of an elastic gang as several pools hold together; None if that is not its minimum."""
        if not _may_split(request):
            return None
        queue = self._cycle.snapshot.queues[job.queue].queue
        total = sum(room for room, _ in self._rooms(job, request.sets[0], flavors)[: request.max_pools])

        def holds(sized: GangRequest) -> bool:
            return sized.pods <= total and shortfall(queue, charges_for(sized, flavors), self._cycle.quota) is None

        return largest(request, holds) if holds(request.at_least) else None

    def _rooms(
        self, job: PendingJob, want: SetRequest, flavors: tuple[FlavorName, ...]
    ) -> list[tuple[int, PoolView]]:
        """How many pods each pool could hold, in whole slices, most first: at least the first POOLS_MAX pools."""
        step = want.topology.slices[0].size if want.topology.slices else 1
        most = (want.count - 1) // step * step
        if self._cycle.sieve is None:
            found = [(self._room(p, job, want, flavors, step, most), p) for p in self._cycle.visit]
        else:
            found = self._sieved_rooms(job, want, flavors, step, most, POOLS_MAX)
        return sorted(((r, p) for r, p in found if r > 0), key=lambda e: (-e[0], e[1].name))

    def _sieved_rooms(
        self, job: PendingJob, want: SetRequest, flavors: tuple[FlavorName, ...], step: int, most: int, pools: int
    ) -> list[tuple[int, PoolView]]:
        """`_rooms` of a large fleet, of so many pools with the most room and perhaps of others."""
        assert self._cycle.sieve is not None
        found: list[tuple[int, PoolView]] = []
        for held, pool in self._cycle.sieve.held(prepare(part_request(want, want.count), flavors), want.count):
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
            if isinstance(self._cycle.ask(pool, job, ask, flavors), Fit):
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
            outcome = self._cycle.ask(pool, job, prepare(part_request(request.sets[0], count), flavors), flavors)
            if not isinstance(outcome, Fit):
                return None
            found.append((pool, count, outcome))
        parts: list[PartPlan] = []
        first_rank = 0
        for pool, count, outcome in found:
            want = part_request(request.sets[0], count)
            counts = ((0, count, first_rank),)
            part = PartPlan(pool.name, pool.facts.slot, counts, want, flavors, charges_for(want, flavors))
            self._cycle.use(pool, outcome, part)
            parts.append(part)
            first_rank += count
        self._cycle.quota.give(job.queue, charges)
        return Decision(job, tuple(parts))


def _may_split(request: GangRequest) -> bool:
    """Whether the owner allows it and the gang can be cut.

    Only gangs of one pod set without a required level, or a group's, are cut: it means one domain, and a domain never
    reaches over pools; neither does what is meant by one value of a label.
    """
    want = request.sets[0]
    held = want.topology.required or want.topology.same or want.topology.group
    return request.max_pools > 1 and len(request.sets) == 1 and not held
