"""Does a gang fit, asked of every pool of a fleet at once.

`fit_ask` answers for one shape, exactly and with a place; a thousand pools are a thousand trees to walk. Here the
trees lie as columns (`fleet_rows`), by flavor, and one question is a handful of array operations:
which host classes the pods may use (`fleet_classes`), pods per lowest domain, rounding to whole slices level by level
up the trees, the largest domain at the required level, and a comparison with the number of pods.

What an answer is worth. For a gang of one pod set, `may_fit` of a pool is true if and only if `fit_ask` on its shape
is a Fit. It is always true if `fit_ask` fits: for several sets each is looked at alone; slices of a set whose last
one may be smaller, and one value of a label for all pods are left out; and what is not understood (a required level
below an exclusive or a bounded one, a feature of requests that is newer than this module) counts as fitting.

A pool whose shape changed is patched before the next question: a gang costs the columns of the domains that it went
into.

Rejected: keeping every pool's answer per kind of request. Requests differ in slices and levels without bound, pools
change all the time, and the array operations cost less than a dictionary of thousands of answers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.model.ids import FlavorName, PoolName
from hanse.model.job import Slice, Spread
from hanse.model.request import GangRequest, SetRequest
from hanse.shape.ask import Ask, SetAsk
from hanse.shape.fleet_classes import PASSED, Classes, Flags, Ints, Sight
from hanse.shape.fleet_frames import Frame
from hanse.shape.fleet_outline import parents_in
from hanse.shape.fleet_questions import Meanings, Rounding
from hanse.shape.fleet_ranks import Lows, Ranked, lows
from hanse.shape.fleet_rows import Cells, Part, Sheet
from hanse.shape.fleet_sums import Sums
from hanse.shape.lens import Ladder, Table
from hanse.shape.limits import CLASSES_MAX, GROUPS_MAX, LEVELS_MAX
from hanse.shape.shape import Shape

_LAYERS: Final = (1, 2, 4, 8, 16, CLASSES_MAX)  # of sheets
_DEPTHS: Final = (3, 6, LEVELS_MAX)  # levels of sheets
_MEANINGS_KEPT_MAX: Final = 4_096
_NEVER: Final = 2**62
CLASSES_KEPT_MAX: Final = 20_000  # of one flavor, those that no pool has any more included

Shares = NDArray[np.float64]

_KNOWN_OF_SET: Final = frozenset(
    "count pod gpus exclusive flavor selector tolerations required preferred slices kind lens_kind".split()
) | {"balanced", "spread", "ragged", "same", "pins"}
_KNOWN_OF_SLICE: Final = frozenset(("size", "level", "exclusive", "ragged", "preferred"))
_NEW_OF_SET: Final = tuple(f.name for f in fields(SetAsk) if f.name not in _KNOWN_OF_SET)
_NEW_OF_SLICE: Final = tuple(f.name for f in fields(Slice) if f.name not in _KNOWN_OF_SLICE)


@dataclass(frozen=True, slots=True)
class Look:
    """Every pool's answer, by its number in the fleet.

    Attributes:
        may_fit: false only if `fit_ask` refuses.
        exact: true also means that `fit_ask` fits.
        found: by pod set, how many of its pods each pool could hold, and of how many.
    """

    may_fit: Flags
    exact: bool
    found: tuple[tuple[Ints, int], ...]

    @property
    def held(self) -> Shares:
        """Which part of the pods each pool could hold, of the set that is worst off; 1 also where it is not known."""
        held = np.ones(len(self.may_fit))
        for pods, of in self.found:
            np.minimum(held, pods / of, out=held)
        return held


@dataclass(frozen=True, slots=True)
class _View:
    """A flavor of a table: how its hosts are told apart, and the rows of its classes."""

    flavor: FlavorName
    frame: Frame
    rows: tuple[int, ...]


@dataclass(slots=True)
class _Pool:
    number: int
    shape: Shape
    views: tuple[_View, ...]
    parts: dict[tuple[int, FlavorName], tuple[Sums, Part]] = field(default_factory=dict)


@dataclass(slots=True)
class _Flavor:
    classes: Classes = field(default_factory=Classes)
    frames: dict[tuple[tuple[int, ...], tuple[int, ...]], Frame] = field(default_factory=dict)
    sheets: dict[tuple[int, int, int, bool], Sums] = field(default_factory=dict)
    members: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by number of pool, the rows of its classes
    pairs: tuple[Ints, Ints] | None = None  # numbers of pools, and rows of their classes

    def paired(self) -> tuple[Ints, Ints]:
        """`members` as columns."""
        if self.pairs is None:
            flat = [(number, row) for number, rows in self.members.items() for row in rows]
            numbers, rows = np.array(flat, np.int64).reshape(-1, 2).T
            self.pairs = numbers, rows
        return self.pairs


class Fleet:
    """The shapes of many pools; changed by `put`, `remove` and `follow` alone."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._pools: dict[PoolName, _Pool] = {}
        self._alive: Flags = np.zeros(0, np.bool_)  # by number
        self._unused: list[int] = []
        self._flavors: dict[FlavorName, _Flavor] = {}
        self._ladders: dict[Ladder, int] = {}
        self._depths: Ints = np.zeros(0, np.int64)  # levels of each
        self._meanings: dict[tuple[str, tuple[Slice, ...], bool, Spread | None, str], Meanings] = {}
        self._ladders_of: Ints = np.full((0, GROUPS_MAX), -1, np.int64)

    def __len__(self) -> int:
        return len(self._pools)

    def __contains__(self, name: PoolName) -> bool:
        return name in self._pools

    def number(self, name: PoolName) -> int:
        """Where the pool stands in a `Look`. Raises KeyError for a pool that is not here."""
        return self._pools[name].number

    # ---- changes ---------------------------------------------------------------------------------------------

    def follow(self, shapes: Mapping[PoolName, Shape]) -> None:
        """These pools with these shapes, and no others."""
        for name in [name for name in self._pools if name not in shapes]:
            self.remove(name)
        for name, shape in shapes.items():
            self.put(name, shape)

    def put(self, name: PoolName, shape: Shape) -> None:
        """A pool has this shape now."""
        pool = self._pools.get(name)
        if pool is None:
            self._enter(name, shape)
        elif pool.shape is not shape:
            same = pool.shape.table is shape.table and [g.rungs for g in pool.shape.groups] == [
                g.rungs for g in shape.groups
            ]
            if same:
                self._change(pool, shape)
            else:
                self.remove(name)
                self._enter(name, shape)

    def remove(self, name: PoolName) -> None:
        """A pool is gone."""
        pool = self._pools.pop(name, None)
        if pool is not None:
            for sums, part in pool.parts.values():
                sums.sheet.drop(part)
            for view in pool.views:
                self._member(view.flavor, pool.number, ())
            self._alive[pool.number] = False
            self._ladders_of[pool.number] = -1
            self._unused.append(pool.number)

    def _enter(self, name: PoolName, shape: Shape) -> None:
        if any(len(f.classes) > CLASSES_KEPT_MAX for f in self._flavors.values()):
            self._anew()
        if not self._unused:
            self._unused.append(len(self._alive))
            self._alive = np.append(self._alive, False)
            self._ladders_of = np.vstack((self._ladders_of, np.full((1, GROUPS_MAX), -1, np.int64)))
        pool = _Pool(self._unused.pop(), shape, self._views(shape.table))
        self._pools[name], self._alive[pool.number] = pool, True
        for view in pool.views:
            self._member(view.flavor, pool.number, view.rows)
        for g, group in enumerate(shape.groups):
            self._ladders_of[pool.number, g] = self._ladder(group.rungs)
            for view in pool.views:
                self._put_part(pool, g, view)

    def _member(self, name: FlavorName, number: int, rows: tuple[int, ...]) -> None:
        flavor = self._flavors[name]
        flavor.pairs = None
        if rows:
            flavor.members[number] = rows
        else:
            flavor.members.pop(number)

    def _ladder(self, rungs: Ladder) -> int:
        if rungs not in self._ladders:
            self._ladders[rungs] = len(self._ladders)
            self._depths = np.append(self._depths, rungs.depth)
            self._meanings.clear()
        return self._ladders[rungs]

    def _anew(self) -> None:
        """Everything entered again: classes and lists of levels that no pool has any more go."""
        shapes = {name: pool.shape for name, pool in self._pools.items()}
        self._clear()
        for name, shape in shapes.items():
            self._enter(name, shape)

    def _change(self, pool: _Pool, shape: Shape) -> None:
        before, pool.shape = pool.shape, shape
        for g, (old, new) in enumerate(zip(before.groups, shape.groups, strict=True)):
            if old.root is not new.root:
                for view in pool.views:
                    self._put_part(pool, g, view)

    def _views(self, table: Table) -> tuple[_View, ...]:
        gpus = tuple([cls.gpus for cls in table.classes])
        out: list[_View] = []
        for name in sorted({cls.flavor for cls in table.classes}):
            flavor = self._flavors.setdefault(name, _Flavor())
            mine = [i for i, cls in enumerate(table.classes) if cls.flavor == name]
            layer = tuple([mine.index(i) if i in mine else -1 for i in range(len(gpus))])
            if (layer, gpus) not in flavor.frames:
                layers = next(layers for layers in _LAYERS if layers >= len(mine))
                full = -(-max([gpus[i] for i in mine]) // 8) * 8
                flavor.frames[layer, gpus] = Frame(layer, gpus, layers, full)
            rows = tuple([flavor.classes.add(table.classes[i], table) for i in mine])
            out.append(_View(name, flavor.frames[layer, gpus], rows))
        return tuple(out)

    def _put_part(self, pool: _Pool, g: int, view: _View) -> None:
        """What a group holds of a flavor."""
        group, key = pool.shape.groups[g], (g, view.flavor)
        had = pool.parts.pop(key, None)
        if had is not None:
            sums, part = had
            moved = sums.sheet.change(part, group.root) if group.root.kids else None
            if moved is not None:
                pool.parts[key] = sums, moved
                return
            sums.sheet.drop(part)
        parents = parents_in(group.root, group.rungs.depth) if group.root.kids else []
        if any(view.frame.has(parent) for parent in parents):
            sums = self._sheet(view, group.rungs.depth, narrow=view.frame.is_narrow(parents))
            ladder = self._ladders[group.rungs]
            part = sums.sheet.add(pool.number, ladder, list(view.rows), group.root, group.rungs.depth, view.frame)
            pool.parts[key] = sums, part

    def _sheet(self, view: _View, levels: int, *, narrow: bool) -> Sums:
        depth = next(depth for depth in _DEPTHS if depth >= levels)
        key = (depth, view.frame.layers, view.frame.full, narrow)
        sheets = self._flavors[view.flavor].sheets
        if key not in sheets:
            sheets[key] = Sums(Sheet(depth, view.frame.layers, view.frame.full, narrow=narrow))
        return sheets[key]

    # ---- questions -------------------------------------------------------------------------------------------

    def plain(self, request: GangRequest, flavors: tuple[FlavorName, ...]) -> GangRequest:
        """The gang with pods that ask for accelerators alone, where what else they ask for is within their share of
        every host that the fleet has of their flavor: then every shape here answers both alike (see `classes`), so
        gangs that differ in nothing else are one question."""
        sets: list[SetRequest] = []
        for s, name in zip(request.sets, flavors, strict=True):
            flavor = self._flavors.get(name)
            accelerators = flavor.classes.accelerators(s.resources) if flavor is not None else None
            if accelerators is None:
                return request
            sets.append(replace(s, resources=accelerators))
        return replace(request, sets=tuple(sets))

    def look(self, ask: Ask) -> Look:
        """Ask every pool."""
        return self._looked(ask, None)

    def rank(self, ask: Ask) -> Ranked:
        """Ask every pool, and how good its place can be."""
        bounds = lows(len(self._alive), max([rungs.depth for rungs in self._ladders], default=1))
        bounds.certain = len(ask.sets) == 1 and not ask.softer and _is_plain(ask.sets[0])
        look = self._looked(ask, bounds)
        return Ranked(look.may_fit, look.exact, bounds)

    def _looked(self, ask: Ask, bounds: Lows | None) -> Look:
        may_fit, held = self._alive.copy(), list[tuple[Ints, int]]()
        exact = len(ask.sets) < 2
        for s in _softest(ask).sets:
            if not _understood(s):
                exact = False
                continue
            found, unsure = self._most(s, bounds)
            whole = s.ragged or all(s.count % x.size == 0 for x in s.slices)
            fits = found >= (s.count if whole else _NEVER)
            if s.preferred:
                fits &= self._knows(s.preferred)
            if unsure is not None:
                fits, found = fits | unsure, np.where(unsure, s.count, found)
            may_fit &= fits
            held.append((found, s.count))
            exact = exact and unsure is None and not s.ragged and not s.same
        return Look(may_fit, exact, tuple(held))

    def _most(self, s: SetAsk, bounds: Lows | None) -> tuple[Ints, Flags | None]:
        """The most pods of the set that one required domain, or everything, could hold; where that is not known."""
        found = np.zeros(len(self._alive) + 1, np.int64)  # the last for parts that are gone
        unsure: Flags | None = None
        flavor = self._flavors.get(s.flavor)
        if flavor is None:
            return found[:-1], None
        sight, means = flavor.classes.sight(s), self._meaning(s)
        gather = np.maximum if s.required else np.add
        if bounds is not None:
            bounds.begin()
        for sums in flavor.sheets.values():
            for how, mine in sums.asked(means):
                most = sums.most(sight, how) if bounds is None else self._bounded(s, sums, sight, how, mine, bounds)
                if most is None:
                    unsure = np.zeros(len(found), np.bool_) if unsure is None else unsure
                    unsure[mine] = True
                else:
                    gather.at(found, mine, most.astype(np.int64))  # which is quick only if nothing is cast
        if bounds is not None:
            bounds.end()
        return found[:-1], None if unsure is None else unsure[:-1]

    def _bounded(self, s: SetAsk, sums: Sums, sight: Sight, how: Rounding, mine: Ints, bounds: Lows) -> Cells | None:
        """As `Sums.most`, with what follows for ranks."""
        peaks = sums.peaks(sight, how)
        if peaks is None:
            bounds.unknown(mine)
            return None
        bounds.add(mine, self._depths[sums.sheet.ladder.now], peaks, s.count)
        if how.exclusive < 1 and not s.ragged and (peaks[0] >= s.count).any():
            np.minimum.at(bounds.small, mine, sums.tight(sight, how, s.count))
        return peaks[how.required if how.required >= 0 else -1]

    def _meaning(self, s: SetAsk) -> Meanings:
        """What the levels that the set names are in each list of levels."""
        key = (s.required, s.slices, s.ragged, s.spread, s.balanced)
        found = self._meanings.get(key)
        if found is None:
            if len(self._meanings) >= _MEANINGS_KEPT_MAX:
                self._meanings.clear()
            numbers: dict[Rounding | None, int] = {None: 0}
            each = [numbers.setdefault(_rounding(s, rungs), len(numbers)) for rungs in self._ladders]
            roundings = tuple(rounding for rounding in numbers if rounding is not None)
            found = self._meanings[key] = Meanings(roundings, np.array(each, np.int64))
        return found

    def near(self, ask: Ask, look: Look) -> Shares:
        """How near each pool is to holding the gang, for comparing: in the order of `NoFit.nearness`.

        1 and what is held, for pools that lack room alone; below 1, the less the earlier their hosts are ruled out.
        """
        near = look.held + 1.0
        for s in _softest(ask).sets:
            stage = np.zeros(len(self._alive), np.int64)
            flavor = self._flavors.get(s.flavor)
            if flavor is not None:
                numbers, rows = flavor.paired()
                np.maximum.at(stage, numbers, flavor.classes.stages(s)[rows])
            named = (s.required, s.preferred, s.balanced, s.spread.level if s.spread else "")
            levels = {level for level in (*named, *[x.level for x in s.slices]) if level}
            known = np.logical_and.reduce([self._knows(level) for level in levels] or [look.may_fit | True])
            never = np.where(known, stage / (PASSED + 1), np.where(stage > 0, 1.0 / (PASSED + 2), 0.0))
            near = np.where(known & (stage == PASSED), near, np.minimum(near, never))
        return near

    def _knows(self, level: str) -> Flags:
        """Which pools have a group with this level."""
        known = np.array([rungs.find(level) is not None for rungs in self._ladders] + [False], np.bool_)
        return np.asarray(known[self._ladders_of].any(axis=1))


def _rounding(s: SetAsk, rungs: Ladder) -> Rounding | None:
    """None if the list lacks one of the levels. As `layered`, counted from below."""
    find, hosts = rungs.find, rungs.depth
    depth = find(s.required) if s.required else hosts + 1
    named = [level for level in (s.balanced, s.spread.level if s.spread else "") if level]
    layers = [(find(x.level), x) for x in s.slices]
    if depth is None or any(at is None for at, _ in layers) or any(find(level) is None for level in named):
        return None
    floors, host, exclusive = [0] * (hosts + 1), 1, -1
    for at, x in layers if not s.ragged else ():
        level = hosts - (at or 0)
        floors[level] = max(floors[level], x.size)
        if x.exclusive:
            exclusive = max(exclusive, level)
    host = max(1, floors[0])
    while floors and not floors[-1]:
        floors.pop()
    over = find(s.spread.level) if s.spread else None
    if over is None or s.spread is None:
        return Rounding(hosts - depth, tuple(floors[1:]), host, exclusive)
    step = max([host, *floors[: hosts - over]]) if over < hosts else 1
    each = s.spread.max_pods // step * step
    return Rounding(hosts - depth, tuple(floors[1:]), host, exclusive, hosts - over, each)


def _is_plain(s: SetAsk) -> bool:
    """Whether what all of a pool holds of the set is what its places are compared by."""
    return _understood(s) and not s.same


def _softest(ask: Ask) -> Ask:
    """The gang without its preferred slices: if it does not fit so, it does not fit at all."""
    return ask.softer[-1] if ask.softer else ask


def _understood(s: SetAsk) -> bool:
    """Whether the set asks for nothing that came into requests after this module was written."""
    return not any(getattr(s, name) for name in _NEW_OF_SET) and not any(
        getattr(x, name) for x in s.slices for name in _NEW_OF_SLICE
    )
