"""What people have already, run to its end on three real clusters of a thousand machines under one global scheduler.

Manifests are submitted as they are written; the real controllers of their kinds make the pods.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

import pytest
import pytest_asyncio

from e2e import nodes
from e2e.control_plane import ControlPlane, control_plane
from e2e.controllers import JOBSET, TRAINING_OPERATOR, controllers
from e2e.federation import LEVELS, Federation, federation_over, until
from e2e.played import played_controllers
from e2e.whole_way import (
    CONFIG,
    MANIFESTS,
    ZONE,
    Check,
    anywhere,
    check_alone,
    check_runs,
    check_succeeds,
    hosts,
    seen,
    slices,
    whole_hosts,
)
from tests.arch.tree import ROOT

POOLS: Final = 3
RACKS: Final = int(os.environ.get("HANSE_E2E_RACKS", "63"))
"""Of sixteen machines each, in every cluster; the largest gang wants 32 of them to itself."""

LEASE_S: Final = 600
SILENT_S: Final = 900
SPINE: Final = ROOT / "docs" / "examples" / "llama3-70b.yaml"

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
            list(threads.map(lambda plane: nodes.add_nodes(plane, hosts(RACKS)), planes.values()))
        yield planes


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def federation(
    clusters: Mapping[str, ControlPlane], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Federation]:
    folder = tmp_path_factory.mktemp("federation")
    async with federation_over(clusters, folder, CONFIG, [ZONE, *LEVELS]) as running:
        yield running


async def test_everybodys_jobs_run_to_their_end_as_they_are(federation: Federation) -> None:
    jobs = await _submitted(federation, "jobset-slices.yaml", "job-kueue.yaml", "volcano.yaml", "train.sbatch")
    assert set(jobs) == set(EXPECTED)
    await asyncio.gather(*(_whole_way(federation, name, job) for name, job in jobs.items()))
    check_alone(federation, jobs["exclusive"])


@pytest.mark.every_kind  # three control planes of a thousand machines that start again want a machine of their own
async def test_what_is_killed_on_the_way_costs_no_job_its_attempt(
    clusters: Mapping[str, ControlPlane], federation: Federation
) -> None:
    """Agents, the global replica and an API server die while gangs start; none is partly there, or twice."""
    jobs = await _submitted(federation, "job-kueue.yaml", "volcano.yaml", "train.sbatch")
    for agent in federation.agents.values():
        agent.kill()
        agent.start()
    federation.replica.kill()
    federation.replica.launch()
    await federation.replica.wait_ready_async()
    await next(iter(clusters.values())).restart_api_server()
    for agent in federation.agents.values():
        agent.kill()
        agent.start()
    await asyncio.gather(*(check_succeeds(federation, job) for job in jobs.values()))
    for name, job in jobs.items():
        count, check = EXPECTED[name]
        places = seen(federation, job)
        assert len(places) == count, f"{name}: {sorted(places)}"
        check(places)

    async def nothing_is_left() -> bool:
        phases = [pod["status"].get("phase") for job in jobs.values() for pod in federation.pods(job)]
        return not {"Pending", "Running"} & set(phases)

    await until(nothing_is_left)


async def _submitted(federation: Federation, *manifests: str) -> dict[str, str]:
    """The spine's job and these, by name."""
    jobs: dict[str, str] = {}
    for file in (SPINE, *(MANIFESTS / name for name in manifests)):
        queue = () if file is SPINE else ("--queue", "team")
        told = await asyncio.to_thread(federation.command, "submit", str(file), *queue, "-o", "json")
        jobs |= {one["name"]: one["id"] for one in told["jobs"]}
    return jobs


async def _whole_way(federation: Federation, name: str, job: str) -> None:
    await check_runs(federation, job, *EXPECTED[name])
    await check_succeeds(federation, job)


EXPECTED: Final[Mapping[str, tuple[int, Check]]] = {
    "llama3-70b-training": (512, whole_hosts),
    "annotated": (16, slices("workers", 4)),
    "exclusive": (12, slices("workers", 4)),
    "mixed": (9, slices("workers", 2)),
    "kueue-labelled": (8, slices("main", 8)),
    "volcanic": (9, anywhere),
    "from-slurm": (8, slices("node", 4)),
}
