"""Which children to use, where the cost of a choice has a closed form.

Say no child holds n, and every child is a heap of parts that may be used in any number: the hosts of racks, or the
racks of blocks where all hosts are alike. With c children at the least, the cost of choosing the set S of them is
known from the heap of all parts in S: the fewest parts that hold n, the summed fits of S, the tightest choice of
parts. What remains is to choose S.

The largest r parts of S hold ``min over t of (t * r + sum over S of g(t))``, where g(t) of a child is what its
parts have above t. So r parts suffice if and only if, for every part size t, ``sum of g(t) >= n - t * r``. The c
largest g(t) bound r from below for all S together; then one of these conditions alone, as a knapsack, gives the
smallest summed fit. Often exchanges of single children lead from the richest choice to one whose summed fit is the
least that holds n at all; then nothing is left to ask. If the knapsack's answer meets the other conditions too, it
is the best choice, and that is proven. If not, the choices between the bounds are walked through; if those are too
many, the question is left to the search that always ends (`exact`).
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hanse.shape.bounds import best_above, cannot_do_with, heap, least_below
from hanse.shape.capacity import Cap
from hanse.shape.native import native
from hanse.shape.tightest import fewest, tightest

SIZES_MAX: Final = 40  # different sizes of parts
CELLS_MAX: Final = 3_000_000  # of one knapsack, all children together
EXCHANGES_MAX: Final = 60  # of one row for another, before the knapsacks
ROUNDS_MAX: Final = 3  # numbers of parts that are tried, from the bound up
KNAPSACKS_MAX: Final = 3  # conditions that are tried alone
WALK_MAX: Final = 400  # steps of the walk over choices

_FAR: Final = 1 << 60
Ints = NDArray[np.int64]


class Rows(NamedTuple):
    """The children as rows, copies spelled out as far as they can matter.

    Attributes:
        kids: index of the child behind each row.
        sizes: the different part sizes, ascending, with 0 before them.
        above: by row and size, the sum of what the child's parts have above that size.
    """

    kids: list[int]
    sizes: Ints
    above: Ints


def is_heap(cap: Cap) -> bool:
    """Whether the cost of a set of children has the closed form."""
    kid = cap.kids[0][0]
    if cap.step != kid.step or cap.height > 3 or cap.capped:
        return False
    if cap.height == 2:
        return True
    alike = len(cap.counts(cap.height)) == 1
    return alike and (kid.step == 1 or kid.step % cap.counts(cap.height)[0][0] == 0)


def best_children(cap: Cap, n: int) -> dict[int, int] | None:
    """Copies of each child in the best choice, if it can be proven; n must not fit into one child."""
    count = fewest(cap.counts(1), n)
    rows = _rows(cap, count)
    if rows is None:
        return None
    most = best_above(cap, 1, count)
    least = least_below(cap, 1, count, n)
    lightest = sum([size * many for size, many in tightest(cap.counts(1), n).items()])
    for parts in range(least, least + ROUNDS_MAX):
        if cannot_do_with(cap, 1, count, n, parts):
            continue
        demand = n - rows.sizes * parts
        if np.all(most >= demand):
            chosen = _choice(rows, demand, most - demand, count, lightest)
            if chosen is None:
                return None
            if chosen:
                return _counted([rows.kids[row] for row in chosen])
    return None


def _choice(heap: Rows, demand: Ints, spare: Ints, count: int, lightest: int) -> list[int] | None:
    """The `count` rows of least weight that meet every demand: [] if there are none, None if that is too hard.

    Args:
        lightest: no choice weighs less.
    """
    weights = heap.above[:, 0]
    lighter = _exchanged(heap.above, demand, int(np.argmin(spare)), count, lightest)
    if lighter:
        return lighter
    low, high, best = 0, _FAR, list[int]()
    for at in [int(at) for at in np.argsort(spare) if demand[at] > 0][:KNAPSACKS_MAX]:
        rows = _lightest(weights, heap.above[:, at], count, int(demand[at]))
        if not rows:
            return rows
        weight = int(weights[rows].sum())
        low = max(low, weight)
        if weight < high and np.all(heap.above[rows].sum(axis=0) >= demand):
            high, best = weight, rows
        if low == high:
            return best
    tight = min([at for at in range(len(demand)) if demand[at] > 0], key=lambda at: int(spare[at]))
    return _Walk(heap.above, demand, tight, count).best(high, best)


def _exchanged(above: Ints, demand: Ints, tight: int, count: int, lightest: int) -> list[int]:
    """Rows that meet every demand and weigh `lightest`, by exchanges of single rows; [] if these lead nowhere."""
    order = np.argsort(-above[:, tight], kind="stable")
    inside, outside = order[:count], order[count:]
    for _ in range(EXCHANGES_MAX):
        spare = above[inside].sum(axis=0) - demand
        heavy = int(above[inside, 0].sum()) - lightest
        if spare.min() < 0 or not heavy or not len(outside):
            return [] if spare.min() < 0 or heavy else sorted(inside.tolist())
        change = above[outside][None, :, :] - above[inside][:, None, :]
        saved = np.where((spare + change >= 0).all(axis=2), -change[:, :, 0], 0)
        saved[saved > heavy] = 0
        out, into = np.unravel_index(int(np.argmax(saved)), saved.shape)
        if saved[out, into] <= 0:
            return []
        inside[out], outside[into] = int(outside[into]), int(inside[out])
    return []


class _Walk:
    """Every choice of rows, depth first, cut off where a demand or a lighter choice rules out what follows."""

    def __init__(self, above: Ints, demand: Ints, tight: int, count: int) -> None:
        order = np.lexsort((above[:, 0], -above[:, tight]))
        sorted_above = above[order]
        self._order: list[int] = order.tolist()
        self._rows: list[list[int]] = sorted_above.tolist()
        self._demand: list[int] = demand.tolist()
        self._tight = tight
        self._count = count
        self._heads: list[int] = [0, *np.cumsum(sorted_above[:, tight]).tolist()]
        self._most: list[list[int]] = np.maximum.accumulate(sorted_above[::-1], axis=0)[::-1].tolist()
        self._least: list[int] = np.minimum.accumulate(sorted_above[::-1, 0])[::-1].tolist()
        self._left = WALK_MAX
        self._high = 0
        self._best: list[int] = []

    def best(self, high: int, known: list[int]) -> list[int] | None:
        """The lightest choice below weight `high`, else `known`; None if the walk is too long."""
        self._high, self._best = high, known
        self._step(0, self._count, [0] * len(self._demand), [])
        return None if self._left < 0 else self._best

    def _step(self, first: int, left: int, sums: list[int], chosen: list[int]) -> None:
        if left == 0:
            if sums[0] < self._high and all(have >= need for have, need in zip(sums, self._demand, strict=True)):
                self._high, self._best = sums[0], [self._order[row] for row in chosen]
            return
        for row in range(first, len(self._rows) - left + 1):
            self._left -= 1
            if self._left < 0 or sums[0] + left * self._least[row] >= self._high:
                return
            if sums[self._tight] + self._heads[row + left] - self._heads[row] < self._demand[self._tight]:
                return
            if any(
                have + left * most < need
                for have, most, need in zip(sums, self._most[row], self._demand, strict=True)
            ):
                return
            if row > first and self._rows[row] == self._rows[row - 1]:
                continue  # the same choice again
            self._step(row + 1, left - 1, [a + b for a, b in zip(sums, self._rows[row], strict=True)], [*chosen, row])


def _rows(cap: Cap, count: int) -> Rows | None:
    parts = heap(cap, 1)
    if len(parts.sizes) > SIZES_MAX:
        return None
    fits, copies = cap.parts(1)
    kids = np.repeat(np.arange(len(fits)), np.where(fits > 0, np.minimum(copies, count), 0))
    return Rows(kids.tolist(), np.concatenate(([0], parts.sizes)), parts.above[kids])


def _lightest(weights: Ints, gains: Ints, count: int, demand: int) -> list[int] | None:
    """`count` rows with gains of at least `demand` and the least weight: [] if there are none, None if too many."""
    demand = max(0, demand)
    if len(weights) * (count + 1) * (demand + 1) > CELLS_MAX:
        return None
    if native.lightest is not None:
        better_by_row = np.zeros((len(weights), count + 1, demand + 1), dtype=np.bool_)
        any_ = native.lightest(weights, gains, count, demand, better_by_row)
        return _walk_back(list(better_by_row), gains.tolist(), count, demand) if any_ else []
    best = np.full((count + 1, demand + 1), _FAR, dtype=np.int64)
    best[0, 0] = 0
    took: list[NDArray[np.bool_]] = []
    for weight, gain in zip(weights.tolist(), gains.tolist(), strict=True):
        used = np.full_like(best, _FAR)
        shift = min(gain, demand)
        used[1:, shift:] = best[:-1, : demand + 1 - shift]
        used[1:, :shift] = best[:-1, :1]
        used += weight
        better = used < best
        best = np.where(better, used, best)
        took.append(better)
    if best[count, demand] >= _FAR:
        return []
    return _walk_back(took, gains.tolist(), count, demand)


def _walk_back(took: list[NDArray[np.bool_]], gains: list[int], count: int, demand: int) -> list[int]:
    rows: list[int] = []
    for row in range(len(took) - 1, -1, -1):
        if took[row][count, demand]:
            rows.append(row)
            count -= 1
            demand = max(0, demand - gains[row])
    return rows


def _counted(kids: list[int]) -> dict[int, int]:
    out: dict[int, int] = {}
    for i in sorted(kids):
        out[i] = out.get(i, 0) + 1
    return out
