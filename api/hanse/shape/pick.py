"""Which of several heaps to use, by arrays, as far as that can be proven.

A heap is a domain whose parts may be used in any number. Its row says what it holds, and then, for every size of
part but the largest, what its parts hold above that size. A set of `count` heaps holds n in h parts if and only if
its rows together hold n and, for every size t, n - t * h above it (see `bounds`). Wanted is the set with the fewest
parts, and of these the least sum of what they hold.

What the `count` largest of a column have to spare over what is asked of them says which rows every solution has, or
none has: to leave out a row, or to take one, costs at least its distance from the next one. Mostly few rows stay
undecided, and every choice of them is looked at.
"""

from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hanse.shape.levels import Ints

CHOICES_MAX: Final = 1_500  # of undecided rows that are all looked at
CELLS_MAX: Final = 100_000  # of a table of choices: choices times rows
TABLES_KEPT_MAX: Final = 64  # each of two times CELLS_MAX numbers at the most: 100 MB in all
ROUNDS_MAX: Final = 4  # numbers of parts that are tried, from the bound up
EXCHANGES_MAX: Final = 12  # of one row for another
TIED_MAX: Final = 24  # sets of equal cost that are told
_FAR: Final = 1 << 60

Floats = NDArray[np.float64]


class Picked(NamedTuple):
    """Sets of heaps, each of the fewest parts and of these of the least sum.

    Attributes:
        parts: how many.
        held: the sum of what they hold.
        sets: indices of their rows, ascending.
        every: there are no others.
    """

    parts: int
    held: int
    sets: list[list[int]]
    every: bool


def choices(rows: int, count: int, most: int) -> tuple[Ints, Floats] | None:
    """Every choice of so many rows, one a line: as numbers of rows, and as zeros and ones by row.

    None if there are more than `most`, or if writing them down takes more than CELLS_MAX.
    """
    number = comb(rows, count)
    return _choices(rows, count) if number <= most and number * rows <= CELLS_MAX else None


@lru_cache(maxsize=TABLES_KEPT_MAX)
def _choices(rows: int, count: int) -> tuple[Ints, Floats]:
    every = np.array(list(combinations(range(rows), count)), dtype=np.int64).reshape(-1, count)
    marks = np.zeros((len(every), rows))
    np.put_along_axis(marks, every, 1.0, axis=1)
    return every, marks


def pick(rows: Ints, sizes: Ints, n: int, count: int, lightest: int) -> Picked | None:
    """The best sets of `count` heaps that hold n; None if that is too hard.

    Args:
        rows: one a heap; the first column is what it holds.
        sizes: of parts, ascending; the other columns of `rows` are for all but the largest.
        lightest: no set that holds n holds less.
    """
    ordered = np.sort(rows, axis=0)[::-1]
    best = ordered[:count].sum(axis=0)
    parts = -(-n // int(sizes[-1]))
    if len(sizes) > 1:
        parts = max(parts, int(np.max(-((best[1:] - n) // sizes[:-1]))))
    for tried in range(parts, parts + ROUNDS_MAX):
        demand = np.empty(len(sizes), dtype=np.int64)
        demand[0] = n
        demand[1:] = n - sizes[:-1] * tried
        found = _meeting(rows, ordered, demand, count, lightest)
        if found is None:
            return None
        if found.sets:
            return found._replace(parts=tried)
    return None


def _meeting(rows: Ints, ordered: Ints, demand: Ints, count: int, lightest: int) -> Picked | None:
    """The lightest sets that meet every demand."""
    left = np.arange(len(rows))
    inside: list[int] = []
    wanted = count
    own = rows
    while True:
        spare = ordered[:wanted].sum(axis=0) - demand
        if spare.min() < 0:
            return Picked(0, 0, [], True)
        if wanted in (0, len(left)):
            inside.extend(left.tolist() if wanted else [])
            return Picked(0, int(rows[inside, 0].sum()), [sorted(inside)], True)
        must = (own - ordered[wanted] > spare).any(axis=1)
        never = (ordered[wanted - 1] - own > spare).any(axis=1)
        if (must & never).any() or must.sum() > wanted:
            return Picked(0, 0, [], True)
        if not must.any() and not never.any():
            break
        inside.extend(left[must].tolist())
        demand = demand - own[must].sum(axis=0)
        wanted -= int(must.sum())
        left = left[~must & ~never]
        if len(left) < wanted:
            return Picked(0, 0, [], True)
        own = rows[left]
        ordered = np.sort(own, axis=0)[::-1] if len(own) else own
    heavy = int(rows[inside, 0].sum()) if inside else 0
    chosen = _every_choice(own, demand, wanted)
    if chosen is None:
        chosen = _exchanged(own, demand, wanted, lightest - heavy)
    if chosen is None:
        return None
    sets = [sorted([*inside, *left[some].tolist()]) for some in chosen.sets]
    return Picked(0, heavy + chosen.held, sets, chosen.every)


def _every_choice(rows: Ints, demand: Ints, count: int) -> Picked | None:
    if count == 1:  # a table of them would be mostly zeros
        every, sums = np.arange(len(rows))[:, None], rows
    else:
        table = choices(len(rows), count, CHOICES_MAX)
        if table is None:
            return None
        every, sums = table[0], (table[1] @ rows).astype(np.int64)
    good = np.flatnonzero((sums >= demand).all(axis=1))
    if not len(good):
        return Picked(0, 0, [], True)
    held = sums[good, 0]
    least = held.min()
    tied = good[held == least]
    return Picked(0, int(least), [every[at] for at in tied[:TIED_MAX].tolist()], len(tied) <= TIED_MAX)


def _exchanged(rows: Ints, demand: Ints, count: int, lightest: int) -> Picked | None:
    """A set that meets every demand and holds just `lightest`, by exchanges of single rows; None if they lead
    nowhere."""
    spare = np.sort(rows, axis=0)[-count:].sum(axis=0) - demand
    order = np.argsort(-rows[:, int(np.argmin(np.where(demand > 0, spare, _FAR)))], kind="stable")
    inside, outside = order[:count].copy(), order[count:].copy()
    for _ in range(EXCHANGES_MAX):
        sums = rows[inside].sum(axis=0)
        room = sums - demand
        heavy = int(sums[0]) - lightest
        if room.min() < 0:
            return None
        if not heavy:
            return Picked(0, lightest, [np.sort(inside).tolist()], every=False)
        change = rows[outside][None, :, :] - rows[inside][:, None, :]
        saved = np.where((change + room >= 0).all(axis=2), -change[:, :, 0], 0)
        saved[saved > heavy] = 0
        out, into = np.unravel_index(int(np.argmax(saved)), saved.shape)
        if saved[out, into] <= 0:
            return None
        inside[out], outside[into] = int(outside[into]), int(inside[out])
    return None
