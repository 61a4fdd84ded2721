"""The checkers are checked: every deliberate bug is found within its number of seeds."""

import pytest

from tests.sim.batch import Task, run_all
from tests.sim.mutants import MUTANTS, Mutant
from tests.sim.run import run_seed


def is_due_to(mutant: Mutant, seed: int) -> bool:
    """Whether the same federation under the same faults is fine without the bug."""
    return run_seed(seed, fixed=mutant.needs).violation is None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_deliberate_bug_is_found(name: str) -> None:
    mutant = MUTANTS[name]
    for outcome, _ in run_all(Task(seed, name) for seed in range(mutant.seeds)):
        if outcome.violation is not None and is_due_to(mutant, outcome.seed):
            return
    pytest.fail(f"{name} ({mutant.rule}) went unnoticed in {mutant.seeds} seeds")
