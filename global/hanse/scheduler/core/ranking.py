"""The best of many pools for a class of jobs, found by asking few of them.

A look over the fleet says of every pool how good its place can be at best (`hanse.shape.fleet_ranks`). Pools are
asked in that order until the next bound is no better than the two best places that were found: the answer is the one
that asking all of them would give. Pools that the cycle has taken from since are looked at again, all at once, before
the next job of the class has its turn; what others said stays good.

Many pools can be equally good as far as bounds tell (one pod on one host is: which broken host stands in the fullest
rack takes looking). So what one job may ask once it has found a place is limited; what was asked is remembered for
the next job of the class, which goes on from there.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hanse.scheduler.core.choice import Rank, rank_of
from hanse.scheduler.core.snapshot import PoolView
from hanse.shape import Ask, Fit
from hanse.shape.fleet_ranks import Lows, Ranked

BEST: Final = 2
"""Places that are looked for: the best, and the one that it is told apart from."""

Low = Rank


class Candidate(NamedTuple):
    """A pool that holds what is asked."""

    rank: Rank
    place: int
    found: Fit


class Ranking:
    """The pools that may hold what a class asks, in the order of what they can be at best.

    Args:
        places: of the visit that are looked at.
        numbers: by place of the visit, the number of the pool in `ranked`.
    """

    def __init__(
        self,
        ask: Ask,
        ranked: Ranked,
        visit: Sequence[PoolView],
        places: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> None:
        self._lows, self._visit, self._numbers = ranked.lows, visit, numbers
        cost = np.array([visit[place].facts.cost for place in places.tolist()], np.int64)
        self._line: list[int] = places[ranked.lows.order(numbers[places], cost)].tolist()
        self._at = 0  # pools before it were asked, or have a bound of their own by now
        self._open = set(self._line)
        self._bounds: list[tuple[Low, int, int]] = []
        self._found: list[tuple[Rank, int, int, Fit]] = []
        self._stamps: dict[int, int] = {}  # by place, of its newest entry in one of the heaps
        self._later: dict[int, Low] = {}  # by place, what a pool can be at best by now

    def __len__(self) -> int:
        """Pools that may hold it."""
        return len(self._open)

    def follow(self, places: Sequence[int], ranked: Ranked, numbers: Sequence[int]) -> None:
        """These pools have changed: what they can be at best by now, with their numbers in that."""
        for place, number in zip(places, numbers, strict=True):
            if place not in self._open:
                continue
            if not ranked.may_fit[number]:
                self._open.discard(place)
                continue
            low = self._later[place] = self._bound(place, ranked.lows, number)
            heappush(self._bounds, (low, place, self._stamp(place)))

    def best(self, ask: Callable[[int], Fit | None], most: int) -> list[Candidate]:
        """The best places, at most BEST.

        Args:
            ask: what the pool at a place of the visit says; one that says None is not asked again.
            most: pools that are asked at the most, once a place was found.
        """
        best: list[Candidate] = []
        asked = 0
        while len(best) < BEST:
            bound = self._next_bound() if asked < most or not (best or self._next_found()) else None
            found = self._next_found()
            if bound is not None and (found is None or bound < found[:2]):
                asked += 1
                self._ask(bound[1], ask)
            elif found is not None:
                heappop(self._found)
                best.append(Candidate(found[0], found[1], found[3]))
            else:
                break
        for one in best:
            heappush(self._found, (one.rank, one.place, self._stamp(one.place), one.found))
        return best

    def _ask(self, place: int, ask: Callable[[int], Fit | None]) -> None:
        outcome, stamp = ask(place), self._stamp(place)
        if outcome is None:
            self._open.discard(place)
        else:
            rank = rank_of(outcome, self._visit[place].facts.cost)
            heappush(self._found, (rank, place, stamp, outcome))

    def _stamp(self, place: int) -> int:
        """Of a new entry, which makes those before it void."""
        self._stamps[place] = self._stamps.get(place, 0) + 1
        return self._stamps[place]

    def _next_found(self) -> tuple[Rank, int, int, Fit] | None:
        while self._found and self._is_void(self._found[0][1], self._found[0][2]):
            heappop(self._found)
        return self._found[0] if self._found else None

    def _next_bound(self) -> tuple[Low, int] | None:
        while self._bounds and self._is_void(self._bounds[0][1], self._bounds[0][2]):
            heappop(self._bounds)
        while self._at < len(self._line) and self._is_told(self._line[self._at]):
            self._at += 1
        heads = [entry[:2] for entry in self._bounds[:1]]
        if self._at < len(self._line):
            heads.append((self._low(self._line[self._at]), self._line[self._at]))
        return min(heads, default=None)

    def _is_told(self, place: int) -> bool:
        """Whether the pool was asked, or has changed."""
        return place in self._stamps or place not in self._open

    def _is_void(self, place: int, stamp: int) -> bool:
        return place not in self._open or self._stamps[place] != stamp

    def _low(self, place: int) -> Low:
        return self._later.get(place) or self._bound(place, self._lows, int(self._numbers[place]))

    def _bound(self, place: int, lows: Lows, number: int) -> Low:
        width, tight = lows.low(number)
        return 0, width, self._visit[place].facts.cost, tight
