"""A whole tree of a shape through one lens, in one pass over arrays.

What a level's domains hold is summed up for all of them at once; rounding to slices, caps and the wish for whole
domains are applied level by level on the way up, and what cannot be used for their sake is struck out on the way
down. One domain of the tree is a range at every level (`Ranged`), which is cut out when somebody asks.
"""

from typing import Final, NamedTuple

import numpy as np

from hanse.shape.capacity import Cap, Facts, Hist, Parts, most_first, most_given
from hanse.shape.domains import Branch, Leaf, Node
from hanse.shape.lens import Lens
from hanse.shape.levels import Ints

MEMO_LENSES_MAX: Final = 16  # through which a tree is remembered


class Spots(NamedTuple):
    """What of the domains of one depth is free, whether or not pods fit there."""

    free: Ints
    broken: Ints
    whole_hosts: Ints


class Seen:
    """One tree through one lens; depth 0 is the coarsest, that of hosts comes after the last.

    Args:
        root: with children.

    Attributes:
        pods: by bin, what one of its hosts holds.
        fits: by depth, what each domain holds.
        fit: what all of them hold.
    """

    def __init__(self, root: Branch, lens: Lens) -> None:
        self._tops: list[Ints] | None = None
        self._numbers: list[Ints] | None = None
        self._apart: Apart | None = None
        self._folded: Apart | None = None
        self._sizes: Ints | None = None
        self._above: Ints | None = None
        self._spots: list[Spots] | None = None
        self.root = root
        self.levels = levels = root.levels
        self.lens = lens
        self.pods: Ints = lens.bins.pods[levels.numbers]
        held: Ints = self.pods * levels.hosts
        fits: list[Ints] = []
        for depth in range(levels.depth - 1, -1, -1):
            own = np.add.reduceat(held, levels.bounds[depth][:-1])
            if lens.rounds:
                own = self._rounded(own, depth)
            fits.append(own)
            held = own * levels.copies[depth] if levels.folded else own
        self.fits: list[Ints] = fits[::-1]
        self.fit = int(np.add.reduce(held))
        if lens.rounds:
            self._strike_out()

    def lowest(self, row: int) -> Cap:
        """The lowest domain of that number."""
        path = [row]
        for own in self.levels.bounds[-2::-1]:
            path.append(int(np.searchsorted(own, path[-1], side="right")) - 1)
        node: Node = self.root
        first = 0
        for depth, at in enumerate(reversed(path)):
            assert isinstance(node, Branch)
            node = node.kids[at - first][0]
            first = int(self.levels.bounds[depth][at])
        return Ranged(self, node, self.levels.depth - 1, row)

    def _rounded(self, fits: Ints, depth: int) -> Ints:
        lens, size = self.lens, self.lens.floors[depth]
        if lens.caps and lens.caps[depth]:
            fits = np.minimum(fits, most_given(lens, depth))
        if size > 1:
            fits = fits // size * size
        if lens.exclusive == depth:
            fits = np.where(self.spots[depth].broken > 0, 0, fits)
        return fits

    def _strike_out(self) -> None:
        """Parts of a domain that holds nothing hold nothing."""
        for depth in range(self.levels.depth):
            none = self.fits[depth] == 0
            if none.any():
                below = self.pods if depth + 1 == self.levels.depth else self.fits[depth + 1]
                struck = np.where(np.repeat(none, np.diff(self.levels.bounds[depth])), 0, below)
                if depth + 1 == self.levels.depth:
                    self.pods = struck
                else:
                    self.fits[depth + 1] = struck

    @property
    def tops(self) -> list[Ints]:
        """By depth, hosts at last, what each place can be given: nothing more than what is around it."""
        if self._tops is None:
            self._tops = self._tops_made()
        return self._tops

    @property
    def numbers(self) -> list[Ints]:
        """By depth, hosts at last, how many places each entry stands for, copies of what is around it included."""
        if self._numbers is None:
            self._numbers = self._numbers_made()
        return self._numbers

    @property
    def folded(self) -> "Apart":
        """The tree as it is, each copied domain as one place."""
        if self._folded is None:
            rows = [np.arange(len(own)) for own in self.fits]
            self._folded = Apart(self, rows, self.fits, list(self.levels.bounds[:-1]))
        return self._folded

    @property
    def apart(self) -> "Apart":
        """The tree with copies written out."""
        if self._apart is None:
            self._apart = self._apart_made()
        return self._apart

    @property
    def sizes(self) -> Ints:
        """What one host can hold, ascending, without nothing at all."""
        if self._sizes is None:
            self._sizes = self._sizes_made()
        return self._sizes

    @property
    def above(self) -> Ints:
        """By size but the largest and by lowest domain, what its hosts hold above that size."""
        if self._above is None:
            self._above = self._above_made()
        return self._above

    @property
    def spots(self) -> list[Spots]:
        """By depth."""
        if self._spots is None:
            self._spots = self._spots_made()
        return self._spots

    def _tops_made(self) -> list[Ints]:
        every = [*self.fits, self.pods]
        if self.lens.caps:
            for depth, bounds in enumerate(self.levels.bounds):
                every[depth + 1] = np.minimum(every[depth + 1], np.repeat(every[depth], np.diff(bounds)))
        return every

    def _numbers_made(self) -> list[Ints]:
        levels = self.levels
        if not levels.folded:
            return [*levels.copies, levels.hosts]
        out = [levels.copies[0]]
        for bounds, own in zip(levels.bounds, [*levels.copies[1:], levels.hosts], strict=True):
            out.append(own * np.repeat(out[-1], np.diff(bounds)))
        return out

    def _apart_made(self) -> "Apart":
        levels = self.levels
        if not levels.folded:
            return self.folded
        rows = [np.repeat(np.arange(len(levels.copies[0])), levels.copies[0])]
        bounds: list[Ints] = []
        for own, copies in zip(levels.bounds, levels.copies[1:], strict=False):
            kids = np.repeat(np.arange(len(copies)), copies)
            edges = np.concatenate(([0], np.cumsum(copies)))[own]
            sizes = np.diff(edges)[rows[-1]]
            ends = np.cumsum(sizes)
            bounds.append(np.concatenate(([0], ends)))
            rows.append(kids[np.arange(ends[-1]) + np.repeat(edges[rows[-1]] - ends + sizes, sizes)])
        return Apart(self, rows, [fits[at] for fits, at in zip(self.fits, rows, strict=True)], bounds)

    def _sizes_made(self) -> Ints:
        held = np.bincount(self.pods)
        held[0] = 0
        return np.flatnonzero(held)

    def _above_made(self) -> Ints:
        over = np.maximum(self.pods - self.sizes[:-1, None], 0) * self.levels.hosts
        return np.asarray(np.add.reduceat(over, self.levels.bounds[-1][:-1], axis=1))

    def _spots_made(self) -> list[Spots]:
        levels, tables = self.levels, self.lens.bins
        at = levels.numbers
        below = np.stack((tables.free[at], tables.broken[at], tables.whole[at])) * levels.hosts
        out: list[Spots] = []
        for depth in range(levels.depth - 1, -1, -1):
            below = np.add.reduceat(below, levels.bounds[depth][:-1], axis=1)
            out.append(Spots(*below))
            below = below * levels.copies[depth]
        return out[::-1]


class Apart:
    """A seen tree with copies written out, so that a domain is one place.

    Attributes:
        rows: by depth, the row of each place among those of the seen tree.
        fits: by depth, what each place holds.
        bounds: by depth but the last, where the places below each begin, and at the end where the last ones end.
    """

    def __init__(self, seen: Seen, rows: list[Ints], fits: list[Ints], bounds: list[Ints]) -> None:
        self.seen = seen
        self.rows = rows
        self.fits = fits
        self.bounds = bounds
        self._above: dict[int, Ints] = {}

    def above(self, depth: int) -> Ints:
        """By size but the largest (see `Seen.sizes`) and by place, what hosts there hold above that size."""
        found = self._above.get(depth)
        if found is None:
            if depth + 1 == len(self.rows):
                found = self.seen.above[:, self.rows[depth]] if self.seen.levels.folded else self.seen.above
            else:
                found = np.add.reduceat(self.above(depth + 1), self.bounds[depth][:-1], axis=1)
            self._above[depth] = found
        return found

    def within(self, depth: int, first: int, end: int, below: int) -> Ints:
        """Where the places at depth `below` begin of each place of a depth, and where the last ones end."""
        edges = np.arange(first, end + 1)
        for at in range(depth, below):
            edges = self.bounds[at][edges]
        return edges

    def around(self, depth: int, places: Ints) -> Ints:
        """The place one level above each."""
        return np.asarray(self.bounds[depth - 1].searchsorted(places, side="right") - 1)


class Ranged(Cap):
    """One domain of a seen tree, or (depth -1) its root.

    Attributes:
        seen: the tree.
        node: the domain in the shape.
        depth: of the domain.
        row: its place among the domains of its depth.
    """

    __slots__ = ("_ends", "depth", "node", "row", "seen")

    def __init__(self, seen: Seen, node: Node, depth: int, row: int) -> None:
        lens = seen.lens
        fit = seen.fit if depth < 0 else int(seen.fits[depth][row])
        kids = () if isinstance(node, Leaf) else None
        super().__init__(fit, kids, None, step=lens.steps[depth + 1], peak=None, capped=bool(lens.caps))
        self.lens = lens
        self.seen = seen
        self.node = node
        self.depth = depth
        self.row = row
        self._ends: list[tuple[int, int]] | None = None

    @property
    def height(self) -> int:
        """See Cap."""
        return self.seen.levels.depth - self.depth

    @property
    def ends(self) -> list[tuple[int, int]]:
        """For 1, 2, … levels below it: the first of its places there, and the one after the last."""
        if self._ends is None:
            bounds = self.seen.levels.bounds
            if self.depth < 0:
                self._ends = [(0, len(own) - 1) for own in bounds] + [(0, int(bounds[-1][-1]))]
            else:
                first, end = self.row, self.row + 1
                self._ends = [
                    (first := int(own[first]), end := int(own[end])) for own in bounds[self.depth :]
                ]  # fmt: skip
        return self._ends

    @property
    def branches(self) -> int:
        """See Cap."""
        return len(self.node.kids) if isinstance(self.node, Branch) else 0

    def owned(self, below: int) -> tuple[Ints, Ints, Ints]:
        """See Cap."""
        at, bounds = self.depth + 1, self.seen.levels.bounds
        first, end = self.ends[0]
        edges = bounds[at][first : end + 1]
        for deeper in range(at + 1, at + below):
            edges = bounds[deeper][edges]
        fits, numbers = self.parts(below + 1)
        sizes = np.diff(edges)
        owners = np.repeat(np.arange(end - first), sizes)
        if self.seen.levels.folded:
            numbers = numbers // self.parts(1)[1][owners]
        return owners, fits, numbers

    def _derived_peak(self) -> tuple[int, ...]:
        tops = self.seen.tops[self.depth + 1 :]
        if self.depth < 0:
            return (self.fit, *[int(np.maximum.reduce(own)) for own in tops])
        return (
            self.fit,
            *[int(np.maximum.reduce(own[first:end])) for (first, end), own in zip(self.ends, tops, strict=True)],
        )

    def _unfolded(self) -> tuple[tuple[Cap, int], ...]:
        node = self.node
        assert isinstance(node, Branch)
        first, seen, depth = self.ends[0][0], self.seen, self.depth + 1
        return tuple([(Ranged(seen, kid, depth, first + i), copies) for i, (kid, copies) in enumerate(node.kids)])

    def _host_histogram(self) -> Hist:
        node, lens = self.node, self.seen.lens
        if not isinstance(node, Leaf) or not self.fit:
            return ()
        rows, full = lens.rows, lens.full
        hist = [
            (row[free], hosts, i, free, full[c])
            for i, (c, free, hosts) in enumerate(node.bins)
            for row in (rows[c],)
            if row and row[free]
        ]
        hist.sort(key=most_first)
        return tuple(hist)

    def _derived_facts(self) -> Facts:
        spots = self.seen.spots
        if self.depth >= 0:
            own = spots[self.depth]
            return int(own.free[self.row]), not own.broken[self.row], int(own.whole_hosts[self.row])
        top, copies = spots[0], self.seen.levels.copies[0]
        return int(top.free @ copies), not top.broken.any(), int(top.whole_hosts @ copies)

    def _derived_parts(self, below: int) -> Parts:
        first, end = self.ends[below - 1]
        at = self.depth + below
        fits = self.seen.pods if at == self.seen.levels.depth else self.seen.fits[at]
        numbers = self.seen.numbers[at][first:end]
        if self.seen.levels.folded and self.depth >= 0:
            numbers = numbers // self.seen.numbers[self.depth][self.row]
        return fits[first:end], numbers


def capacity(root: Branch, lens: Lens) -> Cap:
    """The root of a group, with children, through the lens."""
    found = root.memo.get(lens)
    if found is None:
        if len(root.memo) >= MEMO_LENSES_MAX:
            root.memo.clear()
        found = root.memo[lens] = Ranged(Seen(root, lens), root, -1, 0)
    return found
