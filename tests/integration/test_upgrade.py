"""A version beside the one before: what is stored, and what processes say to each other, is understood both ways.

An older tree runs from `git archive`, in the environment of this one. Part of the federation is of one version and
part of the other at each step of an upgrade, and of the way back, while a client submits; at the end the auditor
compares what was acknowledged with the store and with the pods that ran.

HANSE_UPGRADE_FROM names another commit to come from. A checkout without that commit (a shallow clone) skips this.
"""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from hanse.api.v1 import job_pb2
from tests.arch.tree import ROOT
from tests.integration.parts import Parts, federation
from tests.integration.test_processes import POOLS, ready, small_fleet
from tests.integration.workload import Book, quiet
from tests.services.mosquitto import Broker
from tests.services.process import ServerProcess

FROM = os.environ.get("HANSE_UPGRADE_FROM", "c389f880")
SOURCES = ("api", "global", "pool_agent", "proto/gen")
GIT_DEADLINE_S = 60
SUBMIT_PAUSE_S = 1.0
JOBS_A_STEP_MIN = 3


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sources of the version that the upgrade comes from."""
    folder = tmp_path_factory.mktemp("older")
    archive = folder / "older.tar"
    command = ["git", "archive", "--format=tar", f"--output={archive}", FROM, *SOURCES]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=GIT_DEADLINE_S, check=False)
    if found.returncode:
        pytest.skip(f"commit {FROM} is not in this checkout: {found.stderr.decode().strip()}")
    subprocess.run(["tar", "-xf", archive, "-C", folder], timeout=GIT_DEADLINE_S, check=True)
    return folder


def of_version(tree: Path | None) -> Mapping[str, str]:
    """The environment in which a process is of that tree; None for this one."""
    return {"PYTHONPATH": "" if tree is None else ":".join(str(tree / source) for source in SOURCES)}


async def exchanged(part: ServerProcess, tree: Path | None) -> None:
    """The process ends in order, and comes back in another version."""
    part.terminate()
    part.change_environment(of_version(tree))
    part.launch()
    await part.wait_ready_async()


async def enough(book: Book, than: int) -> None:
    """Until the client got some more jobs accepted."""
    while len(book.acknowledged) < than + JOBS_A_STEP_MIN:  # noqa: ASYNC110 - other processes' doing
        await asyncio.sleep(0.1)


def steps(parts: Parts, older: Path) -> Iterator[tuple[ServerProcess, Path | None]]:
    """Up: replicas one by one, then agents. Back: in the reverse order, one replica left new."""
    up = [*parts.replicas, *parts.agents, parts.sim]
    yield from ((part, None) for part in up)
    yield from ((part, older) for part in reversed(up[1:]))


def test_a_process_of_the_older_version_is_of_the_older_version(older: Path) -> None:
    code = "import hanse.agent.shell.runtime as a, hanse.scheduler.shell.replica as b; print(a.__file__, b.__file__)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **of_version(older)},
        capture_output=True,
        text=True,
        timeout=GIT_DEADLINE_S,
        check=True,
    )
    assert run.stdout.count(str(older)) == 2


async def test_a_rolling_upgrade_and_the_way_back(older: Path, tmp_path: Path) -> None:
    fleet, broker, book = small_fleet(tmp_path), Broker(tmp_path), Book(random.Random(7))
    with federation(
        tmp_path, fleet, POOLS, broker=broker, variables=dict(of_version(older)), all_parts=True
    ) as parts:
        await ready(parts, fleet)
        async with parts.channels() as channels, parts.auditor() as auditor:
            working = asyncio.create_task(book.work_on(channels, SUBMIT_PAUSE_S))
            for part, tree in steps(parts, older):
                accepted = len(book.acknowledged)
                await exchanged(part, tree)
                async with asyncio.timeout(60):
                    await enough(book, accepted)
                assert not working.done(), "the client was told something that it does not understand"
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await book.finish(channels[0])
            jobs = await quiet(auditor, set())
            found = await auditor.audit(book.acknowledged)
            assert found.all == ()
            assert {job.status.state for job in jobs.values()} == {job_pb2.JOB_STATE_SUCCEEDED}
            assert set(jobs) == set(book.acknowledged)
