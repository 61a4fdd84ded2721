"""Twenty pools of unequal size, network and accelerator, of which one is a real network.

`lingjun` has the hosts of a published topology file (core group, spine, leaf; a leaf's name is unique only inside its
spine). The others are regular trees in the labels of the vendors that write such: three levels (spine, block, rack),
two (block, rack), InfiniBand fabrics, and racks of one NVLink domain with 18 hosts of 4 GPUs. Which levels a pool has
its hosts tell by themselves, as in production (`detect_trees`).

The same hosts make the 20 inventories and the one tree: there every host carries one label more, its pool.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from hanse.agent.core.dialects import detect_trees
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.model.ids import FlavorName, NodeName, PoolName
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.resources import CPU, MEMORY, NVIDIA_GPU, PODS, Resources
from hanse.model.selectors import Operator, Requirement

POOL_LEVEL: Final = Level("bench.hanse/pool", "pool")
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
FLAVORS: Final = ("h100", "h800", "a100", "gb200")
GPU_CPU_MILLI: Final = 24_000
GPU_MEMORY_BYTES: Final = 256 * 2**30

_LINGJUN: Final = ("topology.kubernetes.io/spine", "topology.kubernetes.io/block", "topology.kubernetes.io/rack")
_LADDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "generic": _LINGJUN,
    "aws": tuple(f"topology.k8s.aws/network-node-layer-{n}" for n in (1, 2, 3)),
    "oci": tuple(
        f"oci.oraclecloud.com/rdma.{key}" for key in ("hpc_island_id", "network_block_id", "local_block_id")
    ),
    "gke": ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
    "ib": tuple(f"ib.coreweave.cloud/{key}" for key in ("fabric", "superpod", "leafgroup")),
    "nvl72": ("backend.coreweave.cloud/fabric", "backend.coreweave.cloud/superpod", "ds.coreweave.com/nvlink.domain"),
    "crusoe": ("crusoe.ai/ib.partition.id", "crusoe.ai/pod.id"),
}
# Domains of each level in the one above, then hosts in the lowest.
_REGULAR: Final[Sequence[tuple[str, str, str, tuple[int, ...]]]] = (
    ("aws-1", "aws", "h100", (2, 5, 6, 16)),
    ("aws-2", "aws", "h100", (2, 5, 5, 16)),
    ("aws-3", "aws", "a100", (1, 4, 6, 16)),
    ("aws-4", "aws", "h100", (1, 3, 4, 16)),
    ("oci-1", "oci", "h100", (2, 3, 8, 16)),
    ("oci-2", "oci", "h800", (1, 4, 8, 16)),
    ("oci-3", "oci", "a100", (1, 2, 8, 16)),
    ("gke-1", "gke", "h100", (8, 6, 16)),
    ("gke-2", "gke", "h100", (3, 8, 12)),
    ("gke-3", "gke", "a100", (8, 6, 12)),
    ("ib-1", "ib", "h100", (1, 4, 4, 32)),
    ("ib-2", "ib", "h100", (2, 3, 5, 20)),
    ("ib-3", "ib", "h800", (1, 3, 6, 20)),
    ("nvl72-1", "nvl72", "gb200", (1, 4, 8, 18)),
    ("nvl72-2", "nvl72", "gb200", (1, 2, 8, 18)),
    ("crusoe-1", "crusoe", "h100", (2, 10, 24)),
    ("crusoe-2", "crusoe", "a100", (1, 10, 24)),
    ("colo-1", "generic", "h800", (2, 4, 6, 12)),
    ("colo-2", "generic", "h100", (1, 4, 5, 10)),
)


@dataclass(frozen=True, slots=True)
class Pool:
    """The hosts of one pool."""

    name: PoolName
    flavor: FlavorName
    nodes: tuple[NodeFacts, ...]

    @property
    def gpus(self) -> int:
        """All accelerators."""
        return sum(node.allocatable.gpus for node in self.nodes)


def pools(topology: Path) -> tuple[Pool, ...]:
    """The fleet. Raises OSError or KeyError if the file with the real network is not there or is another."""
    found = [Pool(PoolName("lingjun"), FlavorName("h800"), tuple(_lingjun(topology)))]
    for name, ladder, flavor, counts in _REGULAR:
        found.append(Pool(PoolName(name), FlavorName(flavor), tuple(_regular(name, ladder, flavor, counts))))
    return tuple(found)


def flavors() -> tuple[Flavor, ...]:
    """One for each kind of accelerator."""
    return tuple(
        Flavor(FlavorName(name), at, (Requirement(GPU_PRODUCT, Operator.IN, (name,)),))
        for at, name in enumerate(FLAVORS)
    )


def pool_inventory(pool: Pool) -> Inventory:
    """The pool as its agent has it."""
    return Inventory(flavors(), _ladders(pool.nodes), pool.nodes)


def tree_inventory(fleet: Sequence[Pool]) -> Inventory:
    """All hosts in one inventory, with the pool as the level above all others."""
    ladders = dict.fromkeys(ladder for pool in fleet for ladder in _ladders(pool.nodes))
    nodes = [
        replace(node, labels={**node.labels, POOL_LEVEL.key: pool.name}) for pool in fleet for node in pool.nodes
    ]
    return Inventory(flavors(), [(POOL_LEVEL, *ladder) for ladder in ladders], nodes)


def _ladders(nodes: Sequence[NodeFacts]) -> list[tuple[Level, ...]]:
    return [tree.levels for tree in detect_trees(nodes)]


def _lingjun(topology: Path) -> Iterator[NodeFacts]:
    with topology.open(newline="", encoding="utf-8") as file:
        for at, row in enumerate(csv.DictReader(file)):
            labels = dict(zip(_LINGJUN, (row["DSW"], row["PSW"], row["ASW"]), strict=True))
            yield _node(f"lingjun-{at:04}", labels, "h800")


def _regular(name: str, ladder: str, flavor: str, counts: tuple[int, ...]) -> Iterator[NodeFacts]:
    for at, path in enumerate(product(*(range(n) for n in counts))):
        labels = {key: "-".join(str(n) for n in path[: depth + 1]) for depth, key in enumerate(_LADDERS[ladder])}
        yield _node(f"{name}-{at:04}", labels, flavor)


def _node(name: str, levels: Mapping[str, str], flavor: str) -> NodeFacts:
    gpus = 4 if flavor == "gb200" else 8
    offered = {
        NVIDIA_GPU: gpus,
        CPU: gpus * GPU_CPU_MILLI,
        MEMORY: gpus * GPU_MEMORY_BYTES,
        PODS: 110,
    }
    return NodeFacts(NodeName(name), {**levels, GPU_PRODUCT: flavor}, (), Resources(offered))
