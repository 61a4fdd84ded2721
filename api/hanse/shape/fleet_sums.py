"""What a pod set finds in a sheet of `fleet_rows`: pods per lowest domain, and their sums and maxima up the trees.

One question is one pass from the columns up. Hosts of classes that take no pod are left out before anything is
counted: if every part with such hosts has no others, by ignoring the whole part at the end; else the classes' layers
are counted one by one. Where all parts see one kind of host, one read of the sheet is all there is to count.

Sums go straight from the level at which something happens last (a slice, an exclusive domain, the required level) to
the part.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

import numpy as np

from hanse.shape.fleet_classes import Flags, Ints, Sight
from hanse.shape.fleet_frames import SUMMED
from hanse.shape.fleet_outline import HOME_LEVEL
from hanse.shape.fleet_questions import Kind, Meanings, Rounding, rises
from hanse.shape.fleet_rows import Cells, Sheet

NEVER: Final = 2**62
TIGHT_STRIDE: Final = 2**16  # more than the GPUs of a host
_SEEN_KEPT_MAX: Final = 64
_ASKED_KEPT_MAX: Final = 256


class _Pattern(NamedTuple):
    """Which hosts are alike to a pod set, whatever it asks of them.

    Attributes:
        layers: by class layer (number, by part and by column whether hosts have it), without number 0.
        reached: see _Seen.
        alone: all layers have one number, the same, and no part that is reached has other hosts.
    """

    layers: list[list[tuple[int, Flags, Cells]]]
    reached: Flags | None
    alone: bool


_Layers = list[list[tuple[Kind, Flags, Cells]]]


class _Seen(NamedTuple):
    """How a pod set sees the classes of a sheet.

    Attributes:
        layers: by class layer, the kinds of its hosts, each with whether they are of that kind by part and by column
            (nothing for columns if there is one kind alone).
        reached: by part, whether some class takes a pod; None if all are.
        only: the one kind of all hosts of the parts that are reached; None if there are several, or hosts without.
    """

    layers: _Layers
    reached: Flags | None
    only: Kind | None


class Sums:
    """Asks one sheet."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self._scratch: tuple[Cells, Cells] = (np.zeros((0, 0), sheet.dtype),) * 2
        self._seen: OrderedDict[tuple[Sight, int, bool, int], _Seen] = OrderedDict()
        self._version = self._joins = -1
        self._widths: Ints = np.zeros(0, np.int64)  # columns of each part
        self._joined = (self._widths,) * 4  # see the function
        self._asked: dict[bytes, list[tuple[int, Ints]]] = {}
        self._patterns: dict[bytes, _Pattern] = {}

    def most(self, sight: Sight, how: Rounding) -> Cells | None:
        """By part, the most pods that one domain of the required level, or everything, can hold.

        None if this takes more than sums (see `Rounding.is_crossed`).
        """
        if how.is_crossed:
            return None
        seen = self._sees(sight, how)
        if how.required == 0:
            return self._on_one_host(seen)
        sheet, starts = self.sheet, self.sheet.starts.now
        wide = self._in_columns(seen, how, best=how.required == 1)
        if how.required == 1:
            return _reached(np.maximum.reduceat(wide, starts[-1]), seen)
        if how.last < 2:
            return _reached(np.add.reduceat(wide * sheet.times.now, starts[-1]), seen)
        if how.acts(2):
            wide = self._of_parents(wide, how)
            if how.required == 2:
                return _reached(np.maximum.reduceat(wide, starts[-1]), seen)
        if how.last == 2:
            return _reached(np.add.reduceat(wide * sheet.times.now, starts[-1]), seen)
        above = self._above(wide * sheet.above.now, how)
        return _reached(above[how.required if how.required >= HOME_LEVEL else -1], seen)

    def peaks(self, sight: Sight, how: Rounding) -> list[Cells] | None:
        """By part, the most pods of one host, of one domain of level 1, 2, …, and at last of everything.

        None as above. For the levels of the sheet: the uppermost ones of a part that has fewer are all of it.
        """
        if how.is_crossed:
            return None
        seen, starts = self._sees(sight, how), self.sheet.starts.now
        best = self._in_columns(seen, how, best=True)
        wide = self._of_parents(self._in_columns(seen, how, best=False), how)
        peaks = [np.maximum.reduceat(level, starts[-1]) for level in (best, wide)]
        every = [*peaks, *self._above(wide * self.sheet.above.now, how).values()]
        return [self._on_one_host(seen), *[_reached(peak, seen) for peak in every]]

    def tight(self, sight: Sight, how: Rounding, pods: int) -> Ints:
        """By part, of the hosts that hold so many pods, what the tightest scores at best: see `Lows`.

        1 for a host that is whole, its free GPUs and its GPUs, in one number; NEVER without such hosts.
        """
        sheet, seen = self.sheet, self._sees(sight, how)
        found = np.full(sheet.slot.used, NEVER, np.int64)
        free = np.arange(sheet.full + 1)[:, np.newaxis]
        for least, classes, kinds in zip(sheet.least, sheet.classes.now, seen.layers, strict=True):
            exactly = least - np.append(least[1:], np.zeros_like(least[:1]), axis=0) > 0
            full = sight.full[classes]
            whole = (free == full) & (full > 0)
            code = (whole * TIGHT_STRIDE + free) * TIGHT_STRIDE + full
            for kind, chosen, _ in kinds:
                holds = np.array(kind.row(sheet.full)) >= pods
                some = np.where(exactly & holds[:, np.newaxis] & chosen, code, NEVER)
                np.minimum(found, some.min(axis=0), out=found)
        return found

    # ---- up the trees ----------------------------------------------------------------------------------------

    def _of_parents(self, wide: Cells, how: Rounding) -> Cells:
        """By first column of each parent of lowest domains, pods in whole slices."""
        sheet = self.sheet
        if self._joins != sheet.joins:
            self._joins, self._joined = sheet.joins, _joined(sheet.more.now)
        columns, starts, first, more = self._joined
        if len(first):
            wide = wide.astype(np.int32) if wide.dtype == np.int16 else wide
            wide[first] = np.add.reduceat(wide[columns], starts)
            wide[more] = 0
        if how.exclusive == HOME_LEVEL - 1:
            wide = wide * sheet.parent_whole.now
        if how.spread == HOME_LEVEL - 1:
            wide = np.minimum(wide, how.each)
        size = how.size(HOME_LEVEL - 1)
        return wide // size * size if size > 1 else wide

    def _above(self, wide: Cells, how: Rounding) -> dict[int, Cells]:
        """From columns that count all copies of parents: by level the best domain of each part, -1 for all of it.

        Up to the required level, if that is asked for here.
        """
        sheet, starts = self.sheet, self.sheet.starts.now
        out: dict[int, Cells] = {}
        whole: Cells | None = sheet.parent_whole.now if how.exclusive >= HOME_LEVEL else None
        for level in range(HOME_LEVEL, sheet.depth + 1):
            copies, first = sheet.inner[sheet.depth - level]
            wide = np.add.reduceat(wide, first.now)
            if whole is not None:
                whole = np.minimum.reduceat(whole, first.now)
                wide = wide * whole if how.exclusive == level else wide
            if how.spread == level:
                wide = np.minimum(wide, how.each)
            if (size := how.size(level)) > 1:
                wide = wide // size * size
            out[level] = np.maximum.reduceat(wide, starts[sheet.depth - level])
            wide = wide * copies.now
        out[-1] = np.add.reduceat(wide, starts[0])
        return out

    # ---- lowest domains --------------------------------------------------------------------------------------

    def _in_columns(self, seen: _Seen, how: Rounding, *, best: bool) -> Cells:
        """By column, pods of all its slots, or of the best of them; in whole slices."""
        size = how.size(1)
        if seen.only is not None:
            return self._rounded(self._counted(seen.only, 0, 0), how, size, best=best)
        if self.sheet.blended and self.sheet.layers > 1 and (size > 1 or best):
            return self._rounded(self._in_slots(seen), how, size, best=best)
        total: Cells | None = None
        for layer, kinds in enumerate(seen.layers):
            for kind, _, chosen in kinds:
                wide = self._rounded(self._counted(kind, self._group(layer), 0), how, size, best=best)
                wide = wide * chosen
                if total is not None:
                    wide = np.maximum(total, wide) if best else total + wide
                total = wide
        return np.zeros(self.sheet.copies.used, np.int32) if total is None else total

    def _rounded(self, pods: Cells, how: Rounding, size: int, *, best: bool) -> Cells:
        """By column, from pods by slot and column, which are left as they are."""
        if size > np.iinfo(pods.dtype).max:
            return np.zeros(pods.shape[-1], np.int32)  # no lowest domain holds a whole slice
        room = self._room(pods, 0)
        if how.exclusive == 1:
            pods = np.multiply(pods, self.sheet.whole.now, out=room)
        if how.spread == 1:
            pods = np.minimum(pods, min(how.each, np.iinfo(pods.dtype).max), out=room)
        if size > 1 and size & (size - 1):
            pods = np.floor_divide(pods, size, out=room)
        elif size > 1:  # twice as quick
            pods = np.right_shift(pods, size.bit_length() - 1, out=room)
        wide = np.maximum.reduce(pods, axis=0) if best else np.einsum("sc,sc->c", pods, self.sheet.copies.now)
        if size < 2:
            return np.asarray(wide)
        return np.asarray(np.multiply(wide, size, dtype=np.int64 if wide.dtype == np.int64 else np.int32))

    def _in_slots(self, seen: _Seen) -> Cells:
        """Pods by slot and column of all layers together."""
        total: Cells | None = None
        for layer, kinds in enumerate(seen.layers):
            for kind, _, chosen in kinds:
                pods = self._counted(kind, self._group(layer), 1)
                pods = np.multiply(pods, chosen, out=self._room(pods, int(total is not None)))
                if total is not None:
                    pods = np.add(total, pods, out=self._room(total, 0) if total.dtype == pods.dtype else None)
                total = pods
        return np.zeros_like(self.sheet.copies.now) if total is None else total

    def _counted(self, kind: Kind, group: int, room: int) -> Cells:
        """Pods of every slot, of one group of classes; not to be changed."""
        sheet, first = self.sheet, group * self.sheet.width
        hosts: Cells = sheet.hosts.now
        if kind.summed:
            return np.asarray(hosts[first + sheet.full + SUMMED[kind.density.gpus]])
        total: Cells | None = None
        for free, more in rises(kind, sheet.full):
            pods = hosts[first + free]
            if not kind.density.gpus:
                pods = pods.astype(np.int64)  # pods of a host are bounded by what is asked for alone
            if more != 1:
                pods = pods * more
            total = pods if total is None else np.add(total, pods, out=self._room(pods, room))
        return np.zeros_like(sheet.copies.now) if total is None else total

    def _group(self, layer: int) -> int:
        return layer + 1 if self.sheet.layers > 1 else 0

    def _room(self, like: Cells, number: int) -> Cells | None:
        """One of two arrays to compute in, as large as the columns; None for cells of another size."""
        copies = self.sheet.copies
        if like.dtype != self.sheet.dtype:
            return None
        if self._scratch[number].shape != copies.all.shape:
            self._scratch = (np.empty_like(copies.all), np.empty_like(copies.all))
        return self._scratch[number][:, : copies.used]

    def _on_one_host(self, seen: _Seen) -> Ints:
        most = np.zeros(self.sheet.slot.used, np.int64)
        for top, kinds in zip((self.sheet.least > 0).sum(axis=1) - 1, seen.layers, strict=True):
            for kind, chosen, _ in kinds:
                row = np.array([*kind.row(self.sheet.full), 0], np.int64)  # the last for layers without hosts
                most = np.maximum(most, np.where(chosen, row[top], 0))
        return most

    # ---- classes ---------------------------------------------------------------------------------------------

    def _sees(self, sight: Sight, how: Rounding) -> _Seen:
        self._renewed()
        key = (sight, how.host, how.exclusive == 0, how.each if how.spread == 0 else 0)
        found = self._seen.get(key)
        if found is None:
            if len(self._seen) >= _SEEN_KEPT_MAX:
                self._seen.popitem(last=False)
            found = self._seen[key] = self._looked(sight, how)
        return found

    def _renewed(self) -> None:
        """What is remembered of parts, made anew if these changed."""
        sheet = self.sheet
        if self._version == sheet.version:
            return
        self._version = sheet.version
        self._seen.clear()
        self._asked.clear()
        self._patterns.clear()
        self._widths = np.diff(sheet.starts.now[-1], append=sheet.copies.used)

    def asked(self, means: Meanings) -> list[tuple[Rounding, Ints]]:
        """The different roundings here, each with the number of every part's pool; -1 where it is not its."""
        self._renewed()
        told = means.number.tobytes()
        found = self._asked.get(told)
        if found is None:
            if len(self._asked) >= _ASKED_KEPT_MAX:
                self._asked.clear()
            slot, number = self.sheet.slot.now, means.number[self.sheet.ladder.now]
            different = (np.bincount(number)[1:].nonzero()[0] + 1).tolist()
            found = self._asked[told] = [(n, np.where(number == n, slot, -1)) for n in different]
        return [(means.roundings[n - 1], mine) for n, mine in found]

    def _looked(self, sight: Sight, how: Rounding) -> _Seen:
        sheet, classes = self.sheet, self.sheet.classes.now
        number = sight.density[classes]
        if how.exclusive == 0:
            number = np.where(number > 0, number * (sheet.full + 1) + sight.full[classes], 0)
        told = number.tobytes()
        pattern = self._patterns.get(told)
        if pattern is None:
            if len(self._patterns) >= _SEEN_KEPT_MAX:
                self._patterns.clear()
            pattern = self._patterns[told] = self._pattern(number)
        kinds: dict[int, Kind] = {}
        for n in {n for layer in pattern.layers for n, _, _ in layer}:
            at, full = divmod(n, sheet.full + 1) if how.exclusive == 0 else (n, 0)
            kinds[n] = Kind(how.density(sight.densities[at - 1]), how.host, full)
        layers = [[(kinds[n], parts, columns) for n, parts, columns in layer] for layer in pattern.layers]
        return _Seen(layers, pattern.reached, next(iter(kinds.values())) if pattern.alone else None)

    def _pattern(self, number: Ints) -> _Pattern:
        sheet, taken = self.sheet, number > 0
        reached = np.asarray(taken.any(axis=0))
        mixed = sheet.layers > 1 and bool((reached & (~taken & (sheet.classes.now >= 0)).any(axis=0)).any())
        several = [(np.bincount(row)[1:].nonzero()[0] + 1).tolist() for row in number]
        alone = not mixed and len({n for row in several for n in row}) == 1
        widths = self._widths * (not alone)
        layers: list[list[tuple[int, Flags, Cells]]] = []
        for row, numbers in zip(number, several, strict=True):
            flags = [row == n for n in numbers]
            columns = [some.astype(sheet.dtype).repeat(widths) for some in flags]
            layers.append(list(zip(numbers, flags, columns, strict=True)))
        return _Pattern(layers, None if reached.all() else reached, alone)


def _reached(most: Cells, seen: _Seen) -> Cells:
    return most if seen.reached is None else np.where(seen.reached, most, 0)


def _joined(more: Cells) -> tuple[Ints, Ints, Ints, Ints]:
    """Columns of parents that have several; where each parent begins among these; their first and other columns."""
    joined = more > 0
    joined[:-1] |= joined[1:]
    columns = np.flatnonzero(joined)
    continued = more[columns] > 0
    starts = np.flatnonzero(~continued)
    return columns, starts, columns[starts], columns[continued]
