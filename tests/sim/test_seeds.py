"""Three hundred federations under faults, and nothing breaks; the same seed is the same run, whoever runs it."""

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.sim.batch import Task, command, run_all
from tests.sim.mutants import UNORDERED
from tests.sim.reach import ROOT

SEEDS: Final = 300
TOLD_FAILURES_MAX: Final = 3
HASH_SEEDS: Final = ("1", "2", "random")
RERUN_SEEDS: Final = 4
RUN_DEADLINE_S: Final = 120


def test_unharmed_federations_keep_every_invariant() -> None:
    tasks = [Task(seed) for seed in range(SEEDS)]
    ran = [(task, outcome) for task, (outcome, _) in zip(tasks, run_all(tasks), strict=True)]
    failed = [(task, outcome) for task, outcome in ran if outcome.violation is not None]
    told = [f"{o.violation}\n  " + "\n  ".join((*o.story, command(t))) for t, o in failed[:TOLD_FAILURES_MAX]]
    assert not failed, f"{len(failed)} of {SEEDS} seeds:\n" + "\n".join(told)


def digests(hash_seed: str, *more: str) -> list[str]:
    """One hash of a run per line, from an interpreter with that hash seed."""
    line = [sys.executable, "-m", "tests.sim", "--seeds", str(RERUN_SEEDS), "--digests", "--no-reach", *more]
    done = subprocess.run(
        line,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_DEADLINE_S,
    )
    lines = [text for text in done.stdout.splitlines() if len(text.split()) == 2 and text.split()[0].isdigit()]
    assert len(lines) == RERUN_SEEDS, done.stdout + done.stderr
    return lines


def test_an_order_that_is_left_to_hashing_shows() -> None:
    bug = ("--mutant", UNORDERED.name)
    assert digests(HASH_SEEDS[0], *bug) != digests(HASH_SEEDS[1], *bug)


@pytest.mark.parametrize("hash_seed", HASH_SEEDS[1:])
def test_equal_seeds_are_equal_runs_under_any_hash_seed(hash_seed: str) -> None:
    assert digests(hash_seed) == digests(HASH_SEEDS[0])
