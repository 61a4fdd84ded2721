"""The nodes of a simulated cluster: facts by index, amounts as arrays.

A node is an index everywhere inside; its name, domains and labels are looked up only where somebody outside asks.
`free` is what is left of `allocatable` beside everything that runs, whoever started it, and `foreign` what is not
the federation's of that. It goes below zero when a device breaks under running pods; nothing new is admitted then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hanse.model.devices import DeviceGroup
from hanse.model.ids import NodeName
from hanse.model.resources import GPU_RESOURCES, PODS, Resources
from hanse.model.selectors import Effect, Taint
from hanse.simcluster.labels import LayeredLabels
from hanse.simcluster.spec import NODES_MAX, ClusterSpec, NodeGroup, hosts_in

NO_GROUP: Final = -1
REQUESTS_CACHED_MAX: Final = 10_000  # shapes of pods

Indexes = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Request:
    """What one pod takes.

    Attributes:
        amounts: by resource of the table.
        unknown: a resource that no node offers, "" if there is none.
    """

    amounts: NDArray[np.int64]
    unknown: str = ""


NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", Effect.NO_EXECUTE)
UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "", Effect.NO_SCHEDULE)


class NodeTable:
    """All nodes of one cluster.

    Attributes:
        ghosts: nodes that the spec no longer has, and gangs still name; they are removed for ever.
    """

    def __init__(self, spec: ClusterSpec, ghosts: Sequence[str] = ()) -> None:
        _check_size(spec)
        self.names: list[NodeName] = []
        self.paths: list[tuple[str, ...]] = []
        self.labels: list[LayeredLabels] = []
        self.group_of: list[int] = []
        self.groups: tuple[NodeGroup, ...] = spec.groups
        for number, group in enumerate(spec.groups):
            self._add_group(number, group)
        self.ghosts = tuple(ghosts)
        for name in ghosts:
            self._add_ghost(NodeName(name))
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

    def _add_ghost(self, name: NodeName) -> None:
        self.names.append(name)
        self.paths.append((name,))
        self.labels.append(LayeredLabels({}, (), (), name))
        self.group_of.append(NO_GROUP)

    def _fill_arrays(self) -> None:
        count = len(self.names)
        self.resources: list[str] = sorted({n for group in self.groups for n in group.allocatable} | {PODS})
        self.column_of: dict[str, int] = {name: row for row, name in enumerate(self.resources)}
        self._requests: dict[tuple[tuple[str, int], ...], Request] = {}
        self.allocatable: NDArray[np.int64] = self.whole(np.arange(count))
        self.free: NDArray[np.int64] = self.allocatable.copy()
        self.foreign: NDArray[np.int64] = np.zeros_like(self.free)
        self.ready: NDArray[np.bool_] = np.ones(count, dtype=np.bool_)
        self.alive: NDArray[np.bool_] = np.ones(count, dtype=np.bool_)
        self.removed: NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)
        self.cordoned: NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)
        self.healthy: NDArray[np.bool_] = np.ones(count, dtype=np.bool_)
        self.added_taints: dict[int, tuple[Taint, ...]] = {}
        gone = slice(count - len(self.ghosts), count)
        self.ready[gone] = self.alive[gone] = False
        self.removed[gone] = True

    def whole(self, nodes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """What nodes offer when nothing is broken."""
        per_group = [[group.allocatable[n] for n in self.resources] for group in self.groups]
        per_group.append([0] * len(self.resources))  # of ghosts: NO_GROUP is the last index
        owners = np.array(self.group_of, dtype=np.int32)[nodes]
        whole: NDArray[np.int64] = np.array(per_group, dtype=np.int64)[owners]
        return whole

    def __len__(self) -> int:
        return len(self.names)

    def indexes(self, names: Sequence[str]) -> Indexes:
        """Indexes of nodes by name. Raises KeyError with the first name that is unknown."""
        index = self.index
        return np.array([index[name] for name in names], dtype=np.int32)

    def request(self, resources: Mapping[str, int]) -> Request:
        """What one pod with these resources takes, one of `pods` included."""
        key = tuple(resources.items())
        found = self._requests.get(key)
        if found is None:
            if len(self._requests) >= REQUESTS_CACHED_MAX:
                self._requests.clear()
            found = self._requests[key] = self._new_request(resources)
        return found

    def _new_request(self, resources: Mapping[str, int]) -> Request:
        amounts = np.zeros(len(self.resources), dtype=np.int64)
        unknown = ""
        for name, amount in {PODS: 1, **resources}.items():
            if name in self.column_of:
                amounts[self.column_of[name]] = amount
            elif amount > 0:
                unknown = name
        return Request(amounts, unknown)

    def take(self, nodes: Indexes, request: Request, *, distinct: bool = False) -> str:
        """Admit one pod on each of the nodes, all or none; `distinct` promises that no node occurs twice.

        Returns:
            "" if admitted, else the kubelet's reason with the first node that has no room.
        """
        if request.unknown:
            return f"OutOf{request.unknown}: no node offers it"
        if distinct:
            left = self.free[nodes] - request.amounts
        else:
            need = np.bincount(nodes, minlength=len(self.names))[nodes]
            left = self.free[nodes] - need[:, np.newaxis] * request.amounts
        if left.min(initial=0) < 0 and (short := (left < 0) & (request.amounts > 0)).any():
            position, row = (int(i) for i in np.argwhere(short)[0])
            return f"OutOf{self.resources[row]}: node {self.names[int(nodes[position])]} is full"
        self.free[nodes] = left
        return ""

    def give(self, nodes: Indexes, request: Request, *, distinct: bool = False) -> None:
        """Undo `take`."""
        if distinct:
            self.free[nodes] += request.amounts
        else:
            np.add.at(self.free, nodes, request.amounts)

    def occupy(self, nodes: Indexes, request: Request) -> None:
        """Account for a pod on each of the nodes that runs already, whether it fits or not."""
        np.subtract.at(self.free, nodes, request.amounts)

    def add_foreign(self, nodes: Indexes, request: Request, sign: int) -> None:
        """Account for one pod of somebody else on each of the nodes: begun (sign 1) or ended (-1)."""
        np.subtract.at(self.free, nodes, sign * request.amounts)
        np.add.at(self.foreign, nodes, sign * request.amounts)

    def offer(self, nodes: Indexes, amounts: Mapping[str, int]) -> None:
        """Nodes offer other amounts of some resources from now on, whatever runs there."""
        for name, amount in amounts.items():
            row = self.column_of[name]
            self.free[nodes, row] += amount - self.allocatable[nodes, row]
            self.allocatable[nodes, row] = amount

    def offer_whole(self, nodes: Indexes) -> None:
        """Nodes offer again what their group says."""
        whole = self.whole(nodes)
        self.free[nodes] += whole - self.allocatable[nodes]
        self.allocatable[nodes] = whole

    def taints(self, node: int) -> tuple[Taint, ...]:
        """All taints of a node, also those that mirror its state."""
        mirrored = () if self.ready[node] else (NOT_READY,)
        cordon = (UNSCHEDULABLE,) if self.cordoned[node] else ()
        own = self.groups[self.group_of[node]].taints
        return (*own, *self.added_taints.get(node, ()), *mirrored, *cordon)

    def allocatable_of(self, node: int) -> Resources:
        """What a node offers, before any usage."""
        group = self.groups[self.group_of[node]].allocatable
        column = self.allocatable[node].tolist()
        same = all(group[name] == amount for name, amount in zip(self.resources, column, strict=True))
        return group if same else Resources(zip(self.resources, column, strict=True))

    def devices_of(self, node: int) -> tuple[DeviceGroup, ...]:
        """What the GPUs of a node share."""
        number = self.group_of[node]
        return () if number == NO_GROUP else self.groups[number].devices

    def foreign_of(self, node: int) -> Resources:
        """What pods of somebody else use of a node."""
        return Resources(zip(self.resources, self.foreign[node].tolist(), strict=True))

    def below(self, path: str) -> Indexes:
        """Nodes under a path of domain names (`b7/r03`), or the one node of that name; none if there is no such."""
        if path in self.index:
            found = [self.index[path]]
            return np.array([i for i in found if self.group_of[i] != NO_GROUP], dtype=np.int32)
        parts = tuple(part for part in path.split("/") if part)
        depth = len(parts)
        if not parts:
            return np.zeros(0, dtype=np.int32)
        found = [
            i
            for i, own in enumerate(self.paths[: len(self) - len(self.ghosts)])
            if own[:depth] == parts or self._ends_in(i, parts)
        ]
        return np.array(found, dtype=np.int32)

    def _ends_in(self, node: int, parts: tuple[str, ...]) -> bool:
        """Whether the path's last part is the node's own name: some vendors have no shorter name for a host."""
        return parts[-1] == self.names[node] and self.paths[node][:-1] == parts[:-1]

    def gpus_of(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """GPUs of any kind per node, of a table by node and resource."""
        rows = [self.column_of[name] for name in GPU_RESOURCES if name in self.column_of]
        total: NDArray[np.int64] = amounts[:, rows].sum(axis=1)
        return total


def _check_size(spec: ClusterSpec) -> None:
    count = sum(hosts_in(group.sizes) for group in spec.groups)
    if not 1 <= count <= NODES_MAX:
        raise ValueError(f"pool {spec.name}: {count} nodes; a pool has 1 to {NODES_MAX}")


def _host_paths(group: NodeGroup) -> list[tuple[str, ...]]:
    """Domain names of every host, in topology order."""
    paths: list[tuple[str, ...]] = [()]
    for level, counts in zip(group.levels, group.sizes, strict=True):
        width = len(str(max(counts) - 1))
        names = [f"{level.prefix}{number:0{width}d}" for number in range(max(counts))]
        paths = [(*above, name) for above, count in zip(paths, counts, strict=True) for name in names[:count]]
    return paths
