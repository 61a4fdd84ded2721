"""An OpenTelemetry collector of our own: takes OTLP over gRPC, keeps everything, and says when something has come.

Written against the published messages alone, so it says whether what we send is what others can read.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENCE_S = 60.0

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


def attributes(pairs: Iterable[KeyValue]) -> dict[str, str | int]:
    """Attributes as a mapping; texts and whole numbers only."""
    return {
        pair.key: pair.value.string_value if pair.value.HasField("string_value") else pair.value.int_value
        for pair in pairs
    }


@dataclass(frozen=True)
class Received:
    """One span, and who sent it."""

    service: str
    scope: str
    span: Span

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def attributes(self) -> dict[str, str | int]:
        return attributes(self.span.attributes)

    @property
    def start_ms(self) -> float:
        return self.span.start_time_unix_nano / 1e6

    @property
    def end_ms(self) -> float:
        return self.span.end_time_unix_nano / 1e6


@dataclass
class Collector:
    """What has come."""

    address: str = ""
    spans: list[Received] = field(default_factory=list)
    metrics: dict[tuple[str, str], Metric] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, enough: Callable[[], bool]) -> None:
        """Wait for it."""
        async with asyncio.timeout(PATIENCE_S):
            while not enough():
                self._news.clear()
                await self._news.wait()

    def of_job(self, job: str) -> list[Received]:
        """Spans that name the job, by begin."""
        return sorted((s for s in self.spans if s.attributes.get("hanse.job") == job), key=lambda s: s.start_ms)

    def take_spans(self, request: trace_service_pb2.ExportTraceServiceRequest) -> None:
        for group in request.resource_spans:
            service = str(attributes(group.resource.attributes)["service.name"])
            for scoped in group.scope_spans:
                self.spans.extend(Received(service, scoped.scope.name, span) for span in scoped.spans)
        self._news.set()

    def take_metrics(self, request: metrics_service_pb2.ExportMetricsServiceRequest) -> None:
        for group in request.resource_metrics:
            service = str(attributes(group.resource.attributes)["service.name"])
            for scoped in group.scope_metrics:
                self.metrics.update({(service, metric.name): metric for metric in scoped.metrics})
        self._news.set()


class _Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def Export(  # noqa: N802 - the name of the method in the protocol
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: Context
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        self._collector.take_spans(request)
        return trace_service_pb2.ExportTraceServiceResponse()


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def Export(  # noqa: N802 - the name of the method in the protocol
        self, request: metrics_service_pb2.ExportMetricsServiceRequest, context: Context
    ) -> metrics_service_pb2.ExportMetricsServiceResponse:
        self._collector.take_metrics(request)
        return metrics_service_pb2.ExportMetricsServiceResponse()


@asynccontextmanager
async def collector(listen: str = "127.0.0.1:0") -> AsyncIterator[Collector]:
    """A collector that listens while the block runs."""
    found = Collector()
    server = grpc.aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Traces(found), server)  # type: ignore[no-untyped-call]
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(_Metrics(found), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port(listen)
    found.address = f"127.0.0.1:{port}"
    await server.start()
    try:
        yield found
    finally:
        await server.stop(None)
