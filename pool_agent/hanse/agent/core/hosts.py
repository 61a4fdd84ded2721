"""Which class a host belongs to: its flavor, what it offers, its lasting taints, its selectable labels.

Selectable are the label keys that few values share: they tell kinds of hosts apart, and fit into a summary. Topology
keys and host names are not selectable; neither is a key with many values. What is left out is listed, so that a
selector on it is answered "maybe" above and decided here.

Taints under `node.kubernetes.io/` mirror a passing state of the node. They make it unusable and are no part of its
class, so that a class does not come and go with a heartbeat.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hanse.agent.core.facts import NodeFacts
from hanse.model.ids import FlavorName
from hanse.model.queue import Flavor
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Taint
from hanse.shape.classes import HostClass, accelerator, coarse, label_hash
from hanse.shape.limits import GPUS_PER_HOST_MAX, HOST_KEY

LABEL_VALUES_MAX: Final = 8  # of one key, for it to be selectable
LABEL_PAIRS_MAX: Final = 96  # of (key, value) in one shape
LABELS_LEFT_OUT_MAX: Final = 64
STATE_TAINT_PREFIXES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def flavor_of(labels: Mapping[str, str], flavors: tuple[Flavor, ...]) -> FlavorName | None:
    """The first flavor that a host matches, None if it matches none and is of no use."""
    for flavor in flavors:
        if all(req.matches(labels) for req in flavor.requirements):
            return flavor.name
    return None


def is_state(taint: Taint) -> bool:
    """Whether the taint mirrors a passing state of the node."""
    return taint.key.startswith(STATE_TAINT_PREFIXES)


def why_unusable(facts: NodeFacts) -> str:
    """Why a host takes no new pods whatever they tolerate; "" if it does."""
    if not facts.ready:
        return "not ready"
    if facts.cordoned:
        return "cordoned"
    if not facts.healthy:
        return "unhealthy"
    for taint in facts.taints:
        if is_state(taint) and taint.effect is not Effect.PREFER_NO_SCHEDULE:
            return f"tainted {taint.key}"
    return ""


@dataclass(frozen=True, slots=True)
class Selectable:
    """The label keys that classes carry, and what is known of the others."""

    keys: tuple[str, ...] = ()
    left_out: frozenset[int] = frozenset()
    open_ended: bool = False


def class_of(facts: NodeFacts, flavor: FlavorName, selectable: Selectable) -> HostClass:
    """The class of a host."""
    gpu = accelerator(facts.allocatable)
    others = Resources([(name, coarse(name, a)) for name, a in facts.allocatable.items() if name != gpu])
    lasting = [t for t in facts.taints if not is_state(t) and t.effect is not Effect.PREFER_NO_SCHEDULE]
    labels = [(label_hash(k), label_hash(facts.labels[k])) for k in selectable.keys if k in facts.labels]
    return HostClass(
        flavor=flavor,
        gpu=gpu,
        gpus=min(facts.allocatable[gpu], GPUS_PER_HOST_MAX) if gpu else 0,
        others=others,
        taints=tuple(sorted(lasting, key=lambda t: (t.key, t.value, t.effect))),
        labels=tuple(sorted(labels)),
    )


def class_order(cls: HostClass) -> tuple[object, ...]:
    """The order of classes in a table."""
    taints = [(t.key, t.value, int(t.effect)) for t in cls.taints]
    return cls.flavor, cls.gpu, cls.gpus, list(cls.others.items()), taints, cls.labels


class LabelCensus:
    """How many nodes carry which labels."""

    __slots__ = ("_counts", "_ignored", "changed")

    def __init__(self, ignored: frozenset[str]) -> None:
        self._ignored = ignored | {HOST_KEY}
        self._counts: dict[str, dict[str, int]] = {}
        self.changed = True

    def add(self, labels: Mapping[str, str]) -> None:
        """A node with these labels joins."""
        for key, value in labels.items():
            values = self._counts.setdefault(key, {})
            if value not in values and (not values or key not in self._ignored):
                self.changed = True
            values[value] = values.get(value, 0) + 1

    def remove(self, labels: Mapping[str, str]) -> None:
        """A node with these labels leaves."""
        for key, value in labels.items():
            values = self._counts[key]
            values[value] -= 1
            if not values[value]:
                del values[value]
                if not values:
                    del self._counts[key]
                if not values or key not in self._ignored:
                    self.changed = True

    def select(self, *, values_max: int = LABEL_VALUES_MAX) -> Selectable:
        """Keys in the order of (number of values, key), as many as there is room for."""
        keys: list[str] = []
        left_out: list[str] = []
        room = LABEL_PAIRS_MAX
        for key in sorted(self._counts, key=lambda k: (len(self._counts[k]), k)):
            values = len(self._counts[key])
            if key in self._ignored or values > values_max or values > room:
                left_out.append(key)
            else:
                keys.append(key)
                room -= values
        self.changed = False
        named = sorted({label_hash(key) for key in left_out})
        open_ended = len(named) > LABELS_LEFT_OUT_MAX
        return Selectable(tuple(keys), frozenset(() if open_ended else named), open_ended)
