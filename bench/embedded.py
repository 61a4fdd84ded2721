"""The whole path in one process: SQLite, 20 pools of 1,000 nodes, gangs of 1 to 64 pods, never the same twice.

Everything is the embedded federation as `hanse up` starts it: API over gRPC on loopback, store, scheduler, links,
agents, simulated clusters with their files, and the client that submits and watches, all in this process.

Two phases. *Rate*: the client keeps WINDOW jobs on their way and submits the next batch when some have been placed;
`gangs_per_s` counts gangs that were placed within SECONDS. *Latency*: batches come at SHARE of that rate, whatever
happens; `placed_ms_*` is from the call that submits to the event that shows PLACED or later. A gang's pods start
within a fraction of a second and run RUN_S, so gangs also end inside the window, and places are used again.

`raw.time_share` says where the time goes: a third, shorter run under cProfile, self time by package. A profile
slows calls down, so shares are a hint, and no figure comes from that run.
"""

import asyncio
import cProfile
import pstats
import random
import resource
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.contract import BenchArgs, BenchResult, JsonValue
from bench.equal_pools import GPU, fleet_text
from hanse.api.v1 import job_pb2
from hanse.client import AsyncClient
from hanse.kit import process
from hanse.model.ids import FlavorName, QueueName
from hanse.model.job import JobSpec, PodSet, PodTemplate, Slice, Topology
from hanse.model.resources import Resources
from hanse.up.fleet import Fleet, read_fleet
from hanse.up.harness import federation
from hanse.up.options import UpOptions

PLACED: Final = frozenset(
    {
        job_pb2.JOB_STATE_PLACED,
        job_pb2.JOB_STATE_STARTING,
        job_pb2.JOB_STATE_RUNNING,
        job_pb2.JOB_STATE_SUCCEEDED,
    }
)
WARM_S: Final = 2.0
PACKAGES: Final = (
    "shape",
    "scheduler",
    "store",
    "agent",
    "simcluster",
    "apiserver",
    "client",
    "wire",
    "model",
    "kit",
)


@dataclass(frozen=True, slots=True)
class Load:
    """What is submitted, and how."""

    pools: int
    nodes: int
    queues: int
    window: int
    batch: int
    seconds: float
    run_s: float
    share: float
    seed: int


@dataclass(slots=True)
class Seen:
    """What the client has seen of its jobs, in seconds of the loop's clock."""

    submitted: dict[str, float] = field(default_factory=dict)
    placed: dict[str, float] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def waiting(self) -> int:
        return len(self.submitted) - len(self.placed)


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module docstring."""
    read = BenchArgs(args)
    load = Load(
        pools=read.whole("POOLS", 20),
        nodes=read.whole("NODES", 1_000),
        queues=read.whole("QUEUES", 8),
        window=read.whole("WINDOW", 400),
        batch=read.whole("BATCH", 40),
        seconds=read.number("SECONDS", 20.0),
        run_s=read.number("RUN_S", 1.0),
        share=read.number("SHARE", 0.6),
        seed=read.whole("SEED", 1),
    )
    given = read.done()
    rate, cpu_us = process.run(placed_per_s(load, load.seconds))
    latencies_ms, asked = process.run(_latency(load, rate * load.share))
    figures = {
        "gangs_per_s": rate,
        "placed_ms_p50": _quantile(latencies_ms, 0.50),
        "placed_ms_p99": _quantile(latencies_ms, 0.99),
        "cpu_us_per_gang": cpu_us,
    }
    raw: dict[str, JsonValue] = {
        "args": given,
        "latency_rate": asked,
        "latencies": len(latencies_ms),
        "time_share": _time_share(load),
    }
    return BenchResult(figures, raw=raw)


def _quantile(values: Sequence[float], share: float) -> float | None:
    if not values:
        return None
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# ---- the fleet and the gangs --------------------------------------------------------------------------------


def _fleet(load: Load) -> Fleet:
    return read_fleet(fleet_text(load.pools, load.nodes, load.queues, run_s=load.run_s))


class Gangs:
    """Gangs of 1 to 64 pods; the memory they ask for makes each a request that has never been seen."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._rng = random.Random(load.seed)
        self._made = 0

    def batch(self, count: int) -> list[JobSpec]:
        return [self._one() for _ in range(count)]

    def _one(self) -> JobSpec:
        self._made += 1
        pods = self._rng.randint(1, 64)
        gpus = self._rng.choice((1, 2, 4, 8))
        required = self._rng.choice(("", "rack", "block")) if pods * gpus <= 150 else ""
        slices = (Slice(2, "rack"),) if not required and pods % 2 == 0 and self._rng.random() < 0.3 else ()
        pod_set = PodSet(
            name="worker",
            count=pods,
            min_count=pods,
            resources=Resources({GPU: gpus, "cpu": 1_000, "memory": 2**30 + self._made * 4096}),
            flavors=(FlavorName("h100"),),
            topology=Topology(required=required, slices=slices),
            template=PodTemplate(image="trainer", command=("python", "train.py")),
        )
        queue = QueueName(f"team-{self._made % self._load.queues}")
        return JobSpec(f"gang-{self._made:07d}", queue, (pod_set,))


# ---- phases -------------------------------------------------------------------------------------------------


async def placed_per_s(load: Load, seconds: float, profile: cProfile.Profile | None = None) -> tuple[float, float]:
    """Gangs placed per second, and microseconds of CPU (all threads) for each of them."""
    with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-embedded-") as folder:
        options = UpOptions(
            fleet=_fleet(load), store=f"sqlite:{folder}/up.sqlite", listen="127.0.0.1:0", seed=load.seed
        )
        async with federation(options) as found, AsyncClient(found.address) as client:
            process.settle_memory()
            seen, gangs = Seen(), Gangs(load)
            watching = asyncio.create_task(_watch(client, seen), name="watch")
            feeding = asyncio.create_task(_keep_window(client, seen, gangs, load), name="feed")
            await asyncio.sleep(WARM_S)
            if profile is not None:
                profile.enable()
            before, cpu, since = len(seen.placed), _cpu_s(), time.perf_counter()
            await asyncio.sleep(seconds)
            placed, spent, took = len(seen.placed) - before, _cpu_s() - cpu, time.perf_counter() - since
            if profile is not None:
                profile.disable()
            await _stop(feeding, watching)
    return placed / took, spent * 1e6 / max(placed, 1)


async def _keep_window(client: AsyncClient, seen: Seen, gangs: Gangs, load: Load) -> None:
    while True:
        while seen.waiting + load.batch > load.window:
            seen.news.clear()
            await seen.news.wait()
        await _submit(client, seen, gangs.batch(load.batch))


async def _latency(load: Load, rate: float) -> tuple[list[float], float]:
    """Milliseconds from submit to placed, at a fixed rate."""
    with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-embedded-") as folder:
        options = UpOptions(
            fleet=_fleet(load), store=f"sqlite:{folder}/up.sqlite", listen="127.0.0.1:0", seed=load.seed
        )
        async with federation(options) as found, AsyncClient(found.address) as client:
            process.settle_memory()
            seen, gangs = Seen(), Gangs(load)
            watching = asyncio.create_task(_watch(client, seen), name="watch")
            batch = max(1, load.batch // 4)
            calls: list[asyncio.Task[None]] = []
            begun = time.perf_counter()
            due = begun
            while due < begun + load.seconds:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                calls.append(asyncio.create_task(_submit(client, seen, gangs.batch(batch)), name="submit"))
                due += batch / rate
            await asyncio.gather(*calls)
            async with asyncio.timeout(60.0):
                while seen.waiting:
                    seen.news.clear()
                    await seen.news.wait()
            await _stop(watching)
    warm = [job for job, at in seen.submitted.items() if at > begun + WARM_S]
    return [(seen.placed[job] - seen.submitted[job]) * 1e3 for job in warm], rate


async def _submit(client: AsyncClient, seen: Seen, specs: Sequence[JobSpec]) -> None:
    at = time.perf_counter()
    found = await client.submit(list(specs))
    found.raise_refusal()
    for job in found.ids:
        seen.submitted[job] = at
        # The watch may have been quicker than the answer.


async def _watch(client: AsyncClient, seen: Seen) -> None:
    async for news in client.watch_jobs(snapshot=True):
        now = time.perf_counter()
        for event in news.events:
            if event.job.status.state in PLACED:
                seen.placed.setdefault(event.job.id, now)
        seen.news.set()


async def _stop(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# ---- where the time goes ------------------------------------------------------------------------------------


def _time_share(load: Load) -> dict[str, float]:
    """Share of the loop thread's self time by package, most first."""
    profile = cProfile.Profile()
    process.run(placed_per_s(load, min(load.seconds, 8.0), profile))
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, self_s, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        spent[_package(file)] += self_s
    total = sum(spent.values())
    return {name: round(seconds / total, 3) for name, seconds in spent.most_common()}


def _package(file: str) -> str:
    parts = Path(file).parts
    for package in PACKAGES:
        if "hanse" in parts and package in parts[parts.index("hanse") :]:
            return f"hanse.{package}"
    for library in ("grpc", "google", "msgspec", "asyncio", "numpy", "bench"):
        if library in parts:
            return library
    return "python and C"
