"""The same Jobs through Kueue, through MultiKueue and through Hanse, on the same servers.

Two clusters of NODES machines with eight GPUs, and a manager's control plane without nodes, run all the time: real
API servers over etcd, with machines that only exist (`bench.kubernetes`). Kubernetes' own controllers and schedulers
have raised client limits, and so has Kueue, which has four times as many workers as it is delivered with.

* `gang_latency_ratio_to_kueue_tas`: a Job of GANG pods that wants as few racks as possible, from its submission to
  its last pod on a node; ours over theirs. Theirs is Kueue with topology-aware scheduling on the first cluster; ours
  a global replica and two agents that bind by themselves, over both. Median of RUNS.
* `throughput_ratio_to_multikueue`: BURST Jobs of eight pods, submitted as fast as they are taken; gangs a second
  until the last pod is on a node, ours over theirs. Theirs is MultiKueue, a manager and two workers, and counts
  quota alone; nothing is asked of topology.
* `gang_s_…` and `gangs_per_s_…` are the same as they are, `…_pin` with agents that leave binding to the scheduler.

One system runs at a time, in turn, and is given a gang of eight pods first that does not count. `raw` has what each
process computed, what others did meanwhile, and what becomes of submissions and of running jobs while a manager is
dead (OUTAGES=0 leaves that out).
"""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Final

from bench.contract import BenchArgs, BenchResult, JsonValue
from bench.kubernetes.binding import replica
from bench.kubernetes.plane import BURST, NEEDED, QPS, JobShape, add_nodes, bench_plane, missing
from bench.kubernetes.watching import pod_watch
from bench.path.cpu import yardstick_ms
from bench.peers.contest import (
    CONFIG,
    Cluster,
    Outcome,
    Ring,
    System,
    contest,
    hanse,
    multi_kueue,
    one_kueue,
)
from bench.peers.kueue import PLAIN, RACKS, kueue, set_up_manager, set_up_worker, settings
from bench.peers.outage import of_hanse, of_multi_kueue
from e2e.modules import module_version
from hanse.agent.cluster.kubernetes.api import Api, Kubeconfig
from hanse.client import AsyncClient
from tests.services.process import data_folder

SMALL: Final = 8
NAMES: Final = (
    "throughput_ratio_to_multikueue",
    "gang_latency_ratio_to_kueue_tas",
    "gangs_per_s_hanse",
    "gangs_per_s_multikueue",
    "gang_s_hanse",
    "gang_s_hanse_pin",
    "gang_s_kueue_tas",
)
Found = dict[str, list[Outcome]]


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module docstring."""
    read = BenchArgs(args)
    nodes, gang, burst = read.whole("NODES", 5_120), read.whole("GANG", 512), read.whole("BURST", 60)
    runs, outages = read.whole("RUNS", 3), read.whole("OUTAGES", 1, least=0)
    given = read.done()
    lacking = missing((*NEEDED, "kueue"))
    if lacking:
        why = f"not built: {', '.join(lacking)}; run `make e2e-tools`"
        return BenchResult(dict.fromkeys(NAMES), raw={"args": given, "reason": why})
    gangs, bursts, dead = asyncio.run(_measure(nodes, gang, burst, runs, bool(outages)))
    raw: dict[str, JsonValue] = {
        "args": given,
        "settings": _settings(),
        "yardstick_ms": yardstick_ms(),
        "gangs": {name: [asdict(one) for one in found] for name, found in gangs.items()},
        "bursts": {name: [asdict(one) for one in found] for name, found in bursts.items()},
        "manager_dead": dead,
    }
    return BenchResult(_figures(gangs, bursts), raw=raw)


def _figures(gangs: Found, bursts: Found) -> dict[str, float | None]:
    rates = {name: median(one.gangs / one.seconds for one in found) for name, found in bursts.items()}
    times = {name: median(one.seconds for one in found) for name, found in gangs.items()}
    values = (
        rates["hanse"] / rates["multikueue"],
        times["hanse"] / times["kueue_tas"],
        rates["hanse"],
        rates["multikueue"],
        *(times[name] for name in ("hanse", "hanse_pin", "kueue_tas")),
    )
    return dict(zip(NAMES, values, strict=True))


def _settings() -> JsonValue:
    return {
        "kueue": {"version": module_version("kueue", "sigs.k8s.io/kueue"), **settings()},
        "kubernetes": module_version("kubernetes", "k8s.io/kubernetes"),
        "controllers, schedulers": f"kube-api-qps {QPS}, burst {BURST}, 20 Jobs at a time",
        "hanse": "a replica over SQLite, an agent for each cluster with its default settings; binder direct, or pin",
        "etcd": "without fsync, in memory",
    }


async def _measure(
    nodes: int, gang: int, burst: int, runs: int, outages: bool
) -> tuple[Found, Found, Mapping[str, JsonValue]]:
    async with AsyncExitStack() as stack:
        ring = await _open(stack, nodes)
        await _set_up(ring)
        folder = stack.enter_context(data_folder())
        server, address = replica(folder)
        server.start()
        stack.callback(server.kill)
        async with AsyncClient(address, token="") as client:
            await client.apply(CONFIG)
        gangs: Found = {"kueue_tas": [], "hanse": [], "hanse_pin": []}
        bursts: Found = {"multikueue": [], "hanse": []}
        dead: dict[str, JsonValue] = {}

        async def one(found: Found, name: str, system: System, number: int, count: int, pods: int) -> None:
            shapes = [JobShape(f"{name.replace('_', '-')}-{pods}-{number}-{at}", pods) for at in range(count)]
            outcome = await contest(ring, system, shapes, RACKS if count == 1 else PLAIN)
            found[name].append(outcome)
            rate = outcome.gangs / outcome.seconds
            _say(f"{name}: {count} of {pods} in {outcome.seconds:.2f} s, {rate:.2f}/s, {outcome.cpu_s}")

        async def warm(name: str, system: System, number: int) -> None:
            await contest(ring, system, [JobShape(f"warm-{name}-{number}", SMALL)], PLAIN)

        for number in range(runs):
            last = outages and number == runs - 1
            with one_kueue(ring) as theirs:
                await warm("kueue-tas", theirs, number)
                await one(gangs, "kueue_tas", theirs, number, 1, gang)
            async with hanse(ring, server, address, "direct") as ours:
                await warm("hanse", ours, number)
                await one(gangs, "hanse", ours, number, 1, gang)
                await one(bursts, "hanse", ours, number, burst, SMALL)
                if last:
                    dead["hanse_one_replica"] = await of_hanse(ring, ours)
            async with hanse(ring, server, address, "pin") as ours:
                await warm("hanse-pin", ours, number)
                await one(gangs, "hanse_pin", ours, number, 1, gang)
            with multi_kueue(ring) as many:
                await warm("multikueue", many, number)
                await one(bursts, "multikueue", many, number, burst, SMALL)
                if last:
                    dead["multikueue"] = await of_multi_kueue(ring, many)
        return gangs, bursts, dead


async def _open(stack: AsyncExitStack, nodes: int) -> Ring:
    """The control planes, with their nodes and somebody who watches."""
    planes = stack.enter_context(ExitStack())
    opened: list[Cluster] = []
    for name in ("manager", "worker-0", "worker-1"):
        plane = planes.enter_context(bench_plane())
        api = Api(Kubeconfig(plane.kubeconfig))
        stack.push_async_callback(api.close)
        opened.append(Cluster(name, plane, api))
    manager, *workers = opened
    for worker in workers:
        await add_nodes(worker.api, nodes)
    watch = await stack.enter_async_context(pod_watch(*(worker.api for worker in workers)))
    return Ring(manager, tuple(workers), watch, Path(workers[0].plane.folder))


async def _set_up(ring: Ring) -> None:
    """Queues of theirs."""
    workers = {worker.name: worker.plane for worker in ring.workers}
    with kueue(ring.manager.plane, *workers.values()):
        for plane in workers.values():
            await asyncio.to_thread(set_up_worker, plane)
        await asyncio.to_thread(set_up_manager, ring.manager.plane, workers)


def _say(what: str) -> None:
    print(f"peers: {what}", file=sys.stderr)
