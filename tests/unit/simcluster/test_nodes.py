"""Nodes: paths, what they report, and who is on them."""

import numpy as np
import pytest

from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Effect, Taint
from hanse.simcluster.engine import Engine
from hanse.simcluster.facts import FactKind
from hanse.simcluster.inputs import (
    AddedTaint,
    AddForeign,
    FailNodes,
    MarkNodes,
    RemoveForeign,
    RestoreNodes,
    pack,
)
from hanse.simcluster.nodes import NodeTable
from hanse.simcluster.spec import Busy, ClusterSpec, NodeGroup
from tests.unit.simcluster.clusters import BEGIN_MS, HOST, LEVELS, engine, gang, hold, run, some, spec, start


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("b1", range(8, 16)),
        ("b1/r0", range(8, 12)),
        ("b1/r0/h3", [11]),
        ("/b1/r0/", range(8, 12)),
        ("n-b1-r0-h3", [11]),
        ("b1/r0/n-b1-r0-h3", [11]),
        ("b0/r0/n-b1-r0-h3", []),
        ("b2", []),
        ("r0", []),
        ("b1/r", []),
        ("", []),
        ("/", []),
    ],
)
def test_a_path_means_the_nodes_below(path: str, found: list[int]) -> None:
    assert NodeTable(spec()).below(path).tolist() == list(found)


def test_numbers_are_as_wide_as_the_largest() -> None:
    table = NodeTable(spec(counts=(1, 11, 2)))
    assert (table.names[0], table.names[-1]) == ("n-b0-r00-h0", "n-b0-r10-h1")


def test_labels_are_a_mapping_like_any_other() -> None:
    labels = NodeTable(spec()).labels[11]
    assert labels == {
        "gpu": "h100",
        "example.com/block": "b1",
        "example.com/rack": "r0",
        "kubernetes.io/hostname": "n-b1-r0-h3",
    }
    assert len(labels) == 4
    assert "example.com/rack" in labels
    assert labels.get("nothing") is None


def test_names_must_differ() -> None:
    group = NodeGroup("n", LEVELS, spec().groups[0].sizes, HOST)
    with pytest.raises(ValueError, match="same name"):
        NodeTable(ClusterSpec("pool", (group, group)))


def test_what_nodes_report_can_be_marked_and_restored() -> None:
    cluster = engine()
    nodes = pack(some([3]))
    cluster.apply(
        MarkNodes(
            nodes,
            cordoned=True,
            ready=False,
            healthy=False,
            add_taints=(AddedTaint("t", "v", int(Effect.NO_SCHEDULE)),),
            allocatable={NVIDIA_GPU: 6},
        ),
        BEGIN_MS,
    )
    table = cluster.nodes
    assert (table.ready[3], table.cordoned[3], table.healthy[3]) == (False, True, False)
    assert table.allocatable_of(3)[NVIDIA_GPU] == 6
    assert Taint("t", "v", Effect.NO_SCHEDULE) in table.taints(3)
    assert {taint.key for taint in table.taints(3)} == {
        "t",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unschedulable",
    }
    cluster.apply(RestoreNodes(nodes), BEGIN_MS)
    assert (table.ready[3], table.cordoned[3], table.healthy[3]) == (True, False, True)
    assert table.allocatable_of(3) == HOST
    assert table.taints(3) == ()


def test_a_node_that_is_only_not_ready_keeps_its_pods() -> None:
    cluster = engine()
    key = run(cluster, [3])
    cluster.apply(MarkNodes(pack(some([3])), ready=False), BEGIN_MS + 200)
    assert cluster.counts(key).running == 1
    cluster.apply(MarkNodes(pack(some([3])), ready=True), BEGIN_MS + 300)
    cluster.advance(BEGIN_MS + 1_100)
    assert cluster.counts(key).succeeded == 1


def test_a_dead_machine_is_not_ready_whatever_is_marked() -> None:
    cluster = engine()
    cluster.apply(FailNodes(pack(some([3]))), BEGIN_MS)
    cluster.apply(MarkNodes(pack(some([3])), ready=True), BEGIN_MS)
    assert not cluster.nodes.ready[3]


def test_a_no_execute_taint_evicts() -> None:
    cluster = engine()
    key = run(cluster, [3, 4])
    taint = AddedTaint("t", "", int(Effect.NO_EXECUTE))
    cluster.apply(MarkNodes(pack(some([3])), add_taints=(taint,)), BEGIN_MS + 200)
    assert (cluster.counts(key).missing, cluster.counts(key).running) == (1, 1)
    cluster.apply(MarkNodes(pack(some([3])), remove_taint_keys=("t",)), BEGIN_MS + 200)
    assert cluster.nodes.taints(3) == ()


def test_a_broken_device_lowers_what_is_offered_under_running_pods() -> None:
    cluster = engine()
    key = run(cluster, [3])
    cluster.apply(MarkNodes(pack(some([3])), allocatable={NVIDIA_GPU: 6}), BEGIN_MS + 200)
    assert cluster.counts(key).running == 1
    cluster.apply(hold([3], gang(2), gpus=1), BEGIN_MS + 200)
    assert cluster.apply(start(gang(2)), BEGIN_MS + 200).startswith("OutOfnvidia.com/gpu")
    cluster.advance(BEGIN_MS + 1_100)
    assert cluster.apply(start(gang(2)), BEGIN_MS + 1_100) == ""


def test_removed_machines_are_not_listed() -> None:
    cluster = engine()
    cluster.apply(FailNodes(pack(some([3])), remove=True), BEGIN_MS)
    assert 3 not in list(cluster.listed_nodes())
    cluster.apply(RestoreNodes(pack(some([3]))), BEGIN_MS)
    assert 3 in list(cluster.listed_nodes())


def test_facts_name_the_nodes_that_failed_before_the_pods_that_did() -> None:
    cluster = engine()
    run(cluster, [3, 4])
    cluster.advance(BEGIN_MS + 200)
    cluster.take_facts()
    cluster.apply(FailNodes(pack(some([3]))), BEGIN_MS + 200)
    failed, lost = cluster.take_facts()
    assert (failed.kind, failed.nodes) == (FactKind.NODES_FAILED, pack(some([3])))
    assert (lost.kind, lost.counts and lost.counts.missing) == (FactKind.LOST, 1)


# Pods of somebody else


def foreign_gpus(cluster: Engine) -> list[int]:
    return [int(gpus) for gpus in cluster.nodes.gpus_of(cluster.nodes.foreign)]


def test_foreign_pods_come_and_go() -> None:
    cluster = engine()
    add = AddForeign("theirs", pack(some([0, 0, 1])), {NVIDIA_GPU: 2}, life_ms=500)
    assert cluster.apply(add, BEGIN_MS) == ""
    assert foreign_gpus(cluster)[:3] == [4, 2, 0]
    assert cluster.nodes.foreign_of(0) == Resources({NVIDIA_GPU: 4, "pods": 2})
    assert cluster.apply(add, BEGIN_MS) != ""
    cluster.advance(BEGIN_MS + 500)
    assert foreign_gpus(cluster)[:3] == [0, 0, 0]


def test_terminating_foreign_pods_occupy_their_node_until_they_are_gone() -> None:
    cluster = engine()
    cluster.apply(AddForeign("theirs", pack(some([0])), {NVIDIA_GPU: 8}), BEGIN_MS)
    cluster.apply(RemoveForeign("theirs", 200), BEGIN_MS)
    cluster.apply(hold([0]), BEGIN_MS)
    assert cluster.apply(start(), BEGIN_MS + 199).startswith("OutOf")
    assert cluster.apply(start(), BEGIN_MS + 200) == ""


def test_foreign_pods_do_not_fit_beside_ours_either() -> None:
    cluster = engine()
    run(cluster, [0])
    assert cluster.apply(AddForeign("x", pack(some([1, 0])), {NVIDIA_GPU: 1}), BEGIN_MS).startswith("OutOf")
    assert foreign_gpus(cluster)[:2] == [0, 0]
    assert cluster.apply(RemoveForeign("x"), BEGIN_MS) == "no foreign gang 'x'"


def test_foreign_pods_die_with_their_machine() -> None:
    cluster = engine()
    cluster.apply(AddForeign("theirs", pack(some([0, 1])), {NVIDIA_GPU: 8}), BEGIN_MS)
    cluster.apply(FailNodes(pack(some([0]))), BEGIN_MS)
    cluster.apply(RestoreNodes(pack(some([0]))), BEGIN_MS)
    assert foreign_gpus(cluster)[:2] == [0, 8]
    cluster.apply(RemoveForeign("theirs"), BEGIN_MS)
    assert foreign_gpus(cluster)[:2] == [0, 0]


def test_gangs_of_others_take_whole_hosts() -> None:
    cluster = engine(spec(counts=(4, 4, 16), busy=Busy(0.6)))
    used = np.array(foreign_gpus(cluster))
    assert set(used.tolist()) == {0, 8}
    assert (used == 8).sum() == round(0.6 * 256)
    assert len(cluster.foreign) > 1


def test_scattered_pods_of_others_leave_many_gpus_and_few_hosts() -> None:
    cluster = engine(spec(counts=(4, 4, 16), busy=Busy(0.6, scattered=True, whole_hosts=0.05)))
    used = np.array(foreign_gpus(cluster))
    assert used.sum() == round(0.6 * 256 * 8)
    assert (used == 0).sum() == 13
    assert used.max() <= 8


@pytest.mark.parametrize("scattered", [True, False])
@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.99, 1.0])
def test_any_fraction_can_be_busy(fraction: float, scattered: bool) -> None:
    cluster = engine(spec(busy=Busy(fraction, scattered=scattered, whole_hosts=0.0)))
    used = sum(foreign_gpus(cluster))
    assert abs(used - fraction * 128) <= (16 if scattered else 8)


def test_busy_repeats_by_seed() -> None:
    def used(seed: int) -> list[int]:
        return foreign_gpus(engine(spec(counts=(4, 4, 16), busy=Busy(0.5, seed=seed))))

    assert used(1) == used(1)
    assert used(1) != used(2)
