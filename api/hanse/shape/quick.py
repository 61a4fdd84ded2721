"""The best place by arrays: what is asked of trees of a shape most of the time.

The same problem as in `solve`, with the same answer. Every step here works on all candidates at once, and on the
numbers of a whole level (`seen`); no domain is looked at by itself but those that are chosen. What cannot be proven
this way is left to `solve`.
"""

from functools import partial
from typing import Final

import numpy as np

from hanse.shape.heaps import Chosen, Uses, counts_of, evenly, fewest_hosts, filled, is_even, lowest_alike
from hanse.shape.levels import Ints
from hanse.shape.pick import Floats, choices
from hanse.shape.seen import Apart, Ranged
from hanse.shape.stepped import in_steps
from hanse.shape.take import Found, Proof, Take
from hanse.shape.tightest import fewest

SIZES_MAX: Final = 24  # different numbers of pods that hosts hold
SETS_MAX: Final = 1_000  # sets of domains that are looked at
TRIES_MAX: Final = 12  # of places, or sets of them, that are worked out


def quick(cap: Ranged, n: int) -> Found | None:
    """The cheapest way to put n pods, 0 < n <= cap.fit, into a domain of domains; None if that is not proven."""
    if len(cap.seen.sizes) > SIZES_MAX:
        return None
    chosen, apart = _in_lowest(cap, n), cap.seen.folded
    if chosen is None:
        apart = cap.seen.apart
        chosen = _best(apart, cap.depth + 1, _places(cap), n)
    return None if chosen is None else Found(chosen.cost, _take(cap, apart, chosen.uses), Proof.CERTIFICATE)


def _in_lowest(cap: Ranged, n: int) -> Chosen | None:
    """In one lowest domain, where copies of domains do not matter; None if none holds n."""
    first, end = cap.ends[-2]
    fits = cap.seen.fits[-1][first:end]
    if int(np.maximum.reduce(fits)) < n:
        return None
    return _in_one(cap.seen.folded, cap.depth + 1, len(cap.seen.fits) - 1, (fits >= n).nonzero()[0] + first, n)


def _best(apart: Apart, top: int, places: tuple[int, int], n: int) -> Chosen | None:
    """The best choice among the children of one domain, neighbours at depth `top`, or among what is below them."""
    down, (first, end) = top - 1, places
    around = places
    for at in range(top, len(apart.fits)):
        if int(np.maximum.reduce(apart.fits[at][first:end])) >= n:
            down, around = at, (first, end)
        if at + 1 < len(apart.fits):
            first, end = int(apart.bounds[at][first]), int(apart.bounds[at][end])
    if down < top:
        return _among(apart, top, np.arange(*places), n)
    first, end = around
    return _in_one(apart, top, down, (apart.fits[down][first:end] >= n).nonzero()[0] + first, n)


def _places(cap: Ranged) -> tuple[int, int]:
    """The places of a domain's children, copies written out."""
    apart, depth = cap.seen.apart, cap.depth
    if depth < 0:
        return 0, len(apart.fits[0])
    if not cap.seen.levels.folded:
        return cap.ends[0]
    place = int(np.flatnonzero(apart.rows[depth] == cap.row)[0])
    return int(apart.bounds[depth][place]), int(apart.bounds[depth][place + 1])


def _in_one(apart: Apart, top: int, depth: int, places: Ints, n: int) -> Chosen | None:
    """In the best of these places of one depth, each of which holds n; `top` is that of the coarsest around them.

    They are looked at in the order of a bound on their cost.
    """
    held = [apart.fits[depth][places]]
    around = places
    for at in range(depth, top, -1):
        around = apart.around(at, around)
        held.append(apart.fits[at - 1][around])
    ones = (1,) * len(held)
    if len(places) == 1:
        chosen = _inside(apart, depth, int(places[0]), n)
        return None if chosen is None else _in(chosen, [int(own[0]) for own in reversed(held)])
    lows = [_fewest_below(apart, depth, places, below, n) for below in range(depth + 1, len(apart.fits))]
    lows.append(fewest_hosts(apart.seen.sizes, apart.above(depth)[:, places], n))
    order = np.lexsort((*held, *lows[::-1])).tolist()[: TRIES_MAX + 1]
    best: Chosen | None = None
    for at in order[:TRIES_MAX]:
        least, own = [int(low[at]) for low in lows], [int(fits[at]) for fits in reversed(held)]
        if best is not None and (*ones, *least, *own, *(n,) * len(lows)) >= best.cost:
            return best
        chosen = _inside(apart, depth, int(places[at]), n)
        if chosen is None:
            return None
        chosen = _in(chosen, own)
        if best is None or chosen.cost < best.cost:
            best = chosen
        if best.fits[len(ones) :] == (n,) * len(lows) and best.counts[len(ones) :] == tuple(least):
            return best
    return best if len(order) <= TRIES_MAX else None


def _in(chosen: Chosen, fits: list[int]) -> Chosen:
    """What is chosen inside domains that hold so much, one in the other."""
    return Chosen(((1,) * len(fits)) + chosen.counts, (*fits, *chosen.fits), chosen.uses)


def _inside(apart: Apart, depth: int, place: int, n: int) -> Chosen | None:
    """The best choice inside one place that holds n."""
    if depth + 1 == len(apart.fits):
        return filled(apart, np.array([place]), n)
    return _best(apart, depth + 1, (int(apart.bounds[depth][place]), int(apart.bounds[depth][place + 1])), n)


def _fewest_below(apart: Apart, depth: int, places: Ints, below: int, n: int) -> Ints:
    """For each of these places, the fewest of its parts at a depth below that hold n, where all together do."""
    edges = np.stack((places, places + 1))
    for at in range(depth, below):
        edges = apart.bounds[at][edges]
    sizes = edges[1] - edges[0]
    starts = np.cumsum(sizes) - sizes
    owners = np.repeat(np.arange(len(places)), sizes)
    fits = apart.fits[below][np.arange(int(sizes.sum())) + np.repeat(edges[0] - starts, sizes)]
    base = int(fits.max()) + 1
    ordered = base - 1 - (np.sort(owners * base + (base - 1 - fits)) - owners * base)
    sums = np.cumsum(ordered)
    before = np.concatenate(([0], sums))[starts]
    return np.asarray(np.add.reduceat(sums - np.repeat(before, sizes) < n, starts, dtype=np.int64) + 1)


def _among(apart: Apart, at: int, places: Ints, n: int) -> Chosen | None:
    """The best choice among places of one depth, none of which holds n, but all of them do."""
    steps = apart.seen.lens.steps
    fits = apart.fits[at][places]
    lowest = at + 1 == len(apart.fits)
    if steps[at] == steps[at + 1]:
        return lowest_alike(apart, places, fits, n) if lowest else _mids(apart, at, places, fits, n)
    return (
        evenly(apart, places, fits, n)
        if lowest and is_even(apart.seen, steps[at])
        else in_steps(apart, at, places, n, partial(_inside, apart, at))
    )


def _mids(apart: Apart, depth: int, places: Ints, fits: Ints, n: int) -> Chosen | None:
    """Among domains of domains, whose parts may be used in any number: every set of as few as can be."""
    some = fits > 0
    places, fits = places[some], fits[some]
    count = fewest(counts_of(fits), n)
    table = choices(len(places), count, SETS_MAX)
    if table is None:
        return None
    marks = table[1]
    held = marks @ fits
    good = np.flatnonzero(held >= n)
    fewer, kids, owners = _fewest_kids(apart, depth, places, marks[good], n)
    good = good[fewer == fewer.min()]
    hosts = fewest_hosts(apart.seen.sizes, (marks[good] @ apart.above(depth)[:, places].T).T, n)
    best: Chosen | None = None
    for at in np.lexsort((held[good], hosts))[:TRIES_MAX].tolist():
        own = int(held[good[at]])
        if best is not None and (int(hosts[at]), own, n) >= (best.counts[-1], best.fits[0], best.fits[-1]):
            return best
        chosen = _among(apart, depth + 1, kids[marks[good[at]][owners] > 0], n)
        if chosen is None:
            return None
        chosen = Chosen((count, *chosen.counts), (own, *chosen.fits), chosen.uses)
        if best is None or chosen.cost < best.cost:
            best = chosen
    return best if len(good) <= TRIES_MAX else None


def _fewest_kids(apart: Apart, depth: int, places: Ints, marks: Floats, n: int) -> tuple[Ints, Ints, Ints]:
    """For sets of places, how many of all their children hold n; then the children, and whose they are."""
    firsts, ends = apart.bounds[depth][places], apart.bounds[depth][places + 1]
    sizes = ends - firsts
    owners = np.repeat(np.arange(len(places)), sizes)
    kids = np.arange(int(sizes.sum())) + np.repeat(firsts - np.cumsum(sizes) + sizes, sizes)
    fits = apart.fits[depth + 1][kids]
    order = np.argsort(-fits, kind="stable")
    sums = np.cumsum(marks[:, owners[order]] * fits[order], axis=1)
    used = np.cumsum(marks[:, owners[order]], axis=1)
    at = (sums < n).sum(axis=1)
    return used[np.arange(len(used)), at].astype(np.int64), kids, owners


def _take(cap: Ranged, apart: Apart, uses: Uses) -> Take:
    """What is used of lowest domains, as what is used of the domain around them."""
    levels = cap.seen.levels
    if len(uses) == 1:
        return _one_take(cap, apart, *uses[0])
    inside: list[tuple[int, Take]] = uses
    for depth in range(levels.depth - 1, cap.depth, -1):
        places = np.array([place for place, _ in inside])
        rows = apart.rows[depth][places]
        if depth == 0:
            return Take((), tuple([(i, 1, take) for i, (_, take) in zip(rows.tolist(), inside, strict=True)]))
        around = apart.around(depth, places)
        first = levels.bounds[depth - 1][apart.rows[depth - 1][around]]
        grouped: dict[int, list[tuple[int, int, Take]]] = {}
        for parent, i, (_, take) in zip(around.tolist(), (rows - first).tolist(), inside, strict=True):
            grouped.setdefault(parent, []).append((i, 1, take))
        inside = [(parent, Take((), tuple(kids))) for parent, kids in grouped.items()]
    ((_, take),) = inside
    return take


def _one_take(cap: Ranged, apart: Apart, place: int, take: Take) -> Take:
    bounds = cap.seen.levels.bounds
    for depth in range(len(bounds) - 1, cap.depth, -1):
        row = int(apart.rows[depth][place])
        if depth == 0:
            return Take((), ((row, 1, take),))
        place = int(apart.bounds[depth - 1].searchsorted(place, side="right")) - 1
        take = Take((), ((row - int(bounds[depth - 1][int(apart.rows[depth - 1][place])]), 1, take),))
    return take
