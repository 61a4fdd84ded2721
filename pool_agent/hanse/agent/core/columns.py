"""The nodes of a pool as arrays, in topology order: tree by tree, path by path, then by name.

For questions that look at every node. Built when somebody asks, and afterwards only the rows of changed nodes are
written; nodes that come, go or move make the next question build them anew.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hanse.agent.core.node import Node
from hanse.model.ids import FlavorName

Ints = NDArray[np.int64]


class Columns:
    """One row per node.

    Attributes:
        nodes: in topology order.
        lows: lowest domains of each tree.
        starts: row at which each lowest domain begins, and the number of rows at the end.
        row: by slot.
        number: class in the table, -1 for a node that takes no pods.
        free, full: GPUs that the shape shows, and all of them.
        version: grows whenever the row is written.
    """

    __slots__ = (
        "_devices",
        "_flavors",
        "_left",
        "free",
        "full",
        "lows",
        "nodes",
        "number",
        "row",
        "starts",
        "version",
    )

    def __init__(self, trees: Iterable[Sequence[Sequence[Node]]]) -> None:
        self.nodes: list[Node] = []
        self.starts = [0]
        self.lows: list[int] = []
        for domains in trees:
            self.lows.append(len(domains))
            for inside in domains:
                self.nodes.extend(sorted(inside, key=_name))
                self.starts.append(len(self.nodes))
        self.row = {node.slot: i for i, node in enumerate(self.nodes)}
        self.number: Ints = np.full(len(self.nodes), -1, dtype=np.int64)
        self.free: Ints = np.zeros(len(self.nodes), dtype=np.int64)
        self.full: Ints = np.zeros(len(self.nodes), dtype=np.int64)
        self.version: Ints = np.zeros(len(self.nodes), dtype=np.int64)
        self._left: dict[str, Ints] = {}
        self._devices: Ints | None = None
        self._flavors: dict[FlavorName, NDArray[np.bool_]] = {}
        self.renew(self.nodes)

    def renew(self, nodes: Iterable[Node]) -> None:
        """Writes the rows of changed nodes."""

        for node in nodes:
            at = self.row[node.slot]
            self.version[at] += 1
            usable = node.at is not None
            self.number[at] = node.at[0] if node.at is not None else -1
            self.free[at] = node.free_gpus if usable else 0
            self.full[at] = node.kind.cls.gpus if usable and node.kind is not None else 0
            for name, left in self._left.items():
                left[at] = max(0, node.free(name))
            if self._devices is not None and not _wrote_devices(self._devices[at], node):
                self._devices = None

    def left(self, name: str) -> Ints:
        """What is left of a resource on each node, never below zero."""
        found = self._left.get(name)
        if found is None:
            free = (max(0, node.free(name)) for node in self.nodes)
            found = self._left[name] = np.fromiter(free, dtype=np.int64, count=len(self.nodes))
        return found

    def devices(self) -> Ints:
        """Thousandths left on each device, a row per node: opened devices first, least left first, zeros last."""
        if self._devices is None:
            width = max([1, *[node.offered_gpus for node in self.nodes]])
            self._devices = np.zeros((len(self.nodes), width), dtype=np.int64)
            for at, node in enumerate(self.nodes):
                _wrote_devices(self._devices[at], node)
        return self._devices

    def of_flavor(self, flavor: FlavorName) -> NDArray[np.bool_]:
        """Which nodes are of a flavor."""
        found = self._flavors.get(flavor)
        if found is None:
            found = self._flavors[flavor] = np.array([node.flavor == flavor for node in self.nodes], dtype=bool)
        return found


def _wrote_devices(row: Ints, node: Node) -> bool:
    """False if the node has more devices than any had before."""
    left = node.device_room()
    if len(left) > len(row):
        return False
    row[: len(left)] = left
    row[len(left) :] = 0
    return True


def _name(node: Node) -> str:
    return node.name
