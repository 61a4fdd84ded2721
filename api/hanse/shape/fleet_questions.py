"""What a fleet is asked: how a request's levels and slices round, and what the pods of hosts add up to."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from hanse.shape.fleet_classes import FREE, Density, Ints
from hanse.shape.fleet_frames import SUMMED


class Rounding(NamedTuple):
    """What a pod set asks of the levels of a pool, counted from below: 0 is the host, 1 the lowest domain, …

    Attributes:
        required: level of which one domain must hold everything, -1 for none.
        floors: slice size at level 1, 2, …, 0 for none; no zeros at the end.
        host: pods on one host come in multiples of this.
        exclusive: level at which only wholly free domains count, -1 for none.
        spread, each: level of which one domain may be given so many pods, in whole slices of what is below; -1 for
            none.
    """

    required: int
    floors: tuple[int, ...]
    host: int
    exclusive: int
    spread: int = -1
    each: int = 0

    def size(self, level: int) -> int:
        """Of slices at a level, 0 for none."""
        return self.floors[level - 1] if level <= len(self.floors) else 0

    @property
    def last(self) -> int:
        """The highest level at which something happens."""
        return max(self.required, len(self.floors), self.exclusive, self.spread)

    @property
    def is_crossed(self) -> bool:
        """Whether the required domain is below others that may not be used, or not for so many pods."""
        return 0 <= self.required < max(self.exclusive, self.spread)

    def acts(self, level: int) -> bool:
        """Whether something happens at a level."""
        return level in (self.required, self.exclusive, self.spread) or self.size(level) > 1

    def density(self, density: Density) -> Density:
        """As pods of one host are bounded."""
        return density._replace(most=min(density.most, self.each)) if self.spread == 0 else density


@dataclass(frozen=True, slots=True, eq=False)
class Meanings:
    """What a request's levels mean: the different roundings, and by list of levels which one of them, from 1."""

    roundings: tuple[Rounding, ...]
    number: Ints


class Kind(NamedTuple):
    """What the pods of a layer's hosts add up to.

    Attributes:
        step: pods of one host come in multiples of this.
        whole: GPUs of a host that counts only if they are all free, 0 if every host counts.
    """

    density: Density
    step: int
    whole: int

    @property
    def summed(self) -> bool:
        """Whether one of the sums that a sheet keeps tells it."""
        return self.step == 1 and self.density.most == FREE and not self.whole and self.density.gpus in SUMMED

    def row(self, full: int) -> list[int]:
        """Pods of a host by 0..full free GPUs."""
        pods = [most // self.step * self.step for most in self.density.row(full)]
        return [most if not self.whole or free == self.whole else 0 for free, most in enumerate(pods)]


@lru_cache(maxsize=4_096)
def rises(kind: Kind, full: int) -> tuple[tuple[int, int], ...]:
    """(free GPUs, how many more pods than with one less), where that is not zero, for 0..full free GPUs."""
    row = kind.row(full)
    if kind.whole:  # no host has more free GPUs than it has GPUs
        row[kind.whole :] = [row[kind.whole]] * (full + 1 - kind.whole)
    steps = zip([0, *row[:-1]], row, strict=True)
    return tuple([(free, pods - less) for free, (less, pods) in enumerate(steps) if pods != less])
