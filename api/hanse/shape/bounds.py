"""Bounds on the parts that any choice of children needs, for all choices at once.

The parts of a set of children (say, the hosts of some racks) hold n pods in r parts if and only if the largest r hold
them. The largest r hold ``min over t of (t * r + g(t))``, where g(t) is what all parts together have above t. So r
parts suffice if and only if, for every part size t, ``g(t) >= n - t * r``, and g is the sum of the children's own:
a table by child and size answers every set of children with one sum.

For parts further down than the children's own this is a bound, since slices and levels between are left out of it.

One size at a time, the best children for it may be others than for the next. So a bound on r is sharpened by asking
for a sum over all sizes, each with a weight: if even the best children for that sum miss it, nobody holds n in r
parts. Good weights are found step by step, those of the sizes that the last choice missed growing (Lagrange
multipliers by subgradients, in integers, so that a proof is one).
"""

from typing import NamedTuple

import numpy as np

from hanse.shape.capacity import Cap
from hanse.shape.levels import Ints

WEIGHT = 1 << 16  # of one size, at the start
WEIGHT_MARGIN = WEIGHT >> 6  # by which a change of weights goes further than would just do
WEIGHT_STEPS_MAX = 24  # choices of weights that are tried
DENSE_SIZES_MAX = 2_048  # part sizes up to this are counted without sorting them first


class Heap(NamedTuple):
    """The parts of each child at one level below it.

    Attributes:
        sizes: the different part sizes, ascending.
        above: by child and size, the sum of what the child's parts have above that size; first for size 0.
        held, total: by child, how many parts, and the sum of them.
    """

    sizes: Ints
    above: Ints
    held: list[int]
    total: list[int]

    def least(self, above: Ints, n: int | Ints) -> Ints:
        """The fewest parts that hold n, for each row of sums of `above`."""
        return np.asarray(np.max(-((above[..., 1:] - n) // self.sizes), axis=-1), dtype=np.int64)


def heap(cap: Cap, below: int) -> Heap:
    """The parts of the children of a domain; `below` counts levels from the children on, 1 for their own children."""
    found = cap.heaps.get(below)
    if found is None:
        found = cap.heaps[below] = _heap(cap, below)
    return found


def _heap(cap: Cap, below: int) -> Heap:
    owners, sizes, numbers = cap.owned(below)
    many = len(cap.parts(1)[0])
    most = int(sizes.max())
    if most <= DENSE_SIZES_MAX:
        dense = np.bincount(owners * (most + 1) + sizes, numbers, many * (most + 1)).reshape(many, most + 1)
        values = np.flatnonzero(dense.any(axis=0))
        values = values[values > 0]
        held = dense[:, values].astype(np.int64)
    else:
        values, place = np.unique(sizes, return_inverse=True)
        table = np.bincount(owners * len(values) + place, numbers, many * len(values)).reshape(many, -1)
        held = table.astype(np.int64)[:, values > 0]
        values = values[values > 0]
    above = _above(held, values)
    return Heap(values, above, held.sum(axis=1).tolist(), above[:, 0].tolist())


def _above(held: Ints, values: Ints) -> Ints:
    """For every size and before it for 0: what lies above it, summed over the parts."""
    out = np.zeros((len(held), len(values) + 1), dtype=np.int64)
    counts = np.cumsum(held[:, ::-1], axis=1)[:, ::-1]  # parts of at least this size
    sums = np.cumsum((held * values)[:, ::-1], axis=1)[:, ::-1]
    out[:, 0] = sums[:, 0]
    out[:, 1:-1] = sums[:, 1:] - counts[:, 1:] * values[:-1]
    return out


def best_above(cap: Cap, below: int, count: int) -> Ints:
    """The most that any `count` children together have above each size (see Heap), size by size."""
    above = _by_copies(cap, below, count)
    if len(above) > count:
        above = np.partition(above, len(above) - count, axis=0)[-count:]
    return np.asarray(above.sum(axis=0), dtype=np.int64)


def _by_copies(cap: Cap, below: int, count: int) -> Ints:
    """What each child has above each size, copies spelled out as far as they can matter."""
    _, copies = cap.parts(1)
    above = heap(cap, below).above
    return np.repeat(above, np.minimum(copies, count), axis=0) if copies.max() > 1 else above


def least_below(cap: Cap, below: int, count: int, n: int) -> int:
    """No choice of `count` children holds n in fewer parts."""
    return int(heap(cap, below).least(best_above(cap, below, count), n))


def cannot_do_with(cap: Cap, below: int, count: int, n: int, parts: int) -> bool:
    """Whether it is proven that no `count` children hold n in so many parts; if not, they may or may not."""
    demand = np.concatenate(([n], n - heap(cap, below).sizes * parts))
    asked = demand > 0
    rows, demand = _by_copies(cap, below, count)[:, asked], demand[asked]
    weights = np.zeros(len(demand), dtype=np.int64)
    weights[np.argmin(np.sort(rows, axis=0)[-count:].sum(axis=0) - demand)] = WEIGHT
    for _ in range(WEIGHT_STEPS_MAX):
        best = np.argsort(rows @ weights, kind="stable")[-count:]
        missed = demand - rows[best].sum(axis=0)
        short = -int(weights @ missed)
        if short < 0:
            return True
        if missed.max() <= 0:
            return False
        way = np.where((weights > 0) | (missed > 0), missed, 0)
        weights = np.maximum(0, weights + (short + WEIGHT_MARGIN) * way // int(way @ way))
    return False
