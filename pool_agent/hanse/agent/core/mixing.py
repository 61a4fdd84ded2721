"""A gang of several sets on nodes, all sets in one step: counted nodes as the ground of `hanse.shape.together`, and
names for what the search found.

Pods that are exact on a host's class count as the shape counts them; beside them, everything that the kubelet would
check is left for the others. So hosts hold exact pods first, which is the order that leaves most room.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hanse.agent.core.counting import count, pods_per_node
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.mapping import Runs, hosts_alike, runs_named
from hanse.agent.core.places import HostRuns, SetPlacement, Stretch, set_on_hosts, set_placement
from hanse.agent.core.topology import Domain
from hanse.model.ids import NodeName
from hanse.shape.areas import Area, Bin
from hanse.shape.arrangement import arrangement
from hanse.shape.ask import Ask, SetAsk
from hanse.shape.decision import MixTake
from hanse.shape.joint import Seats
from hanse.shape.lens import Ladder, Refused, ladder, layered
from hanse.shape.mixes import Ints, Mask
from hanse.shape.seat import View
from hanse.shape.together import Together, in_scope


@dataclass(frozen=True, slots=True)
class OnNodes:
    """All sets of a gang on their nodes, and their seats."""

    seats: Seats
    sets: list[SetPlacement]


def arranged_nodes(inventory: Inventory, ask: Ask) -> OnNodes | None:
    """The best nodes for a gang of several sets; None if there are none, or if the problem is too large."""
    if not in_scope(ask.sets):
        return None
    ground = NodeGround(inventory, ask.sets)
    search = Together(ground, ask.sets)
    found = search.found()
    if found is None:
        return None
    whole = arrangement(search, found, ask.sets)
    runs: Runs = []
    for g, take in whole.take.takes:
        runs.extend(runs_named(inventory, inventory.roots[g], take, ground.slots))
    sets: list[SetPlacement] = []
    for i, s in enumerate(ask.sets):
        own = [(name, pods) for name, mix in runs if (pods := whole.take.mixes[mix][i])]
        sets.append(set_placement(inventory, ask.index[i], s, own))
    return OnNodes(whole.seats, sets)


def mixed_sets(inventory: Inventory, ask: Ask, taken: MixTake) -> list[SetPlacement]:
    """The sets of a decision that was made for all in one, on hosts that it may mean."""
    runs = hosts_alike(inventory, taken.takes)
    return [
        set_on_hosts(inventory, ask.index[i], s, _own(runs, [taken.mixes[mix][i] for mix in runs.pods]))
        for i, s in enumerate(ask.sets)
    ]


def _own(runs: HostRuns, pods: Sequence[int]) -> HostRuns:
    """The hosts of one set, with its pods on each of all hosts."""
    names: list[NodeName] = []
    own: list[int] = []
    stretches: list[Stretch] = []
    at = 0
    for tree, path, hosts in runs.stretches:
        held = [(name, n) for name, n in zip(runs.names[at : at + hosts], pods[at : at + hosts], strict=True) if n]
        at += hosts
        if held:
            names.extend([name for name, _ in held])
            own.extend([n for _, n in held])
            stretches.append((tree, path, len(held)))
    return HostRuns(names, own, stretches)


class NodeGround:
    """Counted nodes. Hosts in one state are one bin, whose number is its place in `slots`."""

    def __init__(self, inventory: Inventory, sets: Sequence[SetAsk]) -> None:
        self._inventory = inventory
        self._sets = sets
        self._states: _States | None = None
        self._ladders = [ladder(levels) for levels in inventory.trees]
        self._alone: dict[tuple[int, int], tuple[int, ...]] = {}
        self.slots: list[list[int]] = []

    def ladders(self) -> list[Ladder]:
        """See Ground."""
        return self._ladders

    def views(self, s: SetAsk) -> list[View]:
        """See Ground."""
        return count(self._inventory, s).views

    def root(self, group: int) -> Domain:
        """See Ground."""
        return self._inventory.roots[group]

    def kids(self, place: Domain) -> list[tuple[Domain, int]]:
        """See Ground."""
        return [(place.kids[name], 1) for name in sorted(place.kids)]

    def key(self, place: Domain) -> object:
        """See Ground."""
        return place.path

    def bins(self, area: Area[Domain]) -> list[Bin]:
        """See Ground."""
        states, row = self._known(), self._inventory.columns().row
        alike: dict[int, list[int]] = {}
        for slot in area.place.slots:
            alike.setdefault(states.of_row[row[slot]], []).append(slot)
        out: list[Bin] = []
        for state, slots in sorted(alike.items()):
            alone = self._alone.get((area.group, state))
            if alone is None:
                most: list[int] = states.most[row[slots[0]]].tolist()
                rungs = self._ladders[area.group]
                alone = tuple([_on_host(s, n, rungs) for s, n in zip(self._sets, most, strict=True)])
                self._alone[area.group, state] = alone
            if any(alone):
                out.append(Bin(len(self.slots), len(slots), self._inventory.at(slots[0]).raw_free_gpus, alone))
                self.slots.append(slots)
        return out

    def holds(self, area: Area[Domain], at: Bin, pods: Ints) -> Mask:
        """See Ground."""
        states, columns = self._known(), self._inventory.columns()
        node = self._inventory.at(self.slots[at.number][0])
        assert node.cls is not None
        row = columns.row[node.slot]
        held = np.all(pods <= states.most[row], axis=1)
        exact = [node.cls.is_exact(s.pod) for s in self._sets]
        gpus = np.array([s.pod[node.cls.gpu] * own for s, own in zip(self._sets, exact, strict=True)], dtype=np.int64)
        held &= pods @ gpus <= columns.free[row]
        for i, s in enumerate(self._sets):
            if not exact[i]:
                held &= (pods[:, i] == 0) | self._suffices(s, pods, row)
        return np.asarray(held)

    def _suffices(self, s: SetAsk, pods: Ints, row: int) -> Mask:
        """Whether what pods of all sets use together leaves room for those of one that is not exact."""
        held = np.ones(len(pods), dtype=bool)
        for name in s.pod:
            each = np.array([other.pod[name] for other in self._sets], dtype=np.int64)
            held &= pods @ each <= int(self._inventory.columns().left(name)[row])
        return held

    def _known(self) -> "_States":
        if self._states is None:
            self._states = _states(self._inventory, self._sets)
        return self._states


class _States(NamedTuple):
    """What tells hosts apart for a gang.

    Attributes:
        of_row: by row of the columns, the number of the host's state.
        most: by row and set, the pods that there is room for if the set is alone.
    """

    of_row: list[int]
    most: Ints


def _states(inventory: Inventory, sets: Sequence[SetAsk]) -> _States:
    columns = inventory.columns()
    most = np.stack([pods_per_node(inventory, s) for s in sets], axis=1)
    told = [columns.number, columns.free, *most.T]
    for name in sorted({name for s in sets for name in s.pod}):
        enough = sum([s.pod[name] * s.count for s in sets])
        told.append(np.minimum(columns.left(name), enough))
    _, of_row = np.unique(np.stack(told, axis=1), axis=0, return_inverse=True)
    return _States(of_row.ravel().tolist(), most)


def _on_host(s: SetAsk, most: int, rungs: Ladder) -> int:
    """Pods of a set alone on a host that has room for so many."""
    layers = layered(s, rungs)
    return 0 if isinstance(layers, Refused) else layers.on_host(most, whole=False)
