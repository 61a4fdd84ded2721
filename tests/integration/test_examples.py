"""The examples of the SDK do what they say, against a federation of this process."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from hanse.cli.fleets import read_fleet_file
from hanse.up.harness import federation
from hanse.up.options import UpOptions
from tests.arch.tree import ROOT
from tests.integration.test_cli import FLEET

EXAMPLE_DEADLINE_S = 90.0
TOLD = {
    "sdk_asyncio.py": [
        "submitted once: True",
        "ended later: True",
        "tried again once: True of True",
        "runs again: hello",
        "looking back:",
        "  submitted with priority 0",
    ],
    "sdk_blocking.py": [
        "runs: hello-again",
        "refused: JOB_NOT_WAITING",
        "ended: CANCELLED_BY_USER",
        "tried again once: True",
        "on hold: True",
        "looking back: submitted as a retry of",
    ],
}


@pytest.mark.parametrize("name", TOLD)
async def test_an_example_does_what_it_says(name: str, tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    fleet = read_fleet_file(tmp_path / "fleet.yaml")
    async with federation(UpOptions(fleet=fleet, store="memory:", listen="127.0.0.1:0")) as running:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "docs/examples" / name),
            "research",
            env={**os.environ, "HANSE_SERVER": running.address},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(EXAMPLE_DEADLINE_S):
            out, err = await process.communicate()
    assert (process.returncode, err.decode()) == (0, "")
    lines = out.decode().splitlines()
    assert [line[: len(told)] for line, told in zip(lines, TOLD[name], strict=False)] == TOLD[name]


def test_every_example_of_the_sdk_is_run() -> None:
    assert {path.name for path in (ROOT / "docs/examples").glob("*.py")} == set(TOLD)
