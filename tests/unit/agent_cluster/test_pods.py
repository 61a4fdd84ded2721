"""The objects that a native gang is made of."""

from dataclasses import replace
from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.adapting import Terms, adapted
from hanse.agent.cluster.kubernetes.names import claimed_gang, job_name, own_root
from hanse.agent.cluster.kubernetes.objects import Meta
from hanse.agent.cluster.kubernetes.pods import Start, jobs, service
from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.port import GangRecord, PodRun, SetPlace, StartPods
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Volume, VolumeKind
from hanse.model.selectors import Effect, Toleration
from tests.unit.agent_cluster.objects import EPOCH, FEDERATION, GANG, POD_RESOURCES, SET

SERVICE = f"hanse-{GANG.job}-1-0"


def start_of(order: StartPods, *sets: tuple[str, int, tuple[str, ...]]) -> Start:
    held = tuple(
        SetPlace(name, first, tuple(NodeName(n) for n in on), FlavorName("h100"), POD_RESOURCES)
        for name, first, on in sets
    )
    stored = Stored(GangRecord(GANG, 7, held, True), "jobs")
    return Start(order, stored, FEDERATION, "pool", EPOCH, "jobs")


def run(name: str = SET, **more: Any) -> PodRun:
    return PodRun(name, "image:1", ("python",), ("train.py",), (("LR", "1"),), **more)


def order(*runs: PodRun, **more: Any) -> StartPods:
    return StartPods(GANG, "train", "", runs, **more)


def made(start: Start, at: int = 0) -> Any:
    """The Job of a set."""
    return jobs(start)[at]


def pod(start: Start, at: int = 0) -> Any:
    """The pods of a set, as their Job has them."""
    return made(start, at)["spec"]["template"]["spec"]


def env_of(start: Start, at: int = 0) -> dict[str, Any]:
    return {one["name"]: one.get("value", "by its label") for one in pod(start, at)["containers"][0]["env"]}


def test_a_set_is_an_indexed_job_whose_pods_are_made_once() -> None:
    body = made(start_of(order(run()), (SET, 0, ("n0", "n1"))))
    assert body["metadata"]["name"] == f"{GANG.job}-1-0-{SET}"
    spec = body["spec"]
    assert (spec["completionMode"], spec["parallelism"], spec["completions"]) == ("Indexed", 2, 2)
    assert (spec["backoffLimitPerIndex"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")


def test_a_pod_runs_what_was_asked_for() -> None:
    (container,) = pod(start_of(order(run()), (SET, 0, ("n0",))))["containers"]
    assert (container["image"], container["command"], container["args"]) == ("image:1", ["python"], ["train.py"])
    told = {"cpu": "1000m", "memory": str(1 << 30), "nvidia.com/gpu": "1"}
    assert container["resources"] == {"requests": told, "limits": told}


def test_what_is_created_of_a_native_job_is_ours_and_gated() -> None:
    start = start_of(order(run("leader"), run(), duration_s=60), ("leader", 0, ("n0",)), (SET, 0, ("n1", "n2")))
    found = adapted(start, Terms())
    assert [body["metadata"]["labels"]["hanse.dev/pod-set"] for body in found.bodies] == ["leader", SET]
    for body in found.bodies:
        meta = Meta(**{name: body["metadata"][name] for name in ("name", "namespace", "labels", "annotations")})
        assert own_root(meta, FEDERATION) == GANG
        assert own_root(meta, "other") is None
        template = body["spec"]["template"]
        assert claimed_gang(Meta(labels=template["metadata"]["labels"]), FEDERATION) == GANG
        assert template["spec"]["schedulingGates"] == [{"name": "hanse.dev/start"}]
        assert template["spec"]["activeDeadlineSeconds"] == 60
    assert (found.late, found.follows, found.changed) == ((), False, ())


def test_pods_of_a_gang_find_each_other() -> None:
    start = start_of(order(run("leader"), run()), ("leader", 0, ("n0",)), (SET, 0, ("n1", "n2")))
    for at in range(2):
        env = env_of(start, at)
        assert (env["WORLD_SIZE"], env["PET_NNODES"], env["JAX_NUM_PROCESSES"]) == ("3", "3", "3")
        assert env["MASTER_ADDR"] == f"{GANG.job}-1-0-leader-0.{SERVICE}"
        assert env["HANSE_JOB"] == GANG.job
        assert env["HANSE_SET_HOST"] == made(start, at)["metadata"]["name"]
        assert env["RANK"] == "by its label"
        assert pod(start, at)["subdomain"] == SERVICE
    assert [_before(start, at) for at in range(2)] == ["0", "1"]


def _before(start: Start, at: int) -> str:
    said: str = made(start, at)["spec"]["template"]["metadata"]["annotations"]["hanse.dev/ranks-before"]
    return said


def test_the_service_selects_the_gang_and_no_other() -> None:
    body = service(start_of(order(run()), (SET, 0, ("n0", "n1"))))
    assert body["metadata"]["name"] == SERVICE
    assert body["spec"]["clusterIP"] == "None"
    assert body["spec"]["publishNotReadyAddresses"] is True
    (made_job,) = adapted(start_of(order(run()), (SET, 0, ("n0", "n1"))), Terms()).bodies
    assert body["spec"]["selector"].items() <= made_job["spec"]["template"]["metadata"]["labels"].items()
    assert {"hanse.dev/job", "hanse.dev/attempt", "hanse.dev/part"} <= set(body["spec"]["selector"])


def test_a_single_pod_needs_no_service() -> None:
    start = start_of(order(run()), (SET, 0, ("n0",)))
    assert not start.finds_itself
    assert env_of(start)["MASTER_ADDR"] == "localhost"
    assert "subdomain" not in pod(start)


def test_ranks_of_a_split_gang_count_through_the_whole_job() -> None:
    split = order(run(ranks_before=1), world_size=9)
    start = start_of(split, (SET, 4, ("n0", "n1")))
    assert (_before(start, 0), env_of(start)["WORLD_SIZE"]) == ("1", "9")
    alone = start_of(order(run()), (SET, 4, ("n0", "n1")))
    assert (_before(alone, 0), env_of(alone)["WORLD_SIZE"]) == ("-4", "2")


def test_a_variable_of_the_user_goes_before_ours() -> None:
    theirs = replace(run(), env=(("WORLD_SIZE", "1"),))
    env = pod(start_of(order(theirs), (SET, 0, ("n0",))))["containers"][0]["env"]
    assert [one["value"] for one in env if one["name"] == "WORLD_SIZE"] == ["1"]


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("k", False, "v"), {"operator": "Equal", "key": "k", "value": "v"}),
        (Toleration("k", True), {"operator": "Exists", "key": "k"}),
        (Toleration("", True, effect=Effect.NO_EXECUTE), {"operator": "Exists", "effect": "NoExecute"}),
    ],
)
def test_tolerations(toleration: Toleration, expected: dict[str, str]) -> None:
    start = start_of(order(run(tolerations=(toleration,))), (SET, 0, ("n0",)))
    assert pod(start)["tolerations"] == [expected]


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        (VolumeKind.CONFIG_MAP, {"configMap": {"name": "src"}}),
        (VolumeKind.SECRET, {"secret": {"secretName": "src"}}),
        (VolumeKind.PERSISTENT_VOLUME_CLAIM, {"persistentVolumeClaim": {"claimName": "src", "readOnly": True}}),
        (VolumeKind.HOST_PATH, {"hostPath": {"path": "src"}}),
        (VolumeKind.EMPTY_DIR, {"emptyDir": {}}),
    ],
)
def test_volumes(kind: VolumeKind, source: dict[str, Any]) -> None:
    volume = Volume("data", kind, "src", "/data", read_only=True)
    spec = pod(start_of(order(run(volumes=(volume,))), (SET, 0, ("n0",))))
    assert spec["volumes"] == [{"name": "data", **source}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "data", "mountPath": "/data", "readOnly": True}]


def test_a_host_name_fits_into_a_label() -> None:
    assert job_name(GANG, 2, "w" * 40, 1_000) == f"{GANG.job}-1-0-set2"
    assert job_name(GANG, 2, "worker", 1_000) == f"{GANG.job}-1-0-worker"
    assert len(f"{job_name(GANG, 0, 'w' * 29, 1_000)}-999") == 63
