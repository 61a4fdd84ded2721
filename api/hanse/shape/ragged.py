"""Slices of which the last is smaller: 100 pods in racks of 16 are six racks of 16 and one of 4.

The smaller slice, the *rest*, is in one domain, and at every finer level it ends in a smaller slice again. So of the
places of a level at most one holds a rest, and all others whole slices. For every domain two tables are made: the
least cost of 0, 1, … whole slices in it, and of the same with the rest beside them. A parent's tables come from its
children's by adding these one after the other, with at most one of them the holder of the rest. That is exact, and
much slower than `solve`; gangs whose pods divide never come here.

Cost is that of `solve`: domains used from the top down, hosts, then the summed fits of the used domains. The fit of
the domain that holds the rest is the most pods it could hold beside it. A cost is one 62-bit integer, components side
by side, most important first; where they are too many, fits of the finest levels are left out and decide nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hanse.shape.capacity import Cap
from hanse.shape.lens import Layers
from hanse.shape.solve import solve
from hanse.shape.take import Cost, Found, Take
from hanse.shape.tightest import least_sums

Prices = NDArray[np.int64]  # packed costs

PACKED_BITS_MAX: Final = 60
_NOBODY: Final = -1  # cannot hold the rest


class _Offer(NamedTuple):
    """What a child may be given: so many whole steps, with the rest or without, for a price."""

    steps: int
    rest: bool
    price: int


@dataclass(slots=True)
class _Stage:
    """One copy of a child: for every total, the offer that was taken (-1: none), without the rest and with it."""

    kid: int
    offers: list[_Offer]
    plain: NDArray[np.int32]
    rest: NDArray[np.int32]


@dataclass(slots=True)
class _Tables:
    """One domain.

    Attributes:
        step: its pods come in multiples of this, but for a rest.
        most: whole slices that it can hold, in pods.
        most_rest: the most pods beside and with the rest, _NOBODY if it cannot hold the rest.
        plain, rest: price of so many steps, without and with the rest.
    """

    cap: Cap
    step: int
    most: int
    most_rest: int
    plain: Prices
    rest: Prices
    kids: "list[_Tables]" = field(default_factory=list)
    stages: list[_Stage] = field(default_factory=list)


def most_ragged(cap: Cap, layers: Layers, n: int, depth: int) -> int:
    """The most pods, in slices as those of n and with the smaller one, that one domain of a depth holds below a
    group's root; the root itself is at depth -1."""
    search = _Search(cap, layers, n)
    return max([0, *[search.tables(kid, at).most_rest for kid, at in _within(cap, -1, depth)]])


def _within(cap: Cap, at: int, depth: int) -> Iterator[tuple[Cap, int]]:
    if at == depth or (at >= 0 and not cap.kids):
        yield cap, at
        return
    for kid, _ in cap.kids:
        yield from _within(kid, at + 1, depth)


def solve_ragged(cap: Cap, layers: Layers, n: int) -> Found | None:
    """The cheapest way to put n pods below `cap`, a group's root counted without slices; None if there is none."""
    search = _Search(cap, layers, n)
    return search.found() if search.root.most_rest >= n else None


class _Search:
    def __init__(self, cap: Cap, layers: Layers, n: int) -> None:
        self._layers = layers
        self._n = n
        self._counts, self._fits, bits = _shifts(cap, n)
        self._far = 1 << bits
        self._held = [0] * cap.height  # fits of the places that are used, by level
        self._seen: dict[Cap, _Tables] = {}
        self.root = self.tables(cap, -1)

    def found(self) -> Found:
        """The cheapest placement of all pods."""
        at = self._n // self.root.step
        take = self._given(self.root, -1, at, rest=True)
        return Found((*_unpacked(int(self.root.rest[at]), self._counts), *self._held), take)

    def _rest(self, step: int) -> int:
        return self._n % step

    def _use(self, level: int, fit: int) -> int:
        """The price of using one place of a level, 0 for the coarsest."""
        return (1 << self._counts[level]) + (fit << self._fits[level] if level < len(self._fits) else 0)

    # ---- tables ------------------------------------------------------------------------------------------

    def tables(self, cap: Cap, depth: int) -> _Tables:
        """Those of one domain."""
        found = self._seen.get(cap)
        if found is None:
            found = self._seen[cap] = self._branch(cap, depth) if cap.kids or depth < 0 else self._leaf(cap, depth)
        return found

    def _bounds(self, cap: Cap, depth: int, whole: int, rest: int) -> tuple[int, int, int]:
        """(step, most, most with the rest) of a domain whose parts hold so much."""
        layers = self._layers
        if depth < 0:
            return layers.steps[0], whole, rest
        step = layers.steps[depth]
        if layers.exclusive == depth and not cap.whole:
            return step, 0, _NOBODY
        least, whole, rest = self._rest(step), layers.capped(whole, depth), layers.capped(rest, depth)
        return step, whole // step * step, (rest - least) // step * step + least if rest >= least else _NOBODY

    def _branch(self, cap: Cap, depth: int) -> _Tables:
        kids = [self.tables(kid, depth + 1) for kid, _ in cap.kids]
        part = self._layers.steps[depth + 1]
        rest = self._rest(part)
        whole = sum([kid.most * copies for kid, (_, copies) in zip(kids, cap.kids, strict=True)])
        gains = [kid.most_rest - kid.most for kid in kids if kid.most_rest >= 0]
        most_rest = whole if not rest else whole + max(gains) if gains else _NOBODY
        step, most, most_rest = self._bounds(cap, depth, whole, most_rest)
        width = min(max(whole, most_rest), self._n) // part + 1
        sums = [np.full(width, self._far, dtype=np.int64) for _ in range(2)]
        sums[0][0] = 0
        stages: list[_Stage] = []
        for i, (kid, (_, copies)) in enumerate(zip(kids, cap.kids, strict=True)):
            offers = self._offers(kid, depth + 1, with_rest=rest > 0)
            for _ in range(min(copies, width) if offers else 0):
                sums, stage = _added(sums, offers, i)
                stages.append(stage)
        tables = self._cut(cap, step, most, most_rest, part, sums[0], sums[1] if rest else sums[0])
        tables.kids, tables.stages = kids, stages
        return tables

    def _cut(self, cap: Cap, step: int, most: int, most_rest: int, part: int, plain: Prices, rest: Prices) -> _Tables:
        """The tables of a domain from prices by steps of its parts."""
        wide = step // part
        plain = plain[: min(most, self._n) // part + 1 : wide]
        first = (self._rest(step) - self._rest(part)) // part
        last = (min(most_rest, self._n) - self._rest(part)) // part
        return _Tables(cap, step, most, most_rest, plain, rest[first : last + 1 : wide] if last >= 0 else rest[:0])

    def _offers(self, kid: _Tables, level: int, *, with_rest: bool) -> list[_Offer]:
        """Numbers of steps at which a child's price jumps."""
        use = self._use(level, kid.most)
        out = [_Offer(steps, False, price + use) for steps, price in _jumps(kid.plain) if steps]
        if with_rest and kid.most_rest >= 0:
            use = self._use(level, kid.most_rest)
            out += [_Offer(steps, True, price + use) for steps, price in _jumps(kid.rest)]
        return out

    def _leaf(self, cap: Cap, depth: int) -> _Tables:
        part = self._layers.steps[-1]
        hosts = _Hosts(cap, self._layers, self._rest(part))
        step, most, most_rest = self._bounds(cap, depth, hosts.whole, hosts.most_rest)
        plain = self._prices(depth, *least_sums(hosts.parts, hosts.whole, exact=True), part)
        if not hosts.rest:
            return self._cut(cap, step, most, most_rest, part, plain, plain)
        with_rest = np.full(max(0, most_rest) // part + 1, self._far, dtype=np.int64)
        for at in range(len(hosts.holders) if most_rest >= 0 else 0):
            self._hold_rest(with_rest, hosts, at, depth)
        return self._cut(cap, step, most, most_rest, part, plain, with_rest)

    def _hold_rest(self, prices: Prices, hosts: "_Hosts", at: int, depth: int) -> None:
        """Lowers prices of the lowest domain to those with the rest on one kind of its hosts."""
        others, beside = hosts.without(at)
        part = self._layers.steps[-1]
        total = sum([size * many for size, many in others])
        alone = self._prices(depth, *least_sums(others, total, exact=True), part)
        steps = np.maximum(0, np.arange(min(len(prices), (total + beside) // part + 1)) - beside // part)
        cand = alone[steps] + self._use(depth + 1, beside + hosts.rest)
        prices[: len(cand)] = np.minimum(prices[: len(cand)], cand)

    def _prices(self, depth: int, hosts: list[int], sums: list[int], part: int) -> Prices:
        prices = np.array(hosts[::part], dtype=np.int64) << self._counts[depth + 1]
        if depth + 1 < len(self._fits):
            prices += np.array(sums[::part], dtype=np.int64) << self._fits[depth + 1]
        return prices

    # ---- what was chosen ---------------------------------------------------------------------------------

    def _given(self, tables: _Tables, depth: int, steps: int, *, rest: bool) -> Take:
        """The cheapest places for so many steps of a domain."""
        part = self._layers.steps[depth + 1]
        pods = steps * tables.step + (self._rest(tables.step) if rest else 0)
        beyond = self._rest(part) if rest else 0
        if not tables.kids:
            return self._on_hosts(tables.cap, pods, beyond)
        left, rest = (pods - beyond) // part, beyond > 0
        out: list[tuple[int, int, Take]] = []
        for stage in reversed(tables.stages):
            at = int((stage.rest if rest else stage.plain)[left])
            if at >= 0:
                offer = stage.offers[at]
                give = min(offer.steps, left)
                kid = tables.kids[stage.kid]
                self._held[depth + 1] += kid.most_rest if offer.rest else kid.most
                out.append((stage.kid, 1, self._given(kid, depth + 1, give, rest=offer.rest)))
                left, rest = left - give, rest and not offer.rest
        return Take((), tuple(out))

    def _on_hosts(self, cap: Cap, pods: int, rest: int) -> Take:
        hosts = _Hosts(cap, self._layers, rest)
        if not rest:
            return Take(self._filled(hosts.hist, pods))
        best: tuple[tuple[int, int], int, int] | None = None
        for at in range(len(hosts.holders)):
            others, beside = hosts.without(at)
            left = max(0, pods - rest - beside)
            if left <= sum([size * many for size, many in others]):
                used, held = least_sums(others, left, exact=True)
                cost = (used[left], held[left] + beside + rest)
                best = min(best or (cost, at, left), (cost, at, left))
        assert best is not None
        _, at, left = best
        bin_of = hosts.holders[at][1]
        self._held[-1] += hosts.without(at)[1] + rest
        return Take((*self._filled(hosts.hist_without(at), left), (bin_of, 1, pods - left)))

    def _filled(self, hist: list[tuple[int, int, int]], pods: int) -> tuple[tuple[int, int, int], ...]:
        """The fewest hosts that hold so many pods."""
        if not pods:
            return ()
        full = tuple([(size, many, i, 0, 0) for size, many, i in sorted(hist, key=_largest_first)])
        fit = sum([size * many for size, many, _ in hist])
        found = solve(Cap(fit, (), full, step=1, peak=(fit, full[0][0])), pods)
        self._held[-1] += found.cost[-1]
        return found.take.hosts


class _Hosts:
    """The hosts of a lowest domain, as slices round them.

    Attributes:
        hist: (pods in whole slices, hosts, bin) of hosts that hold any, most first.
        parts: (pods in whole slices, hosts), largest first, sizes distinct.
        holders: (pods, bin) of the kinds of hosts that could hold the rest, which is of less than a host's slice.
    """

    def __init__(self, cap: Cap, layers: Layers, rest: int) -> None:
        step = layers.steps[-1]
        alone = layers.exclusive == len(layers.floors)
        usable = [(most, many, i) for most, many, i, free, full in cap.hist if free == full or not alone]
        self._step = step
        self.rest = rest
        self.hist = [(most // step * step, many, i) for most, many, i in usable if most >= step]
        self.parts = _parts(self.hist)
        self.whole = sum([size * many for size, many in self.parts])
        kinds = {most: i for most, _, i in reversed(usable) if most >= rest}
        self.holders = sorted(kinds.items(), reverse=True) if rest else []

    @property
    def most_rest(self) -> int:
        """The most pods of whole slices and the rest."""
        if not self.rest:
            return self.whole
        totals = [self.whole - most // self._step * self._step + self._beside(most) for most, _ in self.holders]
        return max(totals) + self.rest if totals else _NOBODY

    def _beside(self, most: int) -> int:
        return (most - self.rest) // self._step * self._step

    def without(self, at: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """The parts without one holder of the rest, and the whole slices that it can hold beside it."""
        return _parts(self.hist_without(at)), self._beside(self.holders[at][0])

    def hist_without(self, at: int) -> list[tuple[int, int, int]]:
        """The hosts without one holder of the rest."""
        bin_of = self.holders[at][1]
        return [(size, many - (i == bin_of), i) for size, many, i in self.hist if many > (i == bin_of)]


def _parts(hist: list[tuple[int, int, int]]) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for size, many, _ in hist:
        counts[size] = counts.get(size, 0) + many
    return tuple(sorted(counts.items(), reverse=True))


def _largest_first(entry: tuple[int, int, int]) -> int:
    return -entry[0]


def _added(sums: list[Prices], offers: list[_Offer], kid: int) -> tuple[list[Prices], _Stage]:
    """The prices with one more child: for every total, none of it or the best of its offers."""
    plain, rest = sums[0].copy(), sums[1].copy()
    picks = [np.full(len(plain), -1, dtype=np.int32) for _ in range(2)]
    for at, offer in enumerate(offers):
        before = np.maximum(0, np.arange(len(plain)) - offer.steps)
        if offer.rest:
            _lower(rest, sums[0][before] + offer.price, picks[1], at)
        else:
            _lower(plain, sums[0][before] + offer.price, picks[0], at)
            _lower(rest, sums[1][before] + offer.price, picks[1], at)
    return [plain, rest], _Stage(kid, offers, picks[0], picks[1])


def _lower(prices: Prices, cand: Prices, picks: NDArray[np.int32], at: int) -> None:
    better = cand < prices
    prices[better] = cand[better]
    picks[better] = at


def _jumps(prices: Prices) -> list[tuple[int, int]]:
    """(steps, price) where one step more costs more, and the last."""
    values = prices.tolist()
    return [(i, p) for i, p in enumerate(values) if i + 1 == len(values) or values[i + 1] != p]


def _shifts(cap: Cap, n: int) -> tuple[list[int], list[int], int]:
    """Where the counts of every level stand in a packed cost, and the fits of as many as there is room for, coarse to
    fine; then how many bits there are in all."""
    counts = [min(n, sum([many for _, many in level])).bit_length() for level in cap.census]
    pods = sum([fit * many for fit, many in cap.census[-1]]).bit_length()
    fits = [pods] * max(0, min(cap.height, (PACKED_BITS_MAX - sum(counts)) // max(1, pods)))
    widths = [*counts, *fits]
    ends = [sum(widths[at + 1 :]) for at in range(len(widths))]
    return ends[: len(counts)], ends[len(counts) :], sum(widths)


def _unpacked(price: int, shifts: list[int]) -> Cost:
    out: list[int] = []
    for shift in shifts:
        out.append(price >> shift)
        price -= out[-1] << shift
    return tuple(out)
