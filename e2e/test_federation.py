"""A federation over a real API server: a global replica and an agent as processes, nodes played by kwok.

What runs is compared with what the API server itself says, and an auditor that watches pods by other means finds no
rank that ran twice and no attempt that overlaps the next.
"""

import asyncio
import json
import os
import random
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from e2e import nodes
from e2e.agent_access import account_token, kubeconfig
from e2e.control_plane import ControlPlane, control_plane
from e2e.pod_log import PodLog, pod_log
from hanse.api.v1 import job_pb2, job_spec_pb2, pool_pb2
from hanse.client import AsyncClient
from hanse.model.resources import Resources
from tests.integration.parts import HANSE, serves
from tests.services.process import ServerProcess, free_ports

RACKS: Final = 6
HOSTS_PER_RACK: Final = 8
POOL: Final = "real"
PATIENCE_S: Final = 90.0
LOOK_EVERY_S: Final = 0.1
NODE_LOST_S: Final = 2
HOST: Final = Resources({"nvidia.com/gpu": 8, "cpu": 96_000, "memory": 1 << 40, "pods": 110})
GPU_PRODUCT: Final = "nvidia.com/gpu.product"
CONFIG: Final = """
apiVersion: hanse/v1
kind: Flavor
name: h100
labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
---
apiVersion: hanse/v1
kind: Queue
name: team
quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 1000}}]
"""
KILLS: Final = int(os.environ.get("HANSE_E2E_KILLS", "4"))
SEED: Final = 1


@dataclass
class Federation:
    """One global replica and the agent of one real pool."""

    plane: ControlPlane
    replica: ServerProcess
    agent: ServerProcess
    address: str
    log: PodLog

    async def job(self, job: str) -> job_pb2.Job:
        async with AsyncClient(self.address, token="") as client:
            return await client.job(job)

    async def submit(self, name: str, pods: int, seconds: float, *, required: str = "") -> str:
        """The id of an accepted job of whole hosts."""
        template = job_spec_pb2.PodTemplate(
            image="example.com/train:1",
            command=["python", "train.py"],
            env=[job_spec_pb2.EnvVar(name="HANSE_SIM_RUNTIME_S", value=str(seconds))],
        )
        pod_set = job_spec_pb2.PodSet(
            name="worker",
            count=pods,
            resources={"nvidia.com/gpu": 8, "cpu": 8_000},
            topology=job_spec_pb2.Topology(required_level=required),
            template=template,
        )
        async with AsyncClient(self.address, token="") as client:
            submission = await client.submit([job_spec_pb2.JobSpec(name=name, queue="team", pod_sets=[pod_set])])
        assert submission.refusals == ()
        return submission.jobs[0].id

    async def until_state(self, job: str, *states: "job_pb2.JobState.ValueType", attempt: int = 1) -> job_pb2.Job:
        """The job in one of these states, at that attempt or later."""
        found = job_pb2.Job()

        async def there() -> bool:
            nonlocal found
            found = await self.job(job)
            return found.status.state in states and found.status.attempt >= attempt

        await until(there)
        return found

    def pods(self, job: str) -> list[dict[str, Any]]:
        """As the API server has them."""
        found: list[dict[str, Any]] = self.plane.call("GET", f"/api/v1/pods?labelSelector=hanse.dev/job={job}")[
            "items"
        ]
        return found

    def named_nodes(self, job: str) -> dict[int, str]:
        """Node of each rank, as `hanse job JOB --nodes` tells."""
        command = [*HANSE, "job", job, "--nodes", "--server", self.address, "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        told = json.loads(done.stdout)["nodes"]
        return {int(rank): node["name"] for node in told for rank in node["ranks"]}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - other processes' doing
            await asyncio.sleep(LOOK_EVERY_S)


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
        "example.com/rack": f"r{rack}",
        "kubernetes.io/hostname": name,
        GPU_PRODUCT: "NVIDIA-H100-80GB-HBM3",
    }
    return nodes.Host(name, labels, HOST)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def federation(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Federation]:
    folder = tmp_path_factory.mktemp("federation")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    replica = _replica(folder, address)
    agent = _agent(folder, cluster, address)
    with pod_log(cluster) as log:
        running = Federation(cluster, replica, agent, address, log)
        try:
            replica.start()
            agent.start()
            await _ready(running)
            yield running
            log.check()
        finally:
            agent.kill()
            replica.kill()


def _replica(folder: Path, address: str) -> ServerProcess:
    store = ["--store", f"sqlite:{folder / 'store.sqlite'}", "--replica", "r0"]
    command = [*HANSE, "global", *store, "--listen", address, "--log-format", "json"]
    return ServerProcess("global", command, folder, ready=lambda: serves(address, ""))


def _agent(folder: Path, plane: ControlPlane, address: str) -> ServerProcess:
    settings = folder / "agent.yaml"
    levels = [{"key": "example.com/rack", "alias": "rack"}, {"key": "kubernetes.io/hostname", "alias": "host"}]
    access = kubeconfig(plane, folder / "kubeconfig", {"token": account_token(plane)})
    told = {
        "cluster": f"kubeconfig:{access}#here",
        "replicas": [address],
        "pools": [{"name": POOL, "levels": levels}],
        "summary_min_interval_s": 0.2,
        "node_lost_s": NODE_LOST_S,
    }
    settings.write_text(json.dumps(told))
    command = [*HANSE, "agent", "--config", str(settings), "--log-format", "json"]
    return ServerProcess("agent", command, folder, ready=lambda: True)


async def _ready(running: Federation) -> None:
    async with AsyncClient(running.address, token="") as client:
        await client.apply(CONFIG)

        async def healthy() -> bool:
            return any(pool.health is pool_pb2.POOL_HEALTH_HEALTHY for pool in await client.pools())

        await until(healthy)


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_gang_runs_on_the_nodes_that_are_named_and_leaves_nothing(federation: Federation) -> None:
    job = await federation.submit("train", 8, 4, required="rack")
    await federation.until_state(job, job_pb2.JOB_STATE_RUNNING)
    pods = federation.pods(job)
    on = {int(pod["metadata"]["labels"]["hanse.dev/rank"]): pod["spec"]["nodeName"] for pod in pods}
    assert len(on) == 8
    assert federation.named_nodes(job) == on
    assert len({node.rsplit("-", 1)[0] for node in on.values()}) == 1, "all in one rack"
    told = [{one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]} for pod in pods]
    assert sorted(int(env["RANK"]) for env in told) == list(range(8))
    assert {(env["WORLD_SIZE"], env["HANSE_JOB"], env["MASTER_ADDR"]) for env in told} == {
        ("8", job, f"worker-0.hanse-{job}-1-0")
    }
    done = await federation.until_state(job, job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED)
    assert (done.status.state, done.status.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)
    await until(_nothing_left(federation))


def _nothing_left(federation: Federation) -> Callable[[], Awaitable[bool]]:
    async def gone() -> bool:
        found = federation.plane.call("GET", "/api/v1/pods")["items"]
        services = federation.plane.call("GET", "/api/v1/namespaces/hanse-jobs/services")["items"]
        ledgers = federation.plane.call(
            "GET", "/api/v1/namespaces/hanse-system/configmaps?labelSelector=hanse.dev/ledger"
        )
        return not found and not services and not any(one.get("data") for one in ledgers["items"])

    return gone


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
        assert (done.status.state, done.status.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)
        assert len({seen.rank for seen in federation.log.of(job)}) == len(federation.log.of(job))
    await until(_nothing_left(federation))
    federation.log.check()


async def test_an_api_server_that_restarts_is_waited_for(federation: Federation) -> None:
    job = await federation.submit("patient", 8, 6)
    await federation.until_state(job, job_pb2.JOB_STATE_RUNNING)
    await federation.plane.restart_api_server()
    later = await federation.submit("later", 4, 1)
    for one in (job, later):
        done = await federation.until_state(one, job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED)
        assert (done.status.state, done.status.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)


async def test_a_dead_node_costs_the_attempt_and_not_the_job(federation: Federation) -> None:
    job = await federation.submit("unlucky", 8, 30, required="rack")
    await federation.until_state(job, job_pb2.JOB_STATE_RUNNING)
    dead = federation.named_nodes(job)[3]
    nodes.silence(federation.plane, dead)
    again = await federation.until_state(job, job_pb2.JOB_STATE_RUNNING, attempt=2)
    (lost,) = again.status.attempts
    assert (lost.attempt, lost.reason) == (1, "INFRASTRUCTURE")
    assert dead not in federation.named_nodes(job).values()
    federation.log.check()
    async with AsyncClient(federation.address, token="") as client:
        await client.cancel(job)
    await federation.until_state(job, job_pb2.JOB_STATE_CANCELLED)
    nodes.restore(federation.plane, dead)
    await until(_nothing_left(federation))
