"""How much each of several places gives, where they give pods in whole steps.

As few places as can be are used, and how much each of them leaves out is part of the choice. The places come from
the largest on. Seen from the largest ones, all given in full, a choice loses something wherever it takes a smaller
place instead, and with every step that a place leaves out; in all it loses just what the largest have to spare. That
is not much, so a table of (places used, steps lost) is small, and each place adds to it at a stroke.

What a place costs that leaves out so many steps is known by a bound at first. The cheapest choice by bounds is worked
out where it is not exact yet, and looked for again, until nothing in it is a bound: then nothing else costs less.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from hanse.shape.levels import Ints
from hanse.shape.native import native

CELLS_MAX: Final = 400_000  # of all additions to the table
ROUNDS_MAX: Final = 40  # times that it is made
FAR: Final = 1 << 61  # more than any cost

Exact = Callable[[int, int], int | None]  # (place, steps left out) -> what that costs, None if it is not known


def deal(steps: Ints, wanted: int, count: int, costs: Ints, exact: Exact) -> list[tuple[int, int]] | None:
    """(place, steps left out) for the cheapest choice of `count` places; None if that is too much work.

    Args:
        steps: that each place could give, most first.
        wanted: steps, more than count - 1 places could give.
        costs: by place and steps left out, at the least; overwritten with what is exact.
    """
    spare = int(steps[:count].sum()) - wanted
    places = int(np.count_nonzero(steps[count - 1] - steps <= spare))
    if places * count * (spare + 1) * min(spare + 1, costs.shape[1]) > CELLS_MAX:
        return None
    known = np.zeros(costs.shape, dtype=bool)
    only = [(at, 0) for at in range(count)] if not spare and places == count else None
    for _ in range(ROUNDS_MAX):
        chosen = only or _cheapest(steps[:places], spare, count, costs)
        open_ = [(at, less) for at, less in chosen if not known[at, less]]
        if not open_:
            return chosen
        for at, less in open_:
            cost = exact(at, less)
            if cost is None:
                return None
            costs[at, less], known[at, less] = cost, True
    return None


def _cheapest(steps: Ints, spare: int, count: int, costs: Ints) -> list[tuple[int, int]]:
    if native.cheapest is not None:
        told = native.cheapest(steps, spare, count, costs).tolist()
        return [(at, less) for at, less in told]
    width = costs.shape[1]
    backwards = np.ascontiguousarray(costs[:, ::-1])
    table: Ints = np.full((count + 1, spare + 1), FAR, dtype=np.int64)
    table[0, 0] = 0
    before: list[Ints] = []
    padded: Ints = np.full((count, spare + width), FAR, dtype=np.int64)
    windows = sliding_window_view(padded, width, axis=1)
    losses = (steps[:count, None] - steps).T.tolist()
    for at, lost in enumerate(losses):
        before.append(table)
        first, end = max(0, count - (len(losses) - at)), min(at + 1, count)
        while first < end and lost[first] > spare:
            first += 1
        grown = table.copy()
        for used in range(first, end):
            padded[used, width - 1 : width - 1 + lost[used]] = FAR
            if lost[used] <= spare:
                padded[used, width - 1 + lost[used] :] = table[used, : spare + 1 - lost[used]]
        least = np.minimum.reduce(windows[first:end] + backwards[at], axis=2)
        np.minimum(grown[first + 1 : end + 1], least, out=grown[first + 1 : end + 1])
        table = grown
    return _traced(before, table, steps, costs)


def _traced(before: list[Ints], table: Ints, steps: Ints, costs: Ints) -> list[tuple[int, int]]:
    """What led to the last entry of the last table."""
    used, lost = table.shape[0] - 1, table.shape[1] - 1
    cost = int(table[used, lost])
    out: list[tuple[int, int]] = []
    for at in range(len(before) - 1, -1, -1):
        if int(before[at][used, lost]) == cost:
            continue
        used -= 1
        lost -= int(steps[used] - steps[at])
        rest = before[at][used, lost::-1][: costs.shape[1]]
        less = int(np.flatnonzero(rest + costs[at, : len(rest)] == cost)[0])
        lost -= less
        cost -= int(costs[at, less])
        out.append((at, less))
    return out[::-1]
