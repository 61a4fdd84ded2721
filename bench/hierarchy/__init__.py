"""What two levels lose: the same gangs through 20 pools by global and agents, and through one tree of all nodes by
the agents' placement alone.

    make bench BENCH=hierarchy [SEEDS=3] [HOURS=3] [LOAD=0.95] [DATA=DIR]

Virtual time; equal arguments give equal results. About 10,200 hosts and 78,000 GPUs (`fleet`), one pool with a real
network; gangs as published training clusters had them (`stream`), offered at LOAD of all GPUs; the product's own
decision code on the one side (`federation`), and on the other the same placement with the pool as the coarsest level
(`one_tree`). Both decide at the same moments, in the same order, and every gang is inside one pool in both. The first
WARM_UP_SHARE of each run is not counted.

Figures, over all seeds:

* `stranded_gpus_pct`: (mean GPUs that gangs held by one tree, less those by 20 pools) over all GPUs, times 100;
  below zero if the pools hold more.
* `gpu_hours_ratio`: GPU-hours used, 20 pools over one tree.
* `wait_p99_ratio_large`: 99th percentile of the time for which gangs of LARGE_GPUS and more waited, 20 pools over
  one tree.

`raw.seeds[]` has them for each seed, `raw.spread` their standard deviations, `raw.series` one seed's course.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from bench.contract import BenchArgs, BenchResult, JsonValue
from bench.hierarchy.federation import Federation
from bench.hierarchy.fleet import Pool, pool_inventory, pools
from bench.hierarchy.one_tree import OneTree
from bench.hierarchy.race import Course, gpu_seconds, run_side, waits_s
from bench.hierarchy.stream import Stream, make_stream
from hanse.model.request import GangRequest
from hanse.scheduler.core.snapshot import Limits
from hanse.shape import Fit, could_ever_fit

DATA: Final = Path(__file__).resolve().parents[3] / "shared" / "data"
WARM_UP_SHARE: Final = 0.25
LARGE_GPUS: Final = 64
SERIES_STEP_S: Final = 120.0
FIGURES: Final = ("stranded_gpus_pct", "gpu_hours_ratio", "wait_p99_ratio_large")


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a run that is counted."""

    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One stream through both sides."""

    seed: int
    stream: Stream
    by_pools: Course
    by_tree: Course
    told: Mapping[str, JsonValue]


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module."""
    read = BenchArgs(args)
    seeds, hours, load = read.whole("SEEDS", 3), read.number("HOURS", 3.0), read.number("LOAD", 0.95)
    data = Path(read.text("DATA", str(DATA)))
    given = read.done()
    span = Span(hours * 3_600 * WARM_UP_SHARE, hours * 3_600)
    try:
        fleet = pools(data / "lingjun" / "topo.csv")
        streams = _streams(data, fleet, seeds, load, span)
    except (OSError, KeyError, ValueError) as error:
        reason = f"no data to measure with: {error!r}; DATA=DIR names the folder that has lingjun/ and gangs/"
        return BenchResult(dict.fromkeys(FIGURES), raw={"args": given, "reason": reason})
    pairs: list[Pair] = []
    for seed, stream in enumerate(streams):
        pairs.append(_paired(fleet, seed, stream, span))
        stranded_pct = _row(pairs[-1], sum(pool.gpus for pool in fleet), span)["stranded_gpus_pct"]
        print(f"seed {seed}: {len(stream.gangs):,} gangs, {stranded_pct:+.2f} % stranded", flush=True)
    return _result(fleet, pairs, span, given)


def _streams(data: Path, fleet: Sequence[Pool], seeds: int, load: float, span: Span) -> list[Stream]:
    params = data / "gangs" / "gang_generator_params.json"
    gpus, fits = load * sum(pool.gpus for pool in fleet), fits_some_pool(fleet)
    return [make_stream(params, seed, gpus=gpus, horizon_s=span.until_s, fits=fits) for seed in range(seeds)]


def fits_some_pool(fleet: Sequence[Pool]) -> Callable[[GangRequest], bool]:
    """Whether some empty pool holds a request in one of the flavors that it accepts."""
    empty = [pool_inventory(pool).empty_shape() for pool in fleet]

    @cache
    def fits(request: GangRequest) -> bool:
        choices = request.sets[0].flavors
        return any(isinstance(could_ever_fit(shape, request, (f,)), Fit) for f in choices for shape in empty)

    return fits


def _paired(fleet: Sequence[Pool], seed: int, stream: Stream, span: Span) -> Pair:
    federation = Federation(fleet, Limits(), seed)
    by_pools = run_side(federation, stream.gangs, span.until_s)
    made, clipped = federation.summaries
    told = {"cycles": federation.cycles, "refused": federation.refused, "summaries": made, "clipped": clipped}
    by_tree = run_side(OneTree(fleet), stream.gangs, span.until_s)
    return Pair(seed, stream, by_pools, by_tree, told)


# ---- figures -------------------------------------------------------------------------------------------------


def _result(fleet: Sequence[Pool], pairs: Sequence[Pair], span: Span, given: Mapping[str, str]) -> BenchResult:
    gpus = sum(pool.gpus for pool in fleet)
    rows = [_row(pair, gpus, span) for pair in pairs]
    waits_pools = [s for p in pairs for s in _waits(p, p.by_pools, span)]
    waits_tree = [s for p in pairs for s in _waits(p, p.by_tree, span)]
    by_pools, by_tree = (statistics.fmean(row[name] for row in rows) for name in ("pools_pct", "tree_pct"))
    figures = {
        "stranded_gpus_pct": by_tree - by_pools,
        "gpu_hours_ratio": by_pools / by_tree,
        "wait_p99_ratio_large": _ratio(p99(waits_pools), p99(waits_tree)),
    }
    raw: dict[str, JsonValue] = {
        "args": dict(given),
        "fleet": {"pools": len(fleet), "hosts": sum(len(pool.nodes) for pool in fleet), "gpus": gpus},
        "counted_hours": [span.since_s / 3_600, span.until_s / 3_600],
        "seeds": [{**row, **pair.told} for row, pair in zip(rows, pairs, strict=True)],
        "spread": {name: _spread([row[name] for row in rows]) for name in (*FIGURES[:2], "pools_pct", "tree_pct")},
        "large": {"least_gpus": LARGE_GPUS, "pools": _quantiles(waits_pools), "tree": _quantiles(waits_tree)},
        "series": _series(pairs[0], gpus),
    }
    if figures["wait_p99_ratio_large"] is None:
        raw["reason"] = "no large gang waited in the one tree"
    return BenchResult(figures, raw=raw)


def _row(pair: Pair, gpus: int, span: Span) -> dict[str, float]:
    seconds = (span.until_s - span.since_s) * gpus
    gangs = pair.stream.gangs
    by_pools, by_tree = (
        100 * gpu_seconds(course, gangs, span.since_s, span.until_s) / seconds
        for course in (pair.by_pools, pair.by_tree)
    )
    return {
        "seed": pair.seed,
        "gangs": len(gangs),
        "left_out": pair.stream.left_out,
        "offered_pct": 100 * pair.stream.offered_gpus(span.until_s) / gpus,
        "pools_pct": by_pools,
        "tree_pct": by_tree,
        "stranded_gpus_pct": by_tree - by_pools,
        "gpu_hours_ratio": by_pools / by_tree,
        "pools_waiting": len(gangs) - len(pair.by_pools.started_s),
        "tree_waiting": len(gangs) - len(pair.by_tree.started_s),
        "pools_large_wait_p99_s": p99(_waits(pair, pair.by_pools, span)),
        "tree_large_wait_p99_s": p99(_waits(pair, pair.by_tree, span)),
    }


def _waits(pair: Pair, course: Course, span: Span) -> list[float]:
    return waits_s(course, pair.stream.gangs, span.since_s, span.until_s, LARGE_GPUS)


def p99(values: Sequence[float]) -> float:
    """The smallest value that at least 99 % of all do not exceed; 0 if there is none."""
    return sorted(values)[-(len(values) // 100) - 1] if values else 0.0


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None


def _spread(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def _quantiles(waits: Sequence[float]) -> dict[str, JsonValue]:
    ordered = sorted(waits)
    at = {f"p{q}_s": ordered[len(ordered) * q // 100] if ordered else None for q in (50, 90)}
    return {"gangs": len(waits), **at, "p99_s": p99(waits)}


def _series(pair: Pair, gpus: int) -> dict[str, JsonValue]:
    """One seed's course, in steps of SERIES_STEP_S."""
    both = zip(pair.by_pools.allocated, pair.by_tree.allocated, strict=True)
    kept = [(at_s, pools, tree) for (at_s, pools), (_, tree) in both if at_s % SERIES_STEP_S == 0]
    return {
        "seed": pair.seed,
        "hours": [round(at_s / 3_600, 4) for at_s, _, _ in kept],
        "pools_pct": [round(100 * held / gpus, 3) for _, held, _ in kept],
        "tree_pct": [round(100 * held / gpus, 3) for _, _, held in kept],
    }
