"""LeaderWorkerSet: every replica is a gang, leader first."""

from textwrap import dedent, indent

import pytest

from hanse.manifests import convert
from hanse.model.job import Slice
from tests.unit.manifests.texts import job_of, refusal, unmapped

PREFIX = "leaderworkerset.sigs.k8s.io/"
POD = "{spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}"
LEADER = "{spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}}}]}}"


def lws(template: str, *, spec: str = "", annotations: str = "") -> str:
    return f"""
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: serve
  annotations: {{{annotations}}}
spec:
{indent(dedent(spec), "  ")}
  leaderWorkerTemplate:
    workerTemplate: {POD}
{indent(dedent(template), "    ")}
"""


def sets(text: str) -> list[tuple[str, int, int]]:
    return [(s.name, s.count, s.min_count) for s in job_of(text).spec.pod_sets]


@pytest.mark.parametrize(
    ("template", "wanted"),
    [
        ("size: 4", [("main", 4, 4)]),
        ("", [("main", 1, 1)]),
        (f"size: 4\nleaderTemplate: {LEADER}", [("leader", 1, 1), ("worker", 3, 3)]),
        (f"size: 1\nleaderTemplate: {LEADER}", [("leader", 1, 1)]),
    ],
)
def test_a_replica_is_a_leader_and_its_workers(template: str, wanted: list[tuple[str, int, int]]) -> None:
    assert sets(lws(template)) == wanted


def test_each_of_several_replicas_is_a_job() -> None:
    jobs = convert(lws("size: 2", spec="replicas: 3")).jobs
    assert [(job.spec.name, job.min_total) for job in jobs] == [("serve-0", 2), ("serve-1", 2), ("serve-2", 2)]


@pytest.mark.parametrize("replicas", ["0", "1001"])
def test_no_replica_and_too_many_are_refused(replicas: str) -> None:
    reason, path, _ = refusal(lws("size: 2", spec=f"replicas: {replicas}"))
    assert (reason, path) in {("COUNT_OUT_OF_RANGE", "spec.replicas"), ("TOO_MANY", "spec.replicas")}


def test_an_exclusive_topology_holds_the_replica() -> None:
    text = lws("size: 4", annotations=f"{PREFIX}exclusive-topology: rack")
    (pods,) = job_of(text).spec.pod_sets
    assert pods.topology.slices == (Slice(4, "rack", exclusive=True),)
    assert unmapped(text) == {}


def test_a_leader_of_another_kind_shares_the_level() -> None:
    text = lws(f"size: 4\nleaderTemplate: {LEADER}", annotations=f"{PREFIX}exclusive-topology: rack")
    assert [s.topology.required for s in job_of(text).spec.pod_sets] == ["rack", "rack"]
    assert any("no other job" in why for why in unmapped(text).values())


@pytest.mark.parametrize(
    ("size", "policy", "slices"),
    [
        (8, "{subGroupSize: 4}", Slice(4, "rack", exclusive=True)),
        (9, "{subGroupSize: 4, subGroupPolicyType: LeaderExcluded}", Slice(4, "rack", exclusive=True, ragged=True)),
    ],
)
def test_subgroups_are_slices(size: int, policy: str, slices: Slice) -> None:
    text = lws(f"size: {size}\nsubGroupPolicy: {policy}", annotations=f"{PREFIX}subgroup-exclusive-topology: rack")
    (pods,) = job_of(text).spec.pod_sets
    assert pods.topology.slices == (slices,)


def test_subgroups_leave_a_leader_of_another_kind_apart() -> None:
    template = (
        f"size: 9\nleaderTemplate: {LEADER}\nsubGroupPolicy: {{subGroupSize: 4, subGroupPolicyType: LeaderExcluded}}"
    )
    text = lws(template, annotations=f"{PREFIX}subgroup-exclusive-topology: rack")
    leader, workers = job_of(text).spec.pod_sets
    assert leader.topology.slices == ()
    assert workers.topology.slices == (Slice(4, "rack", exclusive=True),)
    assert unmapped(text) == {}


@pytest.mark.parametrize("policy", ["{subGroupSize: 3}", "{subGroupSize: 4, subGroupPolicyType: LeaderExcluded}"])
def test_subgroups_that_do_not_divide_are_refused(policy: str) -> None:
    text = lws(f"size: 8\nsubGroupPolicy: {policy}", annotations=f"{PREFIX}subgroup-exclusive-topology: rack")
    assert refusal(text)[:2] == ("SLICE_SIZE", "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize")


def test_subgroups_need_a_size() -> None:
    text = lws("size: 8", annotations=f"{PREFIX}subgroup-exclusive-topology: rack")
    assert refusal(text)[0] == "MISSING"


def test_the_order_of_starting_is_told() -> None:
    assert "spec.startupPolicy" in unmapped(lws("size: 2", spec="startupPolicy: LeaderReady"))
