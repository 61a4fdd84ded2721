"""Run seeds: `python -m tests.sim --seeds 100 --seed 0`, or `make sim SEEDS=100 SEED=0`."""

import argparse
import sys
import time
from collections import Counter
from dataclasses import fields

from tests.sim.batch import REACH_EVERY, WORKERS, Task, command, run_all
from tests.sim.mutants import RUNNABLE
from tests.sim.reach import joined, report
from tests.sim.run import Outcome, run_seed
from tests.sim.swarm import Swarm

DESCRIPTION = """\
Simulates whole federations on a virtual clock. Each seed draws a federation, its users and its faults; production
shells and cores run in it; every invariant is checked after every step, and once faults have stopped everything must
come to rest. A seed that fails prints the invariant, what led to it, and the one command that shows it again.
"""


def main() -> int:
    """Exit code 1 if any seed found a violation (with --mutant: if none did)."""
    options = _options().parse_args()
    fixed = tuple(_fixed(text) for text in options.fix)
    if options.story:
        return _tell(Task(options.seed, options.mutant, fixed=fixed))
    tasks = [
        Task(seed, options.mutant, not options.no_reach and number % REACH_EVERY == 0, fixed)
        for number, seed in enumerate(range(options.seed, options.seed + options.seeds))
    ]
    began_s = time.perf_counter()
    failed: list[Outcome] = []
    reached = []
    tally: Counter[str] = Counter()
    for task, (outcome, lines) in zip(tasks, run_all(tasks, workers=options.workers), strict=True):
        reached.append(lines)
        tally.update(outcome.tally)
        if options.digests:
            print(f"{outcome.seed} {outcome.digest}")
        if outcome.violation is not None:
            failed.append(outcome)
            _print_failure(task, outcome)
            if options.mutant or options.first_failure:
                break
    _print_end(len(tasks), failed, tally, time.perf_counter() - began_s)
    if not options.no_reach and not options.mutant:
        print("\n".join(report(joined(reached))))
    return int(bool(failed) is not bool(options.mutant))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=100, metavar="N", help="how many seeds (default 100)")
    parser.add_argument(
        "--seed", "--first", type=int, default=0, metavar="FIRST", help="the first of them (default 0)"
    )
    parser.add_argument("--story", action="store_true", help="tell everything that happens in the first seed")
    parser.add_argument("--digests", action="store_true", help="print the hash of each seed's trace")
    parser.add_argument("--mutant", default="", choices=["", *RUNNABLE], metavar="BUG", help=_bugs())
    parser.add_argument("--fix", action="append", default=[], metavar="FIELD=VALUE", help="a field of the swarm")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"processes (default {WORKERS})")
    parser.add_argument("--first-failure", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--no-reach", action="store_true", help="do not trace which lines of the shells are reached")
    return parser


def _bugs() -> str:
    return f"put a deliberate bug in, and expect it to be found: {', '.join(RUNNABLE)}"


def _fixed(text: str) -> tuple[str, float]:
    """`name=value` of one field of the swarm."""
    name, _, value = text.partition("=")
    if name not in {field.name for field in fields(Swarm)}:
        raise SystemExit(f"--fix {text}: the swarm has no field {name!r}; see tests/sim/swarm.py")
    return name, float(value)


def _tell(task: Task) -> int:
    outcome = run_seed(task.seed, mutant=task.mutant, story=True, fixed=dict(task.fixed))
    print(f"seed {task.seed}: {outcome.swarm}")
    print("\n".join(outcome.story))
    print(
        f"digest {outcome.digest}, {outcome.steps} steps, {outcome.virtual_s:.0f} virtual s, {outcome.real_s:.2f} s"
    )
    if outcome.violation is not None:
        print(f"{outcome.violation.invariant}: {outcome.violation.text}")
    return int(outcome.violation is not None)


def _print_failure(task: Task, outcome: Outcome) -> None:
    found = outcome.violation
    assert found is not None
    print(f"\nseed {outcome.seed} breaks {found.invariant}: {found.text}")
    print(f"  drawn: {outcome.swarm}")
    print("\n".join(f"  {line}" for line in outcome.story))
    print(f"  again: {command(task)}")


def _print_end(seeds: int, failed: list[Outcome], tally: Counter[str], took_s: float) -> None:
    what = ", ".join(f"{count} {name.lower()}" for name, count in sorted(tally.items()))
    print(f"{seeds} seeds in {took_s:.1f}s, {len(failed)} failed; {what}")


if __name__ == "__main__":
    sys.exit(main())
