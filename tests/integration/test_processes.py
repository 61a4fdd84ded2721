"""The federation as it runs in production: every part a process, over etcd and MQTT, and each of them dies."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hanse.api.v1 import event_pb2, job_pb2, job_service_pb2, pool_pb2
from hanse.client.objects import object_of_spec
from hanse.up.fleet import load_fleet
from tests.arch.tree import ROOT
from tests.integration.parts import Parts, federation, lines
from tests.integration.workload import FLEET, POOL, Book, quiet, spec
from tests.services.mosquitto import Broker
from tests.services.process import ServerProcess

KILLS = int(os.environ.get("HANSE_KILLS", "6"))
SEED = int(os.environ.get("HANSE_KILLS_SEED", "1"))
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.05
SUMMARY_AGE_MAX_MS = 15_000
REATTACH_AFTER_KILL_S = 2.0
REATTACH_AFTER_STOP_S = 15.0
SUBMIT_PAUSE_S = 3.0
LONG = 3_600
SUBMITTED_AND_BOUND = [event_pb2.EVENT_KIND_SUBMITTED, event_pb2.EVENT_KIND_BOUND]
DEBUG = {"HANSE_GLOBAL_LOG_LEVEL": "debug", "HANSE_AGENT_LOG_LEVEL": "debug"}

EXAMPLE_FLEET = """
flavors:
  - name: h100
    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
queues:
  - {name: high-priority-training, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 8192}}]}
pools:
  - name: whole
    start_s: 0.2
    groups:
      - gpu: h100
        resources: {rdma/hca: 8}
        labels: {feature.node.kubernetes.io/pci-10de.present: "true"}
        levels: [{name: block, count: 5}, {name: rack, count: 8}, {name: host, count: 16}]
  - name: ragged
    start_s: 0.2
    groups:
      - gpu: h100
        resources: {rdma/hca: 8}
        labels: {feature.node.kubernetes.io/pci-10de.present: "true"}
        levels: [{name: block, count: 5}, {name: rack, count: 8}, {name: host, count: 16}]
        busy: {fraction: 0.3, pattern: scattered}
"""
POOLS = ("oslo", "paris", "rome")


async def until(holds: Callable[[], Awaitable[bool]], *, patience_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(patience_s):
        while not await holds():  # noqa: ASYNC110 - other processes' doing
            await asyncio.sleep(LOOK_EVERY_S)


async def ready(parts: Parts, fleet: Path, pools: tuple[str, ...] = POOLS) -> None:
    """The fleet's settings are in, and every replica sees every pool."""
    async with parts.client() as client:
        objects = [object_of_spec(one) for one in load_fleet(fleet).resources]
        await client.apply([getattr(one, one.WhichOneof("object") or "") for one in objects])
    for number in range(len(parts.addresses)):
        async with parts.client(number) as client:

            async def healthy() -> bool:
                found = {p.name for p in await client.pools() if p.health is pool_pb2.POOL_HEALTH_HEALTHY}
                return set(pools) <= found

            await until(healthy)


def small_fleet(folder: Path) -> Path:
    fleet = folder / "fleet.yaml"
    fleet.write_text(FLEET + "".join(POOL % (name, name) for name in POOLS))
    return fleet


# ---- the example --------------------------------------------------------------------------------------------


async def test_the_example_of_512_workers_runs_over_separate_processes(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(EXAMPLE_FLEET)
    with federation(tmp_path, fleet, ("whole", "ragged"), broker=Broker(tmp_path)) as parts:
        await ready(parts, fleet, ("whole", "ragged"))
        manifest = (ROOT / "docs/examples/llama3-70b.yaml").read_text()
        async with parts.client() as client:
            submitted = await client.submit(manifest)
            (job,) = submitted.ids
            await client.wait(job, until="running", timeout_s=PATIENCE_S)
        for number in range(2):
            async with parts.client(number) as client:
                found = await client.job(job, nodes=True)
                assert {place.pool for place in found.status.placement} == {"whole"}
                assert len({node.name for node in found.status.nodes}) == 512
                why = await client.explain(job)
                assert {pool.pool: pool.chosen for pool in why.pools} == {"whole": True, "ragged": False}


# ---- questions across replicas --------------------------------------------------------------------------------


async def test_every_replica_answers_for_every_pool_and_the_trace_reaches_the_agent(tmp_path: Path) -> None:
    fleet = small_fleet(tmp_path)
    trace = "0af7651916cd43dd8448eb211c80319c"
    with federation(tmp_path, fleet, POOLS, broker=Broker(tmp_path), variables=DEBUG) as parts:
        await ready(parts, fleet)
        async with parts.channels() as channels:
            book = Book(random.Random(1))
            request = job_service_pb2.SubmitJobsRequest(
                request_id="one", jobs=[spec(f"job-{n}", 30, LONG) for n in range(3)]
            )
            jobs = await book.note(
                channels[0], request, metadata=(("traceparent", f"00-{trace}-b7ad6b7169203331-01"),)
            )
        for number in range(2):
            async with parts.client(number) as client:
                for job in jobs:
                    found = await client.wait(job, until="running", timeout_s=PATIENCE_S)
                    found = await client.job(job, nodes=True)
                    assert len(found.status.nodes) == 30, "three pools over two replicas: one is asked for the other"
                    logs = [entry async for entry in client.logs(job, rank=3)]
                    assert logs
                    ran = [r async for r in client.exec(job, ["cat"], rank=3, stdin=b"x" * 100_000)]
                    assert (b"".join(r.stdout for r in ran), ran[-1].exit_code) == (b"x" * 100_000, 0)
                    [past] = [answer async for answer in client.events(job)]
                    assert not past.replicas_silent
                    kinds = [event.kind for event in past.events]
                    assert (kinds[:2], kinds[-1]) == (SUBMITTED_AND_BOUND, event_pb2.EVENT_KIND_RUNNING)
                    assert all(event.revision for event in past.events), "told by whoever holds the root"
        await tell_partly(parts, jobs[0])
        bound = [line for part in parts.replicas for line in lines(part, tmp_path, "binding_sent")]
        moved = [line for part in parts.replicas for line in lines(part, tmp_path, "job_moved")]
        told = [line for part in parts.agents for line in lines(part, tmp_path, "gang_reported")]
        for found_lines in (bound, moved, told):
            assert {line["job"] for line in found_lines} >= set(jobs)
            assert {line["trace"] for line in found_lines} == {trace}
            assert all(line["attempt"] == 1 and int(str(line["revision"])) > 0 for line in found_lines)


async def tell_partly(parts: Parts, job: str) -> None:
    """A replica that is there and does not answer makes the answer partial; the job's record tells the rest."""
    parts.replicas[1].freeze()
    async with parts.client(0) as client:
        [past] = [answer async for answer in client.events(job)]
    assert list(past.replicas_silent) == [parts.replicas[1].name]
    assert [event.kind for event in past.events][:2] == SUBMITTED_AND_BOUND


# ---- agents move ----------------------------------------------------------------------------------------------


async def attachments(parts: Parts, folder: Path) -> int:
    """How often an agent's desired set was accepted."""
    return sum(len(lines(part, folder, "desired_accepted")) for part in parts.agents)


def attached(parts: Parts, folder: Path) -> dict[str, int]:
    """The replica that each pool attached to last, by number."""
    found = [(str(line["time"]), str(line["pool"]), number) for number, line in _attachments(parts, folder)]
    return {pool: number for _, pool, number in sorted(found)}


def _attachments(parts: Parts, folder: Path) -> list[tuple[int, dict[str, object]]]:
    return [(n, line) for n, part in enumerate(parts.replicas) for line in lines(part, folder, "agent_attached")]


@pytest.mark.parametrize(
    ("how", "within_s"),
    [("kill", REATTACH_AFTER_KILL_S), ("terminate", REATTACH_AFTER_KILL_S), ("freeze", REATTACH_AFTER_STOP_S)],
)
async def test_agents_of_a_replica_that_goes_are_at_another_soon(tmp_path: Path, how: str, within_s: float) -> None:
    fleet = small_fleet(tmp_path)
    with federation(tmp_path, fleet, POOLS) as parts:
        await ready(parts, fleet)
        at = attached(parts, tmp_path)
        victim = at["oslo"]
        moving = [pool for pool, number in at.items() if number == victim]
        before = await attachments(parts, tmp_path)
        began_s = time.monotonic()
        await asyncio.get_running_loop().run_in_executor(None, getattr(parts.replicas[victim], how))

        async def moved() -> bool:
            return await attachments(parts, tmp_path) >= before + len(moving)

        await until(moved, patience_s=within_s + 10)
        assert time.monotonic() - began_s < within_s
        async with parts.client(1 - victim) as client:

            async def healthy() -> bool:
                return all(pool.health is pool_pb2.POOL_HEALTH_HEALTHY for pool in await client.pools())

            await until(healthy)  # the first summary of the new epoch follows the attachment
            job = await client.submit(spec("after", 30, LONG))
            await client.wait(job.ids[0], until="running", timeout_s=PATIENCE_S)


# ---- the broker is down (P14) ----------------------------------------------------------------------------------


async def test_with_the_broker_dead_freed_places_of_every_pool_get_new_work(tmp_path: Path) -> None:
    fleet = small_fleet(tmp_path)
    with federation(tmp_path, fleet, POOLS, broker=Broker(tmp_path)) as parts:
        await ready(parts, fleet)
        assert set(attached(parts, tmp_path).values()) == {0, 1}, "some pools are always attached elsewhere"
        async with parts.client() as client:
            first = await client.submit([spec(f"first-{n}", 30, LONG) for n in range(3)])
            for job in first.ids:
                await client.wait(job, until="running", timeout_s=PATIENCE_S)
            for number in range(2):
                await until(lambda n=number: full(parts, n))  # type: ignore[misc]
            (broker,) = parts.brokers
            broker.kill()
            second = await client.submit([spec(f"second-{n}", 30, LONG) for n in range(3)])
            for job in first.ids:
                await client.cancel(job)
            for job in second.ids:
                await client.wait(job, until="running", timeout_s=PATIENCE_S)
            ages = [pool.summary_age_ms for pool in await client.pools()]
            assert max(ages) < SUMMARY_AGE_MAX_MS, "pools of both replicas are seen as they are"


async def full(parts: Parts, replica: int) -> bool:
    """Whether a replica has summaries by which no pool holds another such gang."""
    async with parts.client(replica) as client:
        return all(pool.free_gpus < 30 * 8 for pool in await client.pools())


# ---- anything dies --------------------------------------------------------------------------------------------


class Fate:
    """Kills, freezes and stops one process after the other, and brings each back."""

    def __init__(self, parts: Parts, rng: random.Random) -> None:
        self._parts = parts
        self._rng = rng
        self.done: list[str] = []

    async def strike(self) -> None:
        """One process, one way to go."""
        rng = self._rng
        parts = self._parts
        part = rng.choice(rng.choice([parts.replicas, parts.agents, (parts.sim,), parts.etcd.members, parts.brokers]))
        how = rng.choice(("kill", "kill", "terminate", "freeze"))
        self.done.append(f"{how} {part.name}")
        if how == "freeze":
            part.freeze()
            await asyncio.sleep(rng.choice((rng.uniform(0.1, 2.0), rng.uniform(2.0, 12.0))))
            part.thaw()
        else:
            await self._gone(part, how)

    async def _gone(self, part: ServerProcess, how: str) -> None:
        await asyncio.get_running_loop().run_in_executor(None, getattr(part, how))
        await asyncio.sleep(self._rng.choice((0.0, self._rng.uniform(0.1, 2.0))))
        part.launch()
        if self._rng.random() < 0.2:  # while it starts, too
            await asyncio.sleep(self._rng.uniform(0.0, 1.5))
            part.kill()
            part.launch()


async def test_kill_freeze_or_stop_any_process_and_nothing_is_lost_doubled_or_split(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    fleet = small_fleet(tmp_path)
    with federation(tmp_path, fleet, POOLS, broker=Broker(tmp_path)) as parts:
        await ready(parts, fleet)
        fate, book = Fate(parts, rng), Book(rng)
        async with parts.channels() as channels:
            request = job_service_pb2.SubmitJobsRequest(request_id="long", jobs=[spec("long", 6, LONG)])
            (long,) = await book.note(channels[0], request)
            working = asyncio.create_task(book.work_on(channels, SUBMIT_PAUSE_S))
            for _ in range(KILLS):
                await asyncio.sleep(rng.uniform(0.5, 3.0))
                await fate.strike()
                assert not working.done(), working
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            parts.start()
            for part in parts.all:
                await part.wait_ready_async()
            await book.finish(channels[0])
        async with parts.auditor() as auditor:
            jobs = await quiet(auditor, {long})
            found = await auditor.audit(book.acknowledged)
        assert found.all == (), fate.done
        assert set(jobs) == set(book.acknowledged), "what was submitted is what there is, no more and no less"
        ended = {jobs[key].status.state for key in book.acknowledged if key != long}
        assert ended == {job_pb2.JOB_STATE_SUCCEEDED}, fate.done
        assert (jobs[long].status.state, jobs[long].status.attempt) == (job_pb2.JOB_STATE_RUNNING, 1), fate.done
