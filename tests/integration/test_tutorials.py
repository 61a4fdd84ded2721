"""What the pages for newcomers tell people to type works as it stands there, against the federation of `hanse up`.

A page with the line `<!-- run -->` is run from there on: a block with a title is a file, a block of `sh` is run.
"""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from hanse.cli.fleets import read_fleet_file
from hanse.up.harness import federation
from hanse.up.options import UpOptions
from tests.arch.tree import ROOT

MARK = "<!-- run -->"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PAGE_DEADLINE_S = 120.0
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if MARK in path.read_text(encoding="utf-8"))


def script_of(page: Path, folder: Path) -> str:
    """The commands of a page, after its files were written."""
    commands: list[str] = []
    for kind, title, text in BLOCK.findall(page.read_text(encoding="utf-8").split(MARK, 1)[1]):
        if title:
            (folder / title).write_text(text)
        elif kind == "sh":
            commands.append(text)
    return "\n".join(commands)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT / "docs")) for page in PAGES])
async def test_what_a_page_says_to_type_works(page: Path, tmp_path: Path) -> None:
    script = script_of(page, tmp_path)
    assert script
    async with federation(UpOptions(fleet=read_fleet_file(None), store="memory:", listen="127.0.0.1:0")) as running:
        process = await asyncio.create_subprocess_exec(
            "bash", "-euo", "pipefail", "-c", script,
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HANSE_SERVER": running.address,
                "HANSE_STATE_DIR": str(tmp_path / "state"),
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(PAGE_DEADLINE_S):
            out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()[-2_000:]


def test_every_page_for_newcomers_is_run() -> None:
    assert {page.name for page in PAGES} >= {"quick-start.md", "sdk.md", *os.listdir(ROOT / "docs/tutorials")}
