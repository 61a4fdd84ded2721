"""The objects that a native gang is made of."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.names import PodKey, own_pod
from hanse.agent.cluster.kubernetes.objects import POD, Meta
from hanse.agent.cluster.kubernetes.pods import Start, hostname, places, pod, service
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


def env_of(body: Any) -> dict[str, str]:
    return {one["name"]: one["value"] for one in body["spec"]["containers"][0]["env"]}


def made(start: Start, at: int = 0) -> Any:
    return pod(start, list(places(start))[at])


def test_a_pod_is_gated_pinned_and_kept() -> None:
    body = made(start_of(order(run()), (SET, 0, ("n0", "n1"))), 1)
    assert body["metadata"]["finalizers"] == ["hanse.dev/kept-until-forgotten"]
    spec = body["spec"]
    assert spec["schedulingGates"] == [{"name": "hanse.dev/start"}]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert spec["restartPolicy"] == "Never"


def test_a_pod_runs_what_was_asked_for() -> None:
    (container,) = made(start_of(order(run()), (SET, 0, ("n0",))))["spec"]["containers"]
    assert (container["image"], container["command"], container["args"]) == ("image:1", ["python"], ["train.py"])
    told = {"cpu": "1000m", "memory": str(1 << 30), "nvidia.com/gpu": "1"}
    assert container["resources"] == {"requests": told, "limits": told}


def test_what_we_create_is_found_again_as_ours() -> None:
    body = made(start_of(order(run()), (SET, 3, ("n0",))))
    assert own_pod(_meta(body), FEDERATION) == PodKey(GANG, SET, 3)
    renamed = {**body, "metadata": {**body["metadata"], "name": "debug"}}
    assert own_pod(_meta(renamed), FEDERATION) is None
    assert own_pod(_meta(body), "other") is None
    assert own_pod(_meta(body), "") is None


def _meta(body: Any) -> Meta:
    return POD.decode(json.dumps(body)).metadata


def test_pods_of_a_gang_find_each_other() -> None:
    start = start_of(order(run("leader"), run()), ("leader", 0, ("n0",)), (SET, 0, ("n1", "n2")))
    told = [env_of(pod(start, place)) for place in places(start)]
    assert [env["RANK"] for env in told] == ["0", "1", "2"]
    assert {env["WORLD_SIZE"] for env in told} == {"3"}
    assert {env["MASTER_ADDR"] for env in told} == {f"leader-0.{SERVICE}"}
    assert {env["HANSE_JOB"] for env in told} == {GANG.job}
    assert {made(start, n)["spec"]["subdomain"] for n in range(3)} == {SERVICE}
    assert made(start)["spec"]["hostname"] == "leader-0"


def test_the_service_selects_the_gang_and_no_other() -> None:
    body = service(start_of(order(run()), (SET, 0, ("n0", "n1"))))
    assert body["metadata"]["name"] == SERVICE
    assert body["spec"]["clusterIP"] == "None"
    assert body["spec"]["publishNotReadyAddresses"] is True
    labels = made(start_of(order(run()), (SET, 0, ("n0", "n1"))))["metadata"]["labels"]
    assert body["spec"]["selector"].items() <= labels.items()
    assert {"hanse.dev/job", "hanse.dev/attempt", "hanse.dev/part"} <= set(body["spec"]["selector"])


def test_a_single_pod_needs_no_service() -> None:
    start = start_of(order(run()), (SET, 0, ("n0",)))
    assert not start.finds_itself
    assert env_of(made(start))["MASTER_ADDR"] == "localhost"
    assert "subdomain" not in made(start)["spec"]


def test_ranks_of_a_split_gang_count_through_the_whole_job() -> None:
    split = order(run(ranks_before=1), world_size=9)
    start = start_of(split, (SET, 4, ("n0", "n1")))
    told = [env_of(pod(start, place)) for place in places(start)]
    assert [(env["RANK"], env["WORLD_SIZE"]) for env in told] == [("5", "9"), ("6", "9")]


def test_a_variable_of_the_user_goes_before_ours() -> None:
    theirs = replace(run(), env=(("WORLD_SIZE", "1"),))
    env = made(start_of(order(theirs), (SET, 0, ("n0",))))["spec"]["containers"][0]["env"]
    assert [one["value"] for one in env if one["name"] == "WORLD_SIZE"] == ["1"]


def test_a_duration_is_the_kubelets_to_keep() -> None:
    start = start_of(order(run(), duration_s=60), (SET, 0, ("n0",)))
    assert made(start)["spec"]["activeDeadlineSeconds"] == 60
    assert "activeDeadlineSeconds" not in made(start_of(order(run()), (SET, 0, ("n0",))))["spec"]


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
    assert made(start)["spec"]["tolerations"] == [expected]


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
    spec = made(start_of(order(run(volumes=(volume,))), (SET, 0, ("n0",))))["spec"]
    assert spec["volumes"] == [{"name": "data", **source}]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "data", "mountPath": "/data", "readOnly": True}]


def test_a_host_name_fits_into_a_label() -> None:
    assert hostname(2, PodKey(GANG, "w" * 62, 7)) == "set2-7"
    assert hostname(2, PodKey(GANG, "worker", 7)) == "worker-7"


def test_places_are_told_by_set_and_rank() -> None:
    start = start_of(order(run("a"), run("b")), ("a", 0, ("n0", "n1")), ("b", 0, ("n2",)))
    found = [(place.key.pod_set, place.key.rank, place.node, place.set_number) for place in places(start)]
    assert found == [("a", 0, "n0", 0), ("a", 1, "n1", 0), ("b", 0, "n2", 1)]
