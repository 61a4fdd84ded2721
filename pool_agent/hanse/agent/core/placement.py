"""Placing a gang on named nodes: all of it in one step, or none.

A request that the shape answers exactly is decided on the shape of this very inventory, by the code that the
scheduler ran on the summary; what is left to do is to name the hosts (`mapping`). Every other request goes through
the same search over capacity that is counted on the nodes, resource by resource (`counting`).

Ranks follow the tree: consecutive ranks in consecutive domains at every level, by path, then by host name.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hanse.agent.core.counting import Counted, count, no_group
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.mapping import Runs, hosts_alike, runs_named
from hanse.agent.core.mixing import arranged_nodes, mixed_sets
from hanse.agent.core.places import Placement, SetPlacement, part_of, recorded, set_on_hosts, set_placement
from hanse.agent.core.small import among_equals, is_lone, no_room, on_one_host
from hanse.agent.core.values import FITTING_MAX, rooms_by_value, roomy_values
from hanse.model.ids import FlavorName
from hanse.model.request import GangRequest
from hanse.shape.ask import Ask, SetAsk, layers_told, prepare
from hanse.shape.fit import Fit, big_first, fit_ask
from hanse.shape.joint import Joint, Seats, Spot
from hanse.shape.lens import Ladder, Layers, ladder, layered
from hanse.shape.refuse import NoFit, never
from hanse.shape.same import no_one_value, options, same_keys
from hanse.shape.seat import Seat, View

__all__ = ["Placement", "SetPlacement", "place", "recorded"]


def place(inventory: Inventory, request: GangRequest, flavors: tuple[FlavorName, ...]) -> Placement | NoFit:
    """Nodes for every pod of a gang, or why there are none. The inventory is left as it was; see `Inventory.take`.

    Args:
        flavors: one concrete flavor per pod set.
    """
    ask = prepare(request, flavors)
    if all(is_exact(inventory, s) for s in ask.sets):
        return _by_shape(inventory, ask)
    outcome = _counted(inventory, ask)
    for dropped, softer in enumerate(ask.softer, 1):
        if isinstance(outcome, Placement):
            break
        outcome = _counted(inventory, softer)
        if isinstance(outcome, Placement):
            outcome = replace(outcome, note=layers_told(ask, dropped))
    return outcome


def _counted(inventory: Inventory, ask: Ask) -> Placement | NoFit:
    """Nodes by what is counted on them, for a request that the shape does not answer exactly."""
    if len(ask.sets) == 1:
        small = on_one_host(inventory, ask.index[0], ask.sets[0])
        if small is not None:
            return _gang(inventory, [small], layers_told(ask, 0))
    hopeless = [never(inventory.shape(), s) for s in ask.sets]
    hopeless += [no_group(inventory, s) for s in ask.sets if s.devices is not None]
    no = next((no for no in hopeless if no is not None), None)
    if no is None and len(ask.sets) == 1 and is_lone(ask.sets[0]):
        no = no_room(inventory, ask.sets[0])
    return no or _by_node(inventory, ask)


def is_exact(inventory: Inventory, s: SetAsk) -> bool:
    """Whether the shape says all there is to say about a set."""
    return inventory.table.is_exact(s)


def _by_shape(inventory: Inventory, ask: Ask) -> Placement | NoFit:
    found = fit_ask(inventory.shape(), ask)
    if not isinstance(found, Fit):
        return found
    if found.decision.mix is not None:
        return _gang(inventory, mixed_sets(inventory, ask, found.decision.mix), layers_told(ask, found.dropped))
    asked = ask.without(found.dropped)
    sets: list[SetPlacement] = []
    held: list[SetPlacement] = []
    if len(ask.sets) == 1 and found.hosts == 1 and not ask.sets[0].exclusive:
        group, take = found.decision.sets[0].takes[0]
        small = among_equals(inventory, ask.index[0], ask.sets[0], group, take)
        if small is not None:
            return _gang(inventory, [small], layers_told(ask, found.dropped))
    for taken in found.decision.sets:
        s = asked.sets[ask.index.index(taken.set_index)]
        steps = {g: _steps(inventory, g, s) for g, _ in taken.takes} if s.ragged else {}
        sets.append(set_on_hosts(inventory, taken.set_index, s, hosts_alike(inventory, taken.takes, steps)))
        if len(found.decision.sets) > 1:
            _hold(inventory, sets[-1], held)
    _release(inventory, held)
    return _gang(inventory, sets, layers_told(ask, found.dropped))


def _steps(inventory: Inventory, g: int, s: SetAsk) -> tuple[int, ...]:
    """By depth, what the pods of a set with a smaller last slice come in multiples of; () for any other set."""
    layers = layered(s, ladder(inventory.trees[g])) if s.ragged else None
    return layers.steps if isinstance(layers, Layers) else ()


def _by_node(inventory: Inventory, ask: Ask) -> Placement | NoFit:
    found = _best_seats(inventory, ask)
    if isinstance(found, NoFit):
        return found
    ask, seats, ready = found
    if ready:
        return _gang(inventory, ready, layers_told(ask, 0))
    board = NodeBoard(inventory)
    sets: list[SetPlacement] = []
    for n, (i, where) in enumerate(seats, 1):
        sets.append(board.named(ask.index[i], ask.sets[i], where))
        if n < len(seats):
            board = board.with_held(sets[-1])
    _release(inventory, sets[:-1])
    return _gang(inventory, sets, layers_told(ask, 0))


class _Seated(NamedTuple):
    """A gang as it was seated: if it wants one value of a label, pinned to the best.

    Attributes:
        sets: on their nodes, where all were seated in one; else ().
    """

    ask: Ask
    seats: Seats
    sets: list[SetPlacement]


def _seated(inventory: Inventory, ask: Ask) -> _Seated | NoFit:
    found = arranged_nodes(inventory, ask) if len(ask.sets) > 1 else None
    if found is not None:
        return _Seated(ask, found.seats, found.sets)
    seats = Joint(ask.sets, big_first(ask)).seats(NodeBoard(inventory))
    return seats if isinstance(seats, NoFit) else _Seated(ask, seats, [])


def _best_seats(inventory: Inventory, ask: Ask) -> _Seated | NoFit:
    if not same_keys(ask):
        return _seated(inventory, ask)
    fits: list[_Seated] = []
    refusals: list[NoFit] = []
    for option in options(ask, lambda s: roomy_values(inventory, s)) or []:
        found = _seated(inventory, option)
        if isinstance(found, NoFit):
            refusals.append(found)
        else:
            fits.append(found)
        if len(fits) == FITTING_MAX:
            break
    if fits:
        return min(fits, key=lambda fit: _score(fit.seats))
    most = max(rooms_by_value(inventory, next(s for s in ask.sets if s.same)).values(), default=0)
    return max(refusals, key=lambda no: no.nearness) if refusals else no_one_value(ask, most)


def _score(seats: Seats) -> list[int]:
    return [sum(column) for column in zip(*[found.score for _, found in seats], strict=True)]


class NodeBoard:
    """Counted nodes from which sets are taken by holding them in the inventory; `undo` gives the last one back."""

    def __init__(self, inventory: Inventory, took: SetPlacement | None = None) -> None:
        self._inventory = inventory
        self._took = took
        self._counted: dict[SetAsk, Counted] = {}

    @property
    def ladders(self) -> Sequence[Ladder]:
        """See Board."""
        return [ladder(levels) for levels in self._inventory.trees]

    def views(self, s: SetAsk) -> list[View]:
        """See Board."""
        return self._count(s).views

    def taken(self, at: int, s: SetAsk, found: Seat, spot: Spot | None) -> "tuple[NodeBoard, Spot | None]":
        """See Board. Children are in the order of their names, so the spot stays where it is."""
        return self.with_held(self.named(at, s, found)), spot

    def with_held(self, took: SetPlacement) -> "NodeBoard":
        """The board once a set is held."""
        _hold(self._inventory, took, [])
        return NodeBoard(self._inventory, took)

    def undo(self) -> None:
        """See Board."""
        if self._took is not None:
            _release(self._inventory, [self._took])

    def named(self, index: int, s: SetAsk, found: Seat) -> SetPlacement:
        """The seat as nodes."""
        groups = self._count(s).groups
        runs: Runs = []
        for g, below in found.takes:
            runs.extend(
                runs_named(self._inventory, self._inventory.roots[g], below, groups, _steps(self._inventory, g, s))
            )
        return set_placement(self._inventory, index, s, runs)

    def _count(self, s: SetAsk) -> Counted:
        if s not in self._counted:
            self._counted[s] = count(self._inventory, s)
        return self._counted[s]


def _hold(inventory: Inventory, s: SetPlacement, held: list[SetPlacement]) -> None:
    for uses, nodes in s.usage():
        for name, pods in nodes:
            inventory.hold(name, {uses: pods})
    held.append(s)
    inventory.sync()


def _release(inventory: Inventory, held: list[SetPlacement]) -> None:
    for s in held:
        for uses, nodes in s.usage():
            for name, pods in nodes:
                inventory.release(name, {uses: pods})


def _gang(inventory: Inventory, sets: list[SetPlacement], note: str) -> Placement:
    ordered = tuple(sorted(sets, key=lambda s: s.set_index))
    return Placement(ordered, part_of(inventory, ordered), note)
