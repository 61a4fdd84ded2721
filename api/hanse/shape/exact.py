"""The exact search, for the trees on which the greedy choice cannot prove itself.

Dynamic programming over the tree: for every domain, the least cost of holding at least 0, 1, 2, … whole steps of pods
(a step is the coarsest slice that its parts must not cut). A domain's table is made of its children's by adding them
one after the other; a child is offered only at the amounts where its cost jumps. Costs are additive and compared from
the first component on, so their components are packed into a few 62-bit words, most important first, and compared
word by word as arrays.

The last component, the summed capacity of the used hosts, would multiply the amounts at which a lowest domain's cost
jumps. So it is left out at first; a solution whose last component meets its lower bound needs no second run.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.shape.capacity import Cap
from hanse.shape.native import native
from hanse.shape.tightest import least_sums

Words = NDArray[np.int64]

WORD_BITS: Final = 62
CELLS_MAX: Final = 4_000_000  # of one comparison; more are done in pieces
_FAR: Final = 1 << 61  # more than any cost, and twice of it still fits


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each component of a cost goes.

    Attributes:
        counts, fits: (word, shift) by level below the root of the search, the host last.
    """

    words: int
    counts: tuple[tuple[int, int], ...]
    fits: tuple[tuple[int, int], ...]

    def cost(self, level: int, fit: int) -> Words:
        """Using one place at a level: it counts, and so does its fit."""
        out = np.zeros(self.words, dtype=np.int64)
        for (word, shift), value in ((self.counts[level], 1), (self.fits[level], fit)):
            out[word] += value << shift
        return out


def packing(cap: Cap) -> Packing:
    """Room for every sum that can occur below a domain."""
    full = cap.full
    places: list[tuple[int, int]] = []
    word, used = 0, 0
    for most in full:
        bits = most.bit_length()
        if used + bits > WORD_BITS - 1:
            word, used = word + 1, 0
        used += bits
        places.append((word, used))
    placed = [(w, _end(places, w) - at) for w, at in places]
    half = len(full) // 2
    return Packing(word + 1, tuple(placed[:half]), tuple(placed[half:]))


def _end(places: list[tuple[int, int]], word: int) -> int:
    return max(used for w, used in places if w == word)


@dataclass(frozen=True, slots=True)
class Stage:
    """One copy of a child added to a table: which amount of it was best for each total (0: none of it)."""

    kid: int
    amounts: NDArray[np.int64]
    choice: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Table:
    """Least cost of at least 0, 1, … steps in a domain, and how it came about.

    Attributes:
        costs: one row per word, one column per number of steps.
    """

    costs: Words
    stages: tuple[Stage, ...]


class Search:
    """One search below one domain.

    Args:
        n: pods to place; tables are not made for more.
        last: whether the summed capacity of hosts counts.
    """

    def __init__(self, cap: Cap, n: int, *, last: bool) -> None:
        self._n = n
        self._last = last
        self._packing = packing(cap)
        self._tables: dict[Cap, Table] = {}

    def split(self, cap: Cap, level: int, n: int) -> list[tuple[int, int]]:
        """(child, pods) that hold n pods at the least cost; `level` is the children's, 0 below the root."""
        table = self._table(cap, level)
        at = -(-n // cap.step)
        out: list[tuple[int, int]] = []
        for stage in reversed(table.stages):
            picked = int(stage.choice[at])
            if picked:
                give = min(int(stage.amounts[picked - 1]), at)
                out.append((stage.kid, give * cap.step))
                at -= give
            if not at:
                break
        return out

    def _table(self, cap: Cap, level: int) -> Table:
        found = self._tables.get(cap)
        if found is None:
            found = self._tables[cap] = self._leaf(cap, level) if not cap.kids else self._branch(cap, level)
        return found

    def _steps(self, cap: Cap) -> int:
        return min(cap.fit, -(-self._n // cap.step) * cap.step) // cap.step

    def _leaf(self, cap: Cap, level: int) -> Table:
        steps = self._steps(cap)
        hosts, sums = least_sums(cap.counts(1), steps * cap.step, exact=self._last)
        needs = np.arange(steps + 1) * cap.step
        word, shift = self._packing.counts[level]
        costs = np.zeros((self._packing.words, steps + 1), dtype=np.int64)
        costs[word] += np.asarray(hosts, dtype=np.int64)[needs] << shift
        if self._last:
            word, shift = self._packing.fits[level]
            costs[word] += np.asarray(sums, dtype=np.int64)[needs] << shift
        return Table(costs, ())

    def _branch(self, cap: Cap, level: int) -> Table:
        steps = self._steps(cap)
        costs = np.full((self._packing.words, steps + 1), _FAR, dtype=np.int64)
        costs[:, 0] = 0
        stages: list[Stage] = []
        for i, (kid, copies) in enumerate(cap.kids):
            if kid.fit < cap.step:
                continue
            amounts, prices = self._offers(cap, kid, level)
            for _ in range(min(copies, steps)):
                costs, choice = _added(costs, amounts, prices)
                stages.append(Stage(i, amounts, choice))
        return Table(costs, tuple(stages))

    def _offers(self, cap: Cap, kid: Cap, level: int) -> tuple[NDArray[np.int64], Words]:
        """Amounts of a child, in steps of its parent, at which its cost jumps, and the costs there."""
        inner = self._table(kid, level + 1).costs
        most = (inner.shape[1] - 1) * kid.step // cap.step
        needs = np.arange(1, most + 1) * cap.step // kid.step
        prices = inner[:, needs]
        jumps = np.any(prices[:, 1:] != prices[:, :-1], axis=0)
        keep = np.append(np.flatnonzero(jumps), most - 1)
        return keep + 1, prices[:, keep] + self._packing.cost(level, kid.fit)[:, None]


def _added(costs: Words, amounts: NDArray[np.int64], prices: Words) -> tuple[Words, NDArray[np.int32]]:
    """The table with one more child: for every total, none of it or the best of its amounts."""
    width = costs.shape[1]
    choice = np.zeros(width, dtype=np.int32)
    if native.added is not None:
        table = np.empty_like(costs)
        native.added(costs, amounts, prices, table, choice)
        return table, choice
    best = costs
    piece = max(1, CELLS_MAX // width)
    for first in range(0, len(amounts), piece):
        some = slice(first, first + piece)
        cand, picked = _cheapest(costs, amounts[some], prices[:, some])
        better = _less(cand, best)
        choice = np.where(better, picked + first + 1, choice).astype(np.int32)
        best = np.where(better, cand, best)
    return best, choice


def _cheapest(costs: Words, amounts: NDArray[np.int64], prices: Words) -> tuple[Words, NDArray[np.int64]]:
    """For every total, the best of the amounts."""
    rest = np.maximum(0, np.arange(costs.shape[1])[None, :] - amounts[:, None])
    open_ = np.ones(rest.shape, dtype=bool)
    out: list[NDArray[np.int64]] = []
    for word in range(costs.shape[0]):
        cand = np.where(open_, costs[word][rest] + prices[word][:, None], 2 * _FAR)
        least = cand.min(axis=0)
        open_ &= cand == least
        out.append(np.minimum(least, _FAR))
    return np.stack(out), np.argmax(open_, axis=0)


def _less(left: Words, right: Words) -> NDArray[np.bool_]:
    """Which columns of `left` are smaller, from the first word on."""
    less = np.zeros(left.shape[1], dtype=bool)
    same = np.ones(left.shape[1], dtype=bool)
    for a, b in zip(left, right, strict=True):
        less |= same & (a < b)
        same &= a == b
    return less
