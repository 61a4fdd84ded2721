"""Bounds on the parts that any choice of children needs, for all choices at once.

The parts of a set of children (say, the hosts of some racks) hold n pods in r parts if and only if the largest r hold
them. The largest r hold ``min over t of (t * r + g(t))``, where g(t) is what all parts together have above t. So r
parts suffice if and only if, for every part size t, ``g(t) >= n - t * r``, and g is the sum of the children's own:
a table by child and size answers every set of children with one sum.

For parts further down than the children's own this is a bound, since slices and levels between are left out of it.
"""

from typing import NamedTuple

import numpy as np

from hanse.shape.capacity import Cap
from hanse.shape.domains import Ints

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
    _, copies = cap.parts(1)
    above = heap(cap, below).above
    if copies.max() > 1:
        above = np.repeat(above, np.minimum(copies, count), axis=0)
    if len(above) > count:
        above = np.partition(above, len(above) - count, axis=0)[-count:]
    return np.asarray(above.sum(axis=0), dtype=np.int64)


def least_below(cap: Cap, below: int, count: int, n: int) -> int:
    """No choice of `count` children holds n in fewer parts."""
    return int(heap(cap, below).least(best_above(cap, below, count), n))
