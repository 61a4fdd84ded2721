"""The best choice among places that give pods in whole steps, coarser ones than their parts (see `deal`).

What a place costs is the counts of its parts level by level, what it holds, and what its used parts hold; all of that
in one number, the most important first. It is known by bounds until it is worked out: the largest parts say how many
are needed, hosts by the sums above each of their sizes (see `bounds`), and how little that many parts can hold
together is a subset sum.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from hanse.shape.deal import FAR, deal
from hanse.shape.heaps import Chosen, summed
from hanse.shape.levels import Ints
from hanse.shape.seen import Apart

PARTS_MAX: Final = 24  # of a place, for what so many of them hold at the least to be worked out
COST_BITS: Final = 60  # of a cost in one number

Inside = Callable[[int, int], Chosen | None]  # (place, pods) -> the best choice inside it, None if unproven


def in_steps(apart: Apart, depth: int, places: Ints, n: int, inside: Inside) -> Chosen | None:
    """Among places that give pods in whole steps, coarser ones than their parts."""
    step, fits = apart.seen.lens.steps[depth], apart.fits[depth][places]
    order = np.argsort(-fits, kind="stable")
    places, fits = places[order], fits[order]
    sums = np.cumsum(fits)
    count = int(np.count_nonzero(sums < n)) + 1
    spare = (int(sums[count - 1]) - n) // step
    some = fits[count - 1] - fits <= spare * step
    places, fits = places[some], fits[some]
    if not spare and len(places) == count:
        return _all_of(places, fits, inside)
    width = min(spare, int(fits[0]) // step) + 1
    given = fits[:, None] - np.arange(width) * step
    least = _least_costs(apart, depth, places, given)
    counts, held = least[: len(least) // 2], least[len(least) // 2 :]
    costs = [*counts, np.broadcast_to(fits[:, None], given.shape), *held]
    most = _most_used(apart, depth, places, count)
    bits = [own.bit_length() for own in (*most[: len(counts)], int(fits[:count].sum()), *most[len(counts) :])]
    if sum(bits) > COST_BITS:
        return None
    shifts = [sum(bits[at + 1 :]) for at in range(len(bits))]
    packed = sum([own << shift for own, shift in zip(costs, shifts, strict=True)], np.zeros_like(given))
    packed[given <= 0] = FAR
    found: dict[tuple[int, int], Chosen] = {}

    def exact(at: int, less: int) -> int | None:
        chosen = inside(int(places[at]), int(given[at, less]))
        if chosen is None:
            return None
        found[at, less] = chosen
        own = (*chosen.counts, int(fits[at]), *chosen.fits)
        return sum([part << shift for part, shift in zip(own, shifts, strict=True)])

    chosen = deal(fits // step, n // step, count, packed, exact)
    if chosen is None:
        return None
    return summed(count, sum([int(fits[at]) for at, _ in chosen]), [found[pair] for pair in chosen])


def _all_of(places: Ints, fits: Ints, inside: Inside) -> Chosen | None:
    """All that these places hold."""
    parts: list[Chosen] = []
    for place, fit in zip(places.tolist(), fits.tolist(), strict=True):
        chosen = inside(place, fit)
        if chosen is None:
            return None
        parts.append(chosen)
    return summed(len(parts), int(fits.sum()), parts)


def _most_used(apart: Apart, depth: int, places: Ints, count: int) -> list[int]:
    """No `count` of these places have more parts at each depth below, hosts at last; nor parts that hold more."""
    seen, edges = apart.seen, np.stack((places, places + 1))
    most: list[int] = []
    for at in range(depth, len(apart.bounds)):
        edges = apart.bounds[at][edges]
        most.append(_largest(edges[1] - edges[0], count))
    starts = seen.levels.bounds[-1][:-1]
    by_low = np.add.reduceat(np.stack((seen.levels.hosts, seen.pods * seen.levels.hosts)), starts, axis=1)
    sums = np.zeros((2, len(apart.rows[-1]) + 1), dtype=np.int64)
    by_low[:, apart.rows[-1]].cumsum(axis=1, out=sums[:, 1:])
    hosts, held = sums[:, edges[1]] - sums[:, edges[0]]
    most.append(_largest(hosts, count))
    return most + [_largest(held, count)] * len(most)


def _largest(values: Ints, count: int) -> int:
    return int(np.sort(values)[-count:].sum())


def _least_costs(apart: Apart, depth: int, places: Ints, given: Ints) -> list[Ints]:
    """By place and pods given there: the fewest parts at each depth below, hosts at last; then what they hold."""
    counts: list[Ints] = []
    held: list[Ints] = []
    for below in range(depth + 1, len(apart.fits)):
        first, end = apart.bounds[depth][places], apart.bounds[depth][places + 1]
        for at in range(depth + 1, below):
            first, end = apart.bounds[at][first], apart.bounds[at][end]
        wide = int((end - first).max())
        parts = first[:, None] + np.arange(wide)
        fits = np.where(parts < end[:, None], apart.fits[below][np.minimum(parts, len(apart.fits[below]) - 1)], 0)
        sums = np.cumsum(-np.sort(-fits, axis=1), axis=1)
        fewer = np.asarray((sums[:, None, :] < given[:, :, None]).sum(axis=2) + 1)
        counts.append(fewer)
        held.append(_least_held(fits, given, fewer, apart.seen.lens.steps[below]) if wide <= PARTS_MAX else given)
    sizes = apart.seen.sizes
    hosts = -(-given // int(sizes[-1]))
    if len(sizes) > 1:
        above = apart.above(depth)[:, places]
        hosts = np.maximum(hosts, np.max(-((above[:, :, None] - given) // sizes[:-1, None, None]), axis=0))
    return [*counts, hosts, *held, given]


def _least_held(fits: Ints, given: Ints, counts: Ints, step: int) -> Ints:
    """By place (a row of what its parts hold) and pods given there: what that many of its parts hold at the least."""
    out = np.array(given)
    for own, row, asked, used in zip(out, (fits // step).tolist(), (-(-given // step)).tolist(), counts, strict=True):
        reach = [1] + [0] * len(row)  # by number of parts, the sums that so many reach, as bits
        for size in row:
            for many in range(len(row), 0, -1) if size else ():
                reach[many] |= reach[many - 1] << size
        at_least = zip(np.minimum(used, len(row)).tolist(), asked, strict=True)
        own[:] = [_first_bit(reach[many], at) * step for many, at in at_least]
    return out


def _first_bit(bits: int, at: int) -> int:
    """The first bit from a position on; the position itself if there is none."""
    rest = bits >> at if at > 0 else 0
    return at + (rest & -rest).bit_length() - 1 if rest else at
