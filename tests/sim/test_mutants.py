"""The checkers are checked: every deliberate bug is found within its number of seeds."""

import pytest

from tests.sim.batch import Task, run_all
from tests.sim.mutants import MUTANTS


@pytest.mark.parametrize("name", MUTANTS)
def test_a_deliberate_bug_is_found(name: str) -> None:
    mutant = MUTANTS[name]
    for outcome, _ in run_all(Task(seed, name) for seed in range(mutant.seeds)):
        if outcome.violation is not None:
            return
    pytest.fail(f"{name} ({mutant.rule}) went unnoticed in {mutant.seeds} seeds")
