"""What an API server said, folded into what the port tells."""

from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.mirror import UNKNOWN, Mirror
from hanse.agent.cluster.kubernetes.telling import Told
from hanse.agent.cluster.port import GangChanged, GangKey, NodeChanged, NodeGone, PodCounts
from hanse.model.ids import NodeName
from hanse.model.resources import EMPTY, Resources
from tests.unit.agent_cluster.objects import FEDERATION, GANG, kin, node, own, pod
from tests.unit.agent_cluster.test_verdicts import UNSCHEDULABLE

N0 = NodeName("n0")
USAGE = Resources({"cpu": 1_000, "pods": 1})


def theirs(uid: str = "t", *, on: str = "n0", phase: str = "Running", cpu: str = "1") -> Any:
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    return pod({"uid": uid, "name": uid, "resourceVersion": "1"}, spec, {"phase": phase})


@pytest.fixture
def mirror() -> Mirror:
    found = Mirror(FEDERATION, kin)
    for name in ("n0", "other"):
        found.set_node(node(name), 0.0)
    return found


def test_foreign_usage_comes_and_goes_with_pods(mirror: Mirror) -> None:
    mirror.set_pod(theirs("a"), 0.0)
    mirror.set_pod(theirs("b", on=""), 0.0)
    assert dict(mirror.all_foreign()) == {N0: USAGE}
    mirror.set_pod(theirs("b"), 0.0)
    assert mirror.foreign(N0) == USAGE.times(2)
    mirror.set_pod(theirs("a", phase="Succeeded"), 0.0)
    mirror.drop_pod("b")
    assert mirror.foreign(N0) == EMPTY


def test_our_pods_are_no_foreign_usage(mirror: Mirror) -> None:
    mirror.set_pod(own(node_name="n0", phase="Running"), 0.0)
    assert mirror.foreign(N0) == EMPTY
    assert [one.key.rank for one in mirror.pods(GANG)] == [0]


def test_pods_of_nobody_of_ours_are_foreign() -> None:
    mirror = Mirror("other")
    mirror.set_pod(own(node_name="n0", phase="Running"), 0.0)
    assert mirror.pods(GANG) == ()
    assert mirror.foreign(N0) == Resources({"pods": 1})


def test_an_older_version_changes_nothing(mirror: Mirror) -> None:
    mirror.set_pod(own(version=5, node_name="n0", phase="Running"), 0.0)
    mirror.set_pod(own(version=4, gated=True), 0.0)
    (one,) = mirror.pods(GANG)
    assert one.bound


def test_what_is_gone_does_not_come_back(mirror: Mirror) -> None:
    mirror.set_pod(own(), 0.0)
    mirror.drop_pod("uid-0")
    mirror.set_pod(own(), 0.0)
    assert mirror.pods(GANG) == ()


def test_silence_is_counted_from_when_it_was_first_seen(mirror: Mirror) -> None:
    assert not mirror.is_lost(N0, 100.0)
    mirror.set_node(node("n0", ready="Unknown"), 10.0)
    mirror.set_node(node("n0", ready="Unknown"), 20.0)
    assert mirror.is_lost(N0, 11.0)
    assert not mirror.is_lost(N0, 10.0)
    mirror.set_node(node("n0"), 30.0)
    assert not mirror.is_lost(N0, 100.0)
    mirror.drop_node(N0, 40.0)
    assert mirror.is_lost(N0, 41.0)


def test_where_most_nodes_are_silent_none_is_lost(mirror: Mirror) -> None:
    for number in range(1, 9):
        mirror.set_node(node(f"n{number}"), 0.0)
    for number in range(6):
        mirror.set_node(node(f"n{number}", ready="Unknown"), 10.0)
    assert not mirror.is_lost(N0, 100.0)
    mirror.drop_node(NodeName("n5"), 20.0)
    assert mirror.is_lost(NodeName("n5"), 100.0), "a node that was removed is lost whatever the others say"
    mirror.set_node(node("n4"), 20.0)
    assert mirror.is_lost(N0, 100.0)


def test_a_node_that_cannot_be_read_gets_nothing_and_loses_nothing(mirror: Mirror) -> None:
    mirror.set_pod(own(node_name="n0", phase="Running"), 0.0)
    mirror.hide_node(N0)
    mirror.set_pod(own(version=2, node_name="n0", phase="Running"), 0.0)
    assert N0 not in mirror.nodes
    assert not mirror.is_lost(N0, 100.0)
    mirror.drop_node(N0, 50.0)
    assert mirror.is_lost(N0, 100.0)


def test_a_refusal_is_counted_from_when_it_was_first_seen(mirror: Mirror) -> None:
    mirror.set_pod(own(version=1, status=UNSCHEDULABLE), 10.0)
    mirror.set_pod(own(version=2, status=UNSCHEDULABLE), 20.0)
    assert mirror.refused_since == {"uid-0": 10.0}
    mirror.set_pod(own(version=3, node_name="n0"), 30.0)
    assert mirror.refused_since == {}


def test_a_new_mirror_inherits_answers_that_its_list_was_too_early_for(mirror: Mirror) -> None:
    mirror.set_pod(own(0, version=8), 0.0)
    mirror.set_pod(own(1, version=12), 0.0)
    mirror.set_node(node("n0", ready="Unknown"), 10.0)
    newer = Mirror(FEDERATION, kin)
    newer.version = 10
    newer.set_node(node("other"), 50.0)
    newer.set_node(node("n0", ready="Unknown"), 50.0)
    newer.inherit(mirror, 50.0)
    assert [one.key.rank for one in newer.pods(GANG)] == [1]
    assert newer.is_lost(N0, 11.0)


def count(mirror: Mirror, key: GangKey) -> PodCounts:
    return PodCounts(key, pending=len(mirror.pods(key)))


def test_only_differences_are_told(mirror: Mirror) -> None:
    told = Told(mirror, (), count)
    mirror.changed_nodes.clear()
    mirror.set_node(node("n0"), 1.0)
    assert told.news() == ()
    mirror.set_node(node("n0", spec={"unschedulable": True}), 2.0)
    mirror.set_pod(theirs(), 2.0)
    (changed,) = told.news()
    assert isinstance(changed, NodeChanged)
    assert (changed.node.cordoned, changed.foreign) == (True, USAGE)
    mirror.set_pod(own(), 3.0)
    assert told.news() == (GangChanged(PodCounts(GANG, pending=1)),)
    mirror.drop_pod("uid-0")
    mirror.drop_node(N0, 3.0)
    assert set(told.news()) == {GangChanged(PodCounts(GANG)), NodeGone(N0)}
    assert told.news() == ()


def test_a_pod_whose_maker_is_not_known_yet_is_foreign_until_it_is(mirror: Mirror) -> None:
    known = False
    asked = Mirror(FEDERATION, lambda meta: kin(meta) if known else UNKNOWN)
    asked.set_pod(own(node_name="n0", phase="Running"), 0.0)
    assert (list(asked.strangers), asked.pods(GANG)) == (["uid-0"], ())
    known = True
    asked.set_pod(asked.strangers["uid-0"], 0.0)
    assert asked.strangers == {}
    assert [one.uid for one in asked.pods(GANG)] == ["uid-0"]
    assert asked.foreign(N0) == EMPTY


def test_a_failure_is_counted_from_when_it_was_first_seen(mirror: Mirror) -> None:
    mirror.set_pod(own(node_name="n0", phase="Failed"), 10.0)
    mirror.set_pod(own(version=2, node_name="n0", phase="Failed"), 20.0)
    assert mirror.ended_since == {"uid-0": 10.0}
    mirror.drop_pod("uid-0")
    assert mirror.ended_since == {}
