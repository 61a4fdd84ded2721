"""Users' own objects of every kind that has its controller here: run from their start to their end by the agent.

What a pod is told by whoever made it is all that says which place is its own. Nothing here makes a pod.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
import pytest_asyncio

from e2e import nodes
from e2e.control_plane import ControlPlane, control_plane, tool
from e2e.controllers import (
    APPWRAPPER,
    JOBSET,
    LWS,
    MPI_OPERATOR,
    RAY,
    TRAINER,
    TRAINING_OPERATOR,
    Controller,
    controllers,
)
from e2e.home import HASTY, KubernetesHome, hosts
from e2e.pod_log import PodLog
from e2e.test_starts import log
from hanse.agent.cluster.port import ClusterPort, Done, GangKey, GangRecord, HoldGang, SetPlace, StartPods, StopPods
from hanse.manifests import convert
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import JobSpec
from hanse.simcluster.programs import EXIT_ENV, RUNTIME_ENV
from tests.contract.cluster_port.acts import FIRST, claimed, counts_in, forgotten, key, node_names, until_counts
from tests.contract.cluster_port.homes import FOR_LONG_S

__all__ = ["log"]

NAMESPACE: Final = "hanse-jobs"


def pods(seconds: float = FOR_LONG_S, *, exit_code: int = 0, name: str = "main", **spec: Any) -> dict[str, Any]:
    """A pod template of one GPU."""
    env = [{"name": RUNTIME_ENV, "value": str(seconds)}, {"name": EXIT_ENV, "value": str(exit_code)}]
    asks = {"requests": {"cpu": "500m"}, "limits": {"nvidia.com/gpu": 1}}
    container = {"name": name, "image": "example.com/train:1", "command": ["train"], "env": env, "resources": asks}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def jobs(count: int, seconds: float, **spec: Any) -> dict[str, Any]:
    counts = {"parallelism": count, "completions": count, "completionMode": "Indexed", "backoffLimit": 0}
    return {"spec": {**counts, "template": pods(seconds), **spec}}


def job_set(seconds: float, **more: Any) -> dict[str, Any]:
    """A driver, and two Jobs of two workers."""
    replicated = [
        {"name": "driver", "template": jobs(1, seconds)},
        {"name": "workers", "replicas": 2, "template": jobs(2, seconds)},
    ]
    return _kind("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": replicated, **more})


def py_torch(seconds: float) -> dict[str, Any]:
    """A master and three workers."""
    types = {"Worker": 3, "Master": 1}
    replicas = {
        name: {"replicas": count, "restartPolicy": "Never", "template": pods(seconds, name="pytorch")}
        for name, count in types.items()
    }
    return _kind("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas})


def mpi(seconds: float, **more: Any) -> dict[str, Any]:
    """A launcher, and workers that run until it has ended."""
    replicas = {
        "Launcher": {"replicas": 1, "template": pods(seconds, name="mpi")},
        "Worker": {"replicas": 2, "template": pods(FOR_LONG_S, name="mpi")},
    }
    spec = {"slotsPerWorker": 1, "runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": replicas}
    return _kind("kubeflow.org/v2beta1", "MPIJob", {**spec, **more})


def leader_worker_set(seconds: float, **more: Any) -> dict[str, Any]:
    """A leader and two workers."""
    always: dict[str, Any] = {"restartPolicy": "Always"}
    template = {"leaderTemplate": pods(seconds, **always), "workerTemplate": pods(seconds, **always), "size": 3}
    return _kind("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"leaderWorkerTemplate": template, **more})


def ray_cluster(seconds: float) -> dict[str, Any]:
    """A head and two workers."""
    head = {"rayStartParams": {}, "template": pods(seconds, name="ray-head", restartPolicy="Always")}
    workers = {"groupName": "gpu", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "rayStartParams": {}}
    workers["template"] = pods(seconds, name="ray-worker", restartPolicy="Always")
    return _kind("ray.io/v1", "RayCluster", {"headGroupSpec": head, "workerGroupSpecs": [workers]})


def train_job(seconds: float) -> str:
    """Three nodes, by a runtime that is submitted with it."""
    trainer = "trainer.kubeflow.org/v1alpha1"
    step = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    template = jobs(1, seconds, template=pods(seconds, name="node"))
    node = {"name": "node", "template": {**template, "metadata": step}}
    runtime = {"mlPolicy": {"numNodes": 3, "torch": {}}, "template": {"spec": {"replicatedJobs": [node]}}}
    labels = {"trainer.kubeflow.org/framework": "torch"}
    shared = {
        "apiVersion": trainer,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch", "labels": labels},
        "spec": runtime,
    }
    return "\n---\n".join(
        (json.dumps(_kind(trainer, "TrainJob", {"runtimeRef": {"name": "torch"}})), json.dumps(shared))
    )


def app_wrapper(seconds: float) -> dict[str, Any]:
    """A Job of three pods, wrapped."""
    inner = {**_kind("batch/v1", "Job", {}), **jobs(3, seconds)}
    return _kind("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": inner}]})


def _kind(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "team"}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


KINDS: Final[dict[str, tuple[Controller, ...]]] = {
    "JobSet": (JOBSET,),
    "PyTorchJob": (TRAINING_OPERATOR,),
    "MPIJob": (MPI_OPERATOR,),
    "LeaderWorkerSet": (LWS,),
    "RayCluster": (RAY,),
    "TrainJob": (JOBSET, TRAINER),
    "AppWrapper": (APPWRAPPER,),
}


IN_CI: Final = ("JobSet", "PyTorchJob")


def _wanted() -> list[Controller]:
    """Those that are built; a kind whose controller is not is skipped by its own test."""
    found = {one.program: one for group in KINDS.values() for one in group}
    return [one for one in found.values() if _is_built(one)]


def _is_built(one: Controller) -> bool:
    try:
        tool(one.program)
    except (pytest.skip.Exception, pytest.fail.Exception):
        return False
    return True


@pytest.fixture(scope="module")
def served() -> Iterator[ControlPlane]:
    with control_plane() as plane:
        nodes.add_nodes(plane, hosts())
        with controllers(plane, _wanted()):
            yield plane


@pytest.fixture
def plane(served: ControlPlane) -> ControlPlane:
    """The one of these tests, for what is shared with others."""
    return served


@pytest_asyncio.fixture
async def home(served: ControlPlane) -> AsyncIterator[KubernetesHome]:
    home = KubernetesHome(served, replace(HASTY, pods_wait_s=20.0))
    await home.wipe()
    yield home
    await home.close()


@pytest_asyncio.fixture
async def agent(home: KubernetesHome) -> ClusterPort:
    port = home.port()
    await claimed(port, FIRST)
    return port


def each(kinds: Iterable[str]) -> list[Any]:
    """Those whose controllers CI has, and the others with their mark."""
    return [kind if kind in IN_CI else pytest.param(kind, marks=pytest.mark.every_kind) for kind in kinds]


def needs(kind: str) -> None:
    for one in KINDS[kind]:
        tool(one.program)


def read(document: dict[str, Any] | str) -> JobSpec:
    """As the product reads it."""
    (job,) = convert(document if isinstance(document, str) else json.dumps(document), default_queue="team").jobs
    return job.spec


def placed(spec: JobSpec, hosts: list[str]) -> GangRecord:
    """Consecutive pods on consecutive hosts."""
    sets, at = [], 0
    for one in spec.pod_sets:
        places = tuple(NodeName(hosts[(at + n) % len(hosts)]) for n in range(one.count))
        sets.append(SetPlace(one.name, 0, places, FlavorName("h100"), one.resources))
        at += one.count
    return GangRecord(key(), 7, tuple(sets), False, b"binding")


async def begin(port: ClusterPort, spec: JobSpec) -> GangRecord:
    held = placed(spec, await node_names(port))
    assert spec.manifest is not None
    order = StartPods(held.key, spec.name, NAMESPACE, (), manifest=spec.manifest.text)
    assert await port.write(FIRST, [HoldGang(held), order]) == (Done(), Done())
    return held


async def check_places(port: ClusterPort, held: GangRecord) -> None:
    told = [(pod.pod_set, pod.rank, pod.node) for pod in await port.pods(held.key)]
    wanted = [(one.name, rank, node) for one in held.sets for rank, node in enumerate(one.nodes)]
    assert sorted(told) == sorted(wanted)


async def leave_nothing(home: KubernetesHome, port: ClusterPort, gang: GangKey) -> None:
    """Nothing of a gang is left once it is forgotten."""
    await forgotten(port, gang)
    path = "/api/v1/pods?labelSelector=hanse.dev/job"
    async with asyncio.timeout(60):
        while (await asyncio.to_thread(home.plane.call, "GET", path))["items"]:  # noqa: ASYNC110 - controllers' doing
            await asyncio.sleep(0.1)


ENDING: Final = {
    "JobSet": lambda: read(job_set(2)),
    "PyTorchJob": lambda: read(py_torch(2)),
    "MPIJob": lambda: read(mpi(2)),
    "TrainJob": lambda: read(train_job(2)),
    "AppWrapper": lambda: read(app_wrapper(2)),
}


@pytest.mark.parametrize("kind", each(ENDING))
async def test_it_runs_in_its_places_and_ends(
    home: KubernetesHome, agent: ClusterPort, log: PodLog, kind: str
) -> None:
    needs(kind)
    held = await begin(agent, ENDING[kind]())
    count = sum(len(one.nodes) for one in held.sets)
    await until_counts(agent, held.key, lambda c: c.running == count)
    await check_places(agent, held)
    done = await until_counts(agent, held.key, lambda c: c.succeeded == count)
    assert (done.failure, done.occupying) == ("", 0)
    assert counts_in(await home.port().list(), held.key).succeeded == count
    await leave_nothing(home, agent, held.key)


LASTING: Final = {
    "JobSet": lambda: read(job_set(FOR_LONG_S)),
    "PyTorchJob": lambda: read(py_torch(FOR_LONG_S)),
    "MPIJob": lambda: read(mpi(FOR_LONG_S)),
    "LeaderWorkerSet": lambda: read(leader_worker_set(FOR_LONG_S)),
    "RayCluster": lambda: read(ray_cluster(FOR_LONG_S)),
    "TrainJob": lambda: read(train_job(FOR_LONG_S)),
    "AppWrapper": lambda: read(app_wrapper(FOR_LONG_S)),
}


@pytest.mark.parametrize("kind", each(LASTING))
async def test_it_is_stopped_whole(home: KubernetesHome, agent: ClusterPort, log: PodLog, kind: str) -> None:
    needs(kind)
    held = await begin(agent, LASTING[kind]())
    count = sum(len(one.nodes) for one in held.sets)
    await until_counts(agent, held.key, lambda c: c.running == count)
    await check_places(agent, held)
    await agent.write(FIRST, [StopPods(held.key)])
    await until_counts(agent, held.key, lambda c: c.occupying == 0)
    await leave_nothing(home, agent, held.key)


STAGED: Final = {
    "JobSet": lambda: read(job_set(FOR_LONG_S, startupPolicy={"startupPolicyOrder": "InOrder"})),
    "MPIJob": lambda: read(mpi(FOR_LONG_S, launcherCreationPolicy="WaitForWorkersReady")),
    "LeaderWorkerSet": lambda: read(leader_worker_set(FOR_LONG_S, startupPolicy="LeaderReady")),
}


@pytest.mark.parametrize("kind", each(STAGED))
async def test_pods_that_are_made_later_come_into_their_places(
    home: KubernetesHome, agent: ClusterPort, log: PodLog, kind: str
) -> None:
    needs(kind)
    held = await begin(agent, STAGED[kind]())
    count = sum(len(one.nodes) for one in held.sets)
    await until_counts(agent, held.key, lambda c: c.running == count)
    await check_places(agent, held)
    await agent.write(FIRST, [StopPods(held.key)])
    await until_counts(agent, held.key, lambda c: c.occupying == 0)
    await leave_nothing(home, agent, held.key)
