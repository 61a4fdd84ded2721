"""Placing a gang on named nodes: all of it in one step, or none.

A request that the shape answers exactly is decided on the shape of this very inventory, by the code that the
scheduler ran on the summary; what is left to do is to name the hosts (`mapping`). Every other request goes through
the same search over capacity that is counted on the nodes, resource by resource (`counting`).

Ranks follow the tree: consecutive ranks in consecutive domains at every level, by path, then by host name.
"""

from itertools import islice, permutations

from hanse.agent.core.counting import count
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.mapping import Runs, runs_alike, runs_named
from hanse.agent.core.places import Placement, SetPlacement, part_of, recorded, set_placement
from hanse.model.ids import FlavorName
from hanse.model.request import GangRequest
from hanse.shape.fit import ORDERS_MAX, Fit, big_first, fit_ask
from hanse.shape.lens import Ask, Refused, SetAsk, ladder, prepare
from hanse.shape.refuse import NoFit, never, refuse_among
from hanse.shape.seat import exclusive_depths, seat_among

__all__ = ["Placement", "SetPlacement", "place", "recorded"]


def place(inventory: Inventory, request: GangRequest, flavors: tuple[FlavorName, ...]) -> Placement | NoFit:
    """Nodes for every pod of a gang, or why there are none. The inventory is left as it was; see `Inventory.take`.

    Args:
        flavors: one concrete flavor per pod set.
    """
    ask = prepare(request, flavors)
    if all(is_exact(inventory, s) for s in ask.sets):
        return _by_shape(inventory, ask)
    first: NoFit | None = None
    for order in islice(permutations(big_first(ask)), ORDERS_MAX):
        result = _by_node(inventory, ask, order)
        if isinstance(result, Placement):
            return result
        first = first or result
        if result.final:
            break
    assert first is not None
    return first


def is_exact(inventory: Inventory, s: SetAsk) -> bool:
    """Whether the shape says all there is to say about a set."""
    rows = inventory.table.rows(s)
    return isinstance(rows, Refused) or rows.certain


def _by_shape(inventory: Inventory, ask: Ask) -> Placement | NoFit:
    found = fit_ask(inventory.shape(), ask)
    if not isinstance(found, Fit):
        return found
    sets: list[SetPlacement] = []
    held: list[SetPlacement] = []
    for taken in found.decision.sets:
        runs: Runs = []
        for g, below in taken.takes:
            runs.extend(runs_alike(inventory, inventory.roots[g], below))
        s = ask.sets[ask.index.index(taken.set_index)]
        sets.append(set_placement(inventory, taken.set_index, s, runs))
        if len(found.decision.sets) > 1:
            _hold(inventory, sets[-1], held)
    _release(inventory, held)
    return _gang(inventory, sets)


def _by_node(inventory: Inventory, ask: Ask, order: tuple[int, ...]) -> Placement | NoFit:
    sets: list[SetPlacement] = []
    held: list[SetPlacement] = []
    try:
        for i in order:
            found = _one_set(inventory, ask.sets[i], ask.index[i], alone=not sets)
            if isinstance(found, NoFit):
                return found
            sets.append(found)
            if len(order) > 1:
                _hold(inventory, found, held)
    finally:
        _release(inventory, held)
    return _gang(inventory, sets)


def _one_set(inventory: Inventory, s: SetAsk, index: int, *, alone: bool) -> SetPlacement | NoFit:
    hopeless = never(inventory.shape(), s)
    if hopeless is not None:
        return hopeless
    counted = count(inventory, s)
    depths = exclusive_depths([ladder(levels) for levels in inventory.trees], s)
    found = seat_among(counted.views, s, depths)
    if found is None:
        return refuse_among(counted.views, s, alone=alone)
    runs: Runs = []
    for g, below in found.takes:
        runs.extend(runs_named(inventory, inventory.roots[g], below, counted.groups))
    return set_placement(inventory, index, s, runs)


def _hold(inventory: Inventory, s: SetPlacement, held: list[SetPlacement]) -> None:
    for name, pods in s.usage():
        inventory.hold(name, pods)
    held.append(s)
    inventory.sync()


def _release(inventory: Inventory, held: list[SetPlacement]) -> None:
    for s in held:
        for name, pods in s.usage():
            inventory.release(name, pods)


def _gang(inventory: Inventory, sets: list[SetPlacement]) -> Placement:
    ordered = tuple(sorted(sets, key=lambda s: s.set_index))
    return Placement(ordered, part_of(inventory, ordered))
