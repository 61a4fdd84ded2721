"""Topology as other systems write it: annotations of Kueue and KAI, Volcano's networkTopology, JobSet's exclusivity.

What each becomes:

| written | becomes |
|---|---|
| Kueue `podset-required-topology: K` on a pod template | required level K of the pod set |
| Kueue `podset-preferred-topology: K` | preferred level K |
| Kueue `podset-group-name` beside it | one domain of that level for all pod sets of the group |
| Kueue `podset-slice-required-topology` + `podset-slice-size`, or `…-constraints` as JSON | slices |
| KAI `topology-required-placement`, `topology-preferred-placement` on the object | required for the gang, preferred |
| KAI `segment-size` + `segment-topology-required-placement`, `…-preferred-…` on the worker template | slices |
| Volcano `networkTopology` mode hard / soft with a tier | required / preferred level |
| the same in a `partitionPolicy` | slices, preferred ones if soft |
| JobSet `exclusive-topology: K` | a slice of one Job's pods in K, exclusive |
| `hanse.dev/devices: pcie`, `numa`, `pcie+nic`, `numa+nic` on a pod template | devices of one group |

Kueue's required, preferred and unconstrained exclude each other; KAI's required is an upper bound and preferred a
target inside it, so both may be set. A level keeps the name that was written: pools match it by key, then by alias.
A Volcano tier that is given by number has no name; it becomes the level `tier-N`, an alias that a pool may give to a
level. If no pool does, the job is refused as one with an unknown level, rather than placed without its constraint.
"""

import json
from dataclasses import dataclass, replace
from typing import Final

from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import Keys
from hanse.manifests.notes import Notes, audit
from hanse.model.job import DEVICE_KINDS, SLICE_LAYERS_MAX, Devices, Group, Slice, Topology
from hanse.model.names import is_qualified, quoted

REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_LEVEL: Final = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
SLICE_LAYERS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
KAI_REQUIRED: Final = "kai.scheduler/topology-required-placement"
KAI_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
KAI_SEGMENT_SIZE: Final = "kai.scheduler/segment-size"
KAI_SEGMENT_LEVEL: Final = "kai.scheduler/segment-topology-required-placement"
KAI_SEGMENT_PREFERRED: Final = "kai.scheduler/segment-topology-preferred-placement"
GROUP_NAME: Final = "kueue.x-k8s.io/podset-group-name"
DEVICES: Final = "hanse.dev/devices"
_AND_NIC: Final = "+nic"
EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_LAYERS_CHARS_MAX: Final = 4096
_SPREAD_WHY: Final = "every gang is placed in as few domains as possible without being asked"


@dataclass(frozen=True, slots=True)
class Wishes:
    """The topology of one pod set as far as it was read, each part with its origin."""

    required: Placed[str] | None = None
    preferred: Placed[str] | None = None
    slices: tuple[Placed[Slice], ...] = ()
    group: Placed[Group] | None = None
    devices: Placed[Devices] | None = None

    def topology(self) -> Topology:
        """The model's topology, slices coarse to fine: a larger group is held by a larger domain."""
        return Topology(
            required=self.required.value if self.required else "",
            preferred=self.preferred.value if self.preferred else "",
            slices=tuple(placed.value for placed in self.ordered_slices()),
            group=self.group.value if self.group else None,
            devices=self.devices.value if self.devices else None,
        )

    def ordered_slices(self) -> tuple[Placed[Slice], ...]:
        """Slices by size, largest first; equal sizes as written."""
        return tuple(sorted(self.slices, key=lambda placed: -placed.value.size))

    def also_required(self, level: Placed[str]) -> "Wishes":
        """These wishes and one more required level, which must not be another one."""
        if self.required and self.required.value != level.value:
            level.field.refuse(
                "CONTRADICTION",
                f"required level {level.value} here, {self.required.value} in line {self.required.field.line}",
            )
        return self if self.required else replace(self, required=level)

    def also_preferred(self, level: Placed[str]) -> "Wishes":
        """These wishes and one more preferred level, which must not be another one."""
        if self.preferred and self.preferred.value != level.value:
            level.field.refuse(
                "CONTRADICTION",
                f"preferred level {level.value} here, {self.preferred.value} in line {self.preferred.field.line}",
            )
        return self if self.preferred else replace(self, preferred=level)

    def in_group(self, name: str, level: Placed[str]) -> "Wishes":
        """These wishes, and that all sets of a group share one domain of a level."""
        if self.group and self.group.value != Group(name, level.value):
            other, line = self.group.value, self.group.field.line
            level.field.refuse(
                "CONTRADICTION",
                f"one {level.value} for {name} here, one {other.level} for {other.name} in line {line}",
            )
        return replace(self, group=Placed(Group(name, level.value), level.field))

    def with_levels_of(self, more: "Wishes") -> "Wishes":
        """These wishes and the required and preferred levels of others, which must not contradict them."""
        wishes = self.also_required(more.required) if more.required else self
        return wishes.also_preferred(more.preferred) if more.preferred else wishes

    def also_slice(self, layer: Placed[Slice]) -> "Wishes":
        """These wishes and one more slice layer."""
        if len(self.slices) >= SLICE_LAYERS_MAX:
            layer.field.refuse("TOO_MANY", f"more than {SLICE_LAYERS_MAX} slice layers")
        return replace(self, slices=(*self.slices, layer))


def level_of(field: Field) -> Placed[str]:
    """A topology level by label key or alias."""
    name = field.word()
    if not is_qualified(name):
        field.refuse("LEVEL_INVALID", f"{quoted(name)} is not a level; use a node label's key or an alias")
    return Placed(name, field)


def kueue_wishes(keys: Keys) -> Wishes:
    """What Kueue's annotations of a pod template ask for, and our own one beside them.

    Raises:
        InvalidArgument: CONTRADICTION, LEVEL_INVALID, DEVICES_INVALID, SLICE_SIZE, MISSING or TYPE.
    """
    required, preferred = keys.annotation(REQUIRED), keys.annotation(PREFERRED)
    unconstrained = keys.annotation(UNCONSTRAINED)
    given = [field for field in (required, preferred, unconstrained) if field]
    if len(given) > 1:
        given[1].refuse("CONTRADICTION", f"excludes {given[0].path} in line {given[0].line}; keep one of them")
    if unconstrained:
        _truth(unconstrained)
    devices = keys.annotation(DEVICES)
    wishes = Wishes(
        required=level_of(required) if required else None,
        preferred=level_of(preferred) if preferred else None,
        devices=_devices(devices) if devices else None,
    )
    for layer in _kueue_slices(keys):
        wishes = wishes.also_slice(layer)
    name = keys.annotation(GROUP_NAME) if wishes.required else None
    return wishes.in_group(name.word(), wishes.required) if name and wishes.required else wishes


def _devices(field: Field) -> Placed[Devices]:
    text = field.text()
    kind = text.removesuffix(_AND_NIC)
    if kind not in DEVICE_KINDS:
        wanted = ", ".join([*DEVICE_KINDS, *[kind + _AND_NIC for kind in DEVICE_KINDS]])
        field.refuse("DEVICES_INVALID", f"{quoted(text)} is no group of devices; use one of {wanted}")
    return Placed(Devices(kind, text.endswith(_AND_NIC)), field)


def _kueue_slices(keys: Keys) -> list[Placed[Slice]]:
    level, size, layers = keys.annotation(SLICE_LEVEL), keys.annotation(SLICE_SIZE), keys.annotation(SLICE_LAYERS)
    if layers:
        other = level or size
        if other:
            layers.refuse("CONTRADICTION", f"excludes {other.path} in line {other.line}; keep one of them")
        return _layers(layers)
    if level and not size:
        level.refuse("MISSING", f"a slice needs a size; add {SLICE_SIZE}")
    if size and not level:
        size.refuse("MISSING", f"a slice needs a level; add {SLICE_LEVEL}")
    if not level or not size:
        return []
    return [Placed(Slice(whole_number(size, "pods in a slice"), level_of(level).value), size)]


def _layers(field: Field) -> list[Placed[Slice]]:
    try:
        parsed: object = json.loads(field.text()) if len(field.text()) <= _LAYERS_CHARS_MAX else None
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, list) or not 1 <= len(parsed) <= SLICE_LAYERS_MAX:
        field.refuse("TYPE", f'wanted: a JSON list of 1 to {SLICE_LAYERS_MAX} {{"topology": LEVEL, "size": PODS}}')
    return [Placed(_layer(item, field), field) for item in parsed]


def _layer(item: object, field: Field) -> Slice:
    if not isinstance(item, dict) or set(item) != {"topology", "size"}:
        field.refuse("TYPE", 'each layer is {"topology": LEVEL, "size": PODS}')
    level, size = item["topology"], item["size"]
    if not isinstance(level, str) or not is_qualified(level):
        field.refuse("LEVEL_INVALID", f"{quoted(str(level))} is not a level; use a node label's key")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        field.refuse("SLICE_SIZE", f"{quoted(str(size))} is not a number of pods; a slice has at least 1")
    return Slice(size, level)


def kai_wishes(keys: Keys) -> Wishes:
    """What KAI's annotations of an object ask for, for its whole gang."""
    required, preferred = keys.annotation(KAI_REQUIRED), keys.annotation(KAI_PREFERRED)
    return Wishes(
        required=level_of(required) if required else None,
        preferred=level_of(preferred) if preferred else None,
    )


def kai_segments(keys: Keys, count: int) -> tuple[Placed[Slice], ...]:
    """KAI's segments of a worker template with so many pods: groups by index, each inside one domain; the last has
    what is left over."""
    size = keys.annotation(KAI_SEGMENT_SIZE)
    required, preferred = keys.annotation(KAI_SEGMENT_LEVEL), keys.annotation(KAI_SEGMENT_PREFERRED)
    for level in (required, preferred):
        if level and not size:
            level.refuse("MISSING", f"a segment needs a size; add {KAI_SEGMENT_SIZE}")
    if not size:
        return ()
    pods = whole_number(size, "pods in a segment")
    ragged = count % pods != 0
    hard = [Slice(pods, level_of(required).value, ragged=ragged)] if required else []
    soft = [Slice(pods, level_of(preferred).value, ragged=ragged, preferred=True)] if preferred else []
    kept = soft if not hard or (soft and soft[0].level != hard[0].level) else []
    return tuple(Placed(layer, size) for layer in (*hard, *kept))


def network_wishes(network: Field, notes: Notes) -> Wishes:
    """What a Volcano `networkTopology` asks for; mode is hard unless it says soft."""
    audit(network, notes, mapped=("mode", "highestTierAllowed", "highestTierName"))
    mode = network.get("mode")
    soft = mode is not None and mode.one_of("hard", "soft") == "soft"
    level = _tier(network)
    if level is None and soft:
        notes.unmapped(network, _SPREAD_WHY)
        return Wishes()
    if level is None:
        network.refuse("MISSING", "hard without a tier; add highestTierName or highestTierAllowed, or mode: soft")
    return Wishes(preferred=level) if soft else Wishes(required=level)


def labelled_network(mode: Field | None, tier: Field | None, notes: Notes) -> Wishes:
    """The same, as KubeRay's labels say it; a tier without a mode says nothing."""
    if mode is None:
        if tier:
            notes.unmapped(tier, "a tier without a mode has no effect")
        return Wishes()
    soft = mode.one_of("hard", "soft") == "soft"
    if tier is None and soft:
        notes.unmapped(mode, _SPREAD_WHY)
        return Wishes()
    if tier is None:
        mode.refuse("MISSING", "hard without a tier; add the label of the highest tier, or say soft")
    level = Placed(f"tier-{whole_number(tier, 'as a tier', least=0)}", tier)
    return Wishes(preferred=level) if soft else Wishes(required=level)


def _tier(network: Field) -> Placed[str] | None:
    number, name = network.get("highestTierAllowed"), network.get("highestTierName")
    if number and name:
        name.refuse("CONTRADICTION", f"excludes highestTierAllowed in line {number.line}; keep one of the two")
    if name:
        return level_of(name)
    return Placed(f"tier-{number.at_least(0, 'as a tier')}", number) if number else None


def whole_number(field: Field, what: str, *, least: int = 1) -> int:
    """A number of at least `least` that is written as a text, as annotations are."""
    text = field.text()
    if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 10:
        field.refuse("TYPE", f"{quoted(text)} is not a whole number")
    if int(text) < least:
        field.refuse("COUNT_OUT_OF_RANGE", f"{text} {what}; it must be at least {least}")
    return int(text)


def _truth(field: Field) -> bool:
    """A boolean as Go's ParseBool reads it, in a text."""
    text = field.text()
    if text not in ("1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False"):
        field.refuse("TYPE", f"{quoted(text)} is neither true nor false")
    return text[0] in "1tT"
