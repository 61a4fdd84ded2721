"""What it costs two parts of one gang to talk to each other from different pools.

Only the order of the costs counts. Pools of one region are near, all others are far, where nothing else is said.
Operators say it of pools or of regions, by their names; what is said of pools goes before what is said of regions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hanse.scheduler.core.facts import PoolFacts

NEAR: Final = 0
"""Between pools of one region, unless it is said otherwise."""

FAR: Final = 100
"""Between pools of which nothing is known."""

COST_MAX: Final = 1_000_000

Pair = tuple[str, str]
_NOTHING: Final[Mapping[Pair, int]] = MappingProxyType({})


def pair_of(one: str, other: str) -> Pair:
    """Both names, in the order in which `Links` has them."""
    return (one, other) if one <= other else (other, one)


@dataclass(frozen=True, slots=True)
class Links:
    """What operators said.

    Attributes:
        costs: by two names (`pair_of`), each of a pool or of a region; a region twice is what its pools have between
            them. A name that is of a pool and of a region means both.
    """

    costs: Mapping[Pair, int] = field(default_factory=lambda: _NOTHING)

    def between(self, one: PoolFacts, other: PoolFacts) -> int:
        """The cost between two pools; of several that are said in the same way, the smallest."""
        if one.name == other.name:
            return NEAR
        for names in (
            ((one.name, other.name),),
            ((one.name, other.region), (one.region, other.name)),
            ((one.region, other.region),),
        ):
            said = [self.costs[pair_of(a, b)] for a, b in names if a and b and pair_of(a, b) in self.costs]
            if said:
                return min(said)
        return NEAR if one.region and one.region == other.region else FAR
