"""A federation over clusters that somebody else started, with kubelets that run what they are told.

`make e2e-kind` names them in HANSE_E2E_KUBECONFIGS, and kind has made them. Without that, two control planes of our
own stand in for them, so that these tests are themselves tried where there is no Docker. Machines get GPUs that are
only said to be there.
"""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from e2e import nodes
from e2e.api_server import ApiServer, given
from e2e.control_plane import control_plane
from e2e.federation import RACK, Federation, federation_over
from hanse.api.v1 import job_pb2
from hanse.model.resources import Resources

RACKS: Final = 2
HOSTS_PER_RACK: Final = 2
IMAGE: Final = "busybox:1.36"
PATIENCE_S: Final = 240.0
"""A kubelet fetches the image first."""

LABELS: Final = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
HOST: Final = Resources({"nvidia.com/gpu": 8, "cpu": 4_000, "memory": 8 << 30, "pods": 110})

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, ApiServer]]:
    """Two racks of two machines in each."""
    told = [Path(name) for name in os.environ.get("HANSE_E2E_KUBECONFIGS", "").split(os.pathsep) if name]
    if told:
        folder = tmp_path_factory.mktemp("certificates")
        found = {f"pool-{n}": given(path, folder) for n, path in enumerate(told)}
        for server in found.values():
            _say_gpus(server)
        yield found
        return
    with ExitStack() as stack:
        planes = [stack.enter_context(control_plane()) for _ in range(2)]
        for plane in planes:
            nodes.add_nodes(plane, [_host(rack, host) for rack in range(RACKS) for host in range(HOSTS_PER_RACK)])
        yield {f"pool-{n}": plane for n, plane in enumerate(planes)}


def _host(rack: int, host: int) -> nodes.Host:
    name = f"gpu-{rack}-{host}"
    return nodes.Host(name, {RACK: f"r{rack}", "kubernetes.io/hostname": name, **LABELS}, HOST)


def _say_gpus(server: ApiServer) -> None:
    gpus = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "8"}]
    for node in server.call("GET", f"{nodes.NODES}?labelSelector={RACK}")["items"]:
        path = f"{nodes.NODES}/{node['metadata']['name']}"
        server.call("PATCH", path, {"metadata": {"labels": LABELS}})
        server.call("PATCH", f"{path}/status", gpus, form="application/json-patch+json")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def federation(
    clusters: Mapping[str, ApiServer], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Federation]:
    async with federation_over(clusters, tmp_path_factory.mktemp("federation")) as running:
        yield running


async def test_gangs_run_whole_in_one_rack_where_they_are_said_to(federation: Federation) -> None:
    racks = RACKS * len(federation.planes)
    jobs = [
        await federation.submit(f"train-{n}", HOSTS_PER_RACK, 3, required="rack", image=IMAGE, cpu=100)
        for n in range(racks)
    ]
    for job in jobs:
        done = await federation.until_state(
            job, job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED, patience_s=PATIENCE_S
        )
        assert (done.status.state, done.status.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)
    for job in jobs:
        (on,) = [found for log in federation.logs.values() if (found := log.of(job))]
        assert sorted(seen.rank for seen in on) == list(range(HOSTS_PER_RACK))
        assert len({seen.node for seen in on}) == HOSTS_PER_RACK, "a machine each"
