"""The labels in which vendors write a node's place in the network, and how to tell which of them a cluster speaks.

Every dialect is listed coarse to fine, whatever direction its own numbers count in (AWS layers grow downwards,
Topograph tiers upwards). Aliases are the same words in every dialect, so that `required: rack` means the closest
group of hosts anywhere: region, zone, fabric, spine, block, rack, nvlink.

Nodes that know different levels form trees of their own (an InfiniBand tree beside NVL72 racks). Nodes that know a
part of another tree's levels stay in that tree: they lack labels, and are near nothing at the levels they lack.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hanse.agent.core.facts import NodeFacts
from hanse.model.placement import Level

UNKNOWN_VALUES: Final = frozenset(("", "no-imds-data", "unknown", "none"))
TREES_MAX: Final = 8

_NVLINK: Final = "nvlink"
_CLIQUE: Final = Level("nvidia.com/gpu.clique", _NVLINK)
_GENERIC: Final = (
    Level("topology.kubernetes.io/region", "region"),
    Level("topology.kubernetes.io/zone", "zone"),
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One vendor's labels, coarse to fine, without region and zone."""

    name: str
    levels: tuple[Level, ...]


def _dialect(name: str, prefix: str, *levels: tuple[str, str]) -> Dialect:
    return Dialect(name, tuple(Level(prefix + key, alias) for key, alias in levels))


# In order of preference: a node that carries the labels of several speaks the first.
DIALECTS: Final = (
    _dialect(
        "gke", "cloud.google.com/", ("gce-topology-block", "block"), ("gce-topology-subblock", "rack")
    ),
    _dialect("gke-daemon", "topology.gke.io/", ("cluster", "block"), ("rack", "rack")),
    _dialect(
        "aws", "topology.k8s.aws/",
        ("network-node-layer-1", "spine"), ("network-node-layer-2", "block"), ("network-node-layer-3", "rack"),
        ("network-node-layer-4", "layer-4"), ("network-node-layer-5", "layer-5"), ("ultraserver-id", _NVLINK),
    ),
    _dialect(
        "oci", "oci.oraclecloud.com/",
        ("rdma.hpc_island_id", "spine"), ("rdma.network_block_id", "block"), ("rdma.local_block_id", "rack"),
        ("host.gpu_memory_fabric_id", _NVLINK),
    ),
    _dialect(
        "coreweave", "",
        ("backend.coreweave.cloud/fabric", "fabric"), ("backend.coreweave.cloud/superpod", "block"),
        ("backend.coreweave.cloud/leafgroup", "rack"), ("ds.coreweave.com/nvlink.domain", _NVLINK),
    ),
    _dialect(
        "coreweave-ib", "",
        ("ib.coreweave.cloud/fabric", "fabric"), ("ib.coreweave.cloud/superpod", "block"),
        ("ib.coreweave.cloud/leafgroup", "rack"), ("ds.coreweave.com/nvlink.domain", _NVLINK),
    ),
    _dialect("crusoe", "crusoe.ai/", ("ib.partition.id", "fabric"), ("pod.id", "block")),
    _dialect(
        "topograph", "",
        ("fabric.topograph.run/tier-4", "tier-4"), ("fabric.topograph.run/tier-3", "tier-3"),
        ("fabric.topograph.run/tier-2", "spine"), ("fabric.topograph.run/tier-1", "block"),
        ("fabric.topograph.run/tier-0", "rack"), ("accelerator.topograph.run/domain", _NVLINK),
        ("accelerator.topograph.run/sub-domain", "nvlink-partition"),
    ),
    _dialect(
        "topograph-0.3", "network.topology.nvidia.com/",
        ("core", "spine"), ("spine", "block"), ("leaf", "rack"), ("accelerator", _NVLINK),
    ),
    _dialect(
        "topograph-0.1", "network.topology.nvidia.com/",
        ("datacenter", "datacenter"), ("spine", "spine"), ("block", "block"), ("accelerator", _NVLINK),
    ),
    _dialect(
        "volcano", "volcano.sh/", ("hypercluster", "spine"), ("hypernode", "block"), ("tor", "rack")
    ),
    _dialect("example", "cloud.provider.com/", ("topology-block", "block"), ("topology-rack", "rack")),
    _dialect(
        "generic", "topology.kubernetes.io/", ("spine", "spine"), ("block", "block"), ("rack", "rack")
    ),
)  # fmt: skip

# A level that may be missing where the next finer one says the same.
SAME_AS: Final = {"oci.oraclecloud.com/rdma.hpc_island_id": "oci.oraclecloud.com/rdma.network_block_id"}


_SPEECHLESS: Final[tuple[str, tuple[Level, ...]]] = ("none", ())


@dataclass(frozen=True, slots=True)
class DetectedTree:
    """Levels that a group of nodes knows."""

    dialect: str
    levels: tuple[Level, ...]
    nodes: int


def detect_levels(nodes: Iterable[NodeFacts]) -> tuple[str, tuple[Level, ...]]:
    """The dialect and levels that most nodes speak; ("none", ()) if no node has a topology label."""
    trees = detect_trees(nodes)
    return (trees[0].dialect, trees[0].levels) if trees else ("none", ())


def detect_trees(nodes: Iterable[NodeFacts]) -> tuple[DetectedTree, ...]:
    """The trees of a cluster, the most spoken first; ties by levels."""
    alike = Counter(tuple(node.labels) for node in nodes)  # a node speaks by the names of its labels alone
    spoken: Counter[tuple[str, tuple[Level, ...]]] = Counter()
    for labels, count in alike.items():
        spoken[_speaks(labels)] += count
    del spoken[_SPEECHLESS]
    kept: list[DetectedTree] = []
    richest = sorted(spoken.items(), key=lambda s: (-len(s[0][1]), -s[1], s[0][0], [x.key for x in s[0][1]]))
    for (name, levels), count in richest:
        home = next((i for i, t in enumerate(kept) if set(levels) <= set(t.levels)), None)
        if home is None:
            kept.append(DetectedTree(name, levels, count))
        else:
            kept[home] = DetectedTree(kept[home].dialect, kept[home].levels, kept[home].nodes + count)
    kept.sort(key=lambda t: (-t.nodes, t.dialect, [x.key for x in t.levels]))
    return tuple(kept[:TREES_MAX])


def _speaks(labels: Sequence[str]) -> tuple[str, tuple[Level, ...]]:
    generic = [level for level in _GENERIC if level.key in labels]
    name, own = "generic", list[Level]()
    for dialect in DIALECTS:
        own = [level for level in dialect.levels if _says(labels, level)]
        if own:
            name = dialect.name
            break
    if _CLIQUE.key in labels and all(level.alias != _NVLINK for level in own):
        own.append(_CLIQUE)
        name = name if len(own) > 1 else "nvidia"
    return (name, (*generic, *own)) if generic or own else _SPEECHLESS


def _says(labels: Sequence[str], level: Level) -> bool:
    """Whether a node with these labels has that one, with a value or without one that means anything."""
    return level.key in labels or SAME_AS.get(level.key, "") in labels
