"""What telling costs: the embedded federation with telemetry off, and on at default sampling, in turn, in one run.

Off and on take turns over ROUNDS, each of SECONDS, with the load of `bench/embedded`, after a round that counts for
nothing: a machine is not the same from one minute to the next. The loss is that between the medians. On: OTLP to a
collector that is a process of its own, spans of RATIO of the jobs, metrics every METRICS_S. `cpu_loss_pct` is the
same from CPU time per gang, all threads of the federation's process: calmer than a rate where others share the
machine.

The costs of single records say where it goes: a count, a stage of a job while nobody follows traces, a stage that is
told, and what the exporter's thread needs to send one.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bench.contract import BenchArgs, BenchResult, JsonValue
from bench.embedded import Load, placed_per_s
from hanse.kit import process
from hanse.kit.clock import SystemClock
from hanse.kit.telemetry import TRACER, Stage, metrics
from hanse.kit.telemetry.otlp import SpansOut
from hanse.kit.telemetry.running import TRACE_RATIO, TelemetryConfig, telemetry
from hanse.kit.telemetry.trace_context import own_traceparent
from hanse.kit.telemetry.tracing import Span
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, JobId, Part

RECORDS: Final = 100_000
SPANS: Final = 2_048
SPANS_PER_BATCH: Final = 512
GANG: Final = GangKey(JobId("abcdefgh-0123456789abcdef"), Attempt(1), Part(0))


def run(args: Mapping[str, str]) -> BenchResult:
    """See the module docstring."""
    read = BenchArgs(args)
    load = Load(
        pools=read.whole("POOLS", 20),
        nodes=read.whole("NODES", 1_000),
        queues=read.whole("QUEUES", 8),
        window=read.whole("WINDOW", 400),
        batch=read.whole("BATCH", 40),
        seconds=read.number("SECONDS", 8.0),
        run_s=read.number("RUN_S", 1.0),
        share=0.0,
        seed=read.whole("SEED", 1),
    )
    rounds, ratio = read.whole("ROUNDS", 3), read.number("RATIO", TRACE_RATIO)
    metrics_s = read.number("METRICS_S", 5.0)
    given = read.done()
    with _collector() as address:
        off_config = TelemetryConfig("hanse-bench")
        on_config = TelemetryConfig(
            "hanse-bench", otlp=f"http://{address}", trace_ratio=ratio, metrics_interval_s=metrics_s
        )
        process.run(_round(load, off_config))
        off: list[tuple[float, float]] = []
        on: list[tuple[float, float]] = []
        for number in range(rounds):
            turns = [(off, off_config), (on, on_config)]
            for found, config in turns if number % 2 == 0 else reversed(turns):
                found.append(process.run(_round(load, config)))
        send_us = _send_us(address)
    figures = {
        "throughput_loss_pct": 100 * (1 - _median(on, 0) / _median(off, 0)),
        "cpu_loss_pct": 100 * (_median(on, 1) / _median(off, 1) - 1),
        "gangs_per_s_off": _median(off, 0),
        "gangs_per_s_on": _median(on, 0),
        **_record_costs(),
        "span_sent_us": send_us,
    }
    raw: dict[str, JsonValue] = {
        "args": given,
        "off": [{"gangs_per_s": rate, "cpu_us_per_gang": cpu_us} for rate, cpu_us in off],
        "on": [{"gangs_per_s": rate, "cpu_us_per_gang": cpu_us} for rate, cpu_us in on],
        "exported": metrics.EXPORTED.value("spans"),
        "dropped": metrics.DROPPED.value("spans"),
    }
    return BenchResult(figures, raw=raw)


async def _round(load: Load, config: TelemetryConfig) -> tuple[float, float]:
    """Gangs placed per second, and microseconds of CPU for each."""
    async with telemetry(config, SystemClock()):
        return await placed_per_s(load, load.seconds)


def _median(rounds: list[tuple[float, float]], which: int) -> float:
    return statistics.median(found[which] for found in rounds)


@contextmanager
def _collector() -> Iterator[str]:
    """The address of a collector that runs while the block does."""
    command = (sys.executable, "-m", "bench.telemetry.collector")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()


# ---- single records ------------------------------------------------------------------------------------------


def _record_costs() -> dict[str, float]:
    trace = own_traceparent(GANG.job, 1.0)

    def tell() -> None:
        TRACER.stage(trace, Stage.LINK, GANG, scope="link", start_ms=1, end_ms=2, pool="iowa", revision=7)

    found = {
        "count_us": _cost_us(lambda: metrics.PLACEMENTS.add(1, "iowa", "placed")),
        "histogram_us": _cost_us(lambda: metrics.CYCLE_DURATION.record(0.012)),
        "span_off_us": _cost_us(tell),
    }
    TRACER.begin(lambda span: None, ratio=1.0)
    try:
        return {**found, "span_told_us": _cost_us(tell)}
    finally:
        TRACER.end()


def _cost_us(record: Callable[[], None]) -> float:
    begun = time.process_time()
    for _ in range(RECORDS):
        record()
    return (time.process_time() - begun) / RECORDS * 1e6


def _send_us(address: str) -> float:
    """CPU of this process to encode and send one span."""
    spans: list[Span] = []
    TRACER.begin(spans.append, ratio=1.0)
    for number in range(SPANS):
        gang = GangKey(GANG.job, Attempt(number + 1), Part(0))
        TRACER.stage(
            own_traceparent(GANG.job, 1.0), Stage.LINK, gang, scope="link", start_ms=1, end_ms=2, pool="iowa"
        )
    TRACER.end()
    out = SpansOut(f"http://{address}", {"service.name": "hanse-bench"})
    begun = time.process_time()
    for start in range(0, SPANS, SPANS_PER_BATCH):
        assert out.export(spans[start : start + SPANS_PER_BATCH])
    spent = time.process_time() - begun
    out.halt()
    return spent / SPANS * 1e6


__all__ = ["run"]
