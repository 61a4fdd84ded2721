"""Users' own objects, as they are created: what is changed, and that nothing else is."""

import json
from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.adapting import Adapted, Terms, adapted
from hanse.agent.cluster.kubernetes.pods import Start
from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.port import GangRecord, SetPlace, StartPods
from hanse.model.errors import InvalidArgument
from hanse.model.ids import FlavorName, NodeName
from hanse.model.resources import Resources
from tests.unit.agent_cluster.objects import EPOCH, FEDERATION, GANG

ASKS = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
SPEC = {"containers": [{"name": "main", "image": "x", "resources": {"requests": ASKS, "limits": ASKS}}]}
ONE = Resources({"cpu": 1_000, "memory": 1 << 30, "nvidia.com/gpu": 1})
PLAIN = Terms()
LABELS = {
    "hanse.dev/federation": FEDERATION,
    "hanse.dev/pool": "pool",
    "hanse.dev/job": GANG.job,
    "hanse.dev/attempt": "1",
    "hanse.dev/part": "0",
}


def template(**spec: Any) -> dict[str, Any]:
    return {"spec": {**SPEC, **spec}}


def made(*documents: dict[str, Any], terms: Terms = PLAIN, duration_s: int = 0, **sets: Any) -> Adapted:
    """The objects of a gang with these sets."""
    held = tuple(
        SetPlace(name.replace("_", "-"), 0, (NodeName("n0"),) * count, FlavorName("h100"), ONE)
        for name, count in sets.items()
    )
    text = "\n---\n".join(json.dumps(document) for document in documents)
    order = StartPods(GANG, "train", "team", (), manifest=text, duration_s=duration_s)
    stored = Stored(GangRecord(GANG, 7, held, True))
    return adapted(Start(order, stored, FEDERATION, "pool", EPOCH, "team"), terms)


def job(spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    body = {"parallelism": 2, "completions": 2, "template": template()}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", **meta},
        "spec": {**body, **(spec or {})},
    }


def test_only_what_has_to_be_is_changed() -> None:
    written = job({"backoffLimit": 4}, labels={"app": "mine"}, uid="other", ownerReferences=[{"uid": "x"}])
    (body,) = made(written, main=2).bodies
    gated = {"metadata": {"labels": LABELS}, "spec": {**SPEC, "schedulingGates": [{"name": "hanse.dev/start"}]}}
    assert body == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "team",
            "labels": {"app": "mine", **LABELS},
            "annotations": {"hanse.dev/job-name": "train", "hanse.dev/object": "team/train"},
            "finalizers": ["hanse.dev/kept-until-forgotten"],
        },
        "spec": {"parallelism": 2, "completions": 2, "backoffLimit": 4, "template": gated},
    }


@pytest.mark.parametrize(
    "key",
    [
        "kueue.x-k8s.io/queue-name",
        "kai.scheduler/queue",
        "scheduling.volcano.sh/group-name",
        "scheduling.x-k8s.io/pod-group",
        "yunikorn.apache.org/queue",
    ],
)
def test_what_another_scheduler_would_act_on_is_taken_off_and_listed(key: str) -> None:
    found = made(
        job({"template": {"metadata": {"annotations": {key: "a"}}, **template()}}, labels={key: "b"}), main=2
    )
    (body,) = found.bodies
    assert key not in json.dumps({**body, "metadata": {**body["metadata"], "annotations": {}}})
    assert set(found.changed) == {f"metadata.labels[{key}]=b", f"template.metadata.annotations[{key}]=a"}
    assert json.loads(body["metadata"]["annotations"]["hanse.dev/removed"]) == list(found.changed)


@pytest.mark.parametrize(
    ("spec", "terms", "scheduler"),
    [
        pytest.param({}, Terms(), None, id="nobody was asked for"),
        pytest.param({"schedulerName": "default-scheduler"}, Terms(), "default-scheduler", id="who is there"),
        pytest.param({"schedulerName": "volcano"}, Terms(), "default-scheduler", id="who is not there"),
        pytest.param({"schedulerName": "volcano"}, Terms(("mine", "volcano")), "volcano", id="one of several"),
        pytest.param({}, Terms(("mine",)), "mine", id="a cluster without the usual one"),
        pytest.param({}, Terms(direct=True), "hanse", id="the agent itself"),
        pytest.param(
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            Terms(direct=True),
            None,
            id="a volume that may be unbound",
        ),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, Terms(direct=True), None, id="a claim of devices"),
    ],
)
def test_who_binds(spec: dict[str, Any], terms: Terms, scheduler: str | None) -> None:
    (body,) = made(job({"template": template(**spec)}), terms=terms, main=2).bodies
    assert body["spec"]["template"]["spec"].get("schedulerName") == scheduler


def test_what_keeps_an_object_from_working_or_from_staying_goes() -> None:
    found = made(
        job({"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "ttlSecondsAfterFinished": 5}), main=2
    )
    (body,) = found.bodies
    assert {"suspend", "managedBy", "ttlSecondsAfterFinished"}.isdisjoint(body["spec"])
    assert len(found.changed) == 3


def test_a_duration_ends_the_pods() -> None:
    (body,) = made(job(), duration_s=60, main=2).bodies
    assert body["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 60


@pytest.mark.parametrize(
    ("document", "sets", "late"),
    [
        pytest.param(job({"completions": 9}), {"main": 2}, (), id="a Job"),
        pytest.param(
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": "train"},
                "spec": {
                    "startupPolicy": {"startupPolicyOrder": "InOrder"},
                    "replicatedJobs": [
                        {"name": "driver", "template": {"spec": {"template": template()}}},
                        {"name": "workers", "replicas": 2, "template": {"spec": {"template": template()}}},
                    ],
                },
            },
            {"driver": 1, "workers": 2},
            ("workers",),
            id="a JobSet in order",
        ),
        pytest.param(
            {
                "apiVersion": "kubeflow.org/v2beta1",
                "kind": "MPIJob",
                "metadata": {"name": "train"},
                "spec": {
                    "launcherCreationPolicy": "WaitForWorkersReady",
                    "runPolicy": {"suspend": True},
                    "mpiReplicaSpecs": {"Launcher": {"template": template()}, "Worker": {"template": template()}},
                },
            },
            {"launcher": 1, "worker": 1},
            ("launcher",),
            id="an MPIJob that waits for its workers",
        ),
        pytest.param(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayJob",
                "metadata": {"name": "train"},
                "spec": {
                    "shutdownAfterJobFinishes": True,
                    "rayClusterSpec": {
                        "headGroupSpec": {"template": template()},
                        "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "template": template()}],
                    },
                },
            },
            {"head": 1, "gpu": 2, "submitter": 1},
            ("submitter",),
            id="a RayJob",
        ),
        pytest.param(
            {
                "apiVersion": "workload.codeflare.dev/v1beta2",
                "kind": "AppWrapper",
                "metadata": {"name": "train"},
                "spec": {"suspend": True, "components": [{"template": job()}, {"template": job()}]},
            },
            {"main": 2, "mainx": 2},
            (),
            id="an AppWrapper",
        ),
    ],
)
def test_every_template_of_every_kind_is_gated(
    document: dict[str, Any], sets: dict[str, Any], late: tuple[str, ...]
) -> None:
    found = made(document, **sets)
    assert found.late == late
    assert found.follows is (document["kind"] == "Job")
    templates = list(pod_specs(found.bodies))
    assert len(templates) >= len(sets)
    for spec in templates:
        assert spec["schedulingGates"] == [{"name": "hanse.dev/start"}]
    assert '"suspend": true' not in json.dumps(found.bodies)


def pod_specs(node: Any) -> Any:
    if isinstance(node, list | tuple):
        for item in node:
            yield from pod_specs(item)
    elif isinstance(node, dict):
        if isinstance(node.get("containers"), list):
            yield node
        for below in node.values():
            yield from pod_specs(below)


def test_a_submitter_outside_of_the_gang_is_left_to_the_cluster() -> None:
    spec = {"rayClusterSpec": {"headGroupSpec": {"template": template()}}, "submitterPodTemplate": template()}
    (body,) = made(
        {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "t"}, "spec": spec}, head=1
    ).bodies
    assert "schedulingGates" not in body["spec"]["submitterPodTemplate"]["spec"]


def test_a_replica_of_a_leader_worker_set_is_a_set_of_its_own() -> None:
    spec = {"replicas": 4, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}}
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "serve"}}
    (body,) = made({**kind, "spec": spec}, duration_s=60, main=2).bodies
    assert (body["metadata"]["name"], body["spec"]["replicas"]) == ("train", 1)
    assert "activeDeadlineSeconds" not in body["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]


def test_a_train_job_gets_a_runtime_of_its_own() -> None:
    trainer = "trainer.kubeflow.org/v1alpha1"
    runtime = {
        "apiVersion": trainer,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {"name": "fetch", "template": {"spec": {"template": template()}}},
                        {"name": "node", "dependsOn": [{}], "template": {"spec": {"template": template()}}},
                    ]
                }
            }
        },
    }
    reference = {"runtimeRef": {"name": "torch"}}
    kind = {"apiVersion": trainer, "kind": "TrainJob", "metadata": {"name": "train"}, "spec": reference}
    found = made(kind, runtime, fetch=1, node=2)
    made_runtime, made_job = found.bodies
    assert made_runtime["kind"] == "TrainingRuntime"
    assert made_job["spec"]["runtimeRef"]["name"] == made_runtime["metadata"]["name"] == f"hanse-{GANG.job}-1"
    assert all(spec["schedulingGates"] for spec in pod_specs(made_runtime))
    assert found.late == ("node",)
    with pytest.raises(InvalidArgument, match="torch"):
        made(kind, node=2)


def test_pods_of_a_group_are_each_of_a_set_that_asks_for_the_same() -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}"}, "spec": SPEC} for n in range(2)]
    found = made(*pods, main=2)
    assert [body["metadata"]["name"] for body in found.bodies] == ["p0", "p1"]
    assert {body["metadata"]["labels"]["hanse.dev/pod-set"] for body in found.bodies} == {"main"}
    assert all(body["spec"]["schedulingGates"] for body in found.bodies)
