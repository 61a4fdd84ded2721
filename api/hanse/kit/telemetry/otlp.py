"""OTLP over gRPC: our spans and tables as the SDK's exporters take them. The only module that knows OpenTelemetry.

The exporters are the SDK's, with everything that they read from `OTEL_EXPORTER_OTLP_*` (headers, certificates,
compression, timeout). They block, so each belongs to the thread of an outlet. What the SDK logs about a collector
that is down would be a line for every try; the outlet says it once.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, cast

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Gauge as GaugePoints
from opentelemetry.sdk.metrics.export import Histogram as HistogramPoints
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from hanse.kit.telemetry.instruments import Buckets, Counter, Histogram, Reading
from hanse.kit.telemetry.tracing import Span

SCOPE: Final = "hanse"
POINTS_MAX: Final = 4_000
"""Data points in one message: gRPC takes 4 MiB."""

_NOT_KEPT: Final = cast(float, None)
"""The smallest and the largest value: of all time, which is nobody's question. The message leaves them out."""

_MS_NS: Final = 1_000_000
_LEAST_NS: Final = 1_000
"""Length of a span that began and ended in one millisecond: of none at all, its readers say that it is broken."""

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_ROOT_KINDS: Final = {"hanse.submit": SpanKind.SERVER}


class SpansOut:
    """Exports spans.

    Args:
        endpoint: `http://HOST:PORT` without TLS, `https://HOST:PORT` with it; "" for what `OTEL_…` say.
    """

    def __init__(self, endpoint: str, resource: Mapping[str, str]) -> None:
        _quiet()
        self._exporter = OTLPSpanExporter(endpoint=endpoint or None)
        self._resource = Resource.create(dict(resource))

    def export(self, spans: Sequence[Span]) -> bool:
        """Whether the collector took them."""
        readable = [_readable(span, self._resource) for span in spans]
        return self._exporter.export(readable) is SpanExportResult.SUCCESS

    def halt(self) -> None:
        """End an export that is under way, and take no more."""
        self._exporter.shutdown()


class MetricsOut:
    """Exports what a collection read, as sums since `since_ms`."""

    def __init__(
        self, endpoint: str, resource: Mapping[str, str], *, since_ms: int, now_ms: Callable[[], int]
    ) -> None:
        _quiet()
        self._exporter = OTLPMetricExporter(endpoint=endpoint or None, max_export_batch_size=POINTS_MAX)
        self._resource = Resource.create(dict(resource))
        self._since_ns = since_ms * _MS_NS
        self._now_ms = now_ms

    def export(self, collections: Sequence[Sequence[Reading]]) -> bool:
        """Whether the collector took the newest of them; the older ones say nothing that it does not."""
        at_ns = self._now_ms() * _MS_NS
        found = [_metric(reading, self._since_ns, at_ns) for reading in collections[-1] if reading.series]
        scope = ScopeMetrics(_scope(SCOPE), found, "")
        data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        return self._exporter.export(data) is MetricExportResult.SUCCESS

    def halt(self) -> None:
        """End an export that is under way, and take no more."""
        self._exporter.shutdown()


def _quiet() -> None:
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)


@lru_cache(maxsize=64)
def _scope(name: str) -> InstrumentationScope:
    return InstrumentationScope(name)


# ---- spans ---------------------------------------------------------------------------------------------------


def _readable(span: Span, resource: Resource) -> ReadableSpan:
    parent = _context(span.trace_id, span.parent_id, is_remote=True) if span.parent_id else None
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id, is_remote=False),
        parent=parent,
        resource=resource,
        attributes=dict(span.attributes),
        kind=_ROOT_KINDS.get(span.name, SpanKind.INTERNAL),
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.start_ms * _MS_NS,
        end_time=max(span.end_ms * _MS_NS, span.start_ms * _MS_NS + _LEAST_NS),
        instrumentation_scope=_scope(f"{SCOPE}.{span.scope}"),
    )


def _context(trace_id: int, span_id: int, *, is_remote: bool) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote, _SAMPLED)


# ---- metrics -------------------------------------------------------------------------------------------------


def _metric(reading: Reading, since_ns: int, at_ns: int) -> Metric:
    instrument = reading.instrument
    names = [label.name for label in instrument.labels]
    if isinstance(instrument, Histogram):
        data: HistogramPoints | Sum | GaugePoints = _distribution(instrument, reading, names, since_ns, at_ns)
    else:
        points = [
            NumberDataPoint(dict(zip(names, values, strict=True)), since_ns, at_ns, value)
            for values, value in reading.series.items()
            if isinstance(value, int | float)
        ]
        if isinstance(instrument, Counter):
            data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        else:
            data = GaugePoints(points)
    return Metric(instrument.name, instrument.description, instrument.unit, data)


def _distribution(
    instrument: Histogram, reading: Reading, names: Sequence[str], since_ns: int, at_ns: int
) -> HistogramPoints:
    points = [
        _point(dict(zip(names, values, strict=True)), found, instrument.bounds, since_ns, at_ns)
        for values, found in reading.series.items()
        if isinstance(found, Buckets)
    ]
    return HistogramPoints(points, AggregationTemporality.CUMULATIVE)


def _point(
    attributes: dict[str, str], found: Buckets, bounds: Sequence[float], since_ns: int, at_ns: int
) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=since_ns,
        time_unix_nano=at_ns,
        count=found.count,
        sum=found.total,
        bucket_counts=found.counts,
        explicit_bounds=bounds,
        min=_NOT_KEPT,
        max=_NOT_KEPT,
    )
