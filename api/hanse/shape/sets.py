"""Every set of children that could be the best one, in the order of a bound on its cost.

How many children are used is known (`fewest`), and where they are few, so are the sets of them. For each set, bounds
on the parts that it needs further down are a sum over its children (`bounds`), and what its children hold is part of
the cost itself. So sets can be tried from the cheapest bound on, and the first whose cost is not above the next bound
is the best of all. Mostly it is the first.

Where they are too many, only those are looked at that can do with a given number of parts one level further down
(`frugal_sets`): the fewest that any set needs, then one more. The first number with which a set can do contains the
best set, whatever it costs otherwise.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, combinations
from math import comb

import numpy as np

from hanse.shape.bounds import best_above, heap
from hanse.shape.capacity import Cap
from hanse.shape.levels import Ints

SETS_MAX = 1_000  # sets of children that are looked at
FRUGAL_MAX = 2_000  # sets that `frugal_sets` keeps at any time
DEMANDS_MAX = 5  # conditions on a set while it grows; all are checked once it is complete
STEPS_MAX = 8  # steps that a set leaves out, for its bound to be sharpened

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
    choices = _choices(rows, count)
    if rows == len(usable):
        return np.asarray(usable[choices[fits[usable][choices].sum(axis=1) >= n]], dtype=np.int64)
    copy = np.arange(rows) - np.repeat(np.cumsum(many) - many, many)
    usable = np.repeat(usable, many)
    keep = (fits[usable][choices].sum(axis=1) >= n) & _first_copies(choices, copy)
    return np.asarray(usable[choices[keep]], dtype=np.int64)


def frugal_sets(cap: Cap, count: int, n: int, parts: int) -> Ints | None:
    """Every set of `count` children that holds n, perhaps in that many parts of them; None if they are too many.

    Sets grow child by child; those are dropped that the best of the remaining children could not complete.
    """
    rows = _spelled_out(cap, count)
    table = heap(cap, 1)
    demand = np.concatenate(([n], n - table.sizes * parts))
    some = _tightest_demands(cap, count, demand)
    gains, wanted = table.above[rows][:, some], demand[some]
    order = np.argsort(-gains[:, 0], kind="stable")
    rows, gains = rows[order], gains[order]
    chosen, sums = np.zeros((1, 0), dtype=np.int64), np.zeros((1, len(some)), dtype=np.int64)
    for size in range(count):
        chosen, sums = _grown(rows, gains, (chosen, sums), count - size - 1, wanted)
        if len(chosen) > FRUGAL_MAX:
            return None
    sets = rows[chosen]
    keep = (table.above[sets].sum(axis=1) >= demand).all(axis=1) & (cap.parts(1)[0][sets].sum(axis=1) >= n)
    return np.asarray(np.sort(sets[keep], axis=1), dtype=np.int64)


def _spelled_out(cap: Cap, count: int) -> Ints:
    """Indices of the children that hold something, each as often as copies of it can matter."""
    fits, copies = cap.parts(1)
    return np.repeat(np.arange(len(fits)), np.where(fits > 0, np.minimum(copies, count), 0))


def _tightest_demands(cap: Cap, count: int, demand: Ints) -> list[int]:
    """The few demands that leave least to spare, and the sum of all."""
    spare = best_above(cap, 1, count) - demand
    tight = [int(at) for at in np.argsort(spare, kind="stable") if demand[at] > 0][:DEMANDS_MAX]
    return tight if 0 in tight else [*tight, 0]


def _grown(rows: Ints, gains: Ints, before: tuple[Ints, Ints], left: int, wanted: Ints) -> tuple[Ints, Ints]:
    """Every set with one more row after its last, as far as `left` more rows can meet what is wanted."""
    chosen, sums = before
    last = chosen[:, -1] if chosen.shape[1] else np.full(1, -1)
    end = len(rows) - left
    set_at, row_at = np.nonzero(np.arange(end)[None, :] > last[:, None])
    grown = sums[set_at] + gains[row_at]
    keep = (grown + _most_after(gains, left)[row_at] >= wanted).all(axis=1)
    twin = (
        (row_at > 0) & (rows[row_at] == rows[row_at - 1]) & (last[set_at] != row_at - 1)
    )  # a copy before it is left out
    keep &= ~twin
    return np.concatenate((chosen[set_at[keep]], row_at[keep, None]), axis=1), grown[keep]


def _most_after(gains: Ints, left: int) -> Ints:
    """By row, the most that `left` of the rows after it add, demand by demand."""
    out = np.zeros_like(gains)
    for row in range(len(gains) - left if left else 0):
        out[row] = np.sort(gains[row + 1 :], axis=0)[-left:].sum(axis=0)
    return out


def _first_copies(choices: Ints, copy: Ints) -> np.typing.NDArray[np.bool_]:
    """Which choices use no copy of a child without the copies before it, so that every set comes once."""
    before = np.concatenate((np.full((len(choices), 1), -2), choices[:, :-1]), axis=1)
    return np.asarray(np.all((copy[choices] == 0) | (before == choices - 1), axis=1))


def in_order(cap: Cap, sets: Ints, n: int) -> Iterator[tuple[Bound, list[int]]]:
    """The sets from the least bound on, each with its bound."""
    fits = cap.parts(1)[0]
    held = fits[sets].sum(axis=1)
    lows = [least_parts(cap, below, sets, n) for below in range(1, cap.height)]
    rests = [np.full(len(sets), n)] * (cap.height - 1)
    if cap.step != cap.kids[int(sets[0, 0])][0].step:
        lows = [_sharpened(cap, below, sets, held - n, low) for below, low in enumerate(lows, 1)]
        rests = [_least_sums(cap, below, sets, held - n, rest) for below, rest in enumerate(rests, 1)]
    for at in np.lexsort((*reversed(rests), held, *reversed(lows))).tolist():
        counts = (sets.shape[1], *[int(low[at]) for low in lows])
        yield (*counts, int(held[at]), *[int(rest[at]) for rest in rests]), sets[at].tolist()


def _sharpened(cap: Cap, below: int, sets: Ints, rest: Ints, low: Ints) -> Ints:
    """The bound where children are used in whole steps: what all parts need, less what `rest` pods can save.

    Those who leave something out are at most as many as there are steps to leave out, and none saves more than if it
    left out all of it.
    """
    steps = rest // cap.step
    fits, parts = cap.parts(1)[0], heap(cap, below)
    full = parts.least(parts.above, fits[:, None])
    out = np.array(low)
    for many in range(min(int(steps.max()), STEPS_MAX) + 1):
        rows = np.flatnonzero(steps == many)
        if len(rows):
            less = np.maximum(fits - many * cap.step, 0)
            saved = np.sort((full - parts.least(parts.above, less[:, None]))[sets[rows]], axis=1)
            most = saved[:, max(0, saved.shape[1] - many) :].sum(axis=1) if many else 0
            out[rows] = np.maximum(low[rows], full[sets[rows]].sum(axis=1) - most)
    return out


def _least_sums(cap: Cap, below: int, sets: Ints, rest: Ints, least: Ints) -> Ints:
    """What the used parts hold at the least, for sets that leave nothing out: by child, in multiples of its parts."""
    exact = rest == 0
    if not exact.any():
        return least
    fits = cap.parts(1)[0]
    owners, sizes, _ = cap.owned(below)
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    divisors = np.ones_like(fits)
    divisors[owners[firsts]] = np.maximum(1, np.gcd.reduceat(sizes, firsts))
    sums = -(-fits // divisors) * divisors
    return np.where(exact, sums[sets].sum(axis=1), least)


def least_parts(cap: Cap, below: int, sets: Ints, n: int) -> Ints:
    """For each set of children, a bound on the parts that it needs, 1, 2, … levels below the children."""
    parts = heap(cap, below)
    above = parts.above[sets[:, 0]] if sets.shape[1] == 1 else parts.above[sets].sum(axis=1)
    return parts.least(above, n)
