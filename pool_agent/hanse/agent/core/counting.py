"""Capacity counted on the nodes, for requests that a shape cannot answer exactly.

Everything the kubelet would check is checked: per host, pods = min over all resources of what is left divided by what
one pod asks. Selectors are read from the labels themselves. Pods that are exact on a host's class count as the shape
counts them, so that a gang of several sets never finds more room here than its exact sets would find there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hanse.agent.core.columns import Columns, Ints
from hanse.agent.core.groups import pods_in, refuse_groups
from hanse.agent.core.hosts import is_state
from hanse.agent.core.inventory import Inventory, Node
from hanse.agent.core.packing import open_to
from hanse.agent.core.topology import Domain
from hanse.model.resources import GPU_MILLI
from hanse.model.selectors import untolerated
from hanse.shape.ask import SetAsk
from hanse.shape.capacity import Cap, joined, lowest
from hanse.shape.classes import Answer, label_hash
from hanse.shape.lens import Layers, Lens, Refused, ladder, layered
from hanse.shape.refuse import NoFit
from hanse.shape.seat import View


@dataclass(frozen=True, slots=True)
class Counted:
    """Views of all trees, and the slots behind the bins of their lowest domains."""

    views: list[View]
    groups: list[list[int]]


def count(inventory: Inventory, s: SetAsk) -> Counted:
    """The pool as a set sees it, node by node."""
    columns = inventory.columns()
    most = pods_per_node(inventory, s)
    groups: list[list[int]] = []
    views: list[View] = []
    first = 0
    for g, (levels, root) in enumerate(zip(inventory.trees, inventory.roots, strict=True)):
        rungs = ladder(levels)
        starts = columns.starts[first : first + columns.lows[g] + 1]
        first += columns.lows[g]
        depth = rungs.find(s.required) if s.required else -1
        layers = layered(s, rungs)
        if depth is None or isinstance(layers, Refused) or not root.kids:
            continue
        seen = layers.bare if s.ragged else layers
        lens = seen.lens((), (), certain=True, ragged=layers if s.ragged else None)
        leaves = iter(_leaves(columns, most, starts, s, seen, groups))
        views.append(View(g, rungs, lens, _cap(root, leaves, lens, -1), depth))
    known = not s.preferred or any(ladder(levels).find(s.preferred) is not None for levels in inventory.trees)
    return Counted(views if known else [], groups)


def _cap(domain: Domain, leaves: "Iterator[_Leaf]", lens: Lens, depth: int) -> Cap:
    """The capacity of a domain; `leaves` come in the order of paths."""
    if domain.kids or domain.parent is None:
        kids = tuple([(_cap(domain.kids[name], leaves, lens, depth + 1), 1) for name in sorted(domain.kids)])
        return joined(kids, lens, depth)
    low = next(leaves)
    return lowest(low.hist, lens, depth, free=low.free, whole=low.whole, whole_hosts=low.whole_hosts)


class _Leaf(NamedTuple):
    hist: list[tuple[int, int, int, int, int]]
    free: int
    whole: bool
    whole_hosts: int


def _leaves(
    columns: Columns, most: Ints, starts: list[int], s: SetAsk, layers: Layers, groups: list[list[int]]
) -> list[_Leaf]:
    """The lowest domains of one tree: hosts that are alike in every way that counts are one entry."""
    rows = slice(starts[0], starts[-1])
    number, free, full = columns.number[rows], columns.free[rows], columns.full[rows]
    usable, whole = number >= 0, free == full
    most = most[rows] if not (layers.caps and layers.caps[-1]) else np.minimum(most[rows], layers.caps[-1])
    can = most // layers.host * layers.host
    if layers.exclusive == len(layers.floors):
        can = np.where(whole, can, 0)
    offsets = np.array(starts[:-1]) - starts[0]
    of_flavor = columns.of_flavor(s.flavor)[rows]
    free_sums = np.add.reduceat(np.where(of_flavor & usable, free, 0), offsets).tolist()
    broken = np.add.reduceat(usable & ~whole, offsets).tolist()
    whole_hosts = np.add.reduceat(usable & whole & (full > 0), offsets).tolist()
    hists = _hists(columns, starts, can, free, full, groups)
    return [_Leaf(hists.get(i, []), free_sums[i], not broken[i], whole_hosts[i]) for i in range(len(starts) - 1)]


def _hists(
    columns: Columns, starts: list[int], can: Ints, free: Ints, full: Ints, groups: list[list[int]]
) -> dict[int, list[tuple[int, int, int, int, int]]]:
    """By lowest domain, (pods, hosts, index in `groups`, free, full) of hosts that are alike."""
    held = np.flatnonzero(can)
    low = np.repeat(np.arange(len(starts) - 1), np.diff(starts))[held]
    order = np.lexsort((full[held], free[held], can[held], low))
    keys = np.stack((low, can[held], free[held], full[held]))[:, order]
    edges = [0, *(np.flatnonzero(np.any(keys[:, 1:] != keys[:, :-1], axis=0)) + 1).tolist(), len(held)]
    slots = [columns.nodes[row].slot for row in (held[order] + starts[0]).tolist()]
    out: dict[int, list[tuple[int, int, int, int, int]]] = {}
    if not slots:
        return out
    for (i, pods, gpus, of), first, end in zip(keys[:, edges[:-1]].T.tolist(), edges, edges[1:], strict=False):
        out.setdefault(i, []).append((pods, end - first, len(groups), gpus, of))
        groups.append(slots[first:end])
    return out


def pods_per_node(inventory: Inventory, s: SetAsk) -> Ints:
    """By row of the columns, how many pods of the set the node could take now."""
    columns = inventory.columns()
    out: Ints = np.zeros(len(columns.nodes), dtype=np.int64)
    for number, cls in enumerate(inventory.table.classes):
        answer = open_to(inventory.table, cls, s)
        if s.pins:
            answer = min(answer, inventory.table.pinned(cls, s))
        if answer is Answer.NO:
            continue
        rows = np.flatnonzero(columns.number == number)
        if cls.is_exact(s.pod):
            most = columns.free[rows] // s.pod[cls.gpu]
        else:
            most = np.min([_rooms(columns, name, amount)[rows] for name, amount in s.pod.items()], axis=0)
        if answer is Answer.MAYBE:
            matches = [_matches(s, columns.nodes[row].facts.labels) for row in rows.tolist()]
            most = np.where(np.array(matches, dtype=bool), most, 0)
        out[rows] = most
    return _in_groups(columns, s, out) if s.devices is not None else out


def _in_groups(columns: Columns, s: SetAsk, most: Ints) -> Ints:
    """No more than the groups of devices hold that the set asks for."""
    assert s.devices is not None
    for row in np.flatnonzero(most).tolist():
        most[row] = min(int(most[row]), pods_in(columns.nodes[row].group_rooms(s.devices), s.gpus))
    return most


def _matches(s: SetAsk, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is selected, and has the values that the set is pinned to."""
    pinned = all(key in labels and label_hash(labels[key]) == value for key, value in s.pins)
    return pinned and s.selector.matches(labels)


def _rooms(columns: Columns, name: str, amount: int) -> Ints:
    """By row, how many pods that ask for so much of a resource there is room for; shares device by device."""
    rooms: Ints = columns.left(name) // amount
    return np.minimum(rooms, (columns.devices() // amount).sum(axis=1)) if name == GPU_MILLI else rooms


def no_group(inventory: Inventory, s: SetAsk) -> NoFit | None:
    """Why no host could ever give a pod of the set devices of one group; None if some could, or none is asked for."""
    if s.devices is None:
        return None
    offered = (node.facts.devices for node in inventory.nodes if node is not None and not wrong_kind(node, s))
    return refuse_groups(offered, s.devices, s.gpus, s.flavor)


def wrong_kind(node: Node, s: SetAsk) -> str:
    """Why a node is no place for the set, whatever its state and whatever is free on it; "" if it may be one."""
    if node.flavor != s.flavor:
        return f"of flavor {node.flavor}"
    if not s.selector.matches(node.facts.labels):
        return "not selected"
    lasting = tuple(t for t in node.facts.taints if not is_state(t))
    taint = untolerated(lasting, s.tolerations)
    return f"tainted {taint.key}" if taint is not None else ""
