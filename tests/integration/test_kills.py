"""kill -9 of `hanse up` at any moment, start it again: nothing lost, nothing doubled, nothing partly there."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc

from hanse.api.v1 import job_pb2, job_service_pb2, job_service_pb2_grpc
from tests.integration.auditor import Auditor
from tests.integration.processes import Up
from tests.integration.workload import CALL_DEADLINE_S, FLEET, POOL, Book, quiet, spec

KILLS = int(os.environ.get("HANSE_KILLS", "8"))
SEED = int(os.environ.get("HANSE_KILLS_SEED", "1"))


@asynccontextmanager
async def talking(up: Up) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(up.address) as channel:
        yield channel


async def test_kill_minus_nine_at_any_moment_loses_doubles_and_splits_nothing(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET + "".join(POOL % (name, name) for name in ("oslo", "paris", "rome")))
    up = Up(fleet, tmp_path / "up.sqlite", tmp_path / "up.log", replicas=2)
    book = Book(rng)
    await up.start()
    async with talking(up) as channel:
        stub = job_service_pb2_grpc.JobServiceStub(channel)
        request = job_service_pb2.SubmitJobsRequest(request_id="long", jobs=[spec("long", 6, 3_600)])
        (long,) = (await stub.SubmitJobs(request, timeout=CALL_DEADLINE_S)).jobs
        book.acknowledged[long.id] = 6
    for _ in range(KILLS):
        async with talking(up) as channel:
            working = asyncio.create_task(book.work(channel))
            await asyncio.sleep(rng.uniform(0.1, 2.0))
            await up.end()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        if rng.random() < 0.3:
            await up.begin()
            await asyncio.sleep(rng.uniform(0.0, 1.5))
            await up.end()
        await up.start()
    async with talking(up) as channel:
        await book.finish(channel)
        auditor = Auditor(channel)
        jobs = await quiet(auditor, {long.id})
        found = await auditor.audit(book.acknowledged)
        assert found.all == ()
        assert set(jobs) == set(book.acknowledged), "what was submitted is what there is, no more and no less"
        assert {jobs[key].status.state for key in book.acknowledged if key != long.id} == {
            job_pb2.JOB_STATE_SUCCEEDED
        }
        assert (jobs[long.id].status.state, jobs[long.id].status.attempt) == (job_pb2.JOB_STATE_RUNNING, 1)
    assert await up.end(signal.SIGTERM) == 0
    assert len(book.acknowledged) > KILLS
