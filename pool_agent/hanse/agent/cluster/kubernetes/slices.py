"""Which devices of a node are near each other, read from ResourceSlices (`resource.k8s.io/v1`). Pure.

Drivers tell, device by device, a PCIe root and a NUMA node (`resource.kubernetes.io/pcieRoot`, `…/numaNode`). GPUs
are those of the GPU drivers that are whole; network interfaces are every device of the interface drivers. Devices of
a node count with those of the same two attributes.

A driver replaces the slices of a node's pool by others of a higher generation, one after the other; until all of them
are there, what it tells of the pool is not believed, and the node's groups are not known. Slices for many nodes at
once (`nodeSelector`, `allNodes`) say nothing about a node.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from hanse.agent.cluster.kubernetes.objects import DeviceObject, SliceObject
from hanse.model.devices import DeviceGroup
from hanse.model.ids import NodeName

SLICES_PATH: Final = "/apis/resource.k8s.io/v1/resourceslices"
GPU_DRIVERS: Final = frozenset({"gpu.nvidia.com", "gpu.amd.com"})
NIC_DRIVERS: Final = frozenset({"dra.net", "sriovnetwork.k8snetworkplumbingwg.io"})
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
PARTS_OF_GPUS: Final = frozenset({"mig", "vfio"})  # `type` of devices that are no whole GPU, or another face of one

Near = tuple[str, str]  # NUMA node, PCIe root


class Slices:
    """All slices, by node."""

    def __init__(self) -> None:
        self._slices: dict[str, SliceObject] = {}
        self._of_node: dict[NodeName, dict[str, None]] = {}

    def set(self, found: SliceObject) -> frozenset[NodeName]:
        """A slice is new or changed; returns the nodes of which it tells, or told."""
        gone = self.drop(found.metadata.name)
        node = NodeName(found.spec.node_name)
        if not node or found.spec.driver not in GPU_DRIVERS | NIC_DRIVERS:
            return gone
        self._slices[found.metadata.name] = found
        self._of_node.setdefault(node, {})[found.metadata.name] = None
        return gone | {node}

    def drop(self, name: str) -> frozenset[NodeName]:
        """A slice is gone; returns the nodes of which it told."""
        found = self._slices.pop(name, None)
        if found is None:
            return frozenset()
        node = NodeName(found.spec.node_name)
        del self._of_node[node][name]
        if not self._of_node[node]:
            del self._of_node[node]
        return frozenset({node})

    def groups(self, node: NodeName) -> tuple[DeviceGroup, ...]:
        """The devices of a node by what they share; () if that is not known."""
        gpus: Counter[Near] = Counter()
        nics: Counter[Near] = Counter()
        for own in self._newest(node):
            counted = gpus if own.spec.driver in GPU_DRIVERS else nics
            counted.update(_near(device) for device in own.spec.devices if not _is_part(device))
        if not gpus:
            return ()
        return tuple(DeviceGroup(*near, gpus[near], nics[near]) for near in sorted(gpus.keys() | nics.keys()))

    def _newest(self, node: NodeName) -> Iterable[SliceObject]:
        """The slices of every pool of the node that is told completely."""
        pools: dict[tuple[str, str], list[SliceObject]] = {}
        for name in self._of_node.get(node, ()):
            own = self._slices[name]
            pools.setdefault((own.spec.driver, own.spec.pool.name), []).append(own)
        for told in pools.values():
            newest = max(own.spec.pool.generation for own in told)
            present = [own for own in told if own.spec.pool.generation == newest]
            if len(present) >= present[0].spec.pool.resource_slice_count:
                yield from present


def _near(device: DeviceObject) -> Near:
    numa, root = device.attributes.get(NUMA_NODE), device.attributes.get(PCIE_ROOT)
    number = numa.number if numa is not None else None
    return ("" if number is None else str(number), "" if root is None else root.text)


def _is_part(device: DeviceObject) -> bool:
    kind = device.attributes.get("type")
    return kind is not None and kind.text in PARTS_OF_GPUS
