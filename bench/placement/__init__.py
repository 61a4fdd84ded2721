"""What placement in one pool costs, on one core.

`gangP_nN_ms_*`: from a request to a named placement of P pods in a pool of N nodes, as the agent's ledger calls it:
`hanse.agent.core.placement.place(inventory, request, flavors)`. Inside the measurement: preparing the request, which
was never seen before (every pod asks for another share of cpu and memory), capacity of the pool as this request sees
it, the choice of domains and hosts, and the names of the nodes with the pods on each in the order of ranks, so that
the ledger can hold them at once. Outside: what happened since the last measurement (node events, gangs that ended,
gangs that came, all through the same inventory) with the bringing up to date of the pool's free shape, which the
agent does to publish it anyway; `raw.changes` says what that took. An equal mix of loads (60 %, 95 %) and requests
(one domain required, a level preferred, two layers of slices).

`gang1000_hard_ms_p99`: only requests for which the greedy choice could not prove itself. `nofit_n5000_ms_p99`: a
refusal with its reason, constraint and numbers. `node_event_us_p50`: one change of one node until the shape is up to
date. `summary_n5000_typical_bytes`, `summary_worst_bytes`: encoded shapes. `fit_pools*_us_p99`: whether one request
fits, asked of many pools at once (see `bench/placement/fit.py`). `ratio_to_python_loop`: how many times longer a
plain loop over the nodes takes for the same gangs of 1,000 (median over median, in this run; see
`bench/placement/loop.py`); above 1 we are faster.

Times are of the thread's processor (nothing here waits); `raw` has those of the wall beside them, which on a shared
machine contain what others computed. The garbage collector runs as it does in our processes; placement is compiled
as it is there, where numba is installed (`raw.compiled`; HANSE_NATIVE=0 leaves it to Python). `raw.proofs` counts how
often the greedy choice's certificate answered; `raw.multi_set` is how far gangs of several sets are from the best of
all arrangements on small pools. Arguments: NODES, ROUNDS, HARD, EVENTS, FITS (requests to each fleet), MULTI, SEED.
"""

import resource
from collections.abc import Mapping

from bench.contract import BenchArgs, BenchResult, JsonValue
from bench.placement import events, fit, gangs, hard, multi, summaries
from bench.placement.clock import quantile
from hanse.kit.native import load
from hanse.kit.process import settle_memory


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module docstring."""
    read = BenchArgs(args)
    nodes, rounds = read.whole("NODES", 5_000, least=500), read.whole("ROUNDS", 40)
    wanted, changes = read.whole("HARD", 200), read.whole("EVENTS", 4_000)
    fit_rounds = read.whole("FITS", 2_000)
    seed, multi_sets = read.whole("SEED", 1, least=0), read.whole("MULTI", 200)
    raw: dict[str, JsonValue] = {"args": read.done()}
    raw["compiled"] = load()
    settle_memory()
    figures: dict[str, float | None] = {}
    figures |= _gangs(nodes, rounds, seed, raw)
    figures |= _larger(2 * nodes, max(1, rounds // 2), seed, raw)
    watch, raw["hard"] = hard.measure(nodes, wanted, seed)
    figures["gang1000_hard_ms_p99"] = watch.ms(0.99)
    figures["node_event_us_p50"], raw["events_us"] = events.measure(nodes, gangs.LOADS[0], changes, seed)
    typical, worst, raw["summary_bytes"] = summaries.measure(nodes, seed)
    figures |= {"summary_n5000_typical_bytes": typical, "summary_worst_bytes": worst}
    fits, raw["fit"] = fit.measure(nodes, fit_rounds, seed)
    figures |= fits
    raw["multi_set"] = multi.measure(multi_sets, seed)
    print(f"gangs of several sets, beside the best of all arrangements: {raw['multi_set']}")
    raw["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return BenchResult(figures, raw)


def _gangs(nodes: int, rounds: int, seed: int, raw: dict[str, JsonValue]) -> dict[str, float | None]:
    got = gangs.measure(nodes, rounds, seed)
    figures: dict[str, float | None] = {}
    for size, watch in got.gangs.items():
        figures[f"gang{size}_n5000_ms_p50"] = watch.ms(0.5)
        figures[f"gang{size}_n5000_ms_p99"] = watch.ms(0.99)
    figures["nofit_n5000_ms_p99"] = got.refused.ms(0.99)
    loop, own = got.loop.ms(0.5), quantile(got.loop_peer, 0.5, 1e6)
    figures["ratio_to_python_loop"] = loop / own if loop and own else None
    print(
        f"the greedy's certificate answered {got.proofs.certified_pct:.1f} % of the requests for more than one host"
    )
    raw["gangs"] = {
        **{str(size): watch.told() for size, watch in got.gangs.items()},
        "1000_by_load_and_mode": {name: watch.told() for name, watch in got.modes.items()},
        "refused": got.refused.told(),
        "explained_in_names": got.explained.told(),
        "python_loop": got.loop.told(),
        "without_room": dict(got.skipped),
    }
    raw["changes"] = got.changes
    raw["proofs"] = got.proofs.told()
    raw["certified_pct"] = got.proofs.certified_pct
    return figures


def _larger(nodes: int, rounds: int, seed: int, raw: dict[str, JsonValue]) -> dict[str, float | None]:
    got = gangs.measure(nodes, rounds, seed, (gangs.LARGEST,))
    raw["gangs_on_twice_the_nodes"] = got.gangs[gangs.LARGEST].told()
    return {"gang1000_n10000_ms_p50": got.gangs[gangs.LARGEST].ms(0.5)}
