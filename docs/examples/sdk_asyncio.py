"""The SDK for asyncio: submit, watch, cancel, try again, and look back.

    hanse up &
    python docs/examples/sdk_asyncio.py QUEUE

Every call may be repeated: with the same request id it does nothing twice. The watch reconnects by itself, and goes
on where it was; a program that was away itself passes the last revision that it has seen.
"""

import asyncio
import sys
import uuid

from hanse.api.v1 import job_pb2
from hanse.client import AsyncClient

JOB = """
apiVersion: hanse/v1
kind: Job
name: hello
pod_sets:
  - name: worker
    count: 2
    command: ["sleep", "600"]
    resources: {nvidia.com/gpu: 8}
"""


async def main(queue: str) -> None:
    async with AsyncClient() as hanse:  # HANSE_SERVER, or 127.0.0.1:7311
        request_id = f"hello-{uuid.uuid4()}"
        submission = await hanse.submit(JOB, queue=queue, request_id=request_id)
        submission.raise_refusal()
        job = submission.ids[0]
        again = await hanse.submit(JOB, queue=queue, request_id=request_id)
        print("submitted once:", again.ids == submission.ids)

        revision = await until_running(hanse, job, submission.revision)
        await hanse.cancel(job)
        revision = await until_ended(hanse, job, revision)
        print("ended later:", revision > submission.revision)

        retry_id = f"retry-{uuid.uuid4()}"
        new = await hanse.retry(job, request_id=retry_id)
        same = await hanse.retry(job, request_id=retry_id)
        print("tried again once:", new.id == same.id, "of", new.retry_of == job)
        print("runs again:", (await hanse.wait(new.id, until="running", timeout_s=60)).name)
        await hanse.cancel(new.id)

        async for answer in hanse.events(job):
            print("looking back:", *(event.message for event in answer.events), sep="\n  ")


async def until_running(hanse: AsyncClient, job: str, after_revision: int) -> int:
    """Follow one job until it runs; the revision that was seen last."""
    async for response in hanse.watch_jobs(job_ids=[job], after_revision=after_revision):
        if any(event.job.status.state == job_pb2.JOB_STATE_RUNNING for event in response.events):
            return response.revision
    return after_revision


async def until_ended(hanse: AsyncClient, job: str, after_revision: int) -> int:
    """Go on where the last watch was: nothing between the two is missed."""
    async for response in hanse.watch_jobs(job_ids=[job], after_revision=after_revision):
        if any(event.job.status.ended_ms for event in response.events):
            return response.revision
    return after_revision


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "default"))
