"""Over which pools a gang is split: the fewest, then those whose links cost least, then the cheapest GPUs.

The number of pools follows from the roomiest ones. Among all sets of that many pools the best is found by a search
that gives up a set as soon as its links cost more than the best one found, or its room cannot be enough any more; it
looks at no more than POOLS_MAX pools, the roomiest, so that its time is bounded whatever the fleet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

POOLS_MAX: Final = 16
"""Pools, the roomiest, among which a gang is split."""

Rank = tuple[int, int, tuple[int, ...]]
"""Sum of the links between each two of the pools, sum of what their GPUs cost, their places: the smaller one wins."""


@dataclass(slots=True)
class _Search:
    """`rooms` do not grow; `best` is what was found so far."""

    rooms: Sequence[int]
    count: int
    pools: int
    link: Callable[[int, int], int]
    cost: Callable[[int], int]
    best: Rank | None = None
    sums: list[int] = field(default_factory=list)

    def look(self, chosen: tuple[int, ...], room: int, links: int) -> None:
        """Every set that begins with these."""
        if len(chosen) == self.pools:
            found = (links, sum(map(self.cost, chosen)), chosen)
            self.best = found if self.best is None or found < self.best else self.best
            return
        missing = self.pools - len(chosen)
        for place in range(chosen[-1] + 1 if chosen else 0, len(self.rooms) - missing + 1):
            if room + self.sums[place + missing] - self.sums[place] < self.count:
                return  # those after it have no more room
            more = links + sum(self.link(one, place) for one in chosen)
            if self.best is None or more <= self.best[0]:
                self.look((*chosen, place), room + self.rooms[place], more)


def divide(
    rooms: Sequence[int], count: int, pools_max: int, link: Callable[[int, int], int], cost: Callable[[int], int]
) -> list[tuple[int, int]] | None:
    """(place, pods) of each part in order of rank, None if so many pools have no room for all pods.

    Args:
        rooms: pods that each pool can hold, the most first; each a multiple of the slice that is not cut.
        link: what it costs two pools, by place, to talk to each other.
        cost: of a GPU, by place.
    """
    sums = list(accumulate(rooms[:POOLS_MAX], initial=0))
    fewest = next((n for n, total in enumerate(sums) if total >= count), len(sums))
    if not 0 < fewest <= min(pools_max, len(sums) - 1):
        return None
    search = _Search(rooms[:POOLS_MAX], count, fewest, link, cost, sums=sums)
    search.look((), 0, 0)
    assert search.best is not None  # the roomiest pools are one such set
    parts: list[tuple[int, int]] = []
    for place in search.best[2]:
        take = min(rooms[place], count)
        parts.append((place, take))
        count -= take
    return parts
