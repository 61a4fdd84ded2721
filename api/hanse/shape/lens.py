"""What one pod set sees of a shape: capacity in pods per host, and how levels round it.

Preparing a request (see `ask`) and projecting a class table (`Table.lens`) happen once per kind of pod, not once per
decision: a lens is interned, and every tree node remembers its capacity under the lenses it was last seen through.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from hanse.model.placement import Level
from hanse.model.reasons import Reason
from hanse.model.resources import CPU, MEMORY
from hanse.model.selectors import untolerated
from hanse.shape.ask import SetAsk
from hanse.shape.classes import Answer, HostClass, label_hash
from hanse.shape.levels import CLASS_STRIDE, Ints, bin_number
from hanse.shape.limits import HOST_ALIAS, HOST_KEY

_LENSES_KEPT_MAX: Final = 20_000
_ROWS_KEPT_MAX: Final = 20_000


class Ladder:
    """The levels of one group, coarse to fine; the host comes below them, implicitly."""

    __slots__ = ("_depths", "aliases", "depth", "levels")

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self.levels = levels
        self.depth = max(1, len(levels))  # a pool without levels is one unnamed domain
        self.aliases = (*[level.alias for level in levels], HOST_ALIAS) if levels else ("pool", HOST_ALIAS)
        self._depths = {level.alias: i for i, level in reversed(list(enumerate(levels)))}
        self._depths |= {level.key: i for i, level in enumerate(levels)}
        self._depths.setdefault(HOST_ALIAS, self.depth)
        self._depths.setdefault(HOST_KEY, self.depth)

    def find(self, level: str) -> int | None:
        """The depth of a level by key, then by alias: 0 for the coarsest, `depth` for the host."""
        return self._depths.get(level)


@lru_cache(maxsize=4_096)
def ladder(levels: tuple[Level, ...]) -> Ladder:
    """The one ladder with these levels."""
    return Ladder(levels)


@dataclass(frozen=True, slots=True, eq=False)
class Lens:
    """Capacity of one pod set on one class table and one ladder; compared by identity.

    Attributes:
        rows: pods per host by class and free GPUs, host slices already rounded down; () for no use at all.
        full: GPUs of a wholly free host by class.
        floors: by depth, the slice size that the fit of a domain is rounded down to, 0 for none.
        steps: by depth, the host last, what the pods of one such place come in multiples of.
        exclusive: depth at which only wholly free domains count, -1 for none.
        certain: a yes is a yes; else a selector or a resource was answered by an upper bound.
        caps: by depth, the most pods that one domain may be given, 0 for any number; () for none at all.
        ragged: the layers of a set whose last slice is smaller; such a lens itself counts as if there were none.
        rich: by class, its rank by what a host offers for each GPU; () if hosts are counted one by one.
        rounds: some domain may hold less than its parts.
    """

    rows: tuple[tuple[int, ...], ...]
    full: tuple[int, ...]
    floors: tuple[int, ...]
    steps: tuple[int, ...]
    exclusive: int
    certain: bool
    caps: tuple[int, ...] = ()
    ragged: "Layers | None" = None
    rich: tuple[int, ...] = ()
    bins: "BinTables" = field(init=False, repr=False)
    rounds: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", any(self.floors) or self.exclusive >= 0 or bool(self.caps))
        object.__setattr__(self, "bins", bin_tables(self.rows, self.full))


class BinTables(NamedTuple):
    """What a lens sees in a bin, by the number of the bin (see `bin_number`); nothing in number -1.

    Attributes:
        pods: that one host holds.
        free: GPUs of one host, where the set may use it.
        whole: 1 for a host with GPUs, all of them free.
        broken: 1 for a host with GPUs that are not all free.
    """

    pods: Ints
    free: Ints
    whole: Ints
    broken: Ints


@lru_cache(maxsize=1_024)
def bin_tables(rows: tuple[tuple[int, ...], ...], full: tuple[int, ...]) -> BinTables:
    """The tables for these rows."""
    out = np.zeros((4, len(full) * CLASS_STRIDE + 1), dtype=np.int64)
    for c, (row, gpus) in enumerate(zip(rows, full, strict=False)):
        first = bin_number(c, 0)
        if row:
            out[0, first : first + gpus + 1] = row
            out[1, first : first + gpus + 1] = range(gpus + 1)
        out[2, first + gpus] = gpus > 0
        out[3, first : first + gpus] = 1
    return BinTables(*out)


_lenses: dict[tuple[object, ...], Lens] = {}


def _lens(
    rows: tuple[tuple[int, ...], ...],
    full: tuple[int, ...],
    layers: "Layers",
    *,
    certain: bool,
    ragged: "Layers | None",
    rich: tuple[int, ...],
) -> Lens:
    key = (rows, full, layers, certain, ragged, rich)
    found = _lenses.get(key)
    if found is None:
        if len(_lenses) >= _LENSES_KEPT_MAX:
            _lenses.clear()
        found = _lenses[key] = layers.lens(rows, full, certain=certain, ragged=ragged, rich=rich)
    return found


@dataclass(frozen=True, slots=True)
class Layers:
    """The slice layers of a set on one ladder.

    Attributes:
        floors: see Lens.
        host: pods on one host come in multiples of this.
        exclusive: the coarsest depth with an exclusive layer (the ladder's depth for the host), -1 for none.
        caps: by depth, the host last, the most pods of one such place, 0 for any number; () for none at all.
    """

    floors: tuple[int, ...]
    host: int
    exclusive: int
    caps: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """See Lens."""
        out = [self.host]
        for size in reversed(self.floors):
            out.append(max(size, out[-1]))
        return tuple(reversed(out))

    def on_host(self, most: int, *, whole: bool) -> int:
        """What a host counts that could hold `most` pods; `whole` if all its GPUs are free."""
        if self.exclusive == len(self.floors) and not whole:
            return 0
        return self.capped(most, len(self.floors)) // self.host * self.host

    def capped(self, pods: int, depth: int) -> int:
        """At most so many pods as one place of the depth may be given."""
        most = self.caps[depth] if self.caps else 0
        return min(pods, most) if most else pods

    def lens(
        self,
        rows: tuple[tuple[int, ...], ...],
        full: tuple[int, ...],
        *,
        certain: bool,
        ragged: "Layers | None" = None,
        rich: tuple[int, ...] = (),
    ) -> Lens:
        """The lens of these layers over rows that are rounded by them."""
        exclusive = self.exclusive if self.exclusive < len(self.floors) else -1
        caps = self.caps[:-1] if any(self.caps[:-1]) else ()
        return Lens(rows, full, self.floors, self.steps, exclusive, certain, caps, ragged, rich)

    @property
    def bare(self) -> "Layers":
        """The same without any slice."""
        return Layers((0,) * len(self.floors), 1, -1, self.caps)


def layered(ask: SetAsk, rungs: Ladder) -> "Layers | Refused":
    """The layers of a set by depth; refused if the ladder lacks one of their levels."""
    floors = [0] * rungs.depth
    host, exclusive = 1, -1
    caps: tuple[int, ...] = ()
    if ask.spread is not None:
        over = rungs.find(ask.spread.level)
        if over is None:
            return Refused(Reason.LEVEL_UNKNOWN, f"no level {ask.spread.level!r}")
        caps = tuple(ask.spread.max_pods if depth == over else 0 for depth in range(rungs.depth + 1))
    if ask.balanced and rungs.find(ask.balanced) is None:
        return Refused(Reason.LEVEL_UNKNOWN, f"no level {ask.balanced!r}")
    for s in ask.slices:
        at = rungs.find(s.level)
        if at is None:
            return Refused(Reason.LEVEL_UNKNOWN, f"no level {s.level!r}")
        if at < rungs.depth:
            floors[at] = max(floors[at], s.size)
        else:
            host = max(host, s.size)
        if s.exclusive and (exclusive < 0 or at < exclusive):
            exclusive = at
    return Layers(tuple(floors), host, exclusive, caps)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Pods per host by class and free GPUs for one kind of pod, and whether that is certain."""

    rows: tuple[tuple[int, ...], ...]
    certain: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """Why no host of a table can ever take one pod of a set."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The host classes of a pool.

    Attributes:
        left_out: hashes of label keys that some host has and that no class carries.
        open_ended: more keys were left out than `left_out` names.
    """

    classes: tuple[HostClass, ...]
    left_out: frozenset[int] = frozenset()
    open_ended: bool = False
    _rows: dict[int, Rows | Refused] = field(default_factory=dict, repr=False)
    _lenses: dict[tuple[int, Ladder], Lens | Refused] = field(default_factory=dict, repr=False)
    _offers: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list, repr=False)

    def lens(self, ask: SetAsk, rungs: Ladder) -> Lens | Refused:
        """How the set sees hosts of this table in a tree with these levels."""
        key = (ask.lens_kind, rungs)
        found = self._lenses.get(key)
        if found is None:
            if len(self._lenses) >= _LENSES_KEPT_MAX:
                self._lenses.clear()
            found = self._lenses[key] = self._project(ask, rungs)
        return found

    def rows(self, ask: SetAsk) -> Rows | Refused:
        """Pods of the set per host, by class and free GPUs."""
        found = self._rows.get(ask.kind)
        if found is None:
            if len(self._rows) >= _ROWS_KEPT_MAX:
                self._rows.clear()
            found = self._rows[ask.kind] = self._count(ask)
        return found

    def _count(self, ask: SetAsk) -> Rows | Refused:
        rows: list[tuple[int, ...]] = []
        certain = True
        worst = Reason.FLAVOR
        for cls in self.classes:
            why, row, sure = self._row(cls, ask)
            worst = max(worst, why, key=_HOW_FAR.index)
            rows.append(row)
            certain = certain and sure
        if worst is not Reason.UNSPECIFIED:
            return Refused(worst, _refusal(worst, ask))
        return Rows(tuple(rows), certain)

    def _row(self, cls: HostClass, ask: SetAsk) -> tuple[Reason, tuple[int, ...], bool]:
        if cls.flavor != ask.flavor:
            return Reason.FLAVOR, (), True
        match = cls.selected(ask.selector, self.left_out, open_ended=self.open_ended)
        if ask.pins:
            match = min(match, self.pinned(cls, ask))
        if match is Answer.NO:
            return Reason.SELECTOR, (), True
        if untolerated(cls.taints, ask.tolerations) is not None:
            return Reason.TAINT, (), True
        row, exact = cls.room(ask.pod)
        if not any(row):
            return Reason.RESOURCES, (), True
        return Reason.UNSPECIFIED, row, match is Answer.YES and ask.devices is None and exact

    def is_exact(self, ask: SetAsk) -> bool:
        """Whether a shape says all there is to say about a set, whatever the value of a label it is pinned to."""
        rows = self.rows(ask)
        return isinstance(rows, Refused) or rows.certain

    def hides(self, key: int, labels: Mapping[int, int]) -> bool:
        """Whether hosts of a class with these labels may have a label (by its hash) that the class does not carry."""
        return key in self.left_out or (self.open_ended and key not in labels)

    def pinned(self, cls: HostClass, ask: SetAsk) -> Answer:
        """Whether hosts of the class have the values that the set is pinned to."""
        labels = dict(cls.labels)
        worst = Answer.YES
        for key, value in ask.pins:
            number = label_hash(key)
            if self.hides(number, labels):
                worst = min(worst, Answer.MAYBE)
            elif labels.get(number) != value:
                return Answer.NO
        return worst

    def _offered(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """By class, the GPUs of a host, and how rich it is beside them."""
        if not self._offers:
            self._offers.append((tuple([cls.gpus for cls in self.classes]), _richness(self.classes)))
        return self._offers[0]

    def _project(self, ask: SetAsk, rungs: Ladder) -> Lens | Refused:
        counted = self.rows(ask)
        if isinstance(counted, Refused):
            return counted
        layers = layered(ask, rungs)
        if isinstance(layers, Refused):
            return layers
        seen = layers.bare if ask.ragged else layers
        ragged = layers if ask.ragged else None
        full, rich = self._offered()
        rows = _host_rows(counted.rows, seen)
        return _lens(rows, full, seen, certain=counted.certain, ragged=ragged, rich=rich)


def _richness(classes: tuple[HostClass, ...]) -> tuple[int, ...]:
    """By class, its rank by the CPU, then memory, that hosts offer for each GPU; those without GPUs come first."""
    offers = [(c.others[CPU] // c.gpus, c.others[MEMORY] // c.gpus) if c.gpus else (0, 0) for c in classes]
    ordered = sorted(set(offers))
    return tuple([ordered.index(offered) for offered in offers])


# How far a class came before it was refused: the set is told the reason of the class that came furthest.
_HOW_FAR: Final = (Reason.FLAVOR, Reason.SELECTOR, Reason.TAINT, Reason.RESOURCES, Reason.UNSPECIFIED)


def _refusal(reason: Reason, ask: SetAsk) -> str:
    match reason:
        case Reason.FLAVOR:
            return f"no host of flavor {ask.flavor}"
        case Reason.SELECTOR:
            return f"no host of flavor {ask.flavor} has the labels {', '.join(ask.selector.keys)} as selected"
        case Reason.TAINT:
            return f"every host of flavor {ask.flavor} that matches carries a taint that is not tolerated"
        case _:
            return f"no host of flavor {ask.flavor} holds one pod even when it is empty"


@lru_cache(maxsize=4_096)
def _host_rows(rows: tuple[tuple[int, ...], ...], layers: "Layers") -> tuple[tuple[int, ...], ...]:
    return tuple([_host_row(row, layers) for row in rows])


def _host_row(row: tuple[int, ...], layers: "Layers") -> tuple[int, ...]:
    last = len(row) - 1
    return tuple(layers.on_host(most, whole=free == last) for free, most in enumerate(row))
