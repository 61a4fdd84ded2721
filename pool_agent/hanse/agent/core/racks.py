"""How the lowest domains of a pool are used: what is free, held, being released or out of order, GPU by GPU. Pure.

Busy is what is left: pods that run, of ours and of others. A host that takes no pods counts as broken with all that
it has ever offered, whoever still runs there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from hanse.agent.core.inventory import Inventory
from hanse.agent.core.node import Node
from hanse.agent.core.places import Placement
from hanse.model.detail import RackUse
from hanse.model.ids import NodeName


@dataclass(slots=True)
class _Sums:
    hosts: int = 0
    broken_hosts: int = 0
    whole_hosts: int = 0
    gpus: int = 0
    free_gpus: int = 0
    held_gpus: int = 0
    releasing_gpus: int = 0
    broken_gpus: int = 0


def racks(inventory: Inventory, held: Iterable[Placement], releasing: Iterable[Placement]) -> tuple[RackUse, ...]:
    """Every lowest domain, by path.

    Args:
        held: of gangs whose pods were not told to run yet.
        releasing: of gangs whose pods are being ended.
    """
    waiting, ending = _gpus_by_node(inventory, held), _gpus_by_node(inventory, releasing)
    found: dict[tuple[str, ...], _Sums] = {}
    for node in inventory:
        _add(found.setdefault(node.path, _Sums()), inventory, node, waiting, ending)
    return tuple(RackUse(path, **asdict(one)) for path, one in sorted(found.items()))


def _add(
    sums: _Sums, inventory: Inventory, node: Node, held: Mapping[NodeName, int], releasing: Mapping[NodeName, int]
) -> None:
    sums.hosts += 1
    if node.why:
        gpus = max(node.offered_gpus, inventory.offered.get(node.name, (0, ""))[0])
        sums.broken_hosts += 1
        sums.gpus += gpus
        sums.broken_gpus += gpus
        return
    gpus, free = node.offered_gpus, node.raw_free_gpus
    taken = gpus - free
    ending = min(taken, releasing.get(node.name, 0))
    waiting = min(taken - ending, held.get(node.name, 0))
    sums.gpus += gpus
    sums.free_gpus += free
    sums.whole_hosts += 0 < gpus == free
    sums.held_gpus += waiting
    sums.releasing_gpus += ending


def _gpus_by_node(inventory: Inventory, placements: Iterable[Placement]) -> Mapping[NodeName, int]:
    gpus: Counter[NodeName] = Counter()
    for placement in placements:
        for uses, nodes in placement.usage():
            for name, pods in nodes:
                node = inventory.node(name)
                if node is not None and node.cls is not None and node.cls.gpu:
                    gpus[name] += pods * uses[node.cls.gpu]
    return gpus
