"""The phases of `bench/fleet`, one after the other on one federation; see the package."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.contract import JsonValue
from bench.equal_pools import GPUS_PER_NODE, fleet_text, nodes_of
from bench.fleet.acks import acknowledgements
from bench.path.federation import Running, Shape, running
from bench.path.load import RUN_MAX_S, Load
from bench.path.orders import Accepted, Book, Burst, Confine, Count, Finish, Pace, Paced
from bench.path.window import Window, quantile, sustained_rate
from tests.integration.auditor import Findings

ROOT_WARM_S: Final = 10.0
BURST_BATCH: Final = 500
BURST_CALLS: Final = 16
PATIENCE_S: Final = 1_800.0
"""For everything that was submitted to end."""

READY_S: Final = 600.0
NAMED_MAX: Final = 20
"""Findings of one kind that `raw` names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How large, and how long each phase takes in seconds; a phase of 0 is left out.

    Attributes:
        nodes: of each pool, the first for the figures.
        processes: of agents, and as many of simulated clusters.
        share: of the sustained rate at which latency is measured.
        ack_rate: gangs a second while acknowledgements are.
    """

    pools: int
    nodes: tuple[int, ...]
    replicas: int
    processes: int
    warm_s: float
    seconds: float
    latency_s: float
    share: float
    ack_s: float
    ack_rate: float
    root_s: float
    burst: int
    members_s: float
    curve_s: float

    def gpus(self, nodes: int) -> int:
        """Of the whole fleet."""
        return self.pools * nodes_of(nodes) * GPUS_PER_NODE

    def shape(self, members: int = 1) -> Shape:
        """Processes of a federation."""
        each = -(-self.pools // self.processes)
        return Shape(
            replicas=self.replicas,
            agents_per_process=each,
            clusters_per_process=each,
            members=members,
            ready_s=READY_S,
        )


@dataclass(slots=True)
class Measured:
    """What came out: figures by name, what they rest on, and what the audits of all federations found."""

    figures: dict[str, float | None] = field(default_factory=dict)
    raw: dict[str, JsonValue] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    def found(self, findings: Findings) -> None:
        """An audit's findings."""
        self.lost.extend(findings.lost)
        self.doubled.extend(findings.doubled)
        self.other.extend((*findings.partial, *findings.left))


async def measure(plan: Plan, load: Load) -> Measured:
    """All phases."""
    measured = Measured()
    await _main(plan, load, measured)
    if plan.members_s:
        window = await _window_of(plan, load, plan.nodes[0], measured, seconds=plan.members_s, members=3)
        measured.figures["three_members_gangs_per_s"] = window.gangs_per_s
        measured.raw["three_members"] = window.raw(plan.gpus(plan.nodes[0]))
    measured.raw["nodes"] = await _curve(plan, load, measured)
    measured.figures |= {"lost": len(measured.lost), "doubled": len(measured.doubled)}
    measured.raw["findings"] = {
        name: list[JsonValue](getattr(measured, name)[:NAMED_MAX]) for name in ("lost", "doubled", "other")
    }
    return measured


async def _main(plan: Plan, load: Load, measured: Measured) -> None:
    figures, raw = measured.figures, measured.raw
    text = fleet_text(plan.pools, plan.nodes[0], load.queues, run_s=RUN_MAX_S)
    async with running(text, load, plan.shape()) as federation:
        raw["started_rss_mb"] = _peak_rss_mb(federation.pids)
        window = await sustained_rate(federation, warm_s=plan.warm_s, seconds=plan.seconds)
        raw |= window.raw(plan.gpus(plan.nodes[0]))
        raw["rate_rss_mb"] = _peak_rss_mb(federation.pids)
        figures["gangs_per_s"] = window.gangs_per_s
        raw["cpu_us_per_gang_total"] = window.cpu_us_per_gang
        if plan.latency_s:
            await _latency(federation, plan, window.gangs_per_s * plan.share, measured)
        if plan.ack_s:
            await _acknowledged(federation, plan, measured)
        if plan.root_s:
            await federation.client.ask(Confine(1), Count)
            one = await sustained_rate(federation, warm_s=ROOT_WARM_S, seconds=plan.root_s)
            await federation.client.ask(Confine(load.queues), Count)
            figures["one_root_gangs_per_s"] = one.gangs_per_s
            raw["one_root"] = one.raw(plan.gpus(plan.nodes[0]))
        if plan.burst:
            order = Burst(plan.burst, BURST_BATCH, BURST_CALLS)
            accepted = await federation.client.ask(order, Accepted)
            figures["burst_jobs_per_s"] = accepted.gangs / accepted.took_s
            raw["burst"] = {"jobs": accepted.gangs, "took_s": round(accepted.took_s, 2)}
        await _audit(federation, measured)
        peak = _peak_rss_mb(federation.pids)
        raw["end_rss_mb"] = peak
        figures["replica_rss_mb"] = max(peak[name] for name in federation.processes.children if name.startswith("r"))


async def _latency(federation: Running, plan: Plan, rate: float, measured: Measured) -> None:
    batch = max(1, round(rate / 20))
    paced = await federation.client.ask(Pace(rate, plan.latency_s, batch), Paced)
    measured.figures["placed_ms_p50"] = quantile(paced.latencies_ms, 0.50)
    measured.figures["placed_ms_p99"] = quantile(paced.latencies_ms, 0.99)
    measured.raw["latency"] = {
        "rate": rate,
        "batch": batch,
        "gangs": len(paced.latencies_ms),
        "batches_left_out": paced.left_out,
    }


async def _acknowledged(federation: Running, plan: Plan, measured: Measured) -> None:
    async with acknowledgements(federation.etcd.url) as heard:
        paced = await federation.client.ask(Pace(plan.ack_rate, plan.ack_s, round(plan.ack_rate / 20)), Paced)
    measured.figures["ack_ms_p99"] = quantile(heard.took_ms, 0.99)
    measured.raw["ack"] = {
        "gangs": len(heard.took_ms),
        "ms": {f"p{share}": quantile(heard.took_ms, share / 100) for share in (50, 90, 99)},
        "placed_ms_p99": quantile(paced.latencies_ms, 0.99),
        "batches_left_out": paced.left_out,
    }


async def _audit(federation: Running, measured: Measured) -> None:
    """Once everything has ended."""
    book = await federation.client.ask(Finish(), Book, deadline_s=PATIENCE_S)
    async with federation.auditor() as auditor:
        measured.found(await auditor.audit(book.acknowledged))
    measured.other.extend(f"{job}: {what}" for job, what in book.not_succeeded.items())


async def _window_of(
    plan: Plan, load: Load, nodes: int, measured: Measured, *, seconds: float, members: int = 1
) -> Window:
    """A federation of its own that is asked for its rate alone."""
    text = fleet_text(plan.pools, nodes, load.queues, run_s=RUN_MAX_S)
    async with running(text, load, plan.shape(members)) as federation:
        window = await sustained_rate(federation, warm_s=plan.warm_s, seconds=seconds)
        await _audit(federation, measured)
    return window


async def _curve(plan: Plan, load: Load, measured: Measured) -> list[JsonValue]:
    """Rows by nodes of a pool: what the whole costs, and what the top does, which is all but agents and clusters."""
    first = measured.raw["cpu_us_per_gang"]
    assert isinstance(first, Mapping)
    rate = measured.figures["gangs_per_s"]
    rows = [_row(plan.nodes[0], rate, {str(name): us for name, us in first.items() if isinstance(us, float)})]
    for nodes in plan.nodes[1:]:
        window = await _window_of(plan, load, nodes, measured, seconds=plan.curve_s)
        rows.append(_row(nodes, window.gangs_per_s, window.cpu_us_by_process))
    return [row for _, row in sorted(rows, key=lambda entry: entry[0])]


def _row(nodes: int, rate: float | None, cpu_us: Mapping[str, float]) -> tuple[int, JsonValue]:
    below = sum(us for name, us in cpu_us.items() if name.startswith(("agents", "clusters")))
    total = sum(cpu_us.values())
    return nodes, {
        "nodes_per_pool": nodes_of(nodes),
        "gangs_per_s": rate,
        "cpu_us_per_gang": round(total, 1),
        "top_cpu_us_per_gang": round(total - below, 1),
    }


def _peak_rss_mb(pids: Mapping[str, int]) -> dict[str, float]:
    """The most memory that each process ever had."""
    return {
        name: round(peak_kb(Path(f"/proc/{pid}/status").read_text("ascii")) / 1e3, 1) for name, pid in pids.items()
    }


def peak_kb(status: str) -> float:
    """From /proc/PID/status, in units of 1,000 bytes."""
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1.024
