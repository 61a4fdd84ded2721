"""Capacity in pods: a domain as one pod set sees it.

`fit` of a domain is the most pods it can hold: the sum of its parts, rounded down to whole slices at every level
that has a slice layer. That is exact, because slices are independent and any subset of a domain's room can be used.

Here are domains whose hosts and children are given (`lowest`, `joined`), and several domains as one (`Pooled`). Those
of a shape are ranges of arrays, see `seen`.
"""

from typing import TYPE_CHECKING, Final

import numpy as np

from hanse.shape.lens import Lens
from hanse.shape.levels import Ints

if TYPE_CHECKING:
    from hanse.shape.bounds import Heap
    from hanse.shape.single import Host
    from hanse.shape.take import Found

FEW_PARTS: Final = 24  # that are counted one by one; more go through arrays
DENSE_SIZES_MAX: Final = 65_536  # sizes of parts up to this are counted in an array of all sizes

Hist = tuple[tuple[int, int, int, int, int], ...]  # pods per host, hosts, index of the bin, free GPUs, all GPUs
Counts = tuple[tuple[int, int], ...]  # fit, domains with that fit; largest first
Parts = tuple[Ints, Ints]  # fits of parts, and how many there are of each entry
Facts = tuple[int, bool, int]  # free, whole, whole_hosts


class Cap:
    """One domain through one lens.

    Attributes:
        fit: the most pods the domain can hold.
        step: pods come to its parts in multiples of this: the coarsest slice that may not cross a part.
        single: the best host for numbers of pods that were asked for, see there.
        solved: what `solve` found for numbers of pods that were asked for.
        lens: through which the domain is seen; None where its hosts were counted one by one.
        heaps: see `bounds`.
        capped: some place may be given fewer pods than its parts could hold.
        doubled: it stands for its one child at a level that the child's tree does not have.
    """

    __slots__ = (
        "_census", "_facts", "_full", "_hist", "_kids", "_parts", "_peak", "capped", "doubled", "fit", "heaps",
        "lens", "single", "solved", "step",
    )  # fmt: skip

    def __init__(
        self,
        fit: int,
        kids: "tuple[tuple[Cap, int], ...] | None",
        hist: Hist | None,
        *,
        step: int,
        peak: tuple[int, ...] | None,
        facts: Facts | None = None,
        capped: bool = False,
        doubled: bool = False,
    ) -> None:
        self.fit = fit
        self.step = step
        self.capped = capped
        self.doubled = doubled
        self.single: dict[int, Host] = {}
        self.solved: dict[int, Found] = {}
        self.heaps: dict[int, Heap] = {}
        self.lens: Lens | None = None
        self._peak = peak
        self._kids = kids
        self._hist = hist
        self._facts = facts
        self._parts: dict[int, Parts] = {}
        self._census: dict[int, Counts] = {}
        self._full: tuple[int, ...] | None = None

    @property
    def height(self) -> int:
        """Kinds of places below: 1 for a lowest domain (its hosts), 2 above it, …"""
        return len(self.peak) - 1

    @property
    def peak(self) -> tuple[int, ...]:
        """The largest fit among the domains 0, 1, … levels below; the last entry is of a single host."""
        if self._peak is None:
            self._peak = self._derived_peak()
        return self._peak

    @property
    def kids(self) -> "tuple[tuple[Cap, int], ...]":
        """Capacity and copies of each child, in the order of the domain's children; () for a lowest domain."""
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
        inside = [kid.parts(below) for kid, _ in self.kids]
        owners = np.repeat(np.arange(len(inside)), [len(own[0]) for own in inside])
        return owners, np.concatenate([own[0] for own in inside]), np.concatenate([own[1] for own in inside])

    def counts(self, below: int) -> Counts:
        """How many domains (at last: hosts) 1, 2, … levels below have which fit. Zeros are left out."""
        found = self._census.get(below)
        if found is None:
            found = self._census[below] = _counted(*self.parts(below))
        return found

    @property
    def census(self) -> tuple[Counts, ...]:
        """The counts of every level below."""
        return tuple([self.counts(below) for below in range(1, self.height + 1)])

    @property
    def full(self) -> tuple[int, ...]:
        """The cost of using all of it: domains used per level below, hosts, then the fits of those (see solve)."""
        if self._full is None:
            levels = [self.parts(below) for below in range(1, self.height + 1)]
            counts = tuple([int(numbers[fits > 0].sum()) for fits, numbers in levels])
            self._full = counts + tuple([int(fits @ numbers) for fits, numbers in levels])
        return self._full

    def _derived_peak(self) -> tuple[int, ...]:
        raise NotImplementedError

    def _unfolded(self) -> "tuple[tuple[Cap, int], ...]":
        return ()

    def _host_histogram(self) -> Hist:
        return ()

    def _derived_facts(self) -> Facts:
        facts = [(kid.facts, copies) for kid, copies in self.kids]
        free = sum([own[0] * copies for own, copies in facts])
        return free, all(own[1] for own, _ in facts), sum([own[2] * copies for own, copies in facts])

    def _derived_parts(self, below: int) -> Parts:
        if not self.fit:
            return _ints([]), _ints([])
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
    if len(fits) > FEW_PARTS and int(fits.max()) <= DENSE_SIZES_MAX:
        total = np.bincount(fits, numbers)
        sizes = np.flatnonzero(total[1:])[::-1] + 1
        return tuple(zip(sizes.tolist(), total[sizes].astype(np.int64).tolist(), strict=True))
    few: dict[int, int] = {}
    for fit, n in zip(fits.tolist(), numbers.tolist(), strict=True):
        if fit:
            few[fit] = few.get(fit, 0) + n
    return tuple(sorted(few.items(), reverse=True))


def most_first(entry: tuple[int, int, int, int, int]) -> tuple[int, int, int]:
    """The order of a histogram of hosts."""
    return -entry[0], entry[3], entry[2]


def _rounded(fit: int, lens: Lens, depth: int, *, whole: bool) -> int:
    if depth < 0:
        return fit
    size = lens.floors[depth]
    if lens.exclusive == depth and not whole:
        return 0
    if lens.caps and lens.caps[depth]:
        fit = min(fit, most_given(lens, depth))
    return fit // size * size if size else fit


def most_given(lens: Lens, depth: int) -> int:
    """The most pods that a domain may be given, in what its parts come in multiples of; the depth must have a cap."""
    step = lens.steps[depth + 1]
    return lens.caps[depth] // step * step


def _peak(lens: Lens, fit: int, *below: int) -> tuple[int, ...]:
    """Nothing below a domain may be given more than the domain."""
    return (fit, *[min(fit, most) for most in below]) if lens.caps else (fit, *below)


def lowest(
    hist: list[tuple[int, int, int, int, int]], lens: Lens, depth: int, *, free: int, whole: bool, whole_hosts: int
) -> Cap:
    """A lowest domain of these hosts."""
    hist.sort(key=most_first)
    fit = _rounded(sum([most * hosts for most, hosts, _, _, _ in hist]), lens, depth, whole=whole)
    peak = hist[0][0] if hist and fit else 0
    return Cap(
        fit,
        (),
        tuple(hist),
        step=lens.steps[depth + 1],
        peak=_peak(lens, fit, peak),
        facts=(free, whole, whole_hosts),
        capped=bool(lens.caps),
    )


def joined(kids: "tuple[tuple[Cap, int], ...]", lens: Lens, depth: int) -> Cap:
    """A domain of these children; `kids` must not be empty. `depth` is -1 for a group's root, 0 below it, …"""
    whole = depth < 0 or lens.exclusive != depth or all(kid.whole for kid, _ in kids)
    fit = _rounded(sum([kid.fit * copies for kid, copies in kids]), lens, depth, whole=whole)
    peaks = [kid.peak for kid, _ in kids]
    below = tuple([max(column) for column in zip(*peaks, strict=True)])
    peak = _peak(lens, fit, *(below if fit else (0,) * len(below)))
    return Cap(fit, kids, (), step=lens.steps[depth + 1], peak=peak, capped=bool(lens.caps))


class Pooled(Cap):
    """The children of several domains of one height, as if they were children of one domain without slices."""

    __slots__ = ("_sources",)

    def __init__(self, sources: "list[Cap]") -> None:
        fit = sum([cap.fit for cap in sources])
        peaks = [cap.peak[1:] for cap in sources]
        peak = (fit, *[max(column) for column in zip(*peaks, strict=True)])
        capped = any(cap.capped for cap in sources)
        super().__init__(fit, None, (), step=sources[0].step, peak=peak, capped=capped)
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
