"""The best place by arrays: what is asked of trees of a shape most of the time.

The same problem as in `solve`, with the same answer. Every step here works on all candidates at once, and on the
numbers of a whole level (`seen`); no domain is looked at by itself but those that are chosen. What cannot be proven
this way is left to `solve`.
"""

from functools import partial
from math import comb
from typing import Final, NamedTuple

import numpy as np

from hanse.shape.levels import CLASS_STRIDE, Ints
from hanse.shape.pick import Floats, Picked, all_choices, pick
from hanse.shape.seen import Apart, Ranged, Seen
from hanse.shape.take import Cost, Found, Proof, Take
from hanse.shape.tightest import fewest, least_sum, tightest

SIZES_MAX: Final = 24  # different numbers of pods that hosts hold
SETS_MAX: Final = 1_000  # sets of domains that are looked at
TRIES_MAX: Final = 12  # of places, or sets of them, that are worked out

Uses = list[tuple[int, Take]]  # lowest domains by place, ascending, with what is used of them


class Chosen(NamedTuple):
    """Lowest domains that hold the wanted pods, and what that costs: counts from a level on, then fits."""

    counts: tuple[int, ...]
    fits: tuple[int, ...]
    uses: Uses

    @property
    def cost(self) -> Cost:
        """As in `solve`."""
        return (*self.counts, *self.fits)


def quick(cap: Ranged, n: int) -> Found | None:
    """The cheapest way to put n pods, 0 < n <= cap.fit, into a domain of domains; None if that is not proven."""
    apart, at = cap.seen.apart, cap.depth + 1
    if len(cap.seen.sizes) > SIZES_MAX:
        return None
    first, end = _places(cap)
    down, edges = cap.depth, (first, end)
    while at < len(apart.fits):
        if int(np.maximum.reduce(apart.fits[at][first:end])) >= n:
            down, edges = at, (first, end)
        if at + 1 == len(apart.fits):
            break
        first, end, at = int(apart.bounds[at][first]), int(apart.bounds[at][end]), at + 1
    if down == cap.depth:
        chosen = _among(apart, at=cap.depth + 1, places=np.arange(*_places(cap)), n=n)
    else:
        chosen = _in_one(apart, cap.depth, down, (apart.fits[down][slice(*edges)] >= n).nonzero()[0] + edges[0], n)
    return None if chosen is None else Found(chosen.cost, _take(cap, chosen.uses), Proof.CERTIFICATE)


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
    """In the best of these places of one depth, each of which holds n; `top` is the depth of what is around them.

    They are looked at in the order of a bound on their cost.
    """
    held = [apart.fits[depth][places]]
    around = places
    for at in range(depth, top + 1, -1):
        around = apart.around(at, around)
        held.append(apart.fits[at - 1][around])
    ones = (1,) * len(held)
    if len(places) == 1:
        chosen = _inside(apart, depth, int(places[0]), n)
        return None if chosen is None else _in(chosen, [int(own[0]) for own in reversed(held)])
    lows = [_fewest_below(apart, depth, places, below, n) for below in range(depth + 1, len(apart.fits))]
    lows.append(_fewest_hosts(apart.seen.sizes, apart.above(depth)[:, places], n))
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
    """The best choice inside one place that holds n, none of whose parts does."""
    if depth + 1 == len(apart.fits):
        return _filled(apart, np.array([place]), n)
    first, end = apart.bounds[depth][place : place + 2].tolist()
    return _among(apart, depth + 1, np.arange(first, end), n)


def _fewest_hosts(sizes: Ints, above: Ints, n: int) -> Ints:
    """For each column of what is held above the sizes, the fewest hosts that hold n."""
    least = np.full(above.shape[1], -(-n // int(sizes[-1])), dtype=np.int64)
    return np.maximum(least, np.max(-((above - n) // sizes[:-1, None]), axis=0)) if len(sizes) > 1 else least


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
    if steps[at] != steps[at + 1]:
        return None
    if at + 1 == len(apart.fits):
        return _lows(apart, places, fits, n)
    return _mids(apart, at, places, fits, n)


def _mids(apart: Apart, depth: int, places: Ints, fits: Ints, n: int) -> Chosen | None:
    """Among domains of domains, whose parts may be used in any number: every set of as few as can be."""
    some = fits > 0
    places, fits = places[some], fits[some]
    count = fewest(_counts(fits), n)
    if comb(len(places), count) > SETS_MAX:
        return None
    _, marks = all_choices(len(places), count)
    held = marks @ fits
    good = np.flatnonzero(held >= n)
    fewer, kids, owners = _fewest_kids(apart, depth, places, marks[good], n)
    good = good[fewer == fewer.min()]
    hosts = _fewest_hosts(apart.seen.sizes, (marks[good] @ apart.above(depth)[:, places].T).T, n)
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


def _lows(apart: Apart, places: Ints, fits: Ints, n: int) -> Chosen | None:
    """Among lowest domains whose hosts may be used in any number."""
    sizes = apart.seen.sizes
    count, lightest = _lightest(fits, n)
    if len(sizes) == 1:
        wanted = tightest(_counts(fits), n)
        sets = [_of_sizes(fits, wanted)]
        picked = Picked(-(-n // int(sizes[0])), lightest, sets, every=True)
    else:
        rows = np.concatenate((fits[None, :], apart.above(len(apart.fits) - 1)[:, places])).T
        found = pick(rows, sizes, n, count, lightest)
        if found is None:
            return None
        picked = found
    best: Chosen | None = None
    for some in picked.sets:
        chosen = _filled(apart, places[some], n)
        chosen = Chosen((count, *chosen.counts), (picked.held, *chosen.fits), chosen.uses)
        if best is None or chosen.fits < best.fits:
            best = chosen
        if best.fits[-1] == n:
            return best
    if best is None or not (picked.every or best.fits[-1] <= _least_hosts_sum(sizes, n)):
        return None
    return best


def _least_hosts_sum(sizes: Ints, n: int) -> int:
    return least_sum(tuple([(size, 1) for size in sizes.tolist()]), n)


def _lightest(fits: Ints, n: int) -> tuple[int, int]:
    """The fewest places that hold n, and the least that so many of them hold together."""
    parts = _counts(fits)
    return fewest(parts, n), sum([size * many for size, many in tightest(parts, n).items()])


def _counts(fits: Ints) -> tuple[tuple[int, int], ...]:
    total: dict[int, int] = {}
    for fit in fits.tolist():
        if fit:
            total[fit] = total.get(fit, 0) + 1
    return tuple(sorted(total.items(), reverse=True))


def _of_sizes(fits: Ints, wanted: dict[int, int]) -> list[int]:
    """Positions of so many places of each fit."""
    out: list[int] = []
    for at, fit in enumerate(fits.tolist()):
        if wanted.get(fit, 0):
            wanted[fit] -= 1
            out.append(at)
    return out


def _filled(apart: Apart, places: Ints, n: int) -> Chosen:
    """The hosts of these lowest domains that hold n: the fewest, and the tightest choice of so many."""
    seen = apart.seen
    rows = apart.rows[-1][places].tolist()
    starts, whole = seen.levels.bounds[-1], seen.fits[-1]
    hosts: list[list[tuple[int, int, int, int]]] = []  # by domain, (pods, free GPUs, bin, hosts), most first
    total: dict[int, int] = {}
    for row in rows:
        first, end = int(starts[row]), int(starts[row + 1])
        own = list(
            zip(
                seen.pods[first:end].tolist(),
                (seen.levels.numbers[first:end] % CLASS_STRIDE).tolist(),
                range(end - first),
                seen.levels.hosts[first:end].tolist(),
                strict=True,
            )
        )
        hosts.append(own)
        for pods, _, _, many in own:
            if pods:
                total[pods] = total.get(pods, 0) + many
    parts = tightest(tuple(sorted(total.items(), reverse=True)), n)
    used = sum(parts.values())
    held = sum([size * many for size, many in parts.items()])
    rest, short = held - n, min(parts)
    uses: Uses = []
    for place, row, own in zip(places.tolist(), rows, hosts, strict=True):
        take: list[tuple[int, int, int]] = []
        pods_here = 0
        for pods, _, i, many in sorted(own, key=_most_first):
            use = min(many, parts.get(pods, 0))
            if use:
                parts[pods] -= use
                pods_here += pods * use
                if pods == short and rest:
                    if use > 1:
                        take.append((i, use - 1, pods))
                    take.append((i, 1, pods - rest))
                    pods_here, rest = pods_here - rest, 0
                else:
                    take.append((i, use, pods))
        if pods_here == int(whole[row]) and pods_here == sum([pods * many for pods, _, _, many in own]):
            uses.append((place, _everything(seen, row)))
        else:
            uses.append((place, Take(tuple(take))))
    return Chosen((used,), (held,), uses)


def _most_first(entry: tuple[int, int, int, int]) -> tuple[int, int, int]:
    return -entry[0], entry[1], entry[2]


def _everything(seen: Seen, row: int) -> Take:
    return Take(all_of=partial(seen.lowest, row), lens=seen.lens)


def _take(cap: Ranged, uses: Uses) -> Take:
    """What is used of lowest domains, as what is used of the domain around them."""
    apart, levels = cap.seen.apart, cap.seen.levels
    if len(uses) == 1:
        return _one_take(cap, *uses[0])
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


def _one_take(cap: Ranged, place: int, take: Take) -> Take:
    apart, bounds = cap.seen.apart, cap.seen.levels.bounds
    for depth in range(len(bounds) - 1, cap.depth, -1):
        row = int(apart.rows[depth][place])
        if depth == 0:
            return Take((), ((row, 1, take),))
        place = int(apart.bounds[depth - 1].searchsorted(place, side="right")) - 1
        take = Take((), ((row - int(bounds[depth - 1][int(apart.rows[depth - 1][place])]), 1, take),))
    return take
