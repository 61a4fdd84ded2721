"""A drained pool: its jobs go where there is room, one by one, by their restart policy; and it can be undone."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hanse.api.v1 import job_pb2, job_spec_pb2
from hanse.client import AsyncClient
from hanse.model.errors import InvalidArgument, NotFound
from hanse.scheduler.shell.drains import CANDIDATES_MAX
from hanse.up.fleet import load_fleet
from hanse.up.harness import federation
from hanse.up.options import UpOptions

PATIENCE_S = 30.0
LOOK_EVERY_S = 0.05
FLEET = """
flavors: [{name: h100}]
queues: [{name: team, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 6400}}]}]
pools:
  - name: old
    start_s: 0.05
    start_jitter_s: 0.05
    stop_s: 0.05
    groups: [{gpu: h100, levels: [{name: rack, count: 1}, {name: host, count: 8}]}]
  - name: new
    start_s: 0.05
    start_jitter_s: 0.05
    stop_s: 0.05
    groups: [{gpu: h100, levels: [{name: rack, count: 1}, {name: host, count: 6}]}]
"""


def spec(name: str, pods: int, *, gpus: int = 8, again: bool = True) -> job_spec_pb2.JobSpec:
    found = job_spec_pb2.JobSpec(name=name, queue="team")
    found.pod_sets.add(name="worker", count=pods, resources={"nvidia.com/gpu": gpus})
    found.pod_sets[0].template.command.extend(["sleep", "3600"])
    if not again:
        found.restart.on_infrastructure = job_spec_pb2.ON_INFRASTRUCTURE_FAIL
    return found


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[AsyncClient]:
    """Two pools, of which the second takes no work at first."""
    (folder / "fleet.yaml").write_text(FLEET)
    fleet = load_fleet(folder / "fleet.yaml")
    async with (
        federation(UpOptions(fleet=fleet, store="memory:", listen="127.0.0.1:0")) as up,
        AsyncClient(up.address, token="") as client,
    ):
        await client.cordon("new")
        yield client


async def placed(client: AsyncClient, *specs: job_spec_pb2.JobSpec) -> list[str]:
    """Jobs that run in the pool that is still open."""
    ids = list((await client.submit(list(specs))).ids)
    for job in ids:
        await client.wait(job, until="running", timeout_s=PATIENCE_S)
    return ids


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - the federation's doing
            await asyncio.sleep(LOOK_EVERY_S)


async def where(client: AsyncClient, job: str) -> tuple[str, int, str]:
    """(state, attempt, pools) of a job."""
    status = (await client.job(job)).status
    pools = ",".join(part.pool for part in status.placement)
    return job_pb2.JobState.Name(status.state).removeprefix("JOB_STATE_"), status.attempt, pools


async def test_jobs_go_where_there_is_room_and_the_pool_is_told_empty(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        jobs = await placed(client, spec("a", 2), spec("b", 2), spec("c", 2))
        pool = await client.drain("old", reason="new switches")
        assert (pool.cordoned, pool.cordon_reason, pool.drain.deadline_ms) == (True, "new switches", 0)
        assert [await where(client, job) for job in jobs] == [("RUNNING", 1, "old")] * 3, "there is no room yet"
        await client.uncordon("new")

        async def empty() -> bool:
            return (await client.pool("old")).gangs == 0

        await until(empty)
        for job in jobs:
            await client.wait(job, until="running", timeout_s=PATIENCE_S)
        assert [await where(client, job) for job in jobs] == [("RUNNING", 2, "new")] * 3
        assert {(await client.job(job)).status.failures for job in jobs} == {0}, "nobody's retries were touched"
        [past] = [answer async for answer in client.events(jobs[0])]
        assert any("being drained" in event.message for event in past.events)


async def test_without_room_nobody_goes_and_a_drain_that_is_undone_moves_nobody(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        big, small = await placed(client, spec("big", 7), spec("small", 1))
        await client.drain("old")
        await client.uncordon("new")

        async def gone() -> bool:
            return await where(client, small) == ("RUNNING", 2, "new")

        await until(gone)
        assert await where(client, big) == ("RUNNING", 1, "old")
        opened = await client.uncordon("old")
        assert (opened.cordoned, opened.HasField("drain")) == (False, False)
        await client.cancel(small)
        fresh = await placed(client, spec("fresh", 1))
        assert await where(client, big) == ("RUNNING", 1, "old")
        assert (await where(client, fresh[0]))[:2] == ("RUNNING", 1)


async def test_many_that_may_not_go_hide_nobody_who_may(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        (goes,) = await placed(client, spec("goes", 1, gpus=1))
        stay = await placed(
            client, *[spec(f"stays-{n}", 1, gpus=1, again=False) for n in range(2 * CANDIDATES_MAX + 1)]
        )
        await client.uncordon("new")
        await client.drain("old")

        async def gone() -> bool:
            return await where(client, goes) == ("RUNNING", 2, "new")

        await until(gone)
        assert {(await where(client, job))[:2] for job in stay} == {("RUNNING", 1)}


async def test_at_the_deadline_all_go_and_who_may_not_start_again_fails(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        stays, fails = await placed(client, spec("stays", 7), spec("fails", 1, again=False))
        await client.uncordon("new")
        await client.drain("old")
        assert (await client.drain("old", deadline_s=1)).drain.deadline_ms > 0, "a deadline can be given later"

        async def gone() -> bool:
            return (await where(client, fails))[0] == "FAILED" and (await where(client, stays))[0] == "PENDING"

        await until(gone)
        assert (await client.job(fails)).status.reason == "DRAINED"


async def test_a_drain_that_cannot_be_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as client:
        with pytest.raises(NotFound):
            await client.drain("nowhere")
        with pytest.raises(InvalidArgument) as refused:
            await client.drain("old", deadline_s=-1)
        assert refused.value.path == "deadline_s"
