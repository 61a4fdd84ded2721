"""Capacity in pods: the tree of a shape as one pod set sees it.

`fit` of a domain is the most pods it can hold: the sum of its parts, rounded down to whole slices at every level
that has a slice layer. That is exact, because slices are independent and any subset of a domain's room can be used.
"""

from typing import TYPE_CHECKING, Final

from hanse.shape.domains import MEMO_LENSES_MAX, Leaf, Node
from hanse.shape.lens import Lens

if TYPE_CHECKING:
    from hanse.shape.solve import Found

Hist = tuple[tuple[int, int, int, int, int], ...]  # pods per host, hosts, index of the bin, free GPUs, all GPUs
Counts = tuple[tuple[int, int], ...]  # fit, domains with that fit; largest first

NOTHING: Final[Counts] = ()


class Cap:
    """One domain through one lens.

    Attributes:
        fit: the most pods the domain can hold.
        kids: capacity and copies of each child, in the order of the node's children; () for a lowest domain.
        hist: of a lowest domain, hosts that hold a pod: most pods first, then fewest free GPUs.
        step: pods come to its parts in multiples of this: the coarsest slice that may not cross a part.
        peak: the largest fit among the domains 0, 1, … levels below; the last entry is of a single host.
        free: free GPUs on the hosts that the set may use, whether or not a pod fits there.
        whole: every GPU of the domain is free.
        whole_hosts: hosts of the domain with GPUs, all of them free.
        solved: what `solve` found for numbers of pods that were asked for.
    """

    __slots__ = (
        "_census",
        "_full",
        "fit",
        "free",
        "hist",
        "kids",
        "node",
        "peak",
        "single",
        "solved",
        "step",
        "whole",
        "whole_hosts",
    )

    def __init__(
        self,
        node: Node | None,
        fit: int,
        kids: "tuple[tuple[Cap, int], ...]",
        hist: Hist,
        *,
        step: int,
        peak: tuple[int, ...],
        free: int,
        whole: bool,
        whole_hosts: int,
    ) -> None:
        self.node = node
        self.fit = fit
        self.kids = kids
        self.hist = hist
        self.step = step
        self.peak = peak
        self.free = free
        self.whole = whole
        self.whole_hosts = whole_hosts
        self.single: dict[int, tuple[int, ...] | None] = {}
        self.solved: dict[int, Found] = {}
        self._census: tuple[Counts, ...] | None = None
        self._full: tuple[int, ...] | None = None

    @property
    def height(self) -> int:
        """Kinds of places below: 1 for a lowest domain (its hosts), 2 above it, …"""
        return len(self.peak) - 1

    @property
    def census(self) -> tuple[Counts, ...]:
        """For 1, 2, … levels below: how many domains (at last: hosts) have which fit. Zeros are left out."""
        if self._census is None:
            self._census = self._leaf_census() if not self.kids else self._branch_census()
        return self._census

    @property
    def full(self) -> tuple[int, ...]:
        """The cost of using all of it: domains used per level below, hosts, then the fits of those (see solve)."""
        if self._full is None:
            counts = tuple([sum([n for _, n in level]) for level in self.census])
            fits = tuple([sum([fit * n for fit, n in level]) for level in self.census])
            self._full = counts + fits
        return self._full

    def _leaf_census(self) -> tuple[Counts, ...]:
        if not self.fit:
            return (NOTHING,)
        total: dict[int, int] = {}
        for most, hosts, _, _, _ in self.hist:
            total[most] = total.get(most, 0) + hosts
        return (tuple(sorted(total.items(), reverse=True)),)

    def _branch_census(self) -> tuple[Counts, ...]:
        if not self.fit:
            return (NOTHING,) * self.height
        levels: list[dict[int, int]] = [{} for _ in range(self.height)]
        for kid, copies in self.kids:
            if kid.fit:
                levels[0][kid.fit] = levels[0].get(kid.fit, 0) + copies
                for into, counts in zip(levels[1:], kid.census, strict=True):
                    for fit, n in counts:
                        into[fit] = into.get(fit, 0) + n * copies
        return tuple([tuple(sorted(level.items(), reverse=True)) for level in levels])


def capacity(node: Node, lens: Lens, depth: int) -> Cap:
    """The node through the lens; `depth` is -1 for a group's root, 0 for its coarsest domains, …"""
    found = node.memo.get(lens)
    if found is None:
        if len(node.memo) >= MEMO_LENSES_MAX:
            node.memo.clear()
        found = node.memo[lens] = _leaf(node, lens, depth) if isinstance(node, Leaf) else _branch(node, lens, depth)
    return found


def _rounded(fit: int, lens: Lens, depth: int, *, whole: bool) -> int:
    if depth < 0:
        return fit
    size = lens.floors[depth]
    if lens.exclusive == depth and not whole:
        return 0
    return fit // size * size if size else fit


def _leaf(node: Leaf, lens: Lens, depth: int) -> Cap:
    rows, full = lens.rows, lens.full
    hist: list[tuple[int, int, int, int, int]] = []
    whole_hosts = total = 0
    whole = True
    for i, (c, free, hosts) in enumerate(node.bins):
        if free < full[c]:
            whole = False
        elif free:
            whole_hosts += hosts
        row = rows[c]
        if row:
            total += free * hosts
            if row[free]:
                hist.append((row[free], hosts, i, free, full[c]))
    return lowest(node, hist, lens, depth, free=total, whole=whole, whole_hosts=whole_hosts)


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
        peak=(fit, peak),
        free=free,
        whole=whole,
        whole_hosts=whole_hosts,
    )


def _most_first(entry: tuple[int, int, int, int, int]) -> tuple[int, int, int]:
    return -entry[0], entry[3], entry[2]


def _branch(node: Node, lens: Lens, depth: int) -> Cap:
    assert not isinstance(node, Leaf)
    kids = tuple([(capacity(kid, lens, depth + 1), copies) for kid, copies in node.kids])
    return joined(node, kids, lens, depth)


def joined(node: Node | None, kids: tuple[tuple[Cap, int], ...], lens: Lens, depth: int) -> Cap:
    """A domain of these children; `kids` must not be empty."""
    whole = all(kid.whole for kid, _ in kids)
    fit = _rounded(sum([kid.fit * copies for kid, copies in kids]), lens, depth, whole=whole)
    peaks = [kid.peak for kid, _ in kids]
    below = tuple([max(column) for column in zip(*peaks, strict=True)])
    return Cap(
        node,
        fit,
        kids,
        (),
        step=lens.steps[depth + 1],
        peak=(fit, *(below if fit else (0,) * len(below))),
        free=sum([kid.free * copies for kid, copies in kids]),
        whole=whole,
        whole_hosts=sum([kid.whole_hosts * copies for kid, copies in kids]),
    )
