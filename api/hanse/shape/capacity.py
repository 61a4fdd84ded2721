"""Capacity in pods: the tree of a shape as one pod set sees it.

`fit` of a domain is the most pods it can hold: the sum of its parts, rounded down to whole slices at every level
that has a slice layer. That is exact, because slices are independent and any subset of a domain's room can be used.

Hosts are counted as arrays, all lowest domains of a tree in one pass. What a search rarely looks at (a lowest domain
by itself, its hosts by capacity, what of it is whole) is derived when it does.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from hanse.shape.domains import MEMO_LENSES_MAX, Bins, Branch, Ints, Leaf, Node
from hanse.shape.lens import Lens

if TYPE_CHECKING:
    from hanse.shape.bounds import Heap
    from hanse.shape.solve import Found

ALONE_MAX: Final = 3  # unknown lowest domains of one domain that are looked at one by one; more go through arrays

Hist = tuple[tuple[int, int, int, int, int], ...]  # pods per host, hosts, index of the bin, free GPUs, all GPUs
Counts = tuple[tuple[int, int], ...]  # fit, domains with that fit; largest first
Parts = tuple[Ints, Ints]  # fits of parts, and how many there are of each entry
Facts = tuple[int, bool, int]  # free, whole, whole_hosts


class Cap:
    """One domain through one lens.

    Attributes:
        fit: the most pods the domain can hold.
        step: pods come to its parts in multiples of this: the coarsest slice that may not cross a part.
        peak: the largest fit among the domains 0, 1, … levels below; the last entry is of a single host.
        single: scores of the best single host by number of pods, see there.
        solved: what `solve` found for numbers of pods that were asked for.
        lens: through which the domain is seen; None where its hosts were counted one by one.
        heaps: see `bounds`.
        capped: some place may be given fewer pods than its parts could hold.
    """

    __slots__ = (
        "_census", "_depth", "_facts", "_full", "_hist", "_kids", "_low", "_parts", "capped", "fit", "heaps", "lens",
        "node", "peak", "single", "solved", "step",
    )  # fmt: skip

    def __init__(
        self,
        node: Node | None,
        fit: int,
        kids: "tuple[tuple[Cap, int], ...] | None",
        hist: Hist | None,
        *,
        step: int,
        peak: tuple[int, ...],
        free: int = -1,
        whole: bool = False,
        whole_hosts: int = 0,
        capped: bool = False,
    ) -> None:
        self.node = node
        self.fit = fit
        self.step = step
        self.peak = peak
        self.capped = capped
        self.single: dict[int, tuple[int, ...] | None] = {}
        self.solved: dict[int, Found] = {}
        self.heaps: dict[int, Heap] = {}
        self._kids = kids
        self._hist = hist
        self._facts: Facts | None = (free, whole, whole_hosts) if free >= 0 else None
        self.lens: Lens | None = None
        self._depth = 0
        self._low: tuple[Ints, Ints, Ints] | None = None
        self._parts: dict[int, Parts] = {}
        self._census: tuple[Counts, ...] | None = None
        self._full: tuple[int, ...] | None = None

    @property
    def height(self) -> int:
        """Kinds of places below: 1 for a lowest domain (its hosts), 2 above it, …"""
        return len(self.peak) - 1

    @property
    def kids(self) -> "tuple[tuple[Cap, int], ...]":
        """Capacity and copies of each child, in the order of the node's children; () for a lowest domain."""
        if self._kids is None:
            self._kids = self._unfolded()
        return self._kids

    @property
    def branches(self) -> int:
        """How many different children there are."""
        return len(self._kids) if self._kids is not None else len(self.parts(1)[0])

    @property
    def hist(self) -> Hist:
        """Of a lowest domain, hosts that hold a pod: most pods first, then fewest free GPUs."""
        if self._hist is None:
            self._hist = self._host_histogram()
        return self._hist

    @property
    def free(self) -> int:
        """Free GPUs on the hosts that the set may use, whether or not a pod fits there."""
        return self.facts[0]

    @property
    def whole(self) -> bool:
        """Every GPU of the domain is free."""
        return self.facts[1]

    @property
    def whole_hosts(self) -> int:
        """Hosts of the domain with GPUs, all of them free."""
        return self.facts[2]

    @property
    def facts(self) -> Facts:
        """free, whole, whole_hosts."""
        if self._facts is None:
            self._facts = self._derived_facts()
        return self._facts

    def parts(self, below: int) -> Parts:
        """The fits of the domains (at last: hosts) 1, 2, … levels below and their numbers, in the order of children.

        Parts that hold nothing may be among them, and equal fits may come several times.
        """
        found = self._parts.get(below)
        if found is None:
            found = self._parts[below] = self._derived_parts(below)
        return found

    def owned(self, below: int) -> tuple[Ints, Ints, Ints]:
        """The parts of every child, 1, 2, … levels below it: index of the child, fit, how many in one copy of it."""
        if self._low is not None and isinstance(self.node, Branch):
            bins = self.node.bins
            return np.repeat(np.arange(len(bins.sizes)), bins.sizes), self._low[2], bins.hosts
        inside = [kid.parts(below) for kid, _ in self.kids]
        owners = np.repeat(np.arange(len(inside)), [len(own[0]) for own in inside])
        return owners, np.concatenate([own[0] for own in inside]), np.concatenate([own[1] for own in inside])

    @property
    def census(self) -> tuple[Counts, ...]:
        """For 1, 2, … levels below: how many domains (at last: hosts) have which fit. Zeros are left out."""
        if self._census is None:
            self._census = tuple([_counted(*self.parts(below)) for below in range(1, self.height + 1)])
        return self._census

    @property
    def full(self) -> tuple[int, ...]:
        """The cost of using all of it: domains used per level below, hosts, then the fits of those (see solve)."""
        if self._full is None:
            levels = [self.parts(below) for below in range(1, self.height + 1)]
            counts = tuple([int(numbers[fits > 0].sum()) for fits, numbers in levels])
            self._full = counts + tuple([int(fits @ numbers) for fits, numbers in levels])
        return self._full

    def _unfolded(self) -> "tuple[tuple[Cap, int], ...]":
        node, lens, at = self.node, self.lens, self._depth + 1
        if not isinstance(node, Branch) or lens is None:
            return ()
        if self._low is None:
            return tuple([(capacity(kid, lens, at), copies) for kid, copies in node.kids])
        fits, peaks = self._low[0].tolist(), self._low[1].tolist()
        step = lens.steps[at + 1]
        return tuple([
            (_remembered(kid, lens, at, fit, (fit, peak), step), copies)
            for (kid, copies), fit, peak in zip(node.kids, fits, peaks, strict=True)
        ])  # fmt: skip

    def _host_histogram(self) -> Hist:
        node, lens = self.node, self.lens
        if not isinstance(node, Leaf) or lens is None:
            return ()
        rows, full = lens.rows, lens.full
        hist = [
            (row[free], hosts, i, free, full[c])
            for i, (c, free, hosts) in enumerate(node.bins)
            for row in (rows[c],)
            if row and row[free]
        ]
        hist.sort(key=_most_first)
        return tuple(hist)

    def _derived_facts(self) -> Facts:
        node, lens = self.node, self.lens
        if lens is not None and isinstance(node, Leaf):
            free = sum([gpus * hosts for c, gpus, hosts in node.bins if lens.rows[c]])
            whole = all(gpus == lens.full[c] for c, gpus, _ in node.bins)
            return free, whole, sum([hosts for c, gpus, hosts in node.bins if 0 < gpus == lens.full[c]])
        if lens is not None and self._low is not None and isinstance(node, Branch):
            seen, hosts = node.bins.numbers, node.bins.all_hosts
            broken = bool(lens.bins.broken[seen].any())
            return int(lens.bins.free[seen] @ hosts), not broken, int(lens.bins.whole[seen] @ hosts)
        facts = [(kid.facts, copies) for kid, copies in self.kids]
        free = sum([own[0] * copies for own, copies in facts])
        return free, all(own[1] for own, _ in facts), sum([own[2] * copies for own, copies in facts])

    def _derived_parts(self, below: int) -> Parts:
        if not self.fit:
            return _ints([]), _ints([])
        if self._low is not None and isinstance(self.node, Branch):
            bins = self.node.bins
            if below == 1:
                return self._low[0], bins.copies
            return self._low[2], bins.all_hosts
        if self.height == 1:
            return _ints([most for most, *_ in self.hist]), _ints([hosts for _, hosts, *_ in self.hist])
        if below == 1:
            return _ints([kid.fit for kid, _ in self.kids]), _ints([copies for _, copies in self.kids])
        inside = [(kid.parts(below - 1), copies) for kid, copies in self.kids if kid.fit]
        numbers = [own[1] if copies == 1 else own[1] * copies for own, copies in inside]
        return np.concatenate([own[0] for own, _ in inside]), np.concatenate(numbers)


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _counted(fits: Ints, numbers: Ints) -> Counts:
    total: dict[int, int] = {}
    for fit, n in zip(fits.tolist(), numbers.tolist(), strict=True):
        if fit:
            total[fit] = total.get(fit, 0) + n
    return tuple(sorted(total.items(), reverse=True))


def _most_first(entry: tuple[int, int, int, int, int]) -> tuple[int, int, int]:
    return -entry[0], entry[3], entry[2]


def capacity(node: Node, lens: Lens, depth: int) -> Cap:
    """The node through the lens; `depth` is -1 for a group's root, 0 for its coarsest domains, …"""
    found = node.memo.get(lens)
    if found is None:
        if isinstance(node, Leaf):
            found = _alone(node, lens, depth)
        else:
            _fill(list(_unseen(node, lens, depth)), lens)
            found = _branch(node, lens, depth)
    return found


def _alone(node: Leaf, lens: Lens, depth: int) -> Cap:
    """A lowest domain that nobody looked at together with its neighbours."""
    cap = _viewed(node, lens, depth, 0, (0, 0), lens.steps[depth + 1])
    fit = sum([most * hosts for most, hosts, *_ in cap.hist])
    cap.fit = _rounded(fit, lens, depth, whole=lens.exclusive != depth or cap.whole)
    cap.peak = _peak(lens, cap.fit, cap.hist[0][0] if cap.fit else 0)
    return _memorised(node, lens, cap)


def _remembered(node: Node, lens: Lens, depth: int, fit: int, peak: tuple[int, ...], step: int) -> Cap:
    return node.memo.get(lens) or _memorised(node, lens, _viewed(node, lens, depth, fit, peak, step))


def _viewed(node: Node, lens: Lens, depth: int, fit: int, peak: tuple[int, ...], step: int) -> Cap:
    """A domain whose parts are derived when somebody asks."""
    kids = () if isinstance(node, Leaf) else None
    cap = Cap(node, fit, kids, None, step=step, peak=peak, capped=bool(lens.caps))
    cap.lens = lens
    cap._depth = depth
    return cap


def _memorised(node: Node, lens: Lens, cap: Cap) -> Cap:
    if len(node.memo) >= MEMO_LENSES_MAX:
        node.memo.clear()
    node.memo[lens] = cap
    return cap


def _unseen(node: Branch, lens: Lens, depth: int) -> Iterator[tuple[Branch, int]]:
    """Domains of lowest domains, at or below this one, that are not known through the lens, with their depth."""
    if not node.kids:
        return
    if isinstance(node.kids[0][0], Leaf):
        if sum([lens not in kid.memo for kid, _ in node.kids]) > ALONE_MAX:
            yield node, depth
        return
    for kid, _ in node.kids:
        if isinstance(kid, Branch) and lens not in kid.memo:
            yield from _unseen(kid, lens, depth + 1)


def _fill(found: list[tuple[Branch, int]], lens: Lens) -> None:
    """Looks at domains of lowest domains, all in one pass over their hosts."""
    if not found:
        return
    depth = found[0][1]
    every = [node.bins for node, _ in found]
    bins = every[0] if len(every) == 1 else Bins(*[np.concatenate(column) for column in zip(*every, strict=True)])
    firsts = np.cumsum(bins.sizes) - bins.sizes
    pods = lens.bins.pods[bins.numbers]
    peaks = np.maximum.reduceat(pods, firsts)
    fits = np.add.reduceat(pods * bins.hosts, firsts)
    if lens.floors[depth + 1] > 1 or lens.exclusive == depth + 1 or lens.caps:
        fits = _floored(fits, bins, firsts, lens, depth + 1)
        none = fits == 0
        peaks = np.minimum(peaks, fits) if lens.caps else peaks
        peaks[none] = 0
        pods[np.repeat(none, bins.sizes)] = 0
    _part(found, lens, (fits, peaks, pods), bins.copies)


def _floored(fits: Ints, bins: Bins, firsts: Ints, lens: Lens, depth: int) -> Ints:
    size = lens.floors[depth]
    if lens.caps and lens.caps[depth]:
        fits = np.minimum(fits, _capped(lens, depth))
    if size > 1:
        fits = fits // size * size
    if lens.exclusive == depth:
        fits = np.where(np.maximum.reduceat(lens.bins.broken[bins.numbers], firsts) > 0, 0, fits)
    return fits


def _part(found: list[tuple[Branch, int]], lens: Lens, low: tuple[Ints, Ints, Ints], copies: Ints) -> None:
    """Gives each domain its stretch of what was seen in one pass."""
    fits, peaks, pods = low
    kids = np.cumsum([0, *[len(node.kids) for node, _ in found]])
    sums = np.add.reduceat(fits * copies, kids[:-1]).tolist()
    widest = np.maximum.reduceat(fits, kids[:-1]).tolist()
    tallest = np.maximum.reduceat(peaks, kids[:-1]).tolist()
    at_kid: list[int] = kids.tolist()
    at_bin = 0
    for i, (node, depth) in enumerate(found):
        cap = _viewed(node, lens, depth, 0, (), lens.steps[depth + 1])
        bins = len(node.bins.numbers)
        some = slice(at_kid[i], at_kid[i + 1])
        cap._low = (fits[some], peaks[some], pods[at_bin : at_bin + bins])
        at_bin += bins
        fit = _rounded(sums[i], lens, depth, whole=depth < 0 or lens.exclusive != depth or cap.whole)
        cap.fit = fit
        cap.peak = _peak(lens, fit, widest[i], tallest[i]) if fit else (0, 0, 0)
        _memorised(node, lens, cap)


def _branch(node: Branch, lens: Lens, depth: int) -> Cap:
    found = node.memo.get(lens)
    if found is not None:
        return found
    caps = [
        (_branch(kid, lens, depth + 1) if isinstance(kid, Branch) else capacity(kid, lens, depth + 1), copies)
        for kid, copies in node.kids
    ]
    cap = joined(node, tuple(caps), lens, depth)
    cap.lens = lens
    cap._depth = depth
    return _memorised(node, lens, cap)


def _rounded(fit: int, lens: Lens, depth: int, *, whole: bool) -> int:
    if depth < 0:
        return fit
    size = lens.floors[depth]
    if lens.exclusive == depth and not whole:
        return 0
    if lens.caps and lens.caps[depth]:
        fit = min(fit, _capped(lens, depth))
    return fit // size * size if size else fit


def _capped(lens: Lens, depth: int) -> int:
    """The most pods that a domain may be given, in what its parts come in multiples of."""
    step = lens.steps[depth + 1]
    return lens.caps[depth] // step * step


def _peak(lens: Lens, fit: int, *below: int) -> tuple[int, ...]:
    """Nothing below a domain may be given more than the domain."""
    return (fit, *[min(fit, most) for most in below]) if lens.caps else (fit, *below)


def lowest(
    node: Node | None,
    hist: list[tuple[int, int, int, int, int]],
    lens: Lens,
    depth: int,
    *,
    free: int,
    whole: bool,
    whole_hosts: int,
) -> Cap:
    """A lowest domain of these hosts."""
    hist.sort(key=_most_first)
    fit = _rounded(sum([most * hosts for most, hosts, _, _, _ in hist]), lens, depth, whole=whole)
    peak = hist[0][0] if hist and fit else 0
    return Cap(
        node,
        fit,
        (),
        tuple(hist),
        step=lens.steps[depth + 1],
        peak=_peak(lens, fit, peak),
        free=free,
        whole=whole,
        whole_hosts=whole_hosts,
        capped=bool(lens.caps),
    )


def joined(node: Node | None, kids: "tuple[tuple[Cap, int], ...]", lens: Lens, depth: int) -> Cap:
    """A domain of these children; `kids` must not be empty."""
    whole = depth < 0 or lens.exclusive != depth or all(kid.whole for kid, _ in kids)
    fit = _rounded(sum([kid.fit * copies for kid, copies in kids]), lens, depth, whole=whole)
    peaks = [kid.peak for kid, _ in kids]
    below = tuple([max(column) for column in zip(*peaks, strict=True)])
    peak = _peak(lens, fit, *(below if fit else (0,) * len(below)))
    return Cap(node, fit, kids, (), step=lens.steps[depth + 1], peak=peak, capped=bool(lens.caps))


class Pooled(Cap):
    """The children of several domains of one height, as if they were children of one domain without slices."""

    __slots__ = ("_sources",)

    def __init__(self, sources: "list[Cap]") -> None:
        fit = sum([cap.fit for cap in sources])
        peaks = [cap.peak[1:] for cap in sources]
        peak = (fit, *[max(column) for column in zip(*peaks, strict=True)])
        capped = any(cap.capped for cap in sources)
        super().__init__(None, fit, None, (), step=sources[0].step, peak=peak, capped=capped)
        self._sources = sources
        self.lens = sources[0].lens

    def _unfolded(self) -> "tuple[tuple[Cap, int], ...]":
        return tuple([kid for cap in self._sources for kid in cap.kids])

    def _derived_parts(self, below: int) -> Parts:
        every = [cap.parts(below) for cap in self._sources]
        return np.concatenate([own[0] for own in every]), np.concatenate([own[1] for own in every])

    def owned(self, below: int) -> tuple[Ints, Ints, Ints]:
        """See Cap."""
        every = [cap.owned(below) for cap in self._sources]
        first = 0
        owners: list[Ints] = []
        for cap, own in zip(self._sources, every, strict=True):
            owners.append(own[0] + first)
            first += len(cap.parts(1)[0])
        return np.concatenate(owners), np.concatenate([o[1] for o in every]), np.concatenate([o[2] for o in every])
