"""What people have already, run to its end on three real clusters of a thousand machines under one global scheduler.

Manifests are submitted as they are written; the real controllers of their kinds make the pods. Every gang is in one
cluster and whole, its slices in racks of their own, and each pod is on the node that `hanse job --nodes` names for
its set and rank. An auditor beside the product has seen each rank once.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

import pytest
import pytest_asyncio

from e2e import nodes
from e2e.control_plane import ControlPlane, control_plane
from e2e.controllers import JOBSET, TRAINING_OPERATOR, controllers
from e2e.federation import LEVELS, RACK, Federation, federation_over, until
from e2e.played import played_controllers
from e2e.pod_log import Seen
from hanse.api.v1 import job_pb2
from hanse.model.resources import Resources
from tests.arch.tree import ROOT

POOLS: Final = 3
RACKS: Final = int(os.environ.get("HANSE_E2E_RACKS", "63"))
"""Of sixteen machines each, in every cluster; the largest gang wants 32 of them to itself."""

HOSTS_PER_RACK: Final = 16
LEASE_S: Final = 600
SILENT_S: Final = 900
PATIENCE_S: Final = 420.0
MANIFESTS: Final = ROOT / "e2e" / "manifests" / "whole"
SPINE: Final = ROOT / "docs" / "examples" / "llama3-70b.yaml"
HOST: Final = Resources({"nvidia.com/gpu": 8, "rdma/hca": 1, "cpu": 96_000, "memory": 1 << 40, "pods": 110})
CONFIG: Final = """
apiVersion: hanse/v1
kind: Flavor
name: h100
labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
---
apiVersion: hanse/v1
kind: Queue
name: team
quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 10000}}]
---
apiVersion: hanse/v1
kind: Queue
name: high-priority-training
quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 10000}}]
"""
ZONE: Final = {"key": "topology.kubernetes.io/zone", "alias": "zone"}
ENDS: Final = (job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED)
Places = Mapping[tuple[str, int], str]

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def clusters() -> Iterator[Mapping[str, ControlPlane]]:
    """Three, each with its controllers."""
    with ExitStack() as stack:
        planes = {}
        for number in range(POOLS):
            plane = stack.enter_context(control_plane(lease_s=LEASE_S, silent_s=SILENT_S))
            stack.enter_context(controllers(plane, [JOBSET, TRAINING_OPERATOR]))
            stack.enter_context(played_controllers(plane))
            planes[f"pool-{number}"] = plane
        with ThreadPoolExecutor(POOLS) as threads:
            list(threads.map(lambda plane: nodes.add_nodes(plane, _hosts()), planes.values()))
        yield planes


def _hosts() -> Iterator[nodes.Host]:
    for rack in range(RACKS):
        for host in range(HOSTS_PER_RACK):
            name = f"gpu-{rack}-{host}"
            labels = {
                "topology.kubernetes.io/zone": "z1",
                RACK: f"r{rack}",
                "kubernetes.io/hostname": name,
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "feature.node.kubernetes.io/pci-10de.present": "true",
            }
            yield nodes.Host(name, labels, HOST)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def federation(
    clusters: Mapping[str, ControlPlane], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Federation]:
    async with federation_over(clusters, tmp_path_factory.mktemp("federation"), CONFIG, [ZONE, *LEVELS]) as running:
        yield running


async def test_everybodys_jobs_run_to_their_end_as_they_are(federation: Federation) -> None:
    files = [SPINE, *(MANIFESTS / name for name in ("jobset-slices.yaml", "job-kueue.yaml", "volcano.yaml"))]
    files.append(MANIFESTS / "train.sbatch")
    jobs: dict[str, str] = {}
    for file in files:
        queue = () if file is SPINE else ("--queue", "team")
        told = await asyncio.to_thread(federation.command, "submit", str(file), *queue, "-o", "json")
        jobs |= {one["name"]: one["id"] for one in told["jobs"]}
    assert len(jobs) == 7
    await asyncio.gather(*(_run_to_its_end(federation, name, job) for name, job in jobs.items()))
    _check_alone(federation, jobs["exclusive"])


async def _run_to_its_end(federation: Federation, name: str, job: str) -> None:
    running = await federation.until_state(job, job_pb2.JOB_STATE_RUNNING, *ENDS, patience_s=PATIENCE_S)
    assert running.status.state == job_pb2.JOB_STATE_RUNNING, f"{name}: {running.status}"
    named = await asyncio.to_thread(federation.named_places, job)
    _check_domains(name, named)

    async def seen() -> bool:
        return _seen(federation, job) == named

    await until(seen, PATIENCE_S)
    done = await federation.until_state(job, *ENDS, patience_s=PATIENCE_S)
    assert (done.status.state, done.status.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), f"{name}: {done.status}"


def _seen(federation: Federation, job: str) -> Places:
    """Where an auditor saw the pods of a job; they are all in one cluster."""
    (found,) = [log.of(job) for log in federation.logs.values() if log.of(job)] or [[]]
    return {(one.pod_set, one.rank): one.node for one in found}


def _check_alone(federation: Federation, job: str) -> None:
    """While a job that wants its racks for itself was there, nobody else's pods were in them."""
    for log in federation.logs.values():
        own = log.of(job)
        racks = {_rack(one.node) for one in own}
        for other in log.pods.values():
            if other.job != job and _rack(other.node) in racks:
                assert not any(_overlap(one, other) for one in own if _rack(one.node) == _rack(other.node)), other


def _overlap(one: Seen, other: Seen) -> bool:
    assert one.ended_s is not None
    return one.bound_s < (other.ended_s or one.ended_s) and other.bound_s < one.ended_s


def _rack(node: str) -> str:
    return node.split("-")[1]


def _check_domains(name: str, named: Places) -> None:
    count, check = EXPECTED[name]
    assert len(named) == count, f"{name}: {sorted(named)}"
    check(named)


def _racks(named: Places, pod_set: str) -> list[str]:
    """Rack of each rank of a set, in the order of ranks."""
    return [_rack(node) for (found, _), node in sorted(named.items()) if found == pod_set]


def _slices(pod_set: str, size: int) -> Callable[[Places], None]:
    """Each so many consecutive ranks in one rack."""

    def check(named: Places) -> None:
        racks = _racks(named, pod_set)
        cut: Sequence[set[str]] = [set(racks[at : at + size]) for at in range(0, len(racks), size)]
        assert all(len(one) == 1 for one in cut), racks

    return check


def _whole_hosts(named: Places) -> None:
    assert len(set(named.values())) == len(named), "a machine each"


EXPECTED: Final[Mapping[str, tuple[int, Callable[[Places], Any]]]] = {
    "llama3-70b-training": (512, _whole_hosts),
    "annotated": (16, _slices("workers", 4)),
    "exclusive": (12, _slices("workers", 4)),
    "mixed": (9, _slices("workers", 2)),
    "kueue-labelled": (8, _slices("main", 8)),
    "volcanic": (9, lambda named: None),
    "from-slurm": (8, _slices("node", 4)),
}
