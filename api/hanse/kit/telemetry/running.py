"""What a process turns on for as long as it runs: spans and metrics out by OTLP, a Prometheus endpoint.

Off unless asked for. What is asked for and cannot be (no such address, the exporter is not installed) is refused at
the start; whatever happens later (the collector is down, slow, comes back) changes nothing but what it gets.

The standard variables are heeded: `OTEL_SDK_DISABLED`, `OTEL_EXPORTER_OTLP_ENDPOINT` and what the exporter reads
beside it, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER_ARG`, `OTEL_METRIC_EXPORT_INTERVAL`.
What a setting says wins over them.
"""

import asyncio
import logging
import resource
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.tasks import cancelled
from hanse.kit.telemetry import metrics
from hanse.kit.telemetry.endpoint import Page, prometheus_endpoint
from hanse.kit.telemetry.exposition import exposition
from hanse.kit.telemetry.instruments import Reading
from hanse.kit.telemetry.outlet import Outlet
from hanse.kit.telemetry.tracing import TRACER, Span
from hanse.model.errors import FailedPrecondition, InvalidArgument
from hanse.model.names import quoted

log = logging.getLogger(__name__)

TRACE_RATIO: Final = 0.05
"""One job in twenty: enough to see where time goes, for a few microseconds a job."""

METRICS_INTERVAL_S: Final = 15.0
SPANS_WAITING_MAX: Final = 20_000
SPANS_PER_BATCH_MAX: Final = 512
SPANS_PAUSE_S: Final = 1.0
LOOP_LOOK_S: Final = 1.0

_PAGE_SIZE_BYTES: Final = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """What a process tells, and where.

    Attributes:
        service: name of the process's kind: `hanse-global`, `hanse-agent`, `hanse-up`.
        instance: tells processes of one kind apart.
        otlp: collector, `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`; "" for none.
        prometheus: HOST:PORT to be scraped at; "" for none.
        trace_ratio: share of jobs whose way is traced, of those that come without a traceparent.
    """

    service: str
    version: str = ""
    instance: str = ""
    otlp: str = ""
    prometheus: str = ""
    trace_ratio: float = TRACE_RATIO
    metrics_interval_s: float = METRICS_INTERVAL_S

    @property
    def on(self) -> bool:
        """Whether anything is told."""
        return bool(self.otlp or self.prometheus)

    @property
    def resource(self) -> dict[str, str]:
        """What the process is, by OpenTelemetry's names."""
        named = {"service.name": self.service, "service.version": self.version, "service.instance.id": self.instance}
        return {key: value for key, value in named.items() if value}


@dataclass(frozen=True, slots=True)
class Running:
    """Telemetry that runs. `prometheus` is the address at which it listens, "" if it does not."""

    prometheus: str = ""


def telemetry_config(
    service: str,
    environment: Mapping[str, str],
    *,
    version: str,
    instance: str = "",
    otlp: str = "",
    prometheus: str = "",
    trace_ratio: float | None = None,
    ratio_unless_told: float = TRACE_RATIO,
) -> TelemetryConfig:
    """What the settings of a process say, and the standard variables where they say nothing.

    Raises:
        InvalidArgument: a variable or an address is malformed.
    """
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return TelemetryConfig(service)
    if trace_ratio is None:
        trace_ratio = _number(environment, "OTEL_TRACES_SAMPLER_ARG", ratio_unless_told, most=1.0)
    interval_ms = _number(environment, "OTEL_METRIC_EXPORT_INTERVAL", METRICS_INTERVAL_S * 1e3, most=86_400_000.0)
    return TelemetryConfig(
        service=environment.get("OTEL_SERVICE_NAME", "") or service,
        version=version,
        instance=instance,
        otlp=_endpoint(otlp or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")),
        prometheus=prometheus,
        trace_ratio=trace_ratio,
        metrics_interval_s=interval_ms / 1e3,
    )


def _number(environment: Mapping[str, str], name: str, default: float, *, most: float) -> float:
    text = environment.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise InvalidArgument(f"{quoted(text)} is no number from 0 to {most:g}", reason="SETTING", path=name)
    return value


def _endpoint(text: str) -> str:
    """The collector as a URL; without a scheme, it is reached without TLS."""
    if not text:
        return ""
    url = text if "://" in text else f"http://{text}"
    scheme, _, rest = url.partition("://")
    host, colon, port = rest.rstrip("/").rpartition(":")
    if scheme not in ("http", "https") or not colon or not host or not port.isdecimal():
        what = f"{quoted(text)} is no collector; write HOST:PORT, or https://HOST:PORT for TLS"
        raise InvalidArgument(what, reason="ADDRESS", path="--otlp")
    return url


@asynccontextmanager
async def telemetry(config: TelemetryConfig, clock: Clock) -> AsyncIterator[Running]:
    """Tell what the configuration asks for while the block runs; nothing at all if it asks for nothing.

    Raises:
        InvalidArgument: nobody can listen at the address for Prometheus, or the exporter refuses its variables.
        FailedPrecondition: the OTLP exporter is not installed.
    """
    if not config.on:
        yield Running()
        return
    async with AsyncExitStack() as stack:
        stack.enter_context(metrics.REGISTRY.observed(_Process(clock).observe))
        tasks: list[asyncio.Task[object]] = [asyncio.create_task(_watch_loop(clock), name="telemetry-loop")]
        stack.push_async_callback(cancelled, tasks)
        if config.otlp:
            tasks.append(await _export(config, clock, stack))
        address = ""
        if config.prometheus:
            address = await stack.enter_async_context(prometheus_endpoint(config.prometheus, _pages(config)))
            log.info("prometheus_listens", extra={"address": address})
        yield Running(address)


def _pages(config: TelemetryConfig) -> Page:
    async def page() -> str:
        return await asyncio.to_thread(exposition, metrics.REGISTRY.collect(), config.resource)

    return page


# ---- OTLP ----------------------------------------------------------------------------------------------------


async def _export(config: TelemetryConfig, clock: Clock, stack: AsyncExitStack) -> "asyncio.Task[object]":
    """Start to export; the outlets are closed when the stack is left."""
    try:
        from hanse.kit.telemetry.otlp import MetricsOut, SpansOut
    except ImportError as error:
        what = f"the OTLP exporter is not installed ({error.name}): pip install 'hanse[otlp]'"
        raise FailedPrecondition(what, reason="NOT_INSTALLED", path="--otlp") from error
    try:
        spans_out = SpansOut(config.otlp, config.resource)
        metrics_out = MetricsOut(config.otlp, config.resource, since_ms=clock.now_ms(), now_ms=clock.now_ms)
    except Exception as error:  # whatever the exporter says of the variables that it reads
        what = f"the OTLP exporter cannot be set up: {error}; look at the OTEL_EXPORTER_OTLP_… variables"
        raise InvalidArgument(what, reason="SETTING", path="--otlp") from error
    spans: Outlet[Span] = Outlet(
        "spans",
        spans_out.export,
        halt=spans_out.halt,
        items_max=SPANS_WAITING_MAX,
        batch_max=SPANS_PER_BATCH_MAX,
        pause_s=SPANS_PAUSE_S,
    )
    newest: Outlet[Sequence[Reading]] = Outlet(
        "metrics", metrics_out.export, halt=metrics_out.halt, items_max=1, batch_max=1, pause_s=SPANS_PAUSE_S
    )
    for observe in (spans.observe, newest.observe):
        stack.enter_context(metrics.REGISTRY.observed(observe))
    stack.push_async_callback(_close, spans, newest)
    TRACER.begin(spans.put, ratio=config.trace_ratio)
    log.info("otlp_export_started", extra={"endpoint": config.otlp, "trace_ratio": config.trace_ratio})
    return asyncio.create_task(_push(newest, config.metrics_interval_s), name="telemetry-metrics")


async def _push(newest: Outlet[Sequence[Reading]], interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        newest.put(metrics.REGISTRY.collect())


async def _close(spans: Outlet[Span], newest: Outlet[Sequence[Reading]]) -> None:
    """Say what is left to be said, within the outlets' deadline."""
    TRACER.end()
    newest.put(metrics.REGISTRY.collect())
    await asyncio.gather(asyncio.to_thread(spans.close), asyncio.to_thread(newest.close))
    spans.observe()
    newest.observe()


# ---- the process itself --------------------------------------------------------------------------------------


class _Process:
    """Tells what the operating system says of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s = clock.monotonic()

    def observe(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        metrics.CPU_TIME.reach(used.ru_utime, "user")
        metrics.CPU_TIME.reach(used.ru_stime, "system")
        metrics.UPTIME.set(self._clock.monotonic() - self._since_s)
        metrics.MEMORY.set(_resident_bytes(used.ru_maxrss))


def _resident_bytes(most_ever: int) -> float:
    """Physical memory now; where the system does not say, the most that it ever was."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE_SIZE_BYTES
    except (OSError, IndexError, ValueError):
        return most_ever * (1 if sys.platform == "darwin" else 1_024)


async def _watch_loop(clock: Clock) -> None:
    """How late a timer is: what every answer of this process waits for beside its own work."""
    while True:
        due_s = clock.monotonic() + LOOP_LOOK_S
        await asyncio.sleep(LOOP_LOOK_S)
        metrics.LOOP_DELAY.record(max(0.0, clock.monotonic() - due_s))
