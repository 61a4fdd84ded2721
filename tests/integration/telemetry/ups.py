"""`hanse up` as users start it, with telemetry, and a job whose way is followed."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from hanse.client import AsyncClient
from hanse.model.ids import FlavorName, JobId, QueueName
from hanse.model.job import JobSpec, PodSet, PodTemplate
from hanse.model.resources import Resources
from tests.integration.processes import EXIT_DEADLINE_S, HANSE, READY_DEADLINE_S

FLEET: Final = """
flavors:
  - name: h100
    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
queues:
  - {name: default, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 512}}]}
pools:
  - name: iowa
    start_s: 0.1
    start_jitter_s: 0.1
    stop_s: 0.1
    run_s: 0.3
    groups:
      - {node_prefix: iowa, gpu: h100, levels: [{name: rack, count: 2}, {name: host, count: 8}]}
"""
STAGES: Final = ["submit", "queue", "plan", "commit", "link", "place", "start", "startup", "run", "end"]
"""What is told of a job that succeeds at once, beside its whole life."""


@asynccontextmanager
async def up(folder: Path, *options: str, **variables: str) -> AsyncIterator[dict[str, Any]]:
    """Runs `hanse up` with these options while the block runs; gives what its first line says."""
    fleet, log = folder / "fleet.yaml", folder / "log"
    fleet.write_text(FLEET)
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            str(HANSE),
            *("up", "--fleet", str(fleet), "--listen", "127.0.0.1:0", "-o", "json", *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=file,
            env={**os.environ, "NO_COLOR": "1", **variables},
        )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_DEADLINE_S):
            line = await process.stdout.readline()
        assert line, log.read_text()
        yield json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(EXIT_DEADLINE_S):
            assert await process.wait() == 0, log.read_text()


def processes(folder: Path) -> tuple[str, ...]:
    """Options for a federation of processes, over a store's file."""
    return ("--processes", "--store", f"sqlite:{folder}/h.sqlite", "--state", str(folder / "state"))


def gang(name: str) -> JobSpec:
    pods = PodSet(
        name="worker",
        count=4,
        min_count=4,
        resources=Resources({"nvidia.com/gpu": 4, "cpu": 1_000}),
        flavors=(FlavorName("h100"),),
        template=PodTemplate(image="trainer", command=("python", "train.py")),
    )
    return JobSpec(name, QueueName("default"), (pods,))


async def ended(address: str, spec: JobSpec) -> JobId:
    """Submit a job and wait for its end."""
    async with AsyncClient(address) as client:
        submitted = await client.submit([spec])
        submitted.raise_refusal()
        job = submitted.ids[0]
        await client.wait(job)
    return JobId(job)
