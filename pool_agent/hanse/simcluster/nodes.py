"""The nodes of a simulated cluster: facts by index, amounts as arrays.

A node is an index everywhere inside; its name, domains and labels are looked up only where somebody outside asks.
`taken` counts what runs on a node whoever started it, `foreign` the part that is not the federation's. Both may
exceed `allocatable` when a device breaks under running pods, and nothing new is admitted then, as by a kubelet.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.model.ids import NodeName
from hanse.model.resources import GPU_RESOURCES, PODS, Resources
from hanse.model.selectors import Effect, Taint
from hanse.simcluster.labels import LayeredLabels
from hanse.simcluster.spec import NODES_MAX, ClusterSpec, NodeGroup, Sizes, hosts_in

Indexes = NDArray[np.int32]
Request = tuple[tuple[int, int], ...]
"""What one pod takes: (row of the resource, amount)."""

UNKNOWN_RESOURCE: Final = -1

NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", Effect.NO_EXECUTE)
UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)


class NodeTable:
    """All nodes of one cluster."""

    def __init__(self, spec: ClusterSpec) -> None:
        _check_size(spec)
        self.names: list[NodeName] = []
        self.paths: list[tuple[str, ...]] = []
        self.labels: list[LayeredLabels] = []
        self.group_of: list[int] = []
        self.groups: tuple[NodeGroup, ...] = spec.groups
        for number, group in enumerate(spec.groups):
            self._add_group(number, group)
        self.index: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        if len(self.index) != len(self.names):
            raise ValueError(f"pool {spec.name}: two node groups give nodes the same name; set their node_prefix")
        self._fill_arrays()

    def _add_group(self, number: int, group: NodeGroup) -> None:
        keys = tuple(level.key for level in group.levels)
        for path in _host_paths(group):
            name = NodeName("-".join((group.prefix, *path)))
            self.names.append(name)
            self.paths.append(path)
            self.labels.append(LayeredLabels(group.labels, keys, path, name))
            self.group_of.append(number)

    def _fill_arrays(self) -> None:
        count = len(self.names)
        self.resources: list[str] = sorted({n for group in self.groups for n in group.allocatable} | {PODS})
        self.row_of: dict[str, int] = {name: row for row, name in enumerate(self.resources)}
        members = np.array(self.group_of, dtype=np.int32)
        per_group = [[group.allocatable[n] for group in self.groups] for n in self.resources]
        self.allocatable: NDArray[np.int64] = np.array(per_group, dtype=np.int64)[:, members]
        self.taken: NDArray[np.int64] = np.zeros((len(self.resources), count), dtype=np.int64)
        self.foreign: NDArray[np.int64] = np.zeros_like(self.taken)
        self.ready: NDArray[np.bool_] = np.ones(count, dtype=np.bool_)
        self.alive: NDArray[np.bool_] = np.ones(count, dtype=np.bool_)
        self.removed: NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)
        self.cordoned: NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)
        self.healthy: NDArray[np.bool_] = np.ones(count, dtype=np.bool_)
        self.added_taints: dict[int, tuple[Taint, ...]] = {}

    def __len__(self) -> int:
        return len(self.names)

    def indexes(self, names: Sequence[str]) -> Indexes:
        """Indexes of nodes by name. Raises KeyError with the first name that is unknown."""
        index = self.index
        return np.array([index[name] for name in names], dtype=np.int32)

    def request(self, resources: Mapping[str, int]) -> Request:
        """What one pod with these resources takes; row UNKNOWN_RESOURCE for what no node offers."""
        rows = [(self.row_of.get(name, UNKNOWN_RESOURCE), amount) for name, amount in resources.items()]
        return (*rows, (self.row_of[PODS], 1))

    def take(self, nodes: Indexes, request: Request) -> str:
        """Admit one pod on each of the nodes (a node may occur more than once), all or none.

        Returns:
            "" if admitted, else the kubelet's reason with the first node that has no room.
        """
        for position, (row, amount) in enumerate(request):
            if row == UNKNOWN_RESOURCE:
                self.give(nodes, request[:position])
                return "OutOfResource: no node offers what the pod asks for"
            taken = self.taken[row]
            np.add.at(taken, nodes, amount)
            over = taken[nodes] > self.allocatable[row][nodes]
            if over.any():
                self.give(nodes, request[: position + 1])
                return f"OutOf{self.resources[row]}: node {self.names[nodes[int(over.argmax())]]} is full"
        return ""

    def give(self, nodes: Indexes, request: Request) -> None:
        """Undo `take`."""
        for row, amount in request:
            np.subtract.at(self.taken[row], nodes, amount)

    def take_foreign(self, nodes: Indexes, resources: Mapping[str, int], sign: int) -> None:
        """Account for one pod of somebody else on each of the nodes: begun (sign 1) or ended (-1)."""
        for row, amount in self.request(resources):
            np.add.at(self.taken[row], nodes, sign * amount)
            np.add.at(self.foreign[row], nodes, sign * amount)

    def reset_allocatable(self, nodes: Indexes) -> None:
        """Nodes offer again what their group says."""
        for row, name in enumerate(self.resources):
            whole = [self.groups[self.group_of[node]].allocatable[name] for node in nodes.tolist()]
            self.allocatable[row, nodes] = whole

    def taints(self, node: int) -> tuple[Taint, ...]:
        """All taints of a node, also those that mirror its state."""
        mirrored = () if self.ready[node] else (NOT_READY,)
        cordon = (UNSCHEDULABLE,) if self.cordoned[node] else ()
        return (*self.groups[self.group_of[node]].taints, *self.added_taints.get(node, ()), *mirrored, *cordon)

    def allocatable_of(self, node: int) -> Resources:
        """What a node offers, before any usage."""
        group = self.groups[self.group_of[node]].allocatable
        column = self.allocatable[:, node].tolist()
        same = all(group[name] == amount for name, amount in zip(self.resources, column, strict=True))
        return group if same else Resources(zip(self.resources, column, strict=True))

    def foreign_of(self, node: int) -> Resources:
        """What pods of somebody else use of a node."""
        return Resources(zip(self.resources, self.foreign[:, node].tolist(), strict=True))

    def below(self, path: str) -> Indexes:
        """Nodes under a path of domain names (`b7/r03`), or the one node of that name; none if there is no such."""
        if path in self.index:
            return np.array([self.index[path]], dtype=np.int32)
        parts = tuple(part for part in path.split("/") if part)
        depth = len(parts)
        if not parts:
            return np.zeros(0, dtype=np.int32)
        found = [i for i, own in enumerate(self.paths) if own[:depth] == parts or self._ends_in(i, parts)]
        return np.array(found, dtype=np.int32)

    def _ends_in(self, node: int, parts: tuple[str, ...]) -> bool:
        """Whether the path's last part is the node's own name: some vendors have no shorter name for a host."""
        return parts[-1] == self.names[node] and self.paths[node][:-1] == parts[:-1]

    def gpus_of(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """GPUs of any kind per node, of a table by resource and node."""
        rows = [self.row_of[name] for name in GPU_RESOURCES if name in self.row_of]
        total: NDArray[np.int64] = amounts[rows].sum(axis=0)
        return total


def _check_size(spec: ClusterSpec) -> None:
    count = sum(hosts_in(group.sizes) for group in spec.groups)
    if not 1 <= count <= NODES_MAX:
        raise ValueError(f"pool {spec.name}: {count} nodes; a pool has 1 to {NODES_MAX}")


def _host_paths(group: NodeGroup) -> Iterator[tuple[str, ...]]:
    """Domain names of every host, in topology order."""
    widths = [len(str(largest - 1)) for largest in _largest_per_level(group.sizes, len(group.levels))]
    yield from _paths_below(group, widths, group.sizes, 0, ())


def _paths_below(
    group: NodeGroup, widths: list[int], sizes: Sizes, depth: int, above: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    prefix, width = group.levels[depth].prefix, widths[depth]
    if isinstance(sizes, int):
        for number in range(sizes):
            yield (*above, f"{prefix}{number:0{width}d}")
        return
    for number, inner in enumerate(sizes):
        yield from _paths_below(group, widths, inner, depth + 1, (*above, f"{prefix}{number:0{width}d}"))


def _largest_per_level(sizes: Sizes, depth: int) -> list[int]:
    """The most children that any domain has, level by level from the top."""
    largest = [1] * depth
    rank: list[Sizes] = [sizes]
    for level in range(depth):
        largest[level] = max([1, *(s if isinstance(s, int) else len(s) for s in rank)])
        rank = [inner for s in rank if not isinstance(s, int) for inner in s]
    return largest
