"""Which pools of a large fleet are worth asking for a place: those that `Fleet` does not rule out.

Asking a pool for a place finds the best one, or says what is missing: work that is wasted on pools which a look over
all of them together rules out. So a walk asks the first few pools (where most hold the job, it ends there), and then
only those that may.

Within a cycle capacity only shrinks. A look is therefore good for all jobs of its class until the cycle ends: what it
rules out stays ruled out, and a pool that refuses although the look let it pass is struck from it. The fleet follows
such pools before the next look, and all of them before it says which came nearest; answers are the same as if every
pool had been asked.

Until a pool is asked, a look sees a bound of its shape (`Shapes.bounds`), which rules out less: of pools that nobody
asks the shape is never worked out.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.model.ids import FlavorName, PoolName
from hanse.model.request import GangRequest
from hanse.scheduler.core.ranking import Ranking
from hanse.scheduler.core.shapes import Shapes
from hanse.scheduler.core.snapshot import PoolView
from hanse.shape import Ask, Shape
from hanse.shape.fleet import Fleet, Look

POOLS_MIN: Final = 32
"""In a smaller fleet every pool is asked."""

ASKED_FIRST: Final = 4
"""Pools that a walk asks before it looks over all of them."""


class Sieve:
    """The fleet as one cycle sees it.

    Args:
        fleet: may hold anything; it is brought up to date before the first look.
        visit: the pools that may be used, in the order in which they are visited; every one has a shape.
        shapes: of these pools, as the cycle changes them.
    """

    def __init__(self, fleet: Fleet, visit: Sequence[PoolView], shapes: Shapes) -> None:
        self._fleet, self._visit, self._shapes = fleet, visit, shapes
        self._numbers: NDArray[np.int64] | None = None
        self._grown: NDArray[np.int64] | None = None
        self._looks: dict[Ask, Look] = {}
        self._rankings: dict[tuple[Ask, int, int], Ranking] = {}
        self._followed: dict[Ranking, int] = {}  # how many of `_taken` each of these knows of
        self._taken: list[int] = []
        self._changed = Fleet()  # the pools that the cycle has taken from, but for the newest of these
        self._unput: set[PoolName] = set()
        self._ahead: set[PoolName] = set()  # pools that the cycle has taken from since the fleet was told
        self._misled: set[PoolName] = set()

    def plain(self, request: GangRequest, flavors: tuple[FlavorName, ...]) -> GangRequest:
        """The gang without what no host of the fleet tells apart: see `Fleet.plain`."""
        self._places()
        return self._fleet.plain(request, flavors)

    def ranking(self, ask: Ask, whose: int, share: int, since: int) -> Ranking:
        """The first `share` pools of the visit that have grown `since`.

        Args:
            whose: it is for the jobs of that class alone, or (0) for all that ask this.
        """
        key = ask, whose, since
        found = self._rankings.get(key)
        if found is None:
            numbers = self._places()
            self._put_taken()
            ranked = self._fleet.rank(ask)
            places = np.flatnonzero(ranked.may_fit[numbers[:share]] & (self._stamps()[:share] > since))
            found = self._rankings[key] = Ranking(ask, ranked, self._visit, places, numbers)
            self._followed[found] = len(self._taken)
        changed = dict.fromkeys(self._taken[self._followed[found] :])
        if changed:
            self._followed[found] = len(self._taken)
            for name in sorted(self._unput):
                self._changed.put(name, self._shapes[name])
            self._unput.clear()
            numbers_now = [self._changed.number(self._visit[place].name) for place in changed]
            found.follow(list(changed), self._changed.rank(ask), numbers_now)
        return found

    def taken(self, place: int) -> None:
        """The cycle has taken from the pool at this place of the visit."""
        self._taken.append(place)
        self._unput.add(self._visit[place].name)
        self._ahead.add(self._visit[place].name)

    def _put_taken(self) -> None:
        """What the cycle has taken, into the fleet: who looks for the first time need not follow it."""
        for name in sorted(self._ahead):
            self._fleet.put(name, self._shapes[name])
        self._ahead.clear()

    def worth_asking(self, ask: Ask, start: int, share: int, since: int) -> Iterator[int]:
        """Places in the visit of the pools that have grown `since` and may fit.

        Of the first `share` pools those from place `start` on come first, then those before it, then all others.
        """
        look = self._look(ask)
        open_ = look.may_fit[self._places()] & (self._stamps() > since)
        places = np.flatnonzero(open_)
        own, others = places[places < share], places[places >= share]
        yield from np.concatenate((own[own >= start], own[own < start], others)).tolist()

    def refused(self, ask: Ask, pool: PoolName) -> None:
        """The pool's shape does not hold what was asked, so it will not in this cycle."""
        look = self._looks.get(ask)
        if look is not None and look.may_fit[self._fleet.number(pool)]:
            look.may_fit[self._fleet.number(pool)] = False
            self._misled.add(pool)

    def nearest(self, ask: Ask, most: int, skipped: Set[PoolName]) -> list[PoolView]:
        """At most so many pools, without the skipped, those first that come nearest to holding what is asked."""
        self._follow(self._shapes)
        near = self._fleet.near(ask, self._fleet.look(ask))[self._places()]
        order = (self._visit[at] for at in np.argsort(-near, kind="stable").tolist())
        return list(islice((pool for pool in order if pool.name not in skipped), most))

    def held(self, ask: Ask, pods: int) -> list[tuple[int, PoolView]]:
        """How many of so many pods each pool may hold, of an ask for one pod set; most first, without the empty."""
        pods_held = np.rint(self._look(ask).held[self._places()] * pods).astype(np.int64).tolist()
        found = [(held, pool) for held, pool in zip(pods_held, self._visit, strict=True) if held]
        return sorted(found, key=lambda entry: (-entry[0], entry[1].name))

    def _look(self, ask: Ask) -> Look:
        found = self._looks.get(ask)
        if found is None:
            self._follow({name: self._shapes[name] for name in sorted(self._misled)})
            self._misled.clear()
            found = self._looks[ask] = self._fleet.look(ask)
        return found

    def _follow(self, changed: Mapping[PoolName, Shape]) -> None:
        self._places()
        for name, shape in changed.items():
            self._fleet.put(name, shape)

    def _stamps(self) -> NDArray[np.int64]:
        """When the pools of the visit have grown."""
        if self._grown is None:
            self._grown = np.array([pool.grown for pool in self._visit], np.int64)
        return self._grown

    def _places(self) -> NDArray[np.int64]:
        """Where the pools stand in a look."""
        if self._numbers is None:
            self._fleet.follow(self._shapes.bounds())
            self._numbers = np.array([self._fleet.number(pool.name) for pool in self._visit], np.int64)
        return self._numbers


__all__ = ["ASKED_FIRST", "POOLS_MIN", "Sieve"]
