"""Takes the product's checks out, one after the other, and lets seeds find that they are missing.

    make removal                                           # every check; hours
    python -m tests.sim.removal --list --only attach        # which there are in files whose path holds this
    python -m tests.sim.removal --only fence.py --seeds 300
    python -m tests.sim.removal --check NAME --seed 17      # one check, from one seed on

The table of `mutants` holds the bugs that somebody thought of. This finds the places by itself (`checks`).

Most seeds never bring a condition to the side on which it matters, and a run in which it stays on the other side is
the same run with and without it. So first some seeds run unharmed with every condition watched, which costs them
little, and a check is then taken out only in seeds in which that makes a difference. What no seed brings to its other
side is told apart from what was taken out and did no harm: the first asks for another fault, the second for another
invariant, or for a reason in `REDUNDANT`.
"""

import argparse
import importlib.machinery
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, Final

from tests.sim import checks
from tests.sim.checks import ROOT, WATCHER, Check
from tests.sim.redundant import REDUNDANT, reason_of

SEEDS: Final = 1_000
CHECK_MAX_S: Final = 1_200.0
"""Real seconds for one check; it counts as not found after that."""

WATCH_MAX_S: Final = 86_400.0

Turned = dict[str, dict[str, list[int]]]
"""Seeds in which a condition was true, and in which it was false, by the check's name without its last part."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one check that was taken out.

    Attributes:
        seed: that found it, -1 if none did.
        invariant: that it broke.
        tried: seeds that ran without it.
        turned: whether there was a seed in which it makes a difference, as far as anybody looked.
    """

    check: str
    text: str
    seed: int
    invariant: str
    tried: int
    turned: bool
    took_s: float


# ---- the product with another source --------------------------------------------------------------------------


def _compiled_as(changed: dict[str, Callable[[], Any]]) -> None:
    """From now on these files are imported from the given syntax trees."""
    loader = importlib.machinery.SourceFileLoader
    usual = loader.get_code

    def get_code(self: Any, fullname: str) -> CodeType | None:  # Any: a loader that has a path
        made = changed.get(self.path)
        return compile(made(), self.path, "exec") if made is not None else usual(self, fullname)

    setattr(loader, "get_code", get_code)  # noqa: B010 - a method of the standard library


def _run(seed: int) -> str:
    """The invariant that a seed breaks, "" for none; imports the product when it is asked for the first time."""
    from tests.sim.run import run_seed

    violation = run_seed(seed).violation
    return violation.invariant if violation is not None else ""


def _try(check: Check, seeds: list[int], answers: Any) -> None:
    """In a process of its own: tell of each seed what it broke, until one has broken something."""
    _compiled_as({str(ROOT / check.path): partial(checks.without, check)})
    for seed in seeds:
        try:
            broken = _run(seed)
        except BaseException as error:
            broken = f"{type(error).__name__}: {error}"[:200]
        answers.send((seed, broken))
        if broken:
            break
    answers.send(None)


def _watch(seeds: list[int], answers: Any) -> None:
    """In a process of its own: which conditions were true, and which false, in each seed."""
    seen: set[tuple[str, bool]] = set()

    def told(name: str, value: Any) -> Any:
        seen.add((name, bool(value)))
        return value

    vars(sys.modules["builtins"])[WATCHER] = told
    _compiled_as({str(path): partial(checks.watched, path) for path in checks.sources()})
    for seed in seeds:
        seen.clear()
        broken = _run(seed)
        answers.send((seed, broken, sorted(seen)))
    answers.send(None)


def _told_by(work: Callable[..., None], *given: Any, until_s: float = CHECK_MAX_S) -> Iterator[Any]:
    """What a process of its own sends, until it is done, dead, or late."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(*given, there))
    process.start()
    there.close()
    ends_s = time.monotonic() + until_s
    try:
        while here.poll(max(0.0, ends_s - time.monotonic())):
            answer = here.recv()
            if answer is None:
                return
            yield answer
        yield (-1, "stuck")
    except EOFError:
        yield (-1, "crash")
    finally:
        process.kill()
        process.join()


# ---- all of it ------------------------------------------------------------------------------------------------


def watch(seeds: list[int]) -> Turned:
    """Which seeds bring which condition to which side."""
    turned: Turned = {}
    for seed, broken, seen in _told_by(_watch, seeds, until_s=WATCH_MAX_S):
        if broken:
            print(f"seed {seed} breaks {broken} although nothing was taken out", flush=True)
            continue
        for name, value in seen:
            turned.setdefault(name, {"True": [], "False": []})[str(value)].append(seed)
    return turned


def seeds_for(check: Check, turned: Turned, seeds: list[int]) -> list[int]:
    """The seeds in which it makes a difference that this check is missing; all of them where nobody looked."""
    if check.instead not in ("True", "False") or not turned:
        return seeds
    other = "False" if check.instead == "True" else "True"
    wanted = set(seeds)
    return [seed for seed in turned.get(check.name.rpartition(":")[0], {}).get(other, []) if seed in wanted]


def judge(check: Check, seeds: list[int]) -> Verdict:
    """Take one check out, and run these seeds until one of them finds it."""
    began_s = time.monotonic()
    tried, found, broken = 0, -1, ""
    for seed, what in _told_by(_try, check, seeds) if seeds else ():
        tried += seed >= 0
        if what and what != "stuck":
            found, broken = (seed if seed >= 0 else seeds[min(tried, len(seeds) - 1)]), what
    took_s = round(time.monotonic() - began_s, 1)
    return Verdict(check.name, check.told, found, broken, tried, bool(seeds), took_s)


def _chosen(options: argparse.Namespace) -> Iterable[Check]:
    every = (check for path in checks.sources() for check in checks.checks_of(path))
    if options.check:
        return [check for check in every if check.name == options.check]
    return [check for check in every if not options.only or any(word in check.name for word in options.only)]


def main() -> int:
    """Exit code 1 if a check that is not known to be redundant was not found."""
    options = _options().parse_args()
    chosen = _chosen(options)
    if options.list:
        print("\n".join(f"{check.name}  {check.told}" for check in chosen))
        return 0
    seeds = list(range(options.seed, options.seed + options.seeds))
    turned = _turned(Path(options.watched) if options.watched else None, seeds)
    missed = [v for v in _judged(chosen, turned, seeds, options) if v.seed < 0]
    for verdict in missed:
        print(f"not found: {verdict.text}{_why(verdict)}")
    return int(any(not reason_of(verdict.text) for verdict in missed))


def _judged(
    chosen: Iterable[Check], turned: Turned, seeds: list[int], options: argparse.Namespace
) -> Iterator[Verdict]:
    for check in chosen:
        if options.skip_redundant and reason_of(check.told):
            continue
        verdict = judge(check, seeds_for(check, turned, seeds))
        end = f"seed {verdict.seed} breaks {verdict.invariant}" if verdict.seed >= 0 else "NOT FOUND"
        print(f"{end} after {verdict.tried} seeds, {verdict.took_s:.0f} s: {verdict.text}", flush=True)
        if options.results:
            with Path(options.results).open("a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(verdict)) + "\n")
        yield verdict


def _why(verdict: Verdict) -> str:
    known = reason_of(verdict.text)
    if known:
        return f"\n    redundant: {known}"
    return "" if verdict.turned else "\n    no seed brings it to the side where it matters"


def _turned(path: Path | None, seeds: list[int]) -> Turned:
    """From a file of an earlier run if there is one."""
    if path is not None and path.exists():
        found: Turned = json.loads(path.read_text(encoding="utf-8"))
        return found
    turned = watch(seeds)
    if path is not None:
        path.write_text(json.dumps(turned), encoding="utf-8")
    return turned


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim.removal", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help=f"how many (default {SEEDS})")
    parser.add_argument("--seed", type=int, default=0, metavar="FIRST", help="the first of them (default 0)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PART",
        help="names that hold this: a path, :guard",
    )
    parser.add_argument("--check", default="", metavar="NAME", help="one check, as --list names it")
    parser.add_argument("--list", action="store_true", help="say which checks there are, and run nothing")
    parser.add_argument("--watched", default="", metavar="FILE", help="keep here what watching found, or take it")
    parser.add_argument("--results", default="", metavar="FILE", help="append each verdict here, as a line of JSON")
    parser.add_argument(
        "--skip-redundant", action="store_true", help=f"not those {len(REDUNDANT)} of which it is known"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
