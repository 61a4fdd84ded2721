"""Small work: a set of pods that one host holds together goes where the fragmentation score says (`packing`).

Outside the exact class the score chooses among all hosts. Inside it, the shape has chosen a bin of hosts that are
equal to everybody above (`hanse.shape.single`), and the score, which sees more of them, chooses among these.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from hanse.agent.core.inventory import Inventory
from hanse.agent.core.packing import Spot, Terms
from hanse.agent.core.places import SetPlacement, set_placement
from hanse.agent.core.topology import Domain
from hanse.agent.core.usable import Mask
from hanse.model.ids import NodeName
from hanse.model.resources import DEVICE_MILLI, GPU_MILLI
from hanse.shape.ask import SetAsk
from hanse.shape.domains import Branch, Leaf
from hanse.shape.lens import Ladder, Refused, ladder, layered
from hanse.shape.levels import bin_number
from hanse.shape.refuse import NoFit, refuse_lone
from hanse.shape.take import Take

EQUAL_HOSTS_MAX: Final = 256  # hosts equal in shape that are looked at in detail


def on_one_host(inventory: Inventory, index: int, s: SetAsk) -> SetPlacement | None:
    """The set on the host and device with the best score; None if no host holds all of it, or if it asks for more
    than a host: a domain for itself, a spread over several, or shares for several pods; or for devices of one group,
    which the score does not know. One host has one value of every label, and the selector of a set that wants one
    value asks that there is one."""
    if s.devices is not None or s.exclusive or any(s.count % x.size for x in s.slices):
        return None
    if s.count > 1 and s.pod[GPU_MILLI]:
        return None
    if s.spread is not None and s.spread.max_pods < s.count:
        return None
    spot = inventory.packing().best(s, _in_known_trees(inventory, s))
    return None if spot is None else _placed(inventory, index, s, spot)


def among_equals(inventory: Inventory, index: int, s: SetAsk, group: int, take: Take) -> SetPlacement | None:
    """The set on the best of the hosts that a decision for one host may mean.

    None if it is for more than one, or if all their GPUs are free, so that they hardly differ.
    """
    slots = _equals(inventory, inventory.roots[group], take)
    if len(slots) < 2:
        return None
    packing = inventory.packing()
    among = np.zeros(len(packing.columns.nodes), dtype=bool)
    among[[packing.columns.row[slot] for slot in slots]] = True
    spot = packing.best(s, among)
    return None if spot is None else _placed(inventory, index, s, spot)


def is_lone(s: SetAsk) -> bool:
    """Whether `on_one_host` says all there is to say about room for the set: one pod that wants nothing of others."""
    return s.count == 1 and not s.slices and s.devices is None


def no_room(inventory: Inventory, s: SetAsk) -> NoFit:
    """Why a lone pod finds no host, if one could hold it when it is empty."""
    rows = inventory.table.rows(s)
    columns = inventory.columns()
    free = int(columns.free[columns.of_flavor(s.flavor)].sum())
    return refuse_lone(() if isinstance(rows, Refused) else rows.rows, s, free)


def terms_on(inventory: Inventory, s: SetAsk, name: NodeName, devices: Sequence[int]) -> Terms | None:
    """What the score of a host is made of for a set that it holds; None if it does not, or if no score places it.

    Args:
        devices: see SetPlacement.
    """
    node, shares = inventory.node(name), GPU_MILLI in s.pod
    if node is None or node.at is None or (devices and (not shares or s.count > 1)):
        return None
    row = inventory.columns().row[node.slot]
    if any(node.free(resource) < amount * s.count for resource, amount in s.pod.items() if resource != GPU_MILLI):
        return None  # what holds it is over its limits
    left = DEVICE_MILLI - node.shared().get(devices[0], 0) if shares else 0
    return inventory.packing().terms(s, row, left) if left >= s.pod[GPU_MILLI] else None


def _placed(inventory: Inventory, index: int, s: SetAsk, spot: Spot) -> SetPlacement:
    node = inventory.columns().nodes[spot.row]
    devices = [node.device_with(spot.device_left)] if s.pod[GPU_MILLI] else []
    return set_placement(inventory, index, s, [(node.name, s.count)], devices)


def _in_known_trees(inventory: Inventory, s: SetAsk) -> Mask | None:
    """Rows in trees that know every level the set names; None for all."""
    rungs = [ladder(levels) for levels in inventory.trees]
    known = [_knows(rung, s) for rung in rungs]
    if s.preferred and all(rung.find(s.preferred) is None for rung in rungs):
        known = [False] * len(rungs)
    if all(known):
        return None
    columns = inventory.columns()
    lows = np.diff(columns.starts)
    return np.repeat(np.repeat(known, columns.lows), lows)


def _knows(rungs: Ladder, s: SetAsk) -> bool:
    required = not s.required or rungs.find(s.required) is not None
    return required and not isinstance(layered(s, rungs), Refused)


def _equals(inventory: Inventory, root: Domain, take: Take) -> list[int]:
    """Slots of the hosts that `among_equals` looks at, EQUAL_HOSTS_MAX at the most."""
    domains = [root]
    while take.kids:
        if len(take.kids) > 1 or take.kids[0][1] > 1:
            return []
        node = domains[0].node()
        assert isinstance(node, Branch)
        key = node.kids[take.kids[0][0]][0].key
        domains = [kid for domain in domains for kid in domain.alike(key)]
        take = take.kids[0][2]
    leaf = domains[0].node()
    assert isinstance(leaf, Leaf)
    if len(take.hosts) != 1 or take.hosts[0][1] != 1:
        return []
    c, free, _ = leaf.bins[take.hosts[0][0]]
    if free == inventory.table.classes[c].gpus:
        return []
    return [slot for domain in domains for slot in domain.within(bin_number(c, free))][:EQUAL_HOSTS_MAX]
