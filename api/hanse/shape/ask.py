"""A request, prepared: one concrete flavor per pod set, and numbers that tell equal kinds of pods at a glance.

Preparing happens once per kind of request, and not once per pool or decision.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from hanse.model.ids import FlavorName
from hanse.model.job import Devices, Group, Slice, Spread
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Operator, Requirement, Selector, Toleration
from hanse.shape.classes import whole_pod

_KINDS_KEPT_MAX: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class SetAsk:
    """One pod set with its flavor, prepared.

    Attributes:
        gpus: of one pod.
        exclusive: some slice layer wants its domains for itself.
        ragged: the pods do not divide into slices of the first layer, and need not.
        same: labels of which all pods of the gang see one value; the selector asks for their presence.
        devices: what the GPUs of each pod share inside their host; no shape knows whether they can.
        group: the sets that share one domain with this one, None for none; never a group of this set alone.
        pins: (label, hash of its value) of the one value that is looked at, () for any.
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
    balanced: str
    spread: Spread | None
    ragged: bool
    same: tuple[str, ...]
    group: Group | None
    devices: Devices | None
    pins: tuple[tuple[str, int], ...]
    kind: int
    lens_kind: int


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A gang with one concrete flavor per set; sets without pods are left out.

    Attributes:
        index: for each of `sets`, its position in the request.
        softer: the same gang with one preferred slice layer less each time, for when it does not fit as asked.
    """

    request: GangRequest
    sets: tuple[SetAsk, ...]
    index: tuple[int, ...]
    softer: "tuple[Ask, ...]" = ()

    def without(self, dropped: int) -> "Ask":
        """The gang without so many preferred layers."""
        return self.softer[dropped - 1] if dropped else self


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
    t = s.topology
    selector = s.selector.and_(tuple([Requirement(key, Operator.EXISTS) for key in t.same])) if t.same else s.selector
    kind = _kind((s.resources, flavor, selector, s.tolerations, t.devices))
    exclusive, ragged, lens_kind = _sliced(t.slices, s.count, kind, t.spread, t.balanced)
    return SetAsk(
        s.count, whole_pod(s.resources), s.resources.gpus, exclusive, flavor, selector, s.tolerations, t.required,
        t.preferred, t.slices, t.balanced, t.spread, ragged, t.same, t.group, t.devices, (), kind, lens_kind,
    )  # fmt: skip


def _sliced(
    slices: tuple[Slice, ...], count: int, kind: int, spread: Spread | None, balanced: str
) -> tuple[bool, bool, int]:
    """What follows from a set's slices: see `exclusive`, `ragged` and `lens_kind` of SetAsk."""
    ragged = bool(slices) and slices[0].ragged and count % slices[0].size != 0
    sizes = tuple([(x.size, x.level, x.exclusive) for x in slices])
    return any(x.exclusive for x in slices), ragged, _kind((kind, sizes, spread, balanced, ragged))


def layers_told(ask: Ask, dropped: int) -> str:
    """`kept slices of 4 per host, gave up slices of 16 per rack`; "" for a gang without preferred layers."""
    if not ask.softer:
        return ""
    kept = [x for s in ask.without(dropped).sets for x in s.slices]
    left = [(x.size, x.level) for x in kept]
    gone: list[Slice] = []
    for x in [x for s in ask.sets for x in s.slices]:
        if (x.size, x.level) in left:
            left.remove((x.size, x.level))
        else:
            gone.append(x)
    told = [(f"kept {_listed(kept)}", kept), (f"gave up {_listed(gone)}", gone)]
    return ", ".join(text for text, layers in told if layers)


def _listed(layers: list[Slice]) -> str:
    return " and ".join(f"slices of {x.size} in one {x.level}" for x in layers)


def with_slices(s: SetAsk, slices: tuple[Slice, ...]) -> SetAsk:
    """The set with other slice layers."""
    exclusive, ragged, lens_kind = _sliced(slices, s.count, s.kind, s.spread, s.balanced)
    return replace(s, slices=slices, exclusive=exclusive, ragged=ragged, lens_kind=lens_kind)


def with_pins(s: SetAsk, pins: tuple[tuple[str, int], ...]) -> SetAsk:
    """The set on hosts with these values of labels alone."""
    return with_slices(replace(s, pins=pins, kind=_kind((s.kind, pins))), s.slices)


def without_coarsest(slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """The layers without the coarsest preferred one; what follows is as ragged as what went."""
    at = next(i for i, layer in enumerate(slices) if layer.preferred)
    rest = (*slices[:at], *slices[at + 1 :])
    ragged = slices[0].ragged and bool(rest)
    return (replace(rest[0], ragged=True), *rest[1:]) if ragged else rest


def _softer(ask: Ask) -> tuple[Ask, ...]:
    """The gang with one preferred layer less, with two less, …: every set gives up its coarsest one each time."""
    out: list[Ask] = []
    sets = ask.sets
    while any(layer.preferred for s in sets for layer in s.slices):
        sets = tuple(
            with_slices(s, without_coarsest(s.slices)) if any(x.preferred for x in s.slices) else s for s in sets
        )
        out.append(Ask(ask.request, sets, ask.index))
    return tuple(out)


def _grouped(s: SetAsk, sets: list[SetAsk]) -> SetAsk:
    """The set as it stands in its gang: the only one of its group requires the group's level for itself.

    One that requires another level too, beside sets that are not of its group, stays in it: which level is the finer
    one is not known here. Of the whole gang its own level counts; `model.validate` lets nobody ask for both.
    """
    if s.group is None or sum([other.group == s.group for other in sets]) > 1:
        return s
    if len(sets) > 1 and s.required not in ("", s.group.level):
        return s
    return replace(s, required=s.required or s.group.level, group=None)


@lru_cache(maxsize=16_384)
def prepare(request: GangRequest, flavors: tuple[FlavorName, ...]) -> Ask:
    """The request with a concrete flavor for each of its sets, ready for many shapes.

    Raises:
        ValueError: not one flavor per set.
    """
    if len(flavors) != len(request.sets):
        raise ValueError(f"{len(flavors)} flavors for {len(request.sets)} pod sets; give one for each")
    index = tuple([i for i, s in enumerate(request.sets) if s.count > 0])
    sets = [_set_ask(request.sets[i], flavors[i]) for i in index]
    if any(s.group for s in sets):
        sets = [_grouped(s, sets) for s in sets]
    ask = Ask(request, tuple(sets), index)
    softer = _softer(ask)
    return replace(ask, softer=softer) if softer else ask
