"""Many runs on two processes; results come as they are ready, a worker per run is as good as new.

Runs share nothing but imported modules: a deliberate bug is taken out again when its run ends, and collected garbage
is frozen before the first run, so that the collector has little to look at.
"""

import gc
import multiprocessing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.sim.reach import Lines, Reach
from tests.sim.run import Outcome, run_seed

WORKERS: Final = 2
REACH_EVERY: Final = 10
"""Of how many seeds one is traced."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run to do."""

    seed: int
    mutant: str = ""
    reach: bool = False
    fixed: tuple[tuple[str, float], ...] = ()


def run_all(tasks: Iterable[Task], *, workers: int = WORKERS) -> Iterator[tuple[Outcome, Lines]]:
    """Outcomes in the order of the tasks, with the lines that were reached where that was asked for."""
    todo = list(tasks)
    if workers == 1 or len(todo) == 1:
        yield from map(run_task, todo)
        return
    with multiprocessing.get_context("fork").Pool(workers, initializer=gc.freeze) as pool:
        yield from pool.imap(run_task, todo)


def run_task(task: Task) -> tuple[Outcome, Lines]:
    """One run."""
    if not task.reach:
        return run_seed(task.seed, mutant=task.mutant, fixed=dict(task.fixed)), {}
    reach = Reach()
    reach.start()
    try:
        outcome = run_seed(task.seed, mutant=task.mutant, fixed=dict(task.fixed))
    finally:
        lines = reach.stop()
    return outcome, lines


def command(task: Task) -> str:
    """The one command that shows this run again, in full."""
    bug = f" --mutant {task.mutant}" if task.mutant else ""
    fixed = "".join(f" --fix {name}={value:g}" for name, value in task.fixed)
    return f"python -m tests.sim --seeds 1 --seed {task.seed}{bug}{fixed} --story"
