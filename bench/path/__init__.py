"""The whole path as it runs in production: every component a process of its own, over a real etcd and mosquitto, with
20 pools of 1,000 nodes, and gangs of 1 to 64 pods that run 10 to 30 s, never the same twice (`load`).

One federation, three phases. *Warm-up*: for WARM_S the client keeps WINDOW gangs on their way; then as many end as
begin. *Rate*: the same for SECONDS; `gangs_per_s` counts gangs that were placed, `cpu_us_per_gang` is the processor
time of all processes, the client's too, for each of them. *Latency*: for LATENCY_S batches come at SHARE of that
rate, whatever happens; `placed_ms_*` is from the call that submits to the event that shows PLACED or later to the
client.

At the end, when everything has ended, an auditor that shares no code with the product compares what the client was
told, what the API lists, what etcd holds and what the clusters have logged of every pod: `lost`, `doubled`.

All processes share the machine. `raw` says what each of them took, beside the budget for it; how full the fleet was;
and what others computed meanwhile and how fast a processor was, which a reader of the rate must know.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from bench.contract import BenchArgs, BenchResult, JsonValue
from bench.equal_pools import GPUS_PER_NODE, fleet_text
from bench.path.federation import Shape, running
from bench.path.load import RUN_MAX_S, Load
from bench.path.orders import Book, Finish, Pace, Paced
from bench.path.window import Window, quantile, sustained_rate
from hanse.kit import process
from tests.integration.auditor import Findings
from tests.services.binaries import PACKAGES, find

FIGURES: Final = ("gangs_per_s", "placed_ms_p50", "placed_ms_p99", "cpu_us_per_gang", "lost", "doubled")
NAMED_MAX: Final = 20
"""Findings of one kind that `raw` names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long each phase takes, in seconds, and on how large a fleet."""

    pools: int
    nodes: int
    replicas: int
    agents_per_process: int
    warm_s: float
    seconds: float
    latency_s: float
    share: float


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module docstring."""
    read = BenchArgs(args)
    load = Load(
        queues=read.whole("QUEUES", 8),
        window=read.whole("WINDOW", 600),
        batch=read.whole("BATCH", 100),
        skew=read.number("SKEW", 1.5),
        seed=read.whole("SEED", 1),
    )
    plan = Plan(
        pools=read.whole("POOLS", 20),
        nodes=read.whole("NODES", 1_000),
        replicas=read.whole("REPLICAS", 1),
        agents_per_process=read.whole("AGENTS_PER_PROCESS", 0, least=0),
        warm_s=read.number("WARM_S", RUN_MAX_S + 2.0),
        seconds=read.number("SECONDS", 60.0),
        latency_s=read.number("LATENCY_S", 30.0),
        share=read.number("SHARE", 0.6),
    )
    given = read.done()
    missing = [name for name in PACKAGES if find(name) is None]
    if missing:
        why = f"{' and '.join(missing)} not installed: `make services` as root"
        return BenchResult(dict.fromkeys(FIGURES), raw={"args": given, "reason": why})
    return process.run(_measure(plan, load, given))


async def _measure(plan: Plan, load: Load, given: Mapping[str, str]) -> BenchResult:
    text = fleet_text(plan.pools, plan.nodes, load.queues, run_s=RUN_MAX_S)
    shape = Shape(replicas=plan.replicas, agents_per_process=plan.agents_per_process)
    async with running(text, load, shape) as federation:
        loads: list[JsonValue] = [os.getloadavg()[0]]
        window = await sustained_rate(federation, warm_s=plan.warm_s, seconds=plan.seconds)
        loads.append(os.getloadavg()[0])
        rate = window.gangs_per_s * plan.share
        paced = await federation.client.ask(Pace(rate, plan.latency_s, max(1, load.batch // 4)), Paced)
        loads.append(os.getloadavg()[0])
        book = await federation.client.ask(Finish(), Book)
        async with federation.auditor() as auditor:
            found = await auditor.audit(book.acknowledged)
    return _result(plan, given, window, paced, book, found, {"load_average": loads, "latency_rate": rate})


def _result(
    plan: Plan,
    given: Mapping[str, str],
    window: Window,
    paced: Paced,
    book: Book,
    found: Findings,
    more: Mapping[str, JsonValue],
) -> BenchResult:
    figures = {
        "gangs_per_s": window.gangs_per_s,
        "placed_ms_p50": quantile(paced.latencies_ms, 0.50),
        "placed_ms_p99": quantile(paced.latencies_ms, 0.99),
        "cpu_us_per_gang": window.cpu_us_per_gang,
        "lost": len(found.lost),
        "doubled": len(found.doubled),
    }
    gpus = plan.pools * plan.nodes * GPUS_PER_NODE
    raw: dict[str, JsonValue] = {
        "args": given,
        **window.raw(gpus),
        "latencies": len(paced.latencies_ms),
        "batches_left_out": paced.left_out,
        "acknowledged": len(book.acknowledged),
        "not_succeeded": dict(list(book.not_succeeded.items())[:NAMED_MAX]),
        "findings": {name: lines[:NAMED_MAX] for name, lines in asdict(found).items()},
        **more,
    }
    return BenchResult(figures, raw=raw)
