"""The same SDK without asyncio: submit, hold, release, wait, try again.

hanse up &
python docs/examples/sdk_blocking.py QUEUE
"""

import sys
import uuid

from hanse.client import Client
from hanse.model.errors import FailedPrecondition

JOB = """
apiVersion: hanse/v1
kind: Job
name: hello-again
pod_sets:
  - name: worker
    count: 1
    command: ["sleep", "600"]
    resources: {nvidia.com/gpu: 8}
"""


def main(queue: str) -> None:
    with Client() as hanse:
        job = hanse.submit(JOB, queue=queue).ids[0]
        print("runs:", hanse.wait(job, until="running", timeout_s=60).name)
        try:
            hanse.hold(job)
        except FailedPrecondition as refused:
            print("refused:", refused.reason)

        hanse.cancel(job)
        print("ended:", hanse.wait(job, timeout_s=60).status.reason)

        hanse.hold_queue(queue)
        retry_id = f"retry-{uuid.uuid4()}"
        new = hanse.retry(job, request_id=retry_id)
        print("tried again once:", hanse.retry(job, request_id=retry_id).id == new.id)
        print("on hold:", hanse.hold(new.id).status.held)
        hanse.release_queue(queue)
        hanse.release(new.id)
        for response in hanse.watch_jobs(job_ids=[new.id], snapshot=True):
            if any(event.job.status.running_ms for event in response.events):
                break
        hanse.cancel(new.id)
        for answer in hanse.events(new.id):
            print("looking back:", ", ".join(event.message for event in answer.events))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "default")
