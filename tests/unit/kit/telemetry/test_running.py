"""What a process turns on, by settings and by the standard variables."""

import asyncio
import sys

import pytest

from hanse.kit.clock import SystemClock
from hanse.kit.telemetry import TRACER, metrics
from hanse.kit.telemetry.running import TRACE_RATIO, TelemetryConfig, telemetry, telemetry_config
from hanse.model.errors import FailedPrecondition, InvalidArgument


def config(environment: dict[str, str] | None = None, **given: object) -> TelemetryConfig:
    return telemetry_config("hanse-test", environment or {}, version="1", **given)  # type: ignore[arg-type]


def test_nothing_is_on_unless_asked_for() -> None:
    assert not config().on
    assert config().trace_ratio == TRACE_RATIO


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("collector:4317", "http://collector:4317"),
        ("http://collector:4317", "http://collector:4317"),
        ("https://collector:4317", "https://collector:4317"),
    ],
)
def test_a_collector_without_a_scheme_is_reached_without_tls(text: str, url: str) -> None:
    assert config(otlp=text).otlp == url
    assert config({"OTEL_EXPORTER_OTLP_ENDPOINT": text}).otlp == url


@pytest.mark.parametrize("text", ["collector", "ftp://collector:1", "http://collector", ":4317", "collector:x"])
def test_a_collector_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="no collector"):
        config(otlp=text)


def test_settings_win_over_the_standard_variables() -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:4317",
        "OTEL_TRACES_SAMPLER_ARG": "0.5",
        "OTEL_SERVICE_NAME": "mine",
        "OTEL_METRIC_EXPORT_INTERVAL": "2000",
    }
    told = config(variables)
    assert (told.otlp, told.trace_ratio, told.service) == ("http://other:4317", 0.5, "mine")
    assert told.metrics_interval_s == 2.0
    told = config(variables, otlp="here:4317", trace_ratio=0.0)
    assert (told.otlp, told.trace_ratio) == ("http://here:4317", 0.0)


def test_the_standard_switch_turns_everything_off() -> None:
    assert not config({"OTEL_SDK_DISABLED": "true"}, otlp="here:4317", prometheus="127.0.0.1:0").on


@pytest.mark.parametrize("text", ["much", "-1", "1.5"])
def test_a_ratio_that_is_none_is_refused_with_the_name_of_the_variable(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        config({"OTEL_TRACES_SAMPLER_ARG": text})
    assert refused.value.path == "OTEL_TRACES_SAMPLER_ARG"


async def test_without_a_configuration_nothing_runs() -> None:
    before = asyncio.all_tasks()
    async with telemetry(config(), SystemClock()):
        assert asyncio.all_tasks() == before
        assert not TRACER.on


async def test_a_collector_that_is_down_neither_fails_nor_blocks(unused_tcp_port: int) -> None:
    loop = asyncio.get_running_loop()
    told = config(otlp=f"127.0.0.1:{unused_tcp_port}", trace_ratio=1.0)
    begun = loop.time()
    async with telemetry(told, SystemClock()):
        assert TRACER.on
    assert not TRACER.on
    assert loop.time() - begun < 8.0


async def test_variables_that_the_exporter_cannot_use_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "zip")
    with pytest.raises(InvalidArgument, match="zip"):
        async with telemetry(config(otlp="127.0.0.1:4317"), SystemClock()):
            pass
    assert not TRACER.on


async def test_an_exporter_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hanse.kit.telemetry.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.metric_exporter", None)
    with pytest.raises(FailedPrecondition, match=r"pip install 'hanse\[otlp\]'"):
        async with telemetry(config(otlp="127.0.0.1:4317"), SystemClock()):
            pass


async def test_the_process_tells_of_itself() -> None:
    async with telemetry(config(prometheus="127.0.0.1:0"), SystemClock()) as running:
        assert running.prometheus.startswith("127.0.0.1:")
        read = {reading.instrument.name: reading.series for reading in metrics.REGISTRY.collect()}
    assert set(read["process.cpu.time"]) == {("user",), ("system",)}
    assert read["process.memory.usage"][()] > 1_000_000  # type: ignore[operator]
