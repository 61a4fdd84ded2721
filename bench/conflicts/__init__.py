"""How often replicas that schedule at once get in each other's way, and what it costs, in virtual time.

A gang costs its replica GANG_MS before its plan is sent, a transaction TXN_MS on its way; nothing else takes time, so
the store is not the limit. Each replica is the product's own feed, states, cycle and committer over one store in
memory, on the simulator's loop (`replicas`); the API, links and reports of a whole federation are left out, since at
32 replicas and 200 pools they would cost hours and change nothing in what commits compare. Agents place with the
product's placement on real node arrays and say what is left every two seconds (`agents`). A cycle decides at most
DECISIONS gangs: at these prices that takes tens of milliseconds, which is what the product's own limit is made for.

The *load* is the share of all GPUs that is taken. It is held: for what begins, what has run longest ends. All queues
always have work of every kind, so `gangs_per_s` is what replicas can bind at that load.

Figures, at LOAD: `conflict_fraction_8`: of the transactions that 8 replicas send, those that others had overtaken;
`throughput_ratio_32`: gangs a second of 32 replicas, against one; `preference_off_ratio_8`: of 8 replicas that all
prefer the same pools, against one.

`raw.runs` has every setting: 1 to 32 replicas, preference on and off, at each of LOADS, for guards on the heads of
flavors (what the product does) and on whole pools (`store`); docs/concurrency.md shows them as plots. With MEASURED
there are also `raw.measured`: that many replicas as real processes over etcd (`measured`).
"""

import gc
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Final

from bench.conflicts.fleet import Pool, grow, pools
from bench.conflicts.measured import measure
from bench.conflicts.virtual import Outcome, Setting, simulate
from bench.contract import BenchArgs, BenchResult, JsonValue

FEW: Final = 8
MANY: Final = 32
SECONDS_OF_ONE_MAX: Final = 4
"""A window is as many times as long as SECONDS where few replicas bind few gangs in it."""

MEASURED_WARM_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Run:
    """A setting and what came of it."""

    setting: Setting
    outcome: Outcome

    def plain(self) -> dict[str, JsonValue]:
        """For `raw`."""
        asked, found = self.setting, self.outcome
        return {
            **{name: getattr(asked, name) for name in ("replicas", "load", "prefer", "whole")},
            **asdict(found),
            "gangs_per_s": found.gangs_per_s,
            "conflict_fraction": found.conflict_fraction,
        }


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module docstring."""
    read = BenchArgs(args)
    size, nodes, workers = read.whole("POOLS", 200), read.whole("NODES", 1_000), read.whole("WORKERS", 2)
    usual = Setting(
        replicas=1,
        load=read.number("LOAD", 0.9),
        prefer=True,
        whole=False,
        decisions_max=read.whole("DECISIONS", 4),
        warm_s=read.number("WARM_S", 1.0),
        seconds=read.number("SECONDS", 1.0),
        gang_s=read.number("GANG_MS", 20.0) / 1e3,
        txn_s=read.number("TXN_MS", 5.0) / 1e3,
        interval_s=read.number("INTERVAL_MS", 10.0) / 1e3,
        seed=read.whole("SEED", 1),
    )
    loads = [float(part) for part in read.text("LOADS", "0.5,0.95").split(",") if part]
    counts = [int(part) for part in read.text("REPLICAS", "1,2,4,8,16,32").split(",") if part]
    measured = [int(part) for part in read.text("MEASURED", "").split(",") if part]
    small, few = read.whole("MEASURED_POOLS", 40), read.whole("MEASURED_NODES", 1_000)
    measured_s = read.number("MEASURED_S", 3.0)
    given = read.done()
    todo = [*_of_figures(usual), *(one for load in loads for one in _of_plots(replace(usual, load=load), counts))]
    runs = list(_run_all(todo, size, nodes, workers))
    raw: dict[str, JsonValue] = {"args": given, "runs": [one.plain() for one in runs]}
    if measured:
        real = replace(usual, warm_s=MEASURED_WARM_S, seconds=measured_s)
        asked = [one for load in loads for one in _of_plots(replace(real, load=load), measured)]
        raw["measured"] = [one.plain() for one in _measure_all(asked, small, few)]
    return BenchResult(_figures(runs, usual), raw=raw)


def _of_figures(usual: Setting) -> list[Setting]:
    """What the figures are made of."""
    on = [replace(usual, replicas=n) for n in (1, FEW, MANY)]
    return [*on, replace(usual, replicas=FEW, prefer=False)]


def _of_plots(usual: Setting, counts: Sequence[int]) -> Iterator[Setting]:
    for whole in (False, True):
        for prefer in (True, False):
            for count in counts:
                yield replace(usual, replicas=count, prefer=prefer, whole=whole)


def _figures(runs: Sequence[Run], usual: Setting) -> dict[str, float | None]:
    def rate(replicas: int, *, prefer: bool = True) -> Outcome:
        return next(
            one.outcome
            for one in runs
            if one.setting.load == usual.load and (one.setting.replicas, one.setting.prefer) == (replicas, prefer)
        )

    alone = rate(1).gangs_per_s
    return {
        "conflict_fraction_8": rate(FEW).conflict_fraction,
        "throughput_ratio_32": rate(MANY).gangs_per_s / alone,
        "preference_off_ratio_8": rate(FEW, prefer=False).gangs_per_s / alone,
    }


def _measure_all(settings: Sequence[Setting], size: int, nodes: int) -> Iterator[Run]:
    for setting, outcome in measure(settings, size, nodes):
        done = Run(setting, outcome)
        print(f"measured: {_told(done)}", flush=True)
        yield done


# ---- running them --------------------------------------------------------------------------------------------

_filled: list[Pool] = []  # what the children that do the runs have from their parent


def _run_all(todo: Sequence[Setting], size: int, nodes: int, workers: int) -> Iterator[Run]:
    """Every setting in a child of its own, which begins with the pools as they were filled; loads in their order."""
    rng = Random(f"{size}/{nodes}/{todo[0].seed}")
    _filled[:] = pools(size, nodes)
    for load in sorted({setting.load for setting in todo}):
        grow(_filled, load, rng)
        gc.freeze()
        own = [setting for setting in todo if setting.load == load]
        with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=1) as children:
            for done in children.imap(_run_one, own, chunksize=1):
                print(_told(done), flush=True)
                yield done


def _run_one(setting: Setting) -> Run:
    longer = max(1, min(SECONDS_OF_ONE_MAX, FEW // setting.replicas))
    own = replace(setting, seconds=setting.seconds * longer)
    return Run(setting, simulate(own, _filled))


def _told(one: Run) -> str:
    asked, found = one.setting, one.outcome
    return (
        f"{asked.replicas:2} replicas, load {asked.load:.0%}, preference {'on ' if asked.prefer else 'off'}, "
        f"{'whole pools' if asked.whole else 'flavors'}: {found.gangs_per_s:,.0f} gangs/s, "
        f"{found.conflict_fraction:.1%} of transactions in conflict"
    )
