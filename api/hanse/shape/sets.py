"""Every set of children that could be the best one, in the order of a bound on its cost.

How many children are used is known (`fewest`), and where they are few, so are the sets of them. For each set, bounds
on the parts that it needs further down are a sum over its children (`bounds`), and what its children hold is part of
the cost itself. So sets can be tried from the cheapest bound on, and the first whose cost is not above the next bound
is the best of all. Mostly it is the first.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, combinations
from math import comb

import numpy as np

from hanse.shape.bounds import heap
from hanse.shape.capacity import Cap
from hanse.shape.domains import Ints

SETS_MAX = 3_000  # sets of children that are looked at

Bound = tuple[int, ...]  # counts at 1, 2, … levels below and hosts, then summed fits of the same: at the least


@lru_cache(maxsize=256)
def _choices(rows: int, count: int) -> Ints:
    """Every choice of `count` rows, one a line."""
    every = np.fromiter(chain.from_iterable(combinations(range(rows), count)), dtype=np.int64)
    return every.reshape(-1, count)


def sets_of(cap: Cap, count: int, n: int) -> Ints | None:
    """Every set of `count` children that holds n, as indices with repeats for copies; None if they are too many."""
    fits, copies = cap.parts(1)
    usable = np.flatnonzero(fits)
    many = np.minimum(copies[usable], count)
    rows = int(many.sum())
    if comb(rows, count) > SETS_MAX:
        return None
    if rows > len(usable):
        firsts = np.repeat(np.cumsum(many) - many, many)
        copy = np.arange(rows) - firsts
        usable = np.repeat(usable, many)
    choices = _choices(rows, count)
    keep = fits[usable][choices].sum(axis=1) >= n
    if rows > len(np.unique(usable)):
        keep &= _first_copies(choices, copy)
    return np.asarray(usable[choices[keep]], dtype=np.int64)


def _first_copies(choices: Ints, copy: Ints) -> np.typing.NDArray[np.bool_]:
    """Which choices use no copy of a child without the copies before it, so that every set comes once."""
    before = np.concatenate((np.full((len(choices), 1), -2), choices[:, :-1]), axis=1)
    return np.asarray(np.all((copy[choices] == 0) | (before == choices - 1), axis=1))


def in_order(cap: Cap, sets: Ints, n: int) -> Iterator[tuple[Bound, list[int]]]:
    """The sets from the least bound on, each with its bound."""
    held = cap.parts(1)[0][sets].sum(axis=1)
    lows = [least_parts(cap, below, sets, n) for below in range(1, cap.height)]
    rest = (n,) * (cap.height - 1)
    for at in np.lexsort((held, *reversed(lows))).tolist():
        counts = (sets.shape[1], *[int(low[at]) for low in lows])
        yield (*counts, int(held[at]), *rest), sets[at].tolist()


def least_parts(cap: Cap, below: int, sets: Ints, n: int) -> Ints:
    """For each set of children, a bound on the parts that it needs, 1, 2, … levels below the children."""
    parts = heap(cap, below)
    above = parts.above[sets[:, 0]] if sets.shape[1] == 1 else parts.above[sets].sum(axis=1)
    return parts.least(above, n)
