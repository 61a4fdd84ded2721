"""Lowest domains of many pools as columns: the part of a fleet that has one flavor.

A `Sheet` holds a *part* for each node group of a pool. Distinct lowest domains lie in slots: `SLOTS` of them, all
children of one parent, make a column, so that a sum or a maximum over siblings is a few operations on long rows. What
a slot holds is told by `fleet_frames`: pods per domain, for any density, is a sum of some of its numbers. A number of
copies stands beside every domain. Parents with more children continue in the columns behind their first one.

Levels are counted from the hosts up: lowest domains are level 1, their parents (the columns) level 2. Domains from
level 3 up are short lists of their own, each with the place of its first child: columns are summed into them, they
into those above, up to the part, by `np.add.reduceat`. A part with fewer levels than the sheet has trivial domains on
top. So pools whose levels have other names lie in one sheet, and a question that means the same level above the
hosts of all of them (`Rounding`) is one pass over it (`fleet_sums`).

A domain of level 3 is the *home* of its parents of lowest domains: a stretch of columns with a few to spare, in any
order. A pool that changed is compared with its tree before: what is under equal domains stays where it is, and a new
parent takes the columns of one that is gone. Only if that does not go up, the part is written anew, in its place if
its room is large enough. When half of a sheet is abandoned, the live parts are moved together.

Unused columns have no hosts and no copies. The last entry of a part's room is never used, and every unused domain has
the last one below as its only child, so unused entries add nothing and exceed nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

from hanse.shape.domains import Branch, Leaf
from hanse.shape.fleet_frames import EXTRA, SLOTS, Frame, columns_of, groups_of
from hanse.shape.fleet_outline import HOME_LEVEL, Kids, Outline, outline, parents_in, room_of

Cells = NDArray[np.signedinteger]
_COMPACT_COLUMNS_MIN: Final = 256  # a smaller sheet is not worth moving together


class Place(NamedTuple):
    """Columns of one parent of lowest domains."""

    start: int
    width: int


@dataclass(slots=True)
class Home:
    """A domain of level 3, or the trivial one that stands for it.

    Attributes:
        places: by key, of the parents of lowest domains.
        free: columns without a parent.
        times: how many equal domains there are in all.
    """

    places: dict[bytes, Place]
    free: list[Place]
    times: int


Mirror = Union[Home, "dict[bytes, Mirror]"]
"""Where a tree's content lies: by key down to the homes."""


@dataclass(slots=True)
class Part:
    """Where a node group lies in a sheet.

    Attributes:
        root: what is written there.
        levels: that the group has.
        spans: (start, room) by depth, from the coarsest domains to level 3, the columns last.
    """

    number: int
    root: Branch
    levels: int
    frame: Frame
    spans: list[tuple[int, int]]
    mirror: Mirror


class Rows:
    """A table whose last axis grows."""

    def __init__(self, *shape: int, dtype: type) -> None:
        self.all: Cells = np.zeros((*shape, 64), dtype)
        self.used = 0

    @property
    def now(self) -> Cells:
        """What is in use."""
        return self.all[..., : self.used]

    def extend(self, room: int) -> int:
        """Room at the end, zeroed; where it begins."""
        start, self.used = self.used, self.used + room
        if self.used > self.all.shape[-1]:
            larger = np.zeros((*self.all.shape[:-1], max(self.used, 2 * self.all.shape[-1])), self.all.dtype)
            larger[..., :start] = self.all[..., :start]
            self.all = larger
        return start


class Inner(NamedTuple):
    """Domains of one level: copies, and the first child."""

    copies: Rows
    first: Rows


_Written = tuple[Branch, int, int, int]  # a parent of lowest domains, its copies, how many there are, first column


class Sheet:
    """Parts with one flavor and at most as many levels, class layers and GPUs per host.

    Args:
        depth: levels, at least HOME_LEVEL.
        layers: host classes that a part may have here.
        full: the most GPUs of a host.
        narrow: no column holds more than NARROW_MAX GPUs.

    Attributes:
        hosts: [number (see `fleet_frames`), slot, column].
        copies, whole: [slot, column]; whole is 1 where all GPUs are free.
        above, times: by column, the copies of its parent, and how many equal columns there are in all.
        parent_whole: 1 where all GPUs below the parent are free.
        more: 1 for a column that continues the one before it, as the places of parents are laid out.
        inner: from the coarsest domains down to level 3.
        slot, ladder, classes: by part, the number of its pool (-1 for a part that is gone) and of its list of levels,
            and by class layer the class (-1 for none).
        starts: by part, as `spans`.
        blended: some lowest domain has, or once had, hosts of several class layers.
        version: changes with everything that is told of parts.
        joins: changes with `more`.
    """

    def __init__(self, depth: int, layers: int, full: int, *, narrow: bool) -> None:
        self.depth, self.layers, self.full, self.narrow = depth, layers, full, narrow
        self.dtype: type = np.int16 if narrow else np.int32
        self.width = full + 1 + EXTRA
        self.groups = groups_of(layers)
        self.version = self.joins = 0
        self._clear()

    def _clear(self) -> None:
        self.hosts = Rows(self.groups * self.width, SLOTS, dtype=self.dtype)
        self.copies = Rows(SLOTS, dtype=self.dtype)
        self.whole = Rows(SLOTS, dtype=self.dtype)
        self.above = Rows(dtype=np.int32)
        self.times = Rows(dtype=np.int32)
        self.parent_whole = Rows(dtype=np.int8)
        self.more = Rows(dtype=np.int8)
        self.inner = [Inner(Rows(dtype=np.int32), Rows(dtype=np.int64)) for _ in range(self.depth - 2)]
        self.slot = Rows(dtype=np.int64)
        self.ladder = Rows(dtype=np.int64)
        self.classes = Rows(self.layers, dtype=np.int64)
        self.starts = Rows(self.depth - 1, dtype=np.int64)
        self.blended = False
        self._least = Rows(self.layers, self.full + 1, dtype=np.int64)
        self._untold: set[int] = set()  # parts whose entry in _least is not right
        self._parts: list[Part | None] = []
        self._dead = 0  # columns

    @property
    def _columns(self) -> tuple[Rows, ...]:
        return self.hosts, self.copies, self.whole, self.above, self.times, self.parent_whole, self.more

    @property
    def least(self) -> Cells:
        """[class layer, free GPUs, part]: hosts with at least so many, copies not counted."""
        for number in self._untold:
            part = self._parts[number]
            if part is not None:
                start, room = part.spans[-1]
                rows = self.hosts.all[..., start : start + room].reshape(self.groups, self.width, -1)
                told = rows[self.groups - self.layers :, : self.full + 1].sum(axis=2, dtype=np.int64)
                self._least.all[..., number] = told
        self._untold.clear()
        return self._least.now

    # ---- changes ---------------------------------------------------------------------------------------------

    def add(self, slot: int, ladder: int, classes: list[int], root: Branch, levels: int, frame: Frame) -> Part:
        """A new part at the end. `classes` of its layers, as many as it has; `levels` that the group has."""
        lines = outline(root, levels, self.depth)
        part = Part(self.slot.extend(1), root, levels, frame, [], {})
        self.version += 1
        for rows in (self.ladder, self.classes, self.starts, self._least):
            rows.extend(1)
        tables = [*self.inner, self._columns]
        for size, at_depth in zip(lines.sizes, tables, strict=True):
            room = size + 2 + size // 8
            part.spans.append(([rows.extend(room) for rows in at_depth].pop(), room))
        self.starts.all[:, part.number] = [start for start, _ in part.spans]
        self.classes.all[:, part.number] = classes + [-1] * (self.layers - len(classes))
        self.slot.all[part.number], self.ladder.all[part.number] = slot, ladder
        self._parts.append(part)
        self._write(part, lines)
        return part

    def change(self, part: Part, root: Branch) -> Part | None:
        """The part with new content; where it lies now. None if its columns are too wide for this sheet."""
        old, part.root = part.root, root
        self._untold.add(part.number)
        if self._follow(part, part.mirror, old, root, part.levels):
            return part
        if self.narrow and not part.frame.is_narrow(parents_in(root, part.levels)):
            return None
        lines = outline(root, part.levels, self.depth)
        if all(size < room for size, (_, room) in zip(lines.sizes, part.spans, strict=True)):
            self._write(part, lines)
            return part
        named = self._named(part)
        self.drop(part)
        return self.add(*named, root, part.levels, part.frame)

    def _named(self, part: Part) -> tuple[int, int, list[int]]:
        at = part.number
        classes = [c for c in self.classes.all[:, at].tolist() if c >= 0]
        return int(self.slot.all[at]), int(self.ladder.all[at]), classes

    def drop(self, part: Part) -> None:
        """The part is gone."""
        self.version += 1
        self.slot.all[part.number] = -1
        self.classes.all[:, part.number] = -1
        self._parts[part.number] = None
        self._dead += part.spans[-1][1]
        if self._dead > max(_COMPACT_COLUMNS_MIN, self.copies.used // 2):
            self._compact()

    def _compact(self) -> None:
        live = [(part, self._named(part)) for part in self._parts if part is not None]
        self._clear()
        for part, named in live:
            moved = self.add(*named, part.root, part.levels, part.frame)
            part.number, part.spans, part.mirror = moved.number, moved.spans, moved.mirror
            self._parts[part.number] = part

    # ---- in place --------------------------------------------------------------------------------------------

    def _follow(self, part: Part, mirror: Mirror, old: Branch, new: Branch, levels: int) -> bool:
        """Writes what is different below a domain where the old content was; false if that does not go up."""
        if levels == 1:
            gone, came = [(old, 1)], [(new, 1)]
        else:
            before, after = set(old.kids), set(new.kids)
            gone = [(kid, n) for kid, n in old.kids if (kid, n) not in after and isinstance(kid, Branch)]
            came = [(kid, n) for kid, n in new.kids if (kid, n) not in before and isinstance(kid, Branch)]
        if isinstance(mirror, Home):
            return self._refill(part, mirror, gone, came)
        gone.sort(key=_by_copies)
        came.sort(key=_by_copies)
        if [n for _, n in gone] != [n for _, n in came]:
            return False
        below = [mirror.pop(kid.key) for kid, _ in gone]
        mirror.update({kid.key: home for (kid, _), home in zip(came, below, strict=True)})
        trios = zip(below, gone, came, strict=True)
        return all(self._follow(part, home, kid, then, levels - 1) for home, (kid, _), (then, _) in trios)

    def _refill(self, part: Part, home: Home, gone: Kids, came: Kids) -> bool:
        if self.narrow and not part.frame.is_narrow([parent for parent, _ in came]):
            return False
        for parent, _ in gone:
            place = home.places.pop(parent.key)
            self._empty(*place)
            home.free.append(place)
        written: list[_Written] = []
        for parent, n in came:
            found = _taken(home.free, columns_of(parent))
            if found is None:
                return False
            home.places[parent.key] = found
            written.append((parent, n, n * home.times, found.start))
        if written:
            self._put(written, part.frame)
        return True

    # ---- writing ---------------------------------------------------------------------------------------------

    def _empty(self, start: int, width: int) -> None:
        end = start + width
        for rows in (self.hosts, self.copies, self.above, self.times):
            rows.all[..., start:end] = 0
        self.parent_whole.all[start:end] = 1

    def _write(self, part: Part, lines: Outline) -> None:
        self.joins += 1
        self._untold.add(part.number)
        start, room = part.spans[-1]
        self._empty(start, room)
        self.more.all[start : start + room] = 0
        written: list[_Written] = []
        homes: list[Home] = []
        for parents, times in zip(lines.homes, lines.times, strict=True):
            home, end = Home({}, [], times), start + room_of(parents)
            for parent, n in parents:
                width = columns_of(parent)
                home.places[parent.key] = Place(start, width)
                self.more.all[start + 1 : start + width] = 1
                written.append((parent, n, n * times, start))
                start += width
            home.free.extend([Place(column, 1) for column in range(start, end)])
            homes.append(home)
            start = end
        self._put(written, part.frame)
        self._write_above(part, lines)
        part.mirror = _mirrored(part.root, part.levels, iter(homes))

    def _put(self, written: list[_Written], frame: Frame) -> None:
        """Parents of lowest domains, into empty columns."""
        lows = [kid for parent, *_ in written for kid, _ in parent.kids]
        told = [frame.told(low) for low in lows if isinstance(low, Leaf)]
        stride = self.copies.all.shape[-1]
        places: list[int] = []  # slot and column in one
        columns: list[tuple[int, int, int, bool]] = []
        for parent, copies, times, start in written:
            first, kids = len(places), len(parent.kids)
            places.extend([i % SLOTS * stride + start + i // SLOTS for i in range(kids)])
            whole = all(low.whole for low in told[first : first + kids])
            columns.extend([(start + i, copies, times, whole) for i in range(columns_of(parent))])
        cells = np.frombuffer(b"".join([low.cells for low in told]), np.int32).reshape(len(told), -1)
        self.hosts.all.reshape(len(self.hosts.all), -1)[:, places] = cells.T
        self.copies.all.reshape(-1)[places] = [n for parent, *_ in written for _, n in parent.kids]
        self.whole.all.reshape(-1)[places] = [low.whole for low in told]
        self.blended = self.blended or any(low.blended for low in told)
        at, *rows = np.array(columns, np.int64).T
        for table, row in zip((self.above, self.times, self.parent_whole), rows, strict=True):
            table.all[at] = row

    def _write_above(self, part: Part, lines: Outline) -> None:
        for depth, (inner, copies) in enumerate(zip(self.inner, lines.copies, strict=True)):
            (start, room), (below, below_room) = part.spans[depth : depth + 2]
            used = start + len(copies)
            inner.copies.all[start:used] = copies
            inner.copies.all[used : start + room] = 0
            inner.first.all[start:used] = np.add(lines.first[depth], below)
            inner.first.all[used : start + room] = below + below_room - 1


def _mirrored(root: Branch, levels: int, homes: Iterator[Home]) -> Mirror:
    if levels < HOME_LEVEL:
        return next(homes)
    return {kid.key: _mirrored(kid, levels - 1, homes) for kid, _ in root.kids if isinstance(kid, Branch)}


def _taken(free: list[Place], width: int) -> Place | None:
    """The narrowest of the places that are wide enough, taken out; None if there is none."""
    best = min([place for place in free if place.width >= width], key=lambda place: place.width, default=None)
    if best is not None:
        free.remove(best)
    return best


def _by_copies(entry: tuple[Branch, int]) -> int:
    return entry[1]
