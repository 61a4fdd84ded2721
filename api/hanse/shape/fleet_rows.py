"""Lowest domains of many pools as columns: the part of a fleet that has one flavor.

A `Sheet` holds a *part* for each node group of a pool. Distinct lowest domains lie in slots: `SLOTS` of them, all
children of one parent, make a column, so that a sum or a maximum over siblings is a few operations on long rows. What
a slot holds are the numbers of hosts with at least 0, 1, 2, … free GPUs, of all classes and by class layer (a pool's
first class of the flavor, its second, …): pods per domain, for any density, is a sum of some of these. Columns are
summed into their parents, those into theirs, up to the part, by `np.add.reduceat`; a number of copies stands beside
every domain.

Levels are counted from the hosts up, and a part with fewer of them than the sheet has trivial domains on top. So
pools whose levels have other names lie in one sheet, and a question that means the same level above the hosts of all
of them (`Rounding`) is one pass over it.

Parts lie one after the other in every array and keep a little room, so that a change rewrites the columns of one
pool, and counts anew only what lies under changed parents. A part that outgrew its room moves to the end; when half
of a sheet is abandoned, the live parts are moved together. The last entry of a part's room is never used: no hosts,
no copies, and every unused parent has it as its only child, so unused entries add nothing and exceed nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hanse.shape.fleet_classes import FREE, Density, Flags, Ints, Sight

Cells = NDArray[np.signedinteger]

SLOTS: Final = 8
NARROW_MAX: Final = 2**15 - 1  # GPUs of one column that 16 bits can count
EXTRA: Final = 2
_COMPACT_COLUMNS_MIN: Final = 256  # a smaller sheet is not worth moving together


class Rounding(NamedTuple):
    """What a pod set asks of the levels of a pool, counted from below: 0 is the host, 1 the lowest domain, …

    Attributes:
        required: level of which one domain must hold everything, -1 for none.
        floors: slice size at level 1, 2, …, 0 for none; no zeros at the end.
        host: pods on one host come in multiples of this.
        exclusive: level at which only wholly free domains count, -1 for none.
    """

    required: int
    floors: tuple[int, ...]
    host: int
    exclusive: int


class Kind(NamedTuple):
    """What the pods of a layer's hosts add up to.

    Attributes:
        step: pods of one host come in multiples of this.
        whole: GPUs of a host that counts only if they are all free, 0 if every host counts.
    """

    density: Density
    step: int
    whole: int

    def row(self, full: int) -> list[int]:
        """Pods of a host by 0..full free GPUs."""
        pods = [most // self.step * self.step for most in self.density.row(full)]
        return [most if not self.whole or free == self.whole else 0 for free, most in enumerate(pods)]

    def rises(self, full: int) -> list[tuple[int, int]]:
        """(free GPUs, how many more pods than with one less), where that is not zero."""
        row = self.row(full)
        if self.whole:  # no host has more free GPUs than it has GPUs
            row[self.whole :] = [row[self.whole]] * (full + 1 - self.whole)
        steps = zip([0, *row[:-1]], row, strict=True)
        return [(free, pods - less) for free, (less, pods) in enumerate(steps) if pods != less]


class _Seen(NamedTuple):
    """How a pod set sees the classes of a sheet.

    Attributes:
        number: by class layer and part, its kind in `kinds` of the layer; 0 takes no pod.
        reached: by part, whether some class takes a pod.
        mixed: in some part one class takes pods, and another does not.
    """

    number: Ints
    kinds: list[dict[int, Kind]]
    reached: Flags
    mixed: bool


class Inner(NamedTuple):
    """Domains of one depth: copies, whether all GPUs are free (1 or 0), the first child, whether it has more."""

    copies: Cells
    whole: Cells
    first: Cells
    several: Cells


class Block(NamedTuple):
    """One part, with indices of its own.

    Attributes:
        hosts: [0 for all classes or class layer + 1, least free GPUs, slot, column], and EXTRA sums of these: pods of
            one GPU, and of two.
        copies, whole: [slot, column].
        above, times: by column, the copies of its parent, and how many equal columns there are in all.
        inner: by depth.
        top: by class layer, the most free GPUs of a host; -1 without hosts.
        blended: some lowest domain has hosts of several class layers.
    """

    hosts: Cells
    copies: Cells
    whole: Cells
    above: Cells
    times: Cells
    inner: tuple[Inner, ...]
    top: Cells
    blended: bool

    @property
    def sizes(self) -> list[int]:
        """Domains by depth, the columns last."""
        return [*[len(inner.copies) for inner in self.inner], self.copies.shape[-1]]


@dataclass(slots=True)
class Part:
    """Where a node group lies in a sheet.

    Attributes:
        spans: (start, room) by depth, the columns last.
        sizes: how much of the room is used.
        parents: of lowest domains, by key the column at which each begins: for what a change leaves as it was.
    """

    number: int
    spans: list[tuple[int, int]]
    sizes: list[int]
    parents: Mapping[bytes, int]


_INNER: Final = (np.int32, np.int32, np.int64, np.int8)


class _Rows:
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


class Sheet:
    """Parts with one flavor and at most as many levels, class layers and GPUs per host.

    Args:
        depth: levels, at least 1.
        layers: host classes that a part may have here.
        full: the most GPUs of a host.
        narrow: no column holds more than NARROW_MAX GPUs.
    """

    def __init__(self, depth: int, layers: int, full: int, *, narrow: bool) -> None:
        self.depth, self.layers, self.full, self.narrow = depth, layers, full, narrow
        self._dtype: type = np.int16 if narrow else np.int32
        self._clear()

    def _clear(self) -> None:
        layers, depth = self.layers, self.depth
        self._hosts = _Rows(layers + 1, self.full + 1 + EXTRA, SLOTS, dtype=self._dtype)
        self._copies = _Rows(SLOTS, dtype=self._dtype)
        self._whole = _Rows(SLOTS, dtype=self._dtype)
        self._above = _Rows(dtype=np.int32)
        self._times = _Rows(dtype=np.int32)
        self._blended = _Rows(dtype=np.int8)
        self._inner = [tuple(_Rows(dtype=kind) for kind in _INNER) for _ in range(depth - 1)]
        self._scratch: tuple[Cells, Cells] = (np.zeros((SLOTS, 0), self._dtype),) * 2
        self._parts: list[Part | None] = []
        self._slot = _Rows(dtype=np.int64)
        self._classes = _Rows(layers, dtype=np.int64)
        self._top = _Rows(layers, dtype=np.int64)
        self._ladder = _Rows(dtype=np.int64)
        self._starts = _Rows(depth, dtype=np.int64)  # of each part, by depth, the columns last
        self._widths: Ints | None = None  # columns of each part
        self._split: tuple[Ints, Ints] | None = None  # see `_joined`
        self._dead = 0  # columns

    @property
    def slots(self) -> Ints:
        """By part, the number of its pool; -1 for a part that is gone."""
        return self._slot.now

    @property
    def classes(self) -> Ints:
        """By class layer and part, the class; -1 for none."""
        return self._classes.now

    @property
    def ladders(self) -> Ints:
        """By part, the number of its list of levels."""
        return self._ladder.now

    # ---- changes ---------------------------------------------------------------------------------------------

    def add(self, slot: int, ladder: int, classes: list[int], block: Block, parents: Mapping[bytes, int]) -> Part:
        """A new part at the end. `classes` of its layers, as many as it has."""
        part = Part(self._slot.extend(1), [], block.sizes, parents)
        for rows in (self._ladder, self._classes, self._top, self._blended, self._starts):
            rows.extend(1)
        self._widths = None
        for depth, size in enumerate(block.sizes):
            room = size + 2 + size // 8
            part.spans.append(([rows.extend(room) for rows in self._rows_at(depth)].pop(), room))
        self._starts.all[:, part.number] = [start for start, _ in part.spans]
        self._classes.all[:, part.number] = classes + [-1] * (self.layers - len(classes))
        self._slot.all[part.number], self._ladder.all[part.number] = slot, ladder
        self._parts.append(part)
        self._write(part, block)
        return part

    def change(self, part: Part, block: Block, parents: Mapping[bytes, int]) -> Part:
        """The part with new content; where it lies now."""
        if all(size < room for size, (_, room) in zip(block.sizes, part.spans, strict=True)):
            part.sizes, part.parents = block.sizes, parents
            self._write(part, block)
            return part
        named = self._named(part)
        self.drop(part)
        return self.add(*named, block, parents)

    def _named(self, part: Part) -> tuple[int, int, list[int]]:
        at = part.number
        return int(self._slot.all[at]), int(self._ladder.all[at]), self._classes.all[:, at].tolist()

    def drop(self, part: Part) -> None:
        """The part is gone."""
        self._slot.all[part.number], self._blended.all[part.number] = -1, 0
        self._classes.all[:, part.number] = -1
        self._parts[part.number] = None
        self._dead += part.spans[-1][1]
        if self._dead > max(_COMPACT_COLUMNS_MIN, self._copies.used // 2):
            self._compact()

    def _compact(self) -> None:
        live = [(part, self._named(part), self.block(part)) for part in self._parts if part is not None]
        self._clear()
        for part, named, block in live:
            moved = self.add(*named, block, part.parents)
            part.number, part.spans = moved.number, moved.spans
            self._parts[part.number] = part

    def block(self, part: Part) -> Block:
        """The part's content, as it lies here until the next change."""
        columns = slice(part.spans[-1][0], part.spans[-1][0] + part.sizes[-1])
        inner: list[Inner] = []
        for depth, size in enumerate(part.sizes[:-1]):
            start, below = part.spans[depth][0], part.spans[depth + 1][0]
            copies, whole, first, several = [rows.all[start : start + size] for rows in self._rows_at(depth)]
            inner.append(Inner(copies, whole, first - below, several))
        hosts, copies, whole, above, times = [rows.all[..., columns] for rows in self._rows_at(self.depth - 1)]
        top, blended = self._top.all[:, part.number], bool(self._blended.all[part.number])
        return Block(hosts, copies, whole, above, times, tuple(inner), top, blended)

    def _rows_at(self, depth: int) -> "tuple[_Rows, ...]":
        columns = (self._hosts, self._copies, self._whole, self._above, self._times)
        return self._inner[depth] if depth < self.depth - 1 else columns

    def _write(self, part: Part, block: Block) -> None:
        self._split = None
        start, room = part.spans[-1]
        end = start + room
        for rows, cells in zip(self._rows_at(self.depth - 1), block[:5], strict=True):
            used = start + cells.shape[-1]
            rows.all[..., start:used] = cells
            rows.all[..., used:end] = 0
        for depth, inner in enumerate(block.inner):
            self._write_inner(depth, part, inner)
        self._top.all[:, part.number], self._blended.all[part.number] = block.top, block.blended

    def _write_inner(self, depth: int, part: Part, inner: Inner) -> None:
        (start, room), (below, below_room) = part.spans[depth : depth + 2]
        used = start + len(inner.copies)
        for rows, cells in zip(self._inner[depth], inner, strict=True):
            rows.all[start:used] = cells
            rows.all[used : start + room] = 0
        first = self._inner[depth][2].all
        first[start:used] += below
        first[used : start + room] = below + below_room - 1

    # ---- questions -------------------------------------------------------------------------------------------

    def most(self, sight: Sight, how: Rounding) -> Ints | None:
        """By part, the most pods that one domain of the required level, or everything, can hold.

        None if this takes more than sums: a required level below an exclusive one.
        """
        if 0 <= how.required < how.exclusive:
            return None
        seen = self._seen(sight, how)
        if how.required == 0:
            return self._on_one_host(seen)
        wide, starts = self._in_columns(seen, how), self._starts.now
        if how.required == 1:
            return _reached(np.maximum.reduceat(wide, starts[-1]), seen)
        if how.required < 0 and len(how.floors) < 2 and how.exclusive < 2:  # nothing happens on the way up
            return _reached(np.add.reduceat(wide * self._times.now, starts[-1]), seen)
        leap = self.depth > 2 and 2 not in (how.required, how.exclusive) and _size(how, 2) < 2
        for level in range(2, self.depth + 1):
            copies, whole, first, _ = self._inner[self.depth - level]
            if level == 2 and leap:
                wide = wide * self._above.now
                continue
            if level == 3 and leap:
                first_columns = self._inner[-1][2].now.take(first.now)
                wide = np.add.reduceat(wide, first_columns)
            else:
                wide = self._joined(wide) if level == 2 else np.add.reduceat(wide, first.now)
            if how.exclusive == level:
                wide = wide * whole.now
            if (size := _size(how, level)) > 1:
                wide = wide // size * size
            if how.required == level:
                return _reached(np.maximum.reduceat(wide, starts[self.depth - level]), seen)
            wide = wide * copies.now
        return _reached(np.add.reduceat(wide, starts[0]), seen)

    def _in_columns(self, seen: _Seen, how: Rounding) -> Cells:
        """By column, pods of all its slots, or of the best if the required level is theirs; in whole slices."""
        size = _size(how, 1)
        total: Cells | None = None
        apart = size < 2 and (how.required != 1 or not self._blended.now.any())
        for pods, chosen in self._layers(seen, apart=apart):
            if size > np.iinfo(pods.dtype).max:
                continue  # no lowest domain holds a whole slice
            room = self._room(pods, 0)
            if how.exclusive == 1:
                pods = np.multiply(pods, self._whole.now, out=room)
            if size > 1:
                pods = np.floor_divide(pods, size, out=room)
            if how.required == 1:
                wide = np.maximum.reduce(pods, axis=0)
            else:
                wide = np.einsum("sc,sc->c", pods, self._copies.now)
            wide = wide if wide.dtype == np.int64 else wide.astype(np.int32)
            if chosen is not None:
                wide *= self._over_columns(chosen)
            if total is not None:
                wide = np.maximum(total, wide) if how.required == 1 else total + wide
            total = wide
        if total is None:
            return np.zeros(self._copies.used, np.int32)
        return total * size if size > 1 else total

    def _layers(self, seen: _Seen, *, apart: bool) -> Iterator[tuple[Cells, Flags | None]]:
        """Pods by slot and column, and by part whether these count; `apart` for each class layer alone.

        What is yielded is good until the next is.
        """
        different = {kind for kinds in seen.kinds for kind in kinds.values()}
        if not seen.mixed and len(different) == 1:
            yield self._counted(different.pop(), 0, 0), None
        elif not apart:
            yield self._in_slots(seen, different), None
        else:
            for layer, kinds in enumerate(seen.kinds, 1):
                for n, kind in kinds.items():
                    yield self._counted(kind, layer, 0), seen.number[layer - 1] == n

    def _joined(self, wide: Cells) -> Cells:
        """Columns summed by parent. Most parents have one column; only the others are summed up."""
        first = self._inner[-1][2].now
        if self._split is None:
            several = self._inner[-1][3].now.view(np.bool_).nonzero()[0]  # never the last one, which is unused
            self._split = several, np.stack((first[several], first[several + 1]), axis=1).reshape(-1)
        several, bounds = self._split
        sums = wide.take(first)
        if len(several):
            sums[several] = np.add.reduceat(wide, bounds)[::2]
        return sums

    def _seen(self, sight: Sight, how: Rounding) -> _Seen:
        number = sight.density[self.classes]
        if how.exclusive == 0:
            number = np.where(number > 0, number * (self.full + 1) + sight.full[self.classes], 0)
        kinds: list[dict[int, Kind]] = []
        for row in number:
            kinds.append({})
            for n in (np.bincount(row)[1:].nonzero()[0] + 1).tolist():
                at, full = divmod(n, self.full + 1) if how.exclusive == 0 else (n, 0)
                kinds[-1][n] = Kind(sight.densities[at - 1], how.host, full)
        taken = number > 0
        reached = taken.any(axis=0)
        mixed = bool((reached & (~taken & (self.classes >= 0)).any(axis=0)).any())
        return _Seen(number, kinds, np.asarray(reached), mixed)

    def _in_slots(self, seen: _Seen, different: set[Kind]) -> Cells:
        """Pods by slot and column of all layers together."""
        wide = any(not kind.density.gpus for kind in different)
        total = self._copies.now.astype(np.int64) if wide else self._room(self._copies.now, 0)
        assert total is not None  # the copies have the type that is computed in
        total.fill(0)
        for layer, kinds in enumerate(seen.kinds, 1):
            for n, kind in kinds.items():
                pods, chosen = self._counted(kind, layer, 1), self._over_columns(seen.number[layer - 1] == n)
                total += np.multiply(pods, chosen, out=self._room(pods, 1))
        return total

    def _over_columns(self, chosen: Flags) -> Cells:
        if self._widths is None:
            self._widths = np.diff(self._starts.now[-1], append=self._copies.used)
        return chosen.astype(self._dtype).repeat(self._widths)

    def _on_one_host(self, seen: _Seen) -> Ints:
        most = np.zeros(self._slot.used, np.int64)
        for top, number, kinds in zip(self._top.now, seen.number, seen.kinds, strict=True):
            for n, kind in kinds.items():
                row = np.array([*kind.row(self.full), 0], np.int64)  # the last for layers without hosts
                most = np.maximum(most, np.where(number == n, row[top], 0))
        return most

    # ---- counting --------------------------------------------------------------------------------------------

    def _counted(self, kind: Kind, layer: int, room: int) -> Cells:
        """Pods of every slot, of one layer of `hosts`; not to be changed."""
        hosts: Cells = self._hosts.now[layer]
        if kind.step == 1 and kind.density.most == FREE and not kind.whole and kind.density.gpus in (1, 2):
            return np.asarray(hosts[self.full + kind.density.gpus])
        if not kind.density.gpus:
            hosts = hosts.astype(np.int64)  # pods of a host are bounded by what is asked for alone
        total: Cells | None = None
        for free, more in kind.rises(self.full):
            pods = hosts[free]
            if more != 1:
                pods = pods * more
            total = pods if total is None else np.add(total, pods, out=self._room(pods, room))
        return np.zeros_like(hosts[0]) if total is None else total

    def _room(self, like: Cells, number: int) -> Cells | None:
        """One of two arrays to compute in, as large as the columns; None for cells of another size."""
        if like.dtype != self._dtype:
            return None
        if self._scratch[number].shape[-1] != self._copies.all.shape[-1]:
            self._scratch = (np.empty_like(self._copies.all), np.empty_like(self._copies.all))
        return self._scratch[number][:, : self._copies.used]


def _reached(most: Cells, seen: _Seen) -> Ints:
    return np.where(seen.reached, most, 0).astype(np.int64)


def _size(how: Rounding, level: int) -> int:
    """Of slices at a level, 0 for none."""
    return how.floors[level - 1] if level <= len(how.floors) else 0
