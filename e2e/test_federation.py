"""A federation over a real API server: a global replica and an agent as processes, nodes played by kwok.

What runs is compared with what the API server itself says, and an auditor that watches pods by other means finds no
rank that ran twice and no attempt that overlaps the next.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

import pytest
import pytest_asyncio

from e2e import nodes
from e2e.api_objects import make
from e2e.control_plane import ControlPlane, control_plane
from e2e.federation import RACK, Federation, federation_over, until
from hanse.api.v1 import job_pb2
from hanse.client import AsyncClient
from hanse.model.resources import Resources

RACKS: Final = 6
HOSTS_PER_RACK: Final = 8
POOL: Final = "real"
HOST: Final = Resources({"nvidia.com/gpu": 8, "cpu": 96_000, "memory": 1 << 40, "pods": 110})
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
KILLS: Final = int(os.environ.get("HANSE_E2E_KILLS", "4"))
SEED: Final = 1
COMPANIONS: Final = "configmaps?labelSelector=hanse.dev/companion"
BESIDE_PODS: Final = ("/api/v1/services?labelSelector=hanse.dev/federation", f"/api/v1/{COMPANIONS}")
NEEDY: Final = """
apiVersion: hanse/v1
kind: Job
name: needy
queue: team
needs: {secret: [hf-token]}
pod_sets:
- count: 2
  image: example.com/train:1
  command: [sleep, "600"]
  env: {HANSE_SIM_RUNTIME_S: 600}
  resources: {nvidia.com/gpu: 8}
  volumes: [{name: conf, kind: config_map, source: conf, mount_path: /conf}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {lr: "1e-3"}
"""
"""It needs a Secret of the cluster, and brings its ConfigMap along."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """Six racks of eight hosts."""
    with control_plane() as plane:
        nodes.add_nodes(plane, [_host(rack, host) for rack in range(RACKS) for host in range(HOSTS_PER_RACK)])
        yield plane


def _host(rack: int, host: int) -> nodes.Host:
    name = f"gpu-{rack}-{host}"
    labels = {
        "topology.kubernetes.io/zone": "z1",
        RACK: f"r{rack}",
        "kubernetes.io/hostname": name,
        GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3",
    }
    return nodes.Host(name, labels, HOST)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def federation(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Federation]:
    async with federation_over({POOL: cluster}, tmp_path_factory.mktemp("federation")) as running:
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_gang_runs_on_the_nodes_that_are_named_and_leaves_nothing(federation: Federation) -> None:
    job = await federation.submit("train", 8, 4, required="rack")
    await federation.until_state(job, job_pb2.JOB_STATE_RUNNING)
    pods = federation.pods(job)
    on = {int(pod["metadata"]["labels"]["hanse.dev/global-rank"]): pod["spec"]["nodeName"] for pod in pods}
    assert len(on) == 8
    assert federation.named_nodes(job) == on
    assert len({node.rsplit("-", 1)[0] for node in on.values()}) == 1, "all in one rack"
    told = [{one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]} for pod in pods]
    assert sorted(on) == list(range(8))
    assert {(env["WORLD_SIZE"], env["HANSE_JOB"], env["MASTER_ADDR"]) for env in told} == {
        ("8", job, f"{job}-1-0-worker-0.hanse-{job}-1-0")
    }
    done = await federation.until_state(job, job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED)
    assert (done.status.state, done.status.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)
    await until(_nothing_left(federation))


def _nothing_left(federation: Federation) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        found = federation.plane.call("GET", "/api/v1/pods")["items"]
        beside = [one for path in BESIDE_PODS for one in federation.plane.call("GET", path)["items"]]
        ledgers = federation.plane.call(
            "GET", "/api/v1/namespaces/hanse-system/configmaps?labelSelector=hanse.dev/ledger"
        )
        return not found and not beside and not any(one.get("data") for one in ledgers["items"])

    return gone


async def test_a_job_waits_for_what_it_needs_and_is_looked_into(federation: Federation) -> None:
    plane, folder = federation.plane, "/api/v1/namespaces/hanse-jobs-team"
    async with AsyncClient(federation.address, token="") as client:
        submission = await client.submit(NEEDY)
        assert submission.refusals == ()
        job = submission.jobs[0].id

        async def refused() -> bool:
            told = (await client.explain(job)).pools[0]
            return told.reason == "NEEDS" and "there is no Secret hf-token in namespace hanse-jobs-team" in told.nodes

        await until(refused)
        assert federation.pods(job) == []
        make(plane, "/api/v1/namespaces", {"metadata": {"name": "hanse-jobs-team"}})
        assert plane.call("GET", f"{folder}/{COMPANIONS}")["items"] == []
        plane.call("POST", f"{folder}/secrets", {"metadata": {"name": "hf-token"}, "stringData": {"t": "x"}})
        await federation.until_state(job, job_pb2.JOB_STATE_RUNNING, attempt=2)
        assert plane.call("GET", f"{folder}/configmaps/conf")["data"] == {"lr": "1e-3"}
        ran = [piece async for piece in client.exec(job, ["echo", "hello"], rank=1)]
        assert (b"".join(piece.stdout for piece in ran), ran[-1].exit_code) == (b"hello\n", 0)
        assert [line.text async for line in client.logs(job, rank=1)]
        await client.cancel(job)
    await federation.until_state(job, job_pb2.JOB_STATE_CANCELLED)
    await until(_nothing_left(federation))


async def test_an_agent_that_is_killed_at_any_moment_repeats_and_loses_nothing(federation: Federation) -> None:
    rng = random.Random(SEED)
    jobs = []
    for number in range(KILLS):
        jobs += [await federation.submit(f"short-{number}-{n}", rng.choice((1, 2, 4, 8)), 1) for n in range(4)]
        await asyncio.sleep(rng.uniform(0.1, 1.5))
        federation.agent.kill()
        federation.agent.start()
    for job in jobs:
        done = await federation.until_state(job, job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED)
        assert (done.status.state, done.status.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), done.status
        assert len({seen.rank for seen in federation.log.of(job)}) == len(federation.log.of(job))
    await until(_nothing_left(federation))
    federation.log.check()


async def test_an_api_server_that_restarts_is_waited_for(federation: Federation, cluster: ControlPlane) -> None:
    job = await federation.submit("patient", 8, 6)
    await federation.until_state(job, job_pb2.JOB_STATE_RUNNING)
    await cluster.restart_api_server()
    later = await federation.submit("later", 4, 1)
    for one in (job, later):
        done = await federation.until_state(one, job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED)
        assert (done.status.state, done.status.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)


async def test_a_dead_node_costs_the_attempt_and_not_the_job(federation: Federation, cluster: ControlPlane) -> None:
    job = await federation.submit("unlucky", 8, 30, required="rack")
    await federation.until_state(job, job_pb2.JOB_STATE_RUNNING)
    dead = federation.named_nodes(job)[3]
    nodes.silence(cluster, dead)
    again = await federation.until_state(job, job_pb2.JOB_STATE_RUNNING, attempt=2)
    (lost,) = again.status.attempts
    assert (lost.attempt, lost.reason) == (1, "INFRASTRUCTURE")
    assert dead not in federation.named_nodes(job).values()
    federation.log.check()
    async with AsyncClient(federation.address, token="") as client:
        await client.cancel(job)
    await federation.until_state(job, job_pb2.JOB_STATE_CANCELLED)
    nodes.restore(cluster, dead)
    await until(_nothing_left(federation))
