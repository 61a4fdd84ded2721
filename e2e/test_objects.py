"""Users' own objects on a real API server: their controllers make the pods, the agent gives each its place.

An auditor beside the product sees that no rank ever runs twice in an attempt, whatever a controller makes anew.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from e2e.control_plane import ControlPlane
from e2e.home import HASTY, KubernetesHome
from e2e.pod_log import PodLog
from e2e.test_ownership import call
from e2e.test_starts import log, reached, watching
from hanse.agent.cluster.port import (
    ClusterPort,
    Done,
    Epoch,
    ForgetGang,
    GangRecord,
    HoldGang,
    PodPhase,
    Rejected,
    StartPods,
    StopPods,
)
from hanse.simcluster.programs import EXIT_ENV, RUNTIME_ENV
from tests.contract.cluster_port.acts import (
    FEDERATION,
    FIRST,
    PATIENCE_S,
    SECOND,
    counts_in,
    forgotten,
    key,
    node_names,
    record,
    until,
    until_counts,
)
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD

__all__ = ["log"]

PODS: Final = 6
FOLDER: Final = "/apis/batch/v1/namespaces/hanse-jobs/jobs"
JOBS: Final = "/api/v1/namespaces/hanse-jobs"
FINALIZER: Final = "hanse.dev/kept-until-forgotten"
SLOW: Final = replace(HASTY, requests_per_s=40.0, requests_burst_max=1, start_wait_s=0.2)


def manifest(
    *,
    name: str = "train",
    seconds: float = FOR_LONG_S,
    exit_code: int = 0,
    spec: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> str:
    """An Indexed Job of PODS pods, as somebody may have it."""
    asks = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    env = [{"name": RUNTIME_ENV, "value": str(seconds)}, {"name": EXIT_ENV, "value": str(exit_code)}]
    limits = {"requests": asks, "limits": asks}
    container = {"name": "main", "image": "example.com/train:1", "env": env, "resources": limits}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **(pod or {})}}
    counts = {"parallelism": PODS, "completions": PODS, "completionMode": "Indexed"}
    body = {"metadata": {"name": name, **(meta or {})}, "spec": {**counts, "template": template, **(spec or {})}}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", **body})


def pods_manifest(count: int, *, seconds: float = FOR_LONG_S) -> str:
    """Pods of one group, that no controller makes."""
    group = {"kueue.x-k8s.io/pod-group-name": "train"}
    template = json.loads(manifest(seconds=seconds))["spec"]["template"]
    found = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"train-{n}", "labels": group}, **template}
        for n in range(count)
    ]
    return "\n---\n".join(json.dumps(one) for one in found)


def order(held: GangRecord, text: str) -> StartPods:
    return StartPods(held.key, "train", "hanse-jobs", (), manifest=text)


async def gang(port: ClusterPort, number: int = 1, pods: int = PODS) -> GangRecord:
    """A record over four nodes, in one set as a Job has it."""
    nodes = await node_names(port)
    held = record(key(number), [nodes[n % 4] for n in range(pods)], resources=SMALL_POD)
    return replace(held, sets=(replace(held.sets[0], name="main"),))


async def begin(port: ClusterPort, held: GangRecord, text: str, epoch: Epoch = FIRST) -> None:
    assert await port.write(epoch, [HoldGang(held), order(held, text)]) == (Done(), Done())


async def gone(home: KubernetesHome, path: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await call(home, "GET", path))["items"]:  # noqa: ASYNC110 - the API server's doing
            await asyncio.sleep(0.05)


async def test_a_job_runs_as_it_was_written_on_the_nodes_that_were_chosen(
    home: KubernetesHome, agent: ClusterPort, log: PodLog
) -> None:
    meta = {"labels": {"kueue.x-k8s.io/queue-name": "team", "app": "mine"}, "annotations": {"note": "kept"}}
    spec = {"backoffLimit": 3, "ttlSecondsAfterFinished": 0, "suspend": True}
    pod = {
        "schedulerName": "volcano",
        "terminationGracePeriodSeconds": 7,
        "nodeSelector": {"kubernetes.io/os": "linux"},
    }
    held = await gang(agent)
    nodes = await node_names(agent)
    for node in nodes:
        await call(home, "PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {"kubernetes.io/os": "linux"}}})
    await begin(agent, held, manifest(seconds=2, spec=spec, pod=pod, meta=meta))
    await until_counts(agent, held.key, lambda c: c.running == PODS)
    (made,) = (await call(home, "GET", FOLDER))["items"]
    assert made["metadata"]["name"] == "train"
    assert made["metadata"]["labels"]["app"] == "mine"
    assert "kueue.x-k8s.io/queue-name" not in made["metadata"]["labels"]
    removed = json.loads(made["metadata"]["annotations"]["hanse.dev/removed"])
    assert "metadata.labels[kueue.x-k8s.io/queue-name]=team" in removed
    assert "schedulerName=volcano" in removed
    assert (made["spec"]["backoffLimit"], made["spec"]["suspend"]) == (3, False)
    for one in (await call(home, "GET", f"{JOBS}/pods"))["items"]:
        rank = int(one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])
        assert one["spec"]["nodeName"] == held.sets[0].nodes[rank]
        assert one["metadata"]["labels"]["hanse.dev/rank"] == str(rank)
        assert one["status"]["qosClass"] == "Guaranteed"
        assert one["spec"]["terminationGracePeriodSeconds"] == 7
        assert one["spec"]["schedulerName"] == "default-scheduler"
    told = [(pod.pod_set, pod.rank, pod.node) for pod in await agent.pods(held.key)]
    assert told == [("main", rank, node) for rank, node in enumerate(held.sets[0].nodes)]
    done = await until_counts(agent, held.key, lambda c: c.succeeded == PODS)
    assert (done.occupying, done.failure, done.reason) == (0, "", "")
    assert counts_in(await home.port().list(), held.key) == done
    await forgotten(agent, held.key)
    await gone(home, FOLDER)
    await gone(home, f"{JOBS}/pods")
    assert (await agent.list()).foreign == ()


async def test_the_object_has_the_last_word_of_its_end(home: KubernetesHome, agent: ClusterPort) -> None:
    """Two pods at a time of six: each that has succeeded is followed by another one, in its place."""
    held = await gang(agent, pods=2)
    await begin(agent, held, manifest(seconds=0.1, spec={"parallelism": 2}))
    seen: set[tuple[int, int]] = set()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            counts = counts_in(await agent.list(), held.key)
            seen.add((counts.succeeded, counts.failed))
            if counts.succeeded == 2:
                break
            await asyncio.sleep(0.05)
    assert seen == {(0, 0), (2, 0)}
    (made,) = (await call(home, "GET", FOLDER))["items"]
    assert made["status"]["succeeded"] == PODS
    pods = (await call(home, "GET", f"{JOBS}/pods"))["items"]
    assert {one["spec"]["nodeName"] for one in pods} == set(held.sets[0].nodes)


async def test_a_program_that_fails_takes_the_gang_back_and_is_not_run_again(
    home: KubernetesHome, agent: ClusterPort, log: PodLog
) -> None:
    held = await gang(agent)
    await begin(agent, held, manifest(seconds=0.5, exit_code=17))
    failed = await until_counts(agent, held.key, lambda c: c.failed > 0)
    assert (failed.exit_code, failed.infrastructure) == (17, False)
    again = await until_counts(agent, held.key, lambda c: c.failed == PODS)
    assert again.existing + again.missing == PODS
    await agent.write(FIRST, [StopPods(held.key)])
    await until_counts(agent, held.key, lambda c: c.occupying == 0)
    await forgotten(agent, held.key)
    await gone(home, FOLDER)
    await gone(home, f"{JOBS}/pods")
    assert len(log.of(held.key.job)) == PODS


async def test_an_object_that_somebody_deletes_is_noticed_and_told(home: KubernetesHome, agent: ClusterPort) -> None:
    held = await gang(agent)
    await begin(agent, held, manifest())
    await until_counts(agent, held.key, lambda c: c.running == PODS)
    await call(home, "DELETE", f"{FOLDER}/train", {"propagationPolicy": "Background"})
    lost = await until_counts(agent, held.key, lambda c: bool(c.failure))
    assert lost.infrastructure
    assert "Job train was deleted from the cluster" in lost.failure
    assert counts_in(await home.port().list(), held.key).failure == lost.failure
    await agent.write(FIRST, [StopPods(held.key)])
    await until_counts(agent, held.key, lambda c: c.occupying == 0)
    await forgotten(agent, held.key)
    await gone(home, FOLDER)


async def test_an_equal_name_that_is_not_ours_is_left_alone(home: KubernetesHome, agent: ClusterPort) -> None:
    theirs = json.loads(manifest(spec={"suspend": True}))
    before = await call(home, "POST", FOLDER, theirs)
    held = await gang(agent)
    _, refused = await agent.write(FIRST, [HoldGang(held), order(held, manifest())])
    assert isinstance(refused, Rejected)
    assert "Job train in namespace hanse-jobs is there already, and it is not ours" in refused.reason
    assert await agent.write(FIRST, [StopPods(held.key), ForgetGang(held.key)]) == (Done(), Done())
    await agent.list()
    after = await call(home, "GET", f"{FOLDER}/train")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    assert "deletionTimestamp" not in after["metadata"]


async def test_a_copy_of_an_object_of_ours_is_a_strangers(home: KubernetesHome, agent: ClusterPort) -> None:
    """Somebody copies the Job, labels, gates and all, and lets its pods go by hand."""
    held = await gang(agent)
    await begin(agent, held, manifest())
    await until_counts(agent, held.key, lambda c: c.running == PODS)
    ours = await call(home, "GET", f"{FOLDER}/train")
    meta = {field: ours["metadata"][field] for field in ("labels", "annotations")}
    spec = {field: ours["spec"][field] for field in ("parallelism", "completions", "completionMode", "template")}
    for extra in ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"):
        spec["template"]["metadata"]["labels"].pop(extra, None)
    await call(home, "POST", FOLDER, {"metadata": {**meta, "name": "copy"}, "spec": {**spec, "parallelism": 1}})

    def copied(pods: list[dict[str, Any]]) -> list[str]:
        return [one["metadata"]["name"] for one in pods if one["metadata"]["labels"].get("job-name") == "copy"]

    await reached(home.plane, lambda pods: bool(copied(pods)))
    (name,) = copied((await call(home, "GET", f"{JOBS}/pods"))["items"])
    await call(home, "PATCH", f"{JOBS}/pods/{name}", {"spec": {"schedulingGates": []}})
    state = await until(agent, lambda s: bool(s.foreign))
    assert counts_in(state, held.key).existing == PODS
    await agent.write(FIRST, [StopPods(held.key)])
    await until_counts(agent, held.key, lambda c: c.occupying == 0)
    await forgotten(agent, held.key)
    async with asyncio.timeout(PATIENCE_S):
        while len((await call(home, "GET", FOLDER))["items"]) > 1:  # noqa: ASYNC110 - the API server's doing
            await asyncio.sleep(0.05)
    await agent.list()
    assert "deletionTimestamp" not in (await call(home, "GET", f"{FOLDER}/copy"))["metadata"]


CUTS: Final = {
    "before its object": lambda pods: True,
    "when the first pods have come": lambda pods: len(pods) >= 1,
    "when all of them have": lambda pods: len(pods) == PODS,
    "when the first was let go": lambda pods: _bound(pods) >= 1,
    "when half of them were": lambda pods: _bound(pods) >= PODS // 2,
}


def _bound(pods: list[dict[str, Any]]) -> int:
    return sum(1 for pod in pods if "nodeName" in pod["spec"])


@pytest.mark.parametrize("cut", CUTS)
async def test_an_agent_that_dies_in_a_start_is_succeeded(
    plane: ControlPlane, home: KubernetesHome, log: PodLog, cut: str
) -> None:
    older = home.port(SLOW)
    await older.claim(FEDERATION, FIRST, 100)
    held = await gang(older)
    order_ = order(held, manifest(seconds=3))
    async with watching(older):
        assert await older.write(FIRST, [HoldGang(held), order_]) == (Done(), Done())
        await reached(plane, CUTS[cut])
    await home.close()

    newer = home.port()
    await newer.claim(FEDERATION, SECOND, 100)
    counts = counts_in(await newer.list(), held.key)
    if counts.existing + counts.missing < PODS:
        assert await newer.write(SECOND, [order_]) == (Done(),)
    await until_counts(newer, held.key, lambda c: c.succeeded == PODS)
    assert len(log.of(held.key.job)) == PODS
    assert [pod.phase for pod in await newer.pods(held.key)] == [PodPhase.SUCCEEDED] * PODS


async def test_two_agents_never_let_go_of_two_pods_for_one_rank(home: KubernetesHome, log: PodLog) -> None:
    """The older one does not know that it was superseded, and sees the pods that the controller makes anew."""
    older, newer = home.port(), home.port()
    await older.claim(FEDERATION, FIRST, 100)
    held = await gang(older)
    await begin(older, held, manifest())
    await until_counts(older, held.key, lambda c: c.running == PODS)
    async with watching(older), watching(newer):
        await newer.claim(FEDERATION, SECOND, 100)
        (victim,) = [pod for pod in (await call(home, "GET", f"{JOBS}/pods"))["items"] if _rank(pod) == 2]
        await call(home, "DELETE", f"{JOBS}/pods/{victim['metadata']['name']}")
        await reached(home.plane, lambda pods: sum(_index(pod) == 2 for pod in pods) == 2)
    told = await until_counts(newer, held.key, lambda c: c.failed == 1)
    assert (told.running, told.missing) == (PODS - 1, 0)
    assert sum(seen.rank == 2 for seen in log.of(held.key.job)) == 1


def _rank(pod: Mapping[str, Any]) -> int:
    return int(pod["metadata"]["labels"].get("hanse.dev/rank", -1))


def _index(pod: Mapping[str, Any]) -> int:
    return int(pod["metadata"]["annotations"].get("batch.kubernetes.io/job-completion-index", -1))


async def test_the_agent_binds_where_it_is_told_to(home: KubernetesHome, log: PodLog) -> None:
    """Nobody else looks at such pods; those that need a scheduler's allocations go the other way."""
    port = home.port(replace(HASTY, direct=True))
    await port.claim(FEDERATION, FIRST, 100)
    held = await gang(port)
    await begin(port, held, manifest(seconds=1))
    await until_counts(port, held.key, lambda c: c.succeeded == PODS)
    for one in (await call(home, "GET", f"{JOBS}/pods"))["items"]:
        assert one["spec"]["schedulerName"] == "hanse"
        assert one["spec"]["nodeName"] == held.sets[0].nodes[_rank(one)]


async def test_what_the_scheduler_refuses_takes_the_gang_back_with_its_reason(
    home: KubernetesHome, agent: ClusterPort
) -> None:
    held = await gang(agent)
    await begin(agent, held, manifest(pod={"nodeSelector": {"example.com/none": "such"}}))
    refused = await until_counts(agent, held.key, lambda c: c.failed > 0)
    assert refused.infrastructure
    assert "Unschedulable" in refused.reason
    await agent.write(FIRST, [StopPods(held.key)])
    await until_counts(agent, held.key, lambda c: c.occupying == 0)
    await forgotten(agent, held.key)
    await gone(home, FOLDER)
    await gone(home, f"{JOBS}/pods")


async def test_a_controller_that_makes_no_pods_is_told(home: KubernetesHome, agent: ClusterPort) -> None:
    port = home.port(replace(HASTY, pods_wait_s=1.0))
    await port.claim(FEDERATION, SECOND, 100)
    held = await gang(port)
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    await call(home, "POST", f"{JOBS}/resourcequotas", quota)
    try:
        await begin(port, held, manifest(), SECOND)
        late = await until_counts(port, held.key, lambda c: bool(c.failure))
        assert late.infrastructure
        assert "of 6 pods of Job train were made in" in late.failure
        await port.write(SECOND, [StopPods(held.key)])
        await until_counts(port, held.key, lambda c: c.occupying == 0)
    finally:
        await asyncio.to_thread(home.plane.delete, f"{JOBS}/resourcequotas/few")


async def test_objects_that_a_dying_agent_left_are_removed(home: KubernetesHome, agent: ClusterPort) -> None:
    """It had created them, and neither written down which they are, nor kept the gang."""
    held = await gang(agent)
    await begin(agent, held, manifest())
    await until_counts(agent, held.key, lambda c: c.running == PODS)
    left = await call(home, "GET", f"{FOLDER}/train")
    await agent.write(FIRST, [StopPods(held.key)])
    await until_counts(agent, held.key, lambda c: c.occupying == 0)
    await forgotten(agent, held.key)
    await gone(home, FOLDER)
    meta = {field: left["metadata"][field] for field in ("name", "labels", "annotations")}
    body = json.loads(manifest(spec={"suspend": True}))
    await call(home, "POST", FOLDER, {**body, "metadata": {**meta, "finalizers": [FINALIZER]}})
    successor = home.port()
    await successor.claim(FEDERATION, SECOND, 100)
    await successor.list()
    await gone(home, FOLDER)


async def test_pods_that_nobody_makes_are_a_gang_too(home: KubernetesHome, agent: ClusterPort, log: PodLog) -> None:
    held = await gang(agent, pods=3)
    await begin(agent, held, pods_manifest(3, seconds=1))
    done = await until_counts(agent, held.key, lambda c: c.succeeded == 3)
    assert (done.occupying, done.missing, done.failure) == (0, 0, "")
    made = (await call(home, "GET", f"{JOBS}/pods"))["items"]
    assert {one["metadata"]["name"] for one in made} == {"train-0", "train-1", "train-2"}
    assert {_rank(one): one["spec"]["nodeName"] for one in made} == dict(enumerate(held.sets[0].nodes))
    await forgotten(agent, held.key)
    await gone(home, f"{JOBS}/pods")
