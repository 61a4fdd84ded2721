"""Host classes of one flavor over a whole fleet, as columns: which of them a pod set may use, and how densely.

Pools differ in their class tables, but hardware repeats and so do labels: equal classes of different pools are one
row here, and equal hardware (`_Hardware`) is one row below that. A pod's resources are compared with hardware, its
tolerations with the few lists of taints, its selector with one column of label values per label key. What comes out
is the number of a `Density` per class; the answers are those of `HostClass`, computed for all at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import le
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hanse.model.resources import DEVICE_MILLI, GPU_MILLI, Resources
from hanse.model.selectors import Operator, Requirement, Selector, Taint, untolerated
from hanse.shape.ask import SetAsk
from hanse.shape.classes import HostClass, at_most, label_hash, offer, whole_pod
from hanse.shape.lens import Table
from hanse.shape.limits import AMOUNT_MAX, GPUS_PER_HOST_MAX

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

FREE: Final = GPUS_PER_HOST_MAX + 1  # a bound on pods of a host that never binds
_KEYS_KEPT_MAX: Final = 256  # label keys whose values are kept as columns
_COMPARED_MAX: Final = 4  # values of a label that are compared one by one
_ABSENT: Final = -1
_UNTOLD: Final = -2  # the shape does not say whether hosts of the class carry the label
PASSED: Final = 4
_NO_GPUS: Final = AMOUNT_MAX
_OFFERS_KEPT_MAX: Final = 1_024
_SIGHTS_KEPT_MAX: Final = 1_024
_CODE: Final = 2**32  # more than the pods of any gang


class Density(NamedTuple):
    """Pods per host by free GPUs: ``min(free // gpus, most)``, or `most` for pods without GPUs."""

    gpus: int
    most: int

    def row(self, full: int) -> list[int]:
        """For 0..full free GPUs."""
        if not self.gpus:
            return [self.most] * (full + 1)
        return [min(free // self.gpus, self.most) for free in range(full + 1)]


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """How a pod set sees the classes; the same object for equal views of as many classes.

    Attributes:
        densities: what `density` counts from 1; 0 stands for classes that cannot take one pod.
        density, full: by class, with one more for "no class" at the end; `full` are the GPUs of a host.
    """

    densities: tuple[Density, ...]
    density: Ints
    full: Ints


class _Hardware(NamedTuple):
    """What a class offers, whatever its labels."""

    gpu: str
    gpus: int
    others: Resources
    taints: tuple[Taint, ...]


class _Known(NamedTuple):
    """Hardware as columns: GPUs, and whether they have this name; its list of taints, by number."""

    full: Ints
    gpu: dict[str, Ints]
    taints: list[tuple[Taint, ...]]
    taint: Ints


class _Offers(NamedTuple):
    """Some resources of hardware, to pods that take some GPUs of it. Its own GPUs bind nobody here.

    Attributes:
        share: [resource, hardware] an exact pod's share.
        most: [resource, hardware] the most there is.
        full: by hardware, pods on a host that is free; _NO_GPUS for pods without GPUs, 0 if they take too many.
        code: by hardware, the GPUs of a pod in the code of its density.
        shared: by hardware, the density of pods that stay within every share.
        least: by resource, the smallest share.
    """

    share: Ints
    most: Ints
    full: Ints
    code: Ints
    shared: Ints
    least: tuple[int, ...]


class Classes:
    """The classes of one flavor. Rows are only added; the fleet starts anew when too many are out of use."""

    def __init__(self) -> None:
        self._rows: dict[tuple[HostClass, frozenset[int], bool], int] = {}
        self._classes: list[tuple[HostClass, Table]] = []
        self._of: Ints = np.zeros(0, np.int64)  # hardware of each class
        self._full: Ints = np.zeros(1, np.int64)  # GPUs of each class, and 0 for none
        self._labels: dict[int, Ints] = {}  # by hash of key: hash of the value each class has, _ABSENT, _UNTOLD
        self._hardware: dict[_Hardware, int] = {}
        self._known = _columns(self._hardware)
        self._offers: dict[tuple[tuple[str, ...], tuple[int, ...]], _Offers] = {}
        self._sights: dict[tuple[object, ...], Sight] = {}
        self._chosen: dict[Selector, Flags] = {}

    def __len__(self) -> int:
        return len(self._classes)

    def add(self, cls: HostClass, table: Table) -> int:
        """The row of a class as this table tells it."""
        key = (cls, table.left_out, table.open_ended)
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = len(self._classes)
            self._classes.append((cls, table))
            self._sights.clear()
            self._chosen.clear()
            self._of = np.append(self._of, self._ware(cls))
            self._full = np.append(self._full, 0)
            self._full[found] = cls.gpus
            told = {label: _told(label, cls, table) for label in self._labels}
            self._labels = {label: np.append(column, told[label]) for label, column in self._labels.items()}
        return found

    def _ware(self, cls: HostClass) -> int:
        ware = _Hardware(cls.gpu, cls.gpus, cls.others, cls.taints)
        if ware not in self._hardware:
            self._hardware[ware] = len(self._hardware)
            self._known = _columns(self._hardware)
            self._offers.clear()
        return self._hardware[ware]

    def sight(self, s: SetAsk) -> Sight:
        """How the set sees every class."""
        codes = self._codes(s)
        key = (codes.tobytes(), s.selector, s.tolerations)
        found = self._sights.get(key)
        if found is None:
            if len(self._sights) >= _SIGHTS_KEPT_MAX:
                self._sights.clear()
            self._chosen.clear()
            found = self._sights[key] = self._seen(s, codes)
        return found

    def _seen(self, s: SetAsk, codes: Ints) -> Sight:
        different = sorted({0, *codes.tolist()})
        numbers = np.searchsorted(different, codes)
        if any(self._known.taints):
            numbers = np.where(self._tolerated(s), numbers, 0)
        density = numbers[self._of]
        if s.selector.terms:
            density = np.where(self._selected(s.selector), density, 0)
        densities = tuple([Density(*divmod(code, _CODE)) for code in different[1:]])
        return Sight(densities, np.append(density, 0), self._full)

    def accelerators(self, resources: Resources) -> Resources | None:
        """What pods ask for of the accelerators alone, if they stay within their share of every class that has some;
        None if one of them tells them apart by more than that, or if they ask for none."""
        pod, known = whole_pod(resources), self._known.gpu
        offers = self._offer(tuple(pod), tuple([pod[name] for name in known]))
        if GPU_MILLI in pod or not all(map(le, pod.values(), offers.least)):
            return None
        return Resources([(name, pod[name]) for name in known])

    def stages(self, s: SetAsk) -> Ints:
        """By class, how far it comes: 1 its labels are refused, 2 taints, 3 resources, PASSED none of these."""
        reached = np.where(self._tolerated(s), np.where(self._codes(s) > 0, PASSED, 3), 2)[self._of]
        return np.where(self._selected(s.selector), reached, 1) if s.selector.terms else reached

    # ---- resources and taints --------------------------------------------------------------------------------

    def _codes(self, s: SetAsk) -> Ints:
        """By hardware, `HostClass.pods_per_host` for all of it: its density as a number, 0 for no pod at all."""
        names = tuple(s.pod)
        offers = self._offer(names, tuple([s.pod[name] for name in self._known.gpu]))
        asked = tuple(s.pod.values())
        if all(map(le, asked, offers.least)):
            return offers.shared
        amounts = np.array(asked, np.int64)[:, np.newaxis]
        pods = offers.most // amounts
        if GPU_MILLI in s.pod:  # see `most_pods` of `classes`
            at = names.index(GPU_MILLI)
            pods[at] = offers.most[at] // DEVICE_MILLI * (DEVICE_MILLI // s.pod[GPU_MILLI])
        rest = np.minimum(pods.min(axis=0), max(s.count, FREE))
        exact = (offers.share >= amounts).all(axis=0) | (rest >= offers.full)
        code = np.where(rest < 1, 0, offers.code + np.where(exact & (offers.full > 0), FREE, rest))
        return np.where(offers.full == 0, 0, code)

    def _offer(self, names: tuple[str, ...], asked: tuple[int, ...]) -> "_Offers":
        """Of these resources, to pods that ask for so many GPUs of each name."""
        found = self._offers.get((names, asked))
        if found is None:
            if len(self._offers) >= _OFFERS_KEPT_MAX:
                self._offers.clear()
            gpus = [dict(zip(self._known.gpu, asked, strict=True)).get(w.gpu, 0) for w in self._hardware]
            found = self._offers[names, asked] = _offers(list(self._hardware), names, gpus)
        return found

    def _tolerated(self, s: SetAsk) -> Flags:
        passed = [untolerated(taints, s.tolerations) is None for taints in self._known.taints]
        return np.array(passed, np.bool_)[self._known.taint]

    # ---- selectors -------------------------------------------------------------------------------------------

    def _selected(self, selector: Selector) -> Flags:
        """Classes of which some hosts may match."""
        found = self._chosen.get(selector)
        if found is None:
            if len(self._chosen) >= _SIGHTS_KEPT_MAX:
                self._chosen.clear()
            terms = [np.logical_and.reduce([self._meets(req) for req in term]) for term in selector.terms if term]
            found = np.logical_or.reduce(terms) if terms else np.zeros(len(self._classes), np.bool_)
            self._chosen[selector] = found
        return found

    def _meets(self, req: Requirement) -> Flags:
        values = self._values(label_hash(req.key))
        untold: Flags = values == _UNTOLD
        absent: Flags = values == _ABSENT
        match req.operator:
            case Operator.IN:
                return untold | _among(values, req.values)
            case Operator.NOT_IN:
                return untold | ~_among(values, req.values)
            case Operator.EXISTS | Operator.GT | Operator.LT | Operator.VERSION_AT_LEAST:
                return ~absent
            case Operator.DOES_NOT_EXIST:
                return untold | absent
            case Operator.UNSPECIFIED:
                return untold

    def _values(self, label: int) -> Ints:
        found = self._labels.get(label)
        if found is None:
            if len(self._labels) >= _KEYS_KEPT_MAX:
                self._labels.clear()
            told = [_told(label, cls, table) for cls, table in self._classes]
            found = self._labels[label] = np.array(told, np.int64)
        return found


def _columns(hardware: Iterable[_Hardware]) -> _Known:
    wares = list(hardware)
    taints = list(dict.fromkeys(w.taints for w in wares))
    return _Known(
        np.array([w.gpus for w in wares], np.int64),
        {name: np.array([w.gpu == name for w in wares], np.int64) for name in {w.gpu for w in wares if w.gpu}},
        taints,
        np.array([taints.index(w.taints) for w in wares], np.int64),
    )


def _offers(wares: Sequence[_Hardware], names: Sequence[str], gpus: Sequence[int]) -> _Offers:
    pairs = list(zip(wares, gpus, strict=True))
    share = [
        [AMOUNT_MAX if w.gpu == n else offer(n, w.others[n]) * min(g, w.gpus) // max(w.gpus, 1) for w, g in pairs]
        for n in names
    ]
    most = [[AMOUNT_MAX if w.gpu == n else at_most(n, w.others[n]) for w in wares] for n in names]
    full = [w.gpus // g if g else _NO_GPUS for w, g in pairs]
    shares, offered, free, code = [
        np.array(column, np.int64) for column in (share, most, full, [g * _CODE for g in gpus])
    ]
    least = tuple([min(row, default=0) for row in share])
    return _Offers(shares, offered, free, code, np.where(free > 0, code + FREE, 0), least)


def _told(label: int, cls: HostClass, table: Table) -> int:
    value = next((value for key, value in cls.labels if key == label), None)
    if label in table.left_out or (table.open_ended and value is None):
        return _UNTOLD
    return _ABSENT if value is None else value


def _among(values: Ints, wanted: Sequence[str]) -> Flags:
    hashes = [label_hash(value) for value in wanted]
    if len(hashes) > _COMPARED_MAX:
        return np.isin(values, hashes)
    return np.asarray(np.logical_or.reduce([values == value for value in hashes]))
