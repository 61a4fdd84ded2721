"""What the gangs need of the node arrays: places, taken and given back by the key of their gang.

`NodeLedger` is that over an inventory. It remembers for each gang what it took, so that giving back is the exact
inverse even if nodes have changed or gone in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory, Node
from hanse.agent.core.placement import place
from hanse.agent.core.places import HostUse, Placement, SetPlacement, part_of
from hanse.agent.core.records import SetPlace
from hanse.model.desired import BoundSet
from hanse.model.fence import GangKey
from hanse.model.ids import NodeName
from hanse.model.placement import LevelUse
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.model.resources import Resources
from hanse.shape.refuse import NoFit

Reserved = tuple[tuple[NodeName, Resources], ...]
"""What a gang takes beside its pods, because it has domains for itself."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Every pod has a node. `domains`: what the gang uses by level, for people."""

    sets: tuple[SetPlace, ...]
    domains: tuple[LevelUse, ...] = ()
    reserved: Reserved = ()


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
    """Nodes of a pool, those that take work, their accelerators, and which of these nothing uses."""

    nodes: int
    usable: int
    gpus: int
    free_gpus: int

    def changed(self, old: "NodeFigures", new: "NodeFigures") -> "NodeFigures":
        """These with one node's old figures replaced by its new ones."""
        return NodeFigures(
            self.nodes - old.nodes + new.nodes,
            self.usable - old.usable + new.usable,
            self.gpus - old.gpus + new.gpus,
            self.free_gpus - old.free_gpus + new.free_gpus,
        )


_NO_NODE: Final = NodeFigures(0, 0, 0, 0)


def _figures_of(node: Node) -> NodeFigures:
    if node.at is None or node.cls is None:
        return NodeFigures(1, 0, 0, 0)
    gpus = node.facts.allocatable[node.cls.gpu] if node.cls.gpu else 0
    return NodeFigures(1, 1, gpus, node.raw_free_gpus)


class Ledger(Protocol):
    """Capacity and who has taken it. All or nothing, in one step, without waiting."""

    def place(self, key: GangKey, request: GangRequest, sets: Sequence[BoundSet]) -> Placed | Unplaced:
        """Take places for the gang; `request.sets[i]` is of `sets[i]`."""
        ...

    def take(self, key: GangKey, sets: tuple[SetPlace, ...], reserved: Reserved) -> tuple[LevelUse, ...]:
        """Count what the cluster's records say that the gang has, also where it is more than there is."""
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
        self._counted_in: Inventory | None = None
        self._counted: dict[NodeName, NodeFigures] = {}
        self._total = _NO_NODE
        self._stale: dict[NodeName, None] = {}

    @property
    def node_figures(self) -> NodeFigures:
        """What a summary says of the nodes, beside their shape. Costs what changed since the last time."""
        if self._counted_in is not self.inventory:
            self._counted_in, self._total = self.inventory, _NO_NODE
            self._counted.clear()
            self._stale = {node.name: None for node in self.inventory.nodes if node is not None}
        for name in self._stale:
            old = self._counted.pop(name, _NO_NODE)
            node = self.inventory.node(name)
            new = _NO_NODE if node is None else _figures_of(node)
            if node is not None:
                self._counted[name] = new
            self._total = self._total.changed(old, new)
        self._stale.clear()
        return self._total

    def _touch(self, placement: Placement) -> None:
        for s in placement.sets:
            for use in s.hosts:
                self._stale[use.node] = None
            for name, _ in s.reserved:
                self._stale[name] = None

    def place(self, key: GangKey, request: GangRequest, sets: Sequence[BoundSet]) -> Placed | Unplaced:
        """See Ledger."""
        result = place(self.inventory, request, tuple(s.flavor for s in sets))
        if isinstance(result, NoFit):
            return Unplaced(result.reason, result.detail, result.constraint, result.wanted, result.found)
        self.inventory.take(result)
        self._held[key] = result
        self._touch(result)
        placed = tuple(_set_place(s, sets[s.set_index]) for s in result.sets)
        return Placed(placed, result.part.domains, tuple(r for s in result.sets for r in s.reserved))

    def take(self, key: GangKey, sets: tuple[SetPlace, ...], reserved: Reserved) -> tuple[LevelUse, ...]:
        """See Ledger."""
        parts = [self._recorded(i, s, reserved if i == 0 else ()) for i, s in enumerate(sets)]
        placement = Placement(tuple(parts), part_of(self.inventory, tuple(parts)))
        self.inventory.take(placement)
        self._held[key] = placement
        self._touch(placement)
        return placement.part.domains

    def _recorded(self, index: int, s: SetPlace, reserved: Reserved) -> SetPlacement:
        hosts: list[HostUse] = []
        for rank, name in enumerate(s.nodes):
            if hosts and hosts[-1].node == name:
                last = hosts.pop()
                hosts.append(HostUse(name, last.path, last.first_rank, last.pods + 1))
                continue
            node = self.inventory.node(name)
            hosts.append(HostUse(name, () if node is None else node.path, rank, 1))
        return SetPlacement(index, s.flavor, s.resources, tuple(hosts), reserved)

    def give(self, key: GangKey) -> None:
        """See Ledger."""
        placement = self._held.pop(key, None)
        if placement is not None:
            self.inventory.give(placement)
            self._touch(placement)

    def change_node(self, node: NodeFacts, foreign: Resources) -> None:
        """See Ledger."""
        self.inventory.set_node(node, foreign)
        self._stale[node.name] = None

    def remove_node(self, name: NodeName) -> None:
        """See Ledger."""
        self.inventory.remove_node(name)
        self._stale[name] = None


def _set_place(s: SetPlacement, bound: BoundSet) -> SetPlace:
    return SetPlace(bound.name, bound.first_rank, s.nodes, s.flavor, s.pod)
