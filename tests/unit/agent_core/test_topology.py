"""Labels become paths; who knows no label is near nothing (groups B, C and the label rules of foreign-specs)."""

import pytest

from hanse.agent.core.dialects import detect_levels, detect_trees
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.topology import path_of, usable_levels
from hanse.model.ids import NodeName
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.reasons import Reason
from hanse.model.resources import NVIDIA_GPU, Resources
from tests.unit.agent_core.pools import BLOCK_RACK, H100, REST, facts, placed, pods, pool, refused

OCI = "oci.oraclecloud.com/"


def labelled(name: str, **labels: str) -> NodeFacts:
    """A host of eight GPUs with these labels; `_` in a keyword stands for what the caller writes."""
    return NodeFacts(NodeName(name), labels, (), Resources({**REST, NVIDIA_GPU: 8}))


def nodes(count: int, labels: dict[str, str]) -> list[NodeFacts]:
    return [
        NodeFacts(NodeName(f"n{i:02}"), {k: v.format(i=i) for k, v in labels.items()}, (), Resources({NVIDIA_GPU: 8}))
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("labels", "dialect", "aliases"),
    [
        (
            {
                "topology.kubernetes.io/zone": "z",
                "cloud.google.com/gce-topology-subblock": "s{i}",
                "cloud.google.com/gce-topology-block": "b",
                "cloud.google.com/gce-topology-host": "h{i}",
            },
            "gke", "zone block rack",
        ),
        (
            {f"topology.k8s.aws/network-node-layer-{n}": f"nn-{n}" for n in (3, 2, 1)}
            | {"topology.k8s.aws/ultraserver-id": "u"},
            "aws", "spine block rack nvlink",
        ),
        (
            {OCI + "rdma.local_block_id": "l", OCI + "rdma.network_block_id": "n", OCI + "rdma.host_id": "h"},
            "oci", "spine block rack",
        ),
        (
            {f"backend.coreweave.cloud/{k}": k for k in ("leafgroup", "superpod", "fabric", "flavor")},
            "coreweave", "fabric block rack",
        ),
        (
            {f"ib.coreweave.cloud/{k}": k for k in ("leafgroup", "superpod", "fabric")},
            "coreweave-ib", "fabric block rack",
        ),
        (
            {f"fabric.topograph.run/tier-{n}": f"s{n}" for n in range(3)}
            | {"accelerator.topograph.run/domain": "nvl"},
            "topograph", "spine block rack nvlink",
        ),
        (
            {f"network.topology.nvidia.com/{k}": k for k in ("leaf", "core", "spine")},
            "topograph-0.3", "spine block rack",
        ),
        ({"crusoe.ai/pod.id": "p", "nvidia.com/gpu.clique": "u.1"}, "crusoe", "block nvlink"),
        ({"nvidia.com/gpu.clique": "u.1"}, "nvidia", "nvlink"),
        ({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}, "generic", "region zone"),
        ({"node.kubernetes.io/instance-type": "x"}, "none", ""),
    ],
)  # fmt: skip
def test_every_dialect_is_read_coarse_to_fine(labels: dict[str, str], dialect: str, aliases: str) -> None:
    found, levels = detect_levels(nodes(4, labels))
    assert (found, " ".join(level.alias for level in levels)) == (dialect, aliases)


def test_two_networks_are_two_trees() -> None:
    h100 = nodes(6, {"ib.coreweave.cloud/fabric": "f", "ib.coreweave.cloud/leafgroup": "l{i}"})
    gb200 = nodes(4, {"topology.kubernetes.io/zone": "z", "nvidia.com/gpu.clique": "c{i}"})
    assert [(tree.dialect, tree.nodes) for tree in detect_trees([*h100, *gb200])] == [
        ("coreweave-ib", 6),
        ("nvidia", 4),
    ]


def test_nodes_that_lack_a_label_stay_in_their_tree() -> None:
    full = nodes(2, {"cloud.provider.com/topology-block": "b", "cloud.provider.com/topology-rack": "r"})
    some = nodes(9, {"cloud.provider.com/topology-block": "b"})
    (tree,) = detect_trees([*full, *some])
    assert [level.alias for level in tree.levels] == ["block", "rack"]


@pytest.mark.parametrize("value", [None, "", "no-imds-data", "unknown", "None"])
def test_b17_a_node_without_a_place_is_near_nothing(value: str | None) -> None:
    inventory = pool({})
    for i in range(20):
        own = {} if value is None else {"example.com/rack": value}
        base = facts(f"b1/r/n{i:02}")
        labels = {k: v for k, v in base.labels.items() if k != "example.com/rack"} | own
        inventory.set_node(NodeFacts(base.name, labels, (), base.allocatable))
    no = refused(inventory, pods(2, 8, required="rack"))
    assert (no.reason, no.found) == (Reason.SHAPE, 1)
    (found,) = placed(inventory, pods(20, 8, required="block"))
    assert len(found) == 20


def test_equal_names_in_two_blocks_are_two_racks() -> None:
    inventory = pool({"b1/r1/x": 8, "b2/r1/y": 8})
    assert refused(inventory, pods(2, 8, required="rack")).found == 1


def test_b12_cliques_of_equal_number_are_two_domains() -> None:
    clique = (Level("nvidia.com/gpu.clique", "nvlink"),)
    inventory = pool({f"{uuid}.17044/n{i}": 4 for uuid in ("3183419e", "bbc2edac") for i in range(2)}, clique)
    assert refused(inventory, pods(4, 4, required="nvlink")).found == 2


def test_c3_a_host_named_like_its_block_is_placed() -> None:
    inventory = Inventory([Flavor(H100, 0)], [BLOCK_RACK])
    inventory.set_node(labelled("b1", **{"example.com/block": "b1", "example.com/rack": "b1"}))
    assert placed(inventory, pods(1, 8, required="block")) == [{"b1": 1}]


def test_c9_a_level_is_found_in_each_tree_by_itself() -> None:
    ib = (Level("ib/spine", "spine"), Level("ib/rack", "rack"))
    nvl = (Level("nvl/rack", "rack"), Level("nvl/domain", "nvlink"))
    inventory = Inventory([Flavor(H100, 0)], [ib, nvl])
    for i in range(2):
        inventory.set_node(labelled(f"ib{i}", **{"ib/spine": "s", "ib/rack": f"r{i}"}))
        inventory.set_node(labelled(f"nvl{i}", **{"nvl/rack": "r", "nvl/domain": f"d{i}"}))
    assert placed(inventory, pods(2, 8, required="rack")) == [{"nvl0": 1, "nvl1": 1}]
    assert placed(inventory, pods(2, 8, required="spine")) == [{"ib0": 1, "ib1": 1}]
    assert refused(inventory, pods(2, 8, required="nvlink")).found == 1
    (found,) = placed(inventory, pods(3, 8))
    assert len(found) == 3
    assert refused(inventory, pods(1, required="zone")).reason is Reason.LEVEL_UNKNOWN


def test_a_level_is_asked_for_by_key_or_alias() -> None:
    inventory = pool({"b1/r1/x": 8, "b1/r2/y": 8})
    for level in ("block", "example.com/block"):
        assert len(placed(inventory, pods(2, 8, required=level))[0]) == 2
    for level in ("host", "kubernetes.io/hostname"):
        assert refused(inventory, pods(2, 8, required=level)).found == 1


def test_an_island_that_is_missing_is_its_network_block() -> None:
    levels = (Level(OCI + "rdma.hpc_island_id", "spine"), Level(OCI + "rdma.network_block_id", "block"))
    assert path_of("n", {OCI + "rdma.network_block_id": "nb"}, levels) == ("nb", "nb")
    assert path_of("n", {OCI + "rdma.network_block_id": "no-imds-data"}, levels) == ("?n", "?n")


def test_the_host_is_a_level_without_being_listed() -> None:
    assert usable_levels((BLOCK_RACK[0], Level("kubernetes.io/hostname", "host"))) == BLOCK_RACK[:1]
