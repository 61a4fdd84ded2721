"""What the gangs need of the node arrays: places, taken and given back by the key of their gang.

`NodeLedger` is that over an inventory. It remembers for each gang what it took and has not given back, so that giving
back is the exact inverse even if nodes have changed or gone in between, and happens once for each pod set.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Protocol

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.packing import Terms
from hanse.agent.core.placement import place
from hanse.agent.core.places import HostUse, Placement, SetPlacement, on_devices, part_of
from hanse.agent.core.records import SetPlace
from hanse.agent.core.small import terms_on
from hanse.model.desired import BoundSet
from hanse.model.fence import GangKey
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Topology
from hanse.model.placement import LevelUse
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Selector
from hanse.shape.ask import SetAsk, prepare
from hanse.shape.refuse import NoFit

Reserved = tuple[tuple[NodeName, Resources], ...]
"""What a pod set takes beside its pods, because it has domains for itself."""

Devices = tuple[int, ...]
"""For each rank of a pod set the device of its node that its share is of; () for pods without a share."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Every pod has a node.

    Attributes:
        domains: what the gang uses by level, for people.
        reserved, devices: one for each of `sets`, in their order.
        note: what else there is to say of it, for people.
    """

    sets: tuple[SetPlace, ...]
    domains: tuple[LevelUse, ...] = ()
    reserved: tuple[Reserved, ...] = ()
    devices: tuple[Devices, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """No pod has a node: which constraint failed, what it needed and what was there."""

    reason: Reason
    message: str = ""
    constraint: str = ""
    wanted: int = 0
    found: int = 0


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """What a summary says of the nodes, beside their shape: all, usable ones, the GPUs of these, free ones."""

    nodes: int
    usable: int
    gpus: int
    free_gpus: int


class Ledger(Protocol):
    """Capacity and who has taken it. All or nothing, in one step, without waiting."""

    def place(self, key: GangKey, request: GangRequest, sets: Sequence[BoundSet]) -> Placed | Unplaced:
        """Take places for the gang; `request.sets[i]` is of `sets[i]`."""
        ...

    def take(
        self,
        key: GangKey,
        sets: tuple[SetPlace, ...],
        reserved: tuple[Reserved, ...],
        devices: tuple[Devices, ...] = (),
    ) -> tuple[LevelUse, ...]:
        """Count what the cluster's records say that the gang has, also where it is more than there is."""
        ...

    def give_sets(self, key: GangKey, positions: Set[int]) -> None:
        """The sets at these positions of what was placed or taken have no places any more, the others have theirs."""
        ...

    def give(self, key: GangKey) -> None:
        """The gang has no places any more."""
        ...

    def change_node(self, node: NodeFacts, foreign: Resources) -> None:
        """A node is new or differs."""
        ...

    def remove_node(self, name: NodeName) -> None:
        """A node is gone; what gangs have there stays theirs."""
        ...


class NodeLedger:
    """A `Ledger` over the nodes of a pool."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._held: dict[GangKey, Placement] = {}

    @property
    def node_figures(self) -> NodeFigures:
        """What a summary says of the nodes, beside their shape."""
        return NodeFigures(len(self.inventory), *self.inventory.figures())

    def place(self, key: GangKey, request: GangRequest, sets: Sequence[BoundSet]) -> Placed | Unplaced:
        """See Ledger."""
        flavors = tuple(s.flavor for s in sets)
        for ask in prepare(request, flavors).sets:
            self.inventory.demand.note(ask)
        result = place(self.inventory, request, flavors)
        if isinstance(result, NoFit):
            return Unplaced(result.reason, result.detail, result.constraint, result.wanted, result.found)
        self.inventory.take(result)
        self._held[key] = result
        placed = tuple(_set_place(s, sets[s.set_index]) for s in result.sets)
        reserved, devices = tuple(s.reserved for s in result.sets), tuple(s.devices for s in result.sets)
        return Placed(placed, result.part.domains, reserved, devices, result.note)

    def take(
        self,
        key: GangKey,
        sets: tuple[SetPlace, ...],
        reserved: tuple[Reserved, ...],
        devices: tuple[Devices, ...] = (),
    ) -> tuple[LevelUse, ...]:
        """See Ledger."""
        parts: list[SetPlacement] = []
        for i, s in enumerate(sets):
            beside = reserved[i] if i < len(reserved) else ()
            parts.append(self._recorded(i, s, beside, devices[i] if i < len(devices) else ()))
            self.inventory.take(parts[-1])  # set by set, so that devices that no record tells of differ
            self._note(s)
        self._held[key] = placement = Placement(tuple(parts), part_of(self.inventory, tuple(parts)))
        return placement.part.domains

    def _note(self, s: SetPlace) -> None:
        """What runs is what was asked for, as far as an agent that restarts can know; selectors are in no record."""
        if s.nodes:
            self.inventory.demand.note(_asked(s.flavor, s.resources, len(s.nodes)))

    def _recorded(self, index: int, s: SetPlace, reserved: Reserved, devices: Devices) -> SetPlacement:
        hosts: list[HostUse] = []
        for rank, name in enumerate(s.nodes):
            if hosts and hosts[-1].node == name:
                last = hosts.pop()
                hosts.append(HostUse(name, last.path, last.first_rank, last.pods + 1))
                continue
            node = self.inventory.node(name)
            hosts.append(HostUse(name, () if node is None else node.path, rank, 1))
        on = on_devices(self.inventory, s.resources, hosts, devices)
        return SetPlacement(index, s.flavor, s.resources, tuple(hosts), reserved, on)

    def held(self, key: GangKey) -> Placement | None:
        """What a gang has taken and not given back."""
        return self._held.get(key)

    def small_terms(self, key: GangKey) -> Terms | None:
        """The terms of the fragmentation score of a gang that is one set on one host; None for any other.

        Its own pods are left out while this is reckoned.
        """
        held = self._held.get(key)
        small = held.sets[0] if held is not None and len(held.sets) == 1 else None
        if held is None or small is None or len(small.hosts) != 1 or small.reserved:
            return None
        asked = _asked(small.flavor, small.pod, small.hosts[0].pods)
        self.inventory.give(held)
        try:
            return terms_on(self.inventory, asked, small.hosts[0].node, small.devices)
        finally:
            self.inventory.take(held)

    def give_sets(self, key: GangKey, positions: Set[int]) -> None:
        """See Ledger."""
        held = self._held.get(key)
        if held is None:
            return
        self.inventory.give(replace(held, sets=tuple(s for i, s in enumerate(held.sets) if i in positions)))
        left = (
            replace(s, hosts=(), reserved=(), devices=()) if i in positions else s for i, s in enumerate(held.sets)
        )
        self._held[key] = replace(held, sets=tuple(left))

    def give(self, key: GangKey) -> None:
        """See Ledger."""
        placement = self._held.pop(key, None)
        if placement is not None:
            self.inventory.give(placement)

    def change_node(self, node: NodeFacts, foreign: Resources) -> None:
        """See Ledger."""
        self.inventory.set_node(node, foreign)

    def remove_node(self, name: NodeName) -> None:
        """See Ledger."""
        self.inventory.remove_node(name)


def _asked(flavor: FlavorName, uses: Resources, pods: int) -> SetAsk:
    """A set of such pods that run anywhere."""
    asked = SetRequest(pods, pods, uses, (flavor,), Selector(), (), Topology())
    return prepare(GangRequest((asked,)), (flavor,)).sets[0]


def _set_place(s: SetPlacement, bound: BoundSet) -> SetPlace:
    return SetPlace(bound.name, bound.first_rank, s.nodes, s.flavor, s.pod)
