"""How good a pool's place for a gang can be at best, of every pool of a fleet, from what `fleet_sums` finds.

Pools that hold a gang are compared by `Fit.width` and `Fit.tight`. The best domain of each level bounds the one from
below: n pods need n over what it holds of such domains. The other begins with the pods that all of the pool could
hold, which is told exactly; for pods of one host, with the tightest host that holds them. Whoever looks for the best
pool asks pools in the order of these bounds, until the next bound is no better than what was found.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hanse.shape.fleet_classes import Flags, Ints
from hanse.shape.fleet_rows import Cells
from hanse.shape.fleet_sums import NEVER, TIGHT_STRIDE
from hanse.shape.limits import LEVELS_MAX


@dataclass(slots=True)
class Lows:
    """Bounds by number of pool, with one more entry at the end that means nothing.

    Attributes:
        width: [level from the coarsest to the finest that a pool has, then hosts, pool] domains that are used, at
            least; summed over the pod sets.
        fit: pods that the pool holds; of gangs of one set.
        small: where one host holds all pods, what the tightest one scores at best (see `Sums.tight`), else NEVER.
        host: the most pods of one host.
        certain: `fit` and `small` bound `Fit.tight`.
    """

    width: Ints
    fit: Ints
    small: Ints
    host: Ints
    certain: bool = True
    _set: Ints = field(init=False, repr=False)

    def begin(self) -> None:
        """What follows is of another pod set."""
        self._set = np.full_like(self.width, NEVER)

    def add(self, mine: Ints, depth: Ints, peaks: Sequence[Cells], pods: int) -> None:
        """What parts hold of so many pods.

        Args:
            mine: by part, the number of the pool.
            depth: by part, the levels of the group.
            peaks: see `Sums.peaks`.
        """
        every = np.stack([np.asarray(peak, np.int64) for peak in peaks[:-1]])
        needed = np.where(every > 0, -(-pods // np.maximum(every, 1)), NEVER)
        columns = np.arange(len(depth))
        for at in range(len(self.width) - 1):
            np.minimum.at(self._set[at], mine, needed[np.maximum(depth - at, 1), columns])
        np.minimum.at(self._set[-1], mine, needed[0])
        np.minimum.at(self.fit, mine, np.asarray(peaks[-1], np.int64))
        np.maximum.at(self.host, mine, every[0])

    def unknown(self, mine: Ints) -> None:
        """Nothing is known of these parts."""
        self._set[:, mine] = 0
        self.fit[mine] = 0

    def end(self) -> None:
        """All parts have told what they hold of the pod set."""
        self.width += np.where(self._set == NEVER, 0, self._set)

    def order(self, numbers: Ints, cost: Ints) -> Ints:
        """The positions in `numbers`, best bound first; equal ones in their order."""
        small = self.small[numbers]
        tight = np.where(small < NEVER, small, self.fit[numbers])
        return np.lexsort((tight, cost, *self.width[::-1, numbers]))

    def low(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The bounds of `Fit.width` and of `Fit.tight` of one pool."""
        *levels, hosts = self.width[:, number].tolist()
        width = (*levels, *levels[-1:] * (LEVELS_MAX - len(levels)), hosts)
        small = int(self.small[number])
        if not self.certain:
            return width, ()
        if small >= NEVER:
            return width, (int(self.fit[number]),)
        whole, rest = divmod(small, TIGHT_STRIDE**2)
        return width, (whole, *divmod(rest, TIGHT_STRIDE))


def lows(pools: int, levels: int) -> Lows:
    """Without any bound yet, for so many pools with at most so many levels."""
    never = np.full((2, pools + 1), NEVER, np.int64)
    return Lows(np.zeros((levels + 1, pools + 1), np.int64), never[0], never[1], np.zeros(pools + 1, np.int64))


@dataclass(frozen=True, slots=True)
class Ranked:
    """Every pool's answer to an ask, and how good its place can be.

    Attributes:
        may_fit, exact: see `Look`.
    """

    may_fit: Flags
    exact: bool
    lows: Lows
