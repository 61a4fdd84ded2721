"""The same for the kinds whose controllers only `make e2e-all` builds.

It is on one cluster, as one MPI operator at a time runs on a machine. The dashboards that KubeRay asks about its jobs
are played; a LeaderWorkerSet runs until it is cancelled.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest
import pytest_asyncio

from e2e import nodes
from e2e.control_plane import ControlPlane, control_plane
from e2e.controllers import JOBSET, LWS, MPI_OPERATOR, RAY, TRAINER, controllers
from e2e.federation import LEVELS, Federation, federation_over
from e2e.ray_dashboard import ray_dashboards
from e2e.whole_way import CONFIG, MANIFESTS, ZONE, anywhere, check_runs, check_succeeds, hosts, slices
from hanse.api.v1 import job_pb2
from hanse.client import AsyncClient

RACKS: Final = 2
CANCEL_S: Final = 120.0

pytestmark = [pytest.mark.every_kind, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    wanted = [JOBSET, MPI_OPERATOR, TRAINER, LWS, RAY]
    with control_plane() as plane, ray_dashboards() as env, controllers(plane, wanted, env):
        nodes.add_nodes(plane, hosts(RACKS))
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def federation(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Federation]:
    folder = tmp_path_factory.mktemp("federation")
    async with federation_over({"real": cluster}, folder, CONFIG, [ZONE, *LEVELS]) as running:
        yield running


async def _submitted(federation: Federation, name: str) -> str:
    file = str(MANIFESTS / f"{name}.yaml")
    told = await asyncio.to_thread(federation.command, "submit", file, "--queue", "team", "-o", "json")
    (job,) = told["jobs"]
    return str(job["id"])


async def test_an_mpi_job_runs_to_its_end(federation: Federation) -> None:
    job = await _submitted(federation, "mpi")
    await check_runs(federation, job, 5, slices("worker", 4))
    await check_succeeds(federation, job)


async def test_a_ray_job_runs_to_its_end(federation: Federation) -> None:
    job = await _submitted(federation, "rayjob")
    await check_runs(federation, job, 5, anywhere)
    await check_succeeds(federation, job)


async def test_a_leader_worker_set_runs_until_it_is_cancelled(federation: Federation) -> None:
    job = await _submitted(federation, "lws")
    await check_runs(federation, job, 4, slices("main", 4))
    async with AsyncClient(federation.address, token="") as client:
        await client.cancel(job)
    await federation.until_state(job, job_pb2.JOB_STATE_CANCELLED, patience_s=CANCEL_S)
