"""What the agent does beside a real API server: binding a gang, and living beside thousands of nodes.

A control plane (etcd without fsync, API server, controllers, scheduler) has NODES nodes of eight GPUs, in racks of
32, that only exist; a global replica and an agent are processes with the settings and the rights that users have.
RUNS times, in turn, a Job of GANG pods, each of which wants a machine, gets its nodes: from the agent that binds
by itself (`direct`), from the agent that pins pods and leaves the rest to the scheduler (`pin`), from kube-scheduler
with raised limits (`scheduler`), and as it is delivered (`scheduler_stock`); WAYS chooses among them. Each is timed
from the moment when all of its pods are there, gated, to the last one bound; theirs are let go by the agent's client.

`bind_ratio_to_scheduler` is the scheduler's median with raised limits over that of `direct`; `pin_ratio_to_scheduler`
the same over `pin`. Then PODS pods of somebody else are put on the nodes. `first_summary_s_n…` is the time from the
start of an agent's process to its first summary (median of RUNS), `agent_rss_mb_n…` its memory after SECONDS of fifty
events a second, the last step, and `agent_cpu_pct_50eps` what it computed then, of one processor. `raw` has every
run, the processor time of every process, the most memory that an agent had, and what others computed meanwhile.
"""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Final

from bench.contract import BenchArgs, BenchArgumentError, BenchResult, JsonValue
from bench.kubernetes.agent import FirstSummary, Idle, add_pods, first_summary, idle
from bench.kubernetes.binding import CONFIG, NAMESPACE, Bound, Ring, replica
from bench.kubernetes.plane import BURST, NEEDED, QPS, STOCK, BenchPlane, JobShape, add_nodes, bench_plane, missing
from bench.kubernetes.watching import pod_watch
from bench.path.cpu import yardstick_ms
from e2e.api_objects import add_namespace
from hanse.agent.cluster.kubernetes.api import Api, Kubeconfig
from hanse.client import AsyncClient

WAYS: Final = ("direct", "pin", "scheduler", "scheduler_stock")


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module docstring."""
    read = BenchArgs(args)
    nodes, pods, gang = read.whole("NODES", 5_000), read.whole("PODS", 20_000), read.whole("GANG", 512)
    runs, seconds = read.whole("RUNS", 3), read.whole("SECONDS", 30)
    ways = _ways(read)
    given = read.done()
    names = [
        *("bind_ratio_to_scheduler", "pin_ratio_to_scheduler", f"first_summary_s_n{nodes}", f"agent_rss_mb_n{nodes}"),
        "agent_cpu_pct_50eps",
    ]
    lacking = missing(NEEDED)
    if lacking:
        why = f"not built: {', '.join(lacking)}; run `make e2e-tools`"
        return BenchResult(dict.fromkeys(names), raw={"args": given, "reason": why})
    with bench_plane() as plane:
        settings = _settings(plane)
        bound, starts, idles = asyncio.run(_measure(plane, nodes, pods, gang, runs, seconds, ways))
    return BenchResult(
        dict(zip(names, _figures(bound, starts, idles), strict=True)),
        raw={
            "args": given,
            "settings": settings,
            "yardstick_ms": yardstick_ms(),
            "bind_s": {way: [round(one.bind_s, 3) for one in found] for way, found in bound.items()},
            "bound": {way: [asdict(one) for one in found] for way, found in bound.items()},
            "first_summary": [asdict(one) for one in starts],
            "events": [asdict(one) for one in idles],
        },
    )


def _ways(read: BenchArgs) -> tuple[str, ...]:
    text = read.text("WAYS", ",".join(WAYS))
    found = tuple(text.split(","))
    if not set(found) <= set(WAYS):
        raise BenchArgumentError(f"WAYS={text}: give some of {','.join(WAYS)}")
    return found


def _figures(
    bound: Mapping[str, list[Bound]], starts: list[FirstSummary], idles: list[Idle]
) -> tuple[float | None, ...]:
    theirs = _median_s(bound.get("scheduler", []))
    ratios = [
        theirs / ours if theirs and (ours := _median_s(bound.get(way, []))) else None for way in ("direct", "pin")
    ]
    first = median(one.seconds for one in starts) if starts else None
    return (*ratios, first, idles[-1].rss_mb if idles else None, idles[-1].cpu_pct if idles else None)


def _median_s(found: list[Bound]) -> float | None:
    return median(one.bind_s for one in found) if found else None


def _settings(plane: BenchPlane) -> JsonValue:
    """What others were told, and which version they are."""
    return {
        "kubernetes": plane.version,
        "etcd": "without fsync, in memory",
        "controllers": f"kube-api-qps {QPS}, burst {BURST}, 20 Jobs at a time",
        "scheduler": f"kube-api-qps {QPS}, burst {BURST}",
        "scheduler_stock": f"kube-api-qps {STOCK[0]}, burst {STOCK[1]}",
    }


async def _measure(
    plane: BenchPlane, nodes: int, pods: int, gang: int, runs: int, seconds: int, ways: tuple[str, ...]
) -> tuple[dict[str, list[Bound]], list[FirstSummary], list[Idle]]:
    folder = Path(plane.folder)
    api = Api(Kubeconfig(plane.kubeconfig))
    server, address = replica(folder)
    server.start()
    try:
        await asyncio.to_thread(add_namespace, plane, NAMESPACE)
        await add_nodes(api, nodes)
        async with AsyncClient(address, token="") as client:
            await client.apply(CONFIG)
        async with pod_watch(api) as watch:
            ring = Ring(plane, api, watch, folder, server, address)
            bound = await _contests(ring, gang, runs, ways)
            _say(f"{pods} pods of somebody else")
            await add_pods(ring, pods, nodes)
            starts: list[FirstSummary] = []
            idles: list[Idle] = []
            for _ in range(runs if pods else 0):
                agent = ring.agent("direct")
                try:
                    starts.append(await first_summary(ring, agent, nodes))
                    _say(f"first summary after {starts[-1].seconds:.2f} s")
                    if len(starts) == runs:
                        idles.append(await idle(ring, agent, pods, nodes, seconds))
                finally:
                    agent.kill()
            return bound, starts, idles
    finally:
        server.kill()
        await api.close()


async def _contests(ring: Ring, gang: int, runs: int, ways: tuple[str, ...]) -> dict[str, list[Bound]]:
    bound: dict[str, list[Bound]] = {way: [] for way in ways}
    for number in range(runs):
        for way in ways:
            shape = JobShape(f"{way.replace('_', '-')}-{number}", gang)
            ring.plane.use_scheduler(stock=way == "scheduler_stock")
            ours = way in ("direct", "pin")
            bound[way].append(await (ring.by_us(shape, way) if ours else ring.by_scheduler(shape)))
            found = bound[way][-1]
            _say(f"{way}: {found.bind_s:.2f} s, others {found.others_cores:.2f} cores, {dict(found.cpu_s)}")
    return bound


def _say(what: str) -> None:
    print(f"kubernetes: {what}", file=sys.stderr)
