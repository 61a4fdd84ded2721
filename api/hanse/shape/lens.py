"""What one pod set sees of a shape: capacity in pods per host, and how levels round it.

Preparing a request (`prepare`) and projecting a class table (`Table.lens`) happen once per kind of pod, not once per
decision: a lens is interned, and every tree node remembers its capacity under the lenses it was last seen through.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from hanse.model.ids import FlavorName
from hanse.model.job import Slice
from hanse.model.placement import Level
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Selector, Toleration, untolerated
from hanse.shape.classes import Answer, HostClass, whole_pod
from hanse.shape.domains import CLASS_STRIDE, Ints, bin_number
from hanse.shape.limits import HOST_ALIAS, HOST_KEY

_LENSES_KEPT_MAX: Final = 20_000
_KINDS_KEPT_MAX: Final = 20_000


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
    """

    rows: tuple[tuple[int, ...], ...]
    full: tuple[int, ...]
    floors: tuple[int, ...]
    steps: tuple[int, ...]
    exclusive: int
    certain: bool
    bins: "BinTables" = field(init=False, repr=False)

    def __post_init__(self) -> None:
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
) -> Lens:
    exclusive = layers.exclusive if layers.exclusive < len(layers.floors) else -1
    key = (rows, full, layers.floors, layers.host, exclusive, certain)
    found = _lenses.get(key)
    if found is None:
        if len(_lenses) >= _LENSES_KEPT_MAX:
            _lenses.clear()
        found = _lenses[key] = Lens(rows, full, layers.floors, layers.steps, exclusive, certain)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class SetAsk:
    """One pod set with its flavor, prepared.

    Attributes:
        gpus: of one pod.
        exclusive: some slice layer wants its domains for itself.
        kind: equal for sets whose pods are equal in everything but number and topology.
        lens_kind: equal for sets that look through the same lens.
    """

    count: int
    pod: Resources
    gpus: int
    exclusive: bool
    flavor: FlavorName
    selector: Selector
    tolerations: tuple[Toleration, ...]
    required: str
    preferred: str
    slices: tuple[Slice, ...]
    kind: int
    lens_kind: int


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A gang with one concrete flavor per set; sets without pods are left out.

    Attributes:
        index: for each of `sets`, its position in the request.
    """

    request: GangRequest
    sets: tuple[SetAsk, ...]
    index: tuple[int, ...]


_kinds: dict[object, int] = {}


def _kind(key: object) -> int:
    if len(_kinds) >= _KINDS_KEPT_MAX:
        _kinds.clear()
    return _kinds.setdefault(key, next(_numbers))


def _count_up() -> Callable[[], int]:
    at = 0

    def following() -> int:
        nonlocal at
        at += 1
        return at

    return following


_following = _count_up()
_numbers = iter(_following, 0)


def _set_ask(s: SetRequest, flavor: FlavorName) -> SetAsk:
    kind = _kind((s.resources, flavor, s.selector, s.tolerations))
    t = s.topology
    return SetAsk(
        s.count, whole_pod(s.resources), s.resources.gpus, any(x.exclusive for x in t.slices), flavor,
        s.selector, s.tolerations, t.required, t.preferred, t.slices, kind, _kind((kind, t.slices)),
    )  # fmt: skip


def with_slices(s: SetAsk, slices: tuple[Slice, ...]) -> SetAsk:
    """The set with other slice layers."""
    exclusive = any(x.exclusive for x in slices)
    return replace(s, slices=slices, exclusive=exclusive, lens_kind=_kind((s.kind, slices)))


@lru_cache(maxsize=16_384)
def prepare(request: GangRequest, flavors: tuple[FlavorName, ...]) -> Ask:
    """The request with a concrete flavor for each of its sets, ready for many shapes.

    Raises:
        ValueError: not one flavor per set.
    """
    if len(flavors) != len(request.sets):
        raise ValueError(f"{len(flavors)} flavors for {len(request.sets)} pod sets; give one for each")
    index = tuple(i for i, s in enumerate(request.sets) if s.count > 0)
    return Ask(request, tuple(_set_ask(request.sets[i], flavors[i]) for i in index), index)


@dataclass(frozen=True, slots=True)
class Layers:
    """The slice layers of a set on one ladder.

    Attributes:
        floors: see Lens.
        host: pods on one host come in multiples of this.
        exclusive: the coarsest depth with an exclusive layer (the ladder's depth for the host), -1 for none.
    """

    floors: tuple[int, ...]
    host: int
    exclusive: int

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
        return most // self.host * self.host


def layered(slices: tuple[Slice, ...], rungs: Ladder) -> "Layers | Refused":
    """The layers by depth; refused if the ladder lacks one of their levels."""
    floors = [0] * rungs.depth
    host, exclusive = 1, -1
    for s in slices:
        at = rungs.find(s.level)
        if at is None:
            return Refused(Reason.LEVEL_UNKNOWN, f"no level {s.level!r}")
        if at < rungs.depth:
            floors[at] = max(floors[at], s.size)
        else:
            host = max(host, s.size)
        if s.exclusive and (exclusive < 0 or at < exclusive):
            exclusive = at
    return Layers(tuple(floors), host, exclusive)


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
            if len(self._rows) >= _KINDS_KEPT_MAX:
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
        if match is Answer.NO:
            return Reason.SELECTOR, (), True
        if untolerated(cls.taints, ask.tolerations) is not None:
            return Reason.TAINT, (), True
        row = cls.pods_per_host(ask.pod)
        if not any(row):
            return Reason.RESOURCES, (), True
        return Reason.UNSPECIFIED, row, match is Answer.YES and cls.is_exact(ask.pod)

    def _project(self, ask: SetAsk, rungs: Ladder) -> Lens | Refused:
        counted = self.rows(ask)
        if isinstance(counted, Refused):
            return counted
        layers = layered(ask.slices, rungs)
        if isinstance(layers, Refused):
            return layers
        full = tuple(cls.gpus for cls in self.classes)
        rows = tuple(_host_row(row, layers) for row in counted.rows)
        return _lens(rows, full, layers, certain=counted.certain)


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


def _host_row(row: tuple[int, ...], layers: "Layers") -> tuple[int, ...]:
    last = len(row) - 1
    return tuple(layers.on_host(most, whole=free == last) for free, most in enumerate(row))
