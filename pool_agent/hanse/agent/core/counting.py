"""Capacity counted on the nodes, for requests that a shape cannot answer exactly.

Everything the kubelet would check is checked: per host, pods = min over all resources of what is left divided by what
one pod asks. Selectors are read from the labels themselves. Pods that are exact on a host's class count as the shape
counts them, so that a gang of several sets never finds more room here than its exact sets would find there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hanse.agent.core.hosts import is_state
from hanse.agent.core.inventory import Inventory, Node
from hanse.agent.core.topology import Domain
from hanse.model.ids import FlavorName
from hanse.model.selectors import untolerated
from hanse.shape.capacity import Cap, joined, lowest
from hanse.shape.classes import Answer, HostClass
from hanse.shape.lens import Layers, Lens, Refused, SetAsk, ladder, layered
from hanse.shape.seat import View


@dataclass(frozen=True, slots=True)
class Counted:
    """Views of all trees, and the slots behind the bins of their lowest domains."""

    views: list[View]
    groups: list[list[int]]


def count(inventory: Inventory, s: SetAsk) -> Counted:
    """The pool as a set sees it, node by node."""
    most = pods_per_node(inventory, s)
    groups: list[list[int]] = []
    views: list[View] = []
    known_preferred = not s.preferred
    for g, (levels, root) in enumerate(zip(inventory.trees, inventory.roots, strict=True)):
        rungs = ladder(levels)
        known_preferred = known_preferred or rungs.find(s.preferred) is not None
        depth = rungs.find(s.required) if s.required else -1
        layers = layered(s.slices, rungs)
        if depth is None or isinstance(layers, Refused) or not root.kids:
            continue
        exclusive = layers.exclusive if layers.exclusive < rungs.depth else -1
        lens = Lens((), (), layers.floors, layers.steps, exclusive, certain=True)
        counter = _Counter(inventory, s.flavor, most, layers, lens, groups)
        views.append(View(g, rungs, lens, counter.cap(root, -1), depth))
    return Counted(views if known_preferred else [], groups)


@dataclass(frozen=True, slots=True)
class _Counter:
    inventory: Inventory
    flavor: FlavorName
    most: list[int]
    layers: Layers
    lens: Lens
    groups: list[list[int]]

    def cap(self, domain: Domain, depth: int) -> Cap:
        if domain.kids or domain.parent is None:
            kids = tuple([(self.cap(domain.kids[name], depth + 1), 1) for name in sorted(domain.kids)])
            return joined(None, kids, self.lens, depth)
        return self._leaf(domain, depth)

    def _leaf(self, domain: Domain, depth: int) -> Cap:
        nodes = sorted([self.inventory.at(slot) for slot in domain.slots], key=lambda node: node.name)
        alike: dict[tuple[int, int, int], list[int]] = {}
        whole, whole_hosts, free_gpus = True, 0, 0
        for node in nodes:
            if node.at is None or node.kind is None:
                continue
            is_whole = node.free_gpus == node.kind.cls.gpus
            whole = whole and is_whole
            whole_hosts += is_whole and node.kind.cls.gpus > 0
            free_gpus += node.free_gpus if node.flavor == self.flavor else 0
            most = self.layers.on_host(self.most[node.slot], whole=is_whole)
            if most:
                alike.setdefault((most, node.free_gpus, node.kind.cls.gpus), []).append(node.slot)
        hist: list[tuple[int, int, int, int, int]] = []
        for (most, free, full), slots in sorted(alike.items()):
            hist.append((most, len(slots), len(self.groups), free, full))
            self.groups.append(slots)
        return lowest(None, hist, self.lens, depth, free=free_gpus, whole=whole, whole_hosts=whole_hosts)


def pods_per_node(inventory: Inventory, s: SetAsk) -> list[int]:
    """By slot, how many pods of the set the node could take now."""
    answers = {cls: _answer(inventory, cls, s) for cls in inventory.table.classes}
    slots: list[int] = []
    out = [0] * len(inventory.nodes)
    for node in inventory.nodes:
        if node is None or node.at is None or node.kind is None:
            continue
        answer = answers[node.kind.cls]
        if answer is Answer.NO or (answer is Answer.MAYBE and not s.selector.matches(node.facts.labels)):
            continue
        if node.kind.cls.is_exact(s.pod):
            out[node.slot] = node.free_gpus // s.pod[node.kind.cls.gpu]
        else:
            slots.append(node.slot)
    for slot, most in zip(slots, _divided(inventory, slots, s).tolist(), strict=True):
        out[slot] = most
    return out


def _answer(inventory: Inventory, cls: HostClass, s: SetAsk) -> Answer:
    if cls.flavor != s.flavor or untolerated(cls.taints, s.tolerations) is not None:
        return Answer.NO
    table = inventory.table
    return cls.selected(s.selector, table.left_out, open_ended=table.open_ended)


def _divided(inventory: Inventory, slots: list[int], s: SetAsk) -> NDArray[np.int64]:
    most = np.full(len(slots), np.iinfo(np.int64).max, dtype=np.int64)
    nodes: list[Node] = [inventory.at(slot) for slot in slots]
    for name, amount in s.pod.items():
        left = np.fromiter((node.free(name) for node in nodes), dtype=np.int64, count=len(nodes))
        np.minimum(most, np.maximum(left, 0) // amount, out=most)
    return most


def wrong_kind(node: Node, s: SetAsk) -> str:
    """Why a node is no place for the set, whatever its state and whatever is free on it; "" if it may be one."""
    if node.flavor != s.flavor:
        return f"of flavor {node.flavor}"
    if not s.selector.matches(node.facts.labels):
        return "not selected"
    lasting = tuple(t for t in node.facts.taints if not is_state(t))
    taint = untolerated(lasting, s.tolerations)
    return f"tainted {taint.key}" if taint is not None else ""
