"""How much of a gang of several sets is placed: its states, and the least cost of every state of some places.

A *state* says how many pods of each set are placed. A table has a cost for every state; two places together have, for
each state, the cheapest of all ways to share it out between them. States are few where a gang is small, so this is a
sum over all pairs of states, one pass over arrays.

A cost has several whole numbers that are compared from the first on. They are packed into the two halves of a complex
number, which numpy compares by the real part first: 106 bits, exact as long as each half stays below 2**53.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Costs = NDArray[np.complex128]

PAIRS_MAX: Final = 20_000  # pairs of states of one gang
HALF_BITS: Final = 52
FAR: Final = complex(1e300)  # more than any cost, and still a number when a few are added


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The states of one gang.

    Attributes:
        states: pods by set, a row for each; the first is nothing, the last everything.
        left, right: two states that add up to one, by that sum.
        starts: where the pairs of each sum begin.
    """

    states: Ints
    left: Ints
    right: Ints
    starts: Ints

    @property
    def pairs(self) -> int:
        """How many there are."""
        return len(self.left)

    def nothing(self) -> Costs:
        """The table of no place at all."""
        return self.table(self.states.sum(axis=1) == 0, 0j)

    def table(self, held: Mask, cost: complex) -> Costs:
        """The table of one place that costs the same in every state that it can hold; nothing costs nothing."""
        out = np.where(held, cost, FAR)
        out[0] = 0j
        return out

    def sum(self, one: Costs, other: Costs) -> Costs:
        """The table of both places together."""
        return np.asarray(np.minimum.reduceat(one[self.left] + other[self.right], self.starts))

    def split(self, one: Costs, other: Costs, state: int) -> tuple[int, int]:
        """How the cheapest sum of a state is shared out; of equal ones, that with the most in the second."""
        end = self.starts[state + 1] if state + 1 < len(self.starts) else len(self.left)
        some = slice(self.starts[state], end)
        sums = one[self.left[some]] + other[self.right[some]]
        at = int(np.lexsort((sums.imag, sums.real))[0])
        return int(self.left[some][at]), int(self.right[some][at])


def is_held(cost: complex) -> bool:
    """Whether a table's entry is a cost at all."""
    return cost.real < FAR.real


@lru_cache(maxsize=64)
def grid_of(counts: tuple[int, ...], units: tuple[int, ...], pairs_max: int = PAIRS_MAX) -> Grid | None:
    """The states of a gang with so many pods by set, which come in multiples of `units`; None for too many pairs."""
    steps = [count // unit for count, unit in zip(counts, units, strict=True)]
    if prod([(m + 1) * (m + 2) // 2 for m in steps]) > pairs_max:
        return None
    left = right = np.zeros(1, dtype=np.int64)
    for m in steps:
        a, b = np.nonzero(np.add.outer(range(m + 1), range(m + 1)) <= m)
        left = np.add.outer(left * (m + 1), a).ravel()
        right = np.add.outer(right * (m + 1), b).ravel()
    order = np.argsort(left + right, kind="stable")
    left, right = left[order], right[order]
    states = np.stack(np.unravel_index(np.arange(prod([m + 1 for m in steps])), [m + 1 for m in steps]), axis=1)
    starts = np.searchsorted(left + right, np.arange(len(states)))
    return Grid(states * np.array(units, dtype=np.int64), left, right, starts)


class Scale:
    """Where each number of a cost goes.

    Args:
        most: the largest sum of each that can occur, the most important first.

    Attributes:
        holds: there is room for all of them.
    """

    def __init__(self, most: Sequence[int]) -> None:
        self._units: list[complex] = []
        half, used = 0, 0
        for bits in reversed([m.bit_length() for m in most]):
            if used + bits > HALF_BITS:
                half, used = half + 1, 0
            self._units.append(complex(0, 1 << used) if half == 0 else complex(1 << used, 0))
            used += bits
        self._units.reverse()
        self.holds = half < 2 and used <= HALF_BITS

    def cost(self, amounts: Sequence[int]) -> complex:
        """The numbers in one."""
        return sum([n * unit for n, unit in zip(amounts, self._units, strict=True)], 0j)


def dearer(one: complex, other: complex) -> bool:
    """Whether one cost is not below the other."""
    return (one.real, one.imag) >= (other.real, other.imag)


class Table(Protocol):
    """The least costs of some places, and what each of them gives."""

    @property
    def costs(self) -> Costs:
        """By state."""
        ...

    def gives(self, state: int) -> "list[Piece]":
        """What each place gives in the cheapest way to hold a state."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """What one domain, or one host, gives.

    Attributes:
        index: of the child below its parent, or of the bin in its lowest domain.
        group: of the pool.
        state: number of the state that it holds.
        below: what its own parts give; () for a host.
    """

    group: int
    index: int
    state: int
    below: "tuple[Piece, ...]" = ()


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """Two places together."""

    grid: Grid
    one: Table
    other: Table
    costs: Costs

    def gives(self, state: int) -> list[Piece]:
        """See Table."""
        a, b = self.grid.split(self.one.costs, self.other.costs, state)
        return [*(self.one.gives(a) if a else ()), *(self.other.gives(b) if b else ())]


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A host, if nothing is inside; else a domain."""

    group: int
    index: int
    inside: Table | None
    costs: Costs

    def gives(self, state: int) -> list[Piece]:
        """See Table."""
        below = tuple(self.inside.gives(state)) if self.inside is not None else ()
        return [Piece(self.group, self.index, state, below)]
