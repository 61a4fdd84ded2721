"""One job's way through a federation of processes over etcd and a broker, looked up in a real Jaeger, as its users
would see it."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.control_plane import tool
from hanse.kit.telemetry.trace_context import own_traceparent
from hanse.model.trace import trace_id
from tests.integration.telemetry.ups import STAGES, ended, gang, up
from tests.services.etcd import etcd_servers
from tests.services.mosquitto import mosquitto
from tests.services.process import ServerProcess, accepts, data_folder, free_ports

CONFIG: Final = """
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {{receivers: [otlp], exporters: [jaeger_storage_exporter]}}
  telemetry:
    metrics: {{level: none}}
    logs: {{level: warn}}
extensions:
  jaeger_storage: {{backends: {{traces: {{memory: {{max_traces: 1000}}}}}}}}
  jaeger_query:
    storage: {{traces: traces}}
    http: {{endpoint: "127.0.0.1:{query}"}}
    grpc: {{endpoint: "127.0.0.1:{query_grpc}"}}
receivers:
  otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{otlp}"}}}}}}
exporters:
  jaeger_storage_exporter: {{trace_storage: traces}}
"""
PATIENCE_S: Final = 60.0
LOOK_EVERY_S: Final = 0.2


@dataclass(frozen=True)
class Jaeger:
    """Where spans go, and where they are looked up."""

    otlp: str
    query: str

    async def trace(self, trace: str) -> list[dict[str, Any]]:
        """The spans of a trace, once it is whole; each with the name of its service."""
        async with asyncio.timeout(PATIENCE_S):
            while len(spans := await asyncio.to_thread(self._trace, trace)) <= len(STAGES):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_EVERY_S)
        return spans

    def _trace(self, trace: str) -> list[dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://{self.query}/api/traces/{trace}", timeout=10) as answer:
                (found,) = json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []  # nothing of it has come yet
            raise
        names = {key: process["serviceName"] for key, process in found["processes"].items()}
        return [{**span, "service": names[span["processID"]]} for span in found["spans"]]


@pytest.fixture
def jaeger() -> Iterator[Jaeger]:
    """A Jaeger that keeps traces in memory."""
    binary = tool("jaeger")
    otlp, query, query_grpc = free_ports(3)
    with data_folder() as folder:
        config = folder / "jaeger.yaml"
        config.write_text(CONFIG.format(otlp=otlp, query=query, query_grpc=query_grpc))
        command = [binary, "--config", str(config)]
        server = ServerProcess("jaeger", command, folder, ready=lambda: accepts(query) and accepts(otlp))
        server.start()
        try:
            yield Jaeger(f"127.0.0.1:{otlp}", f"127.0.0.1:{query}")
        finally:
            server.kill()


@pytest.fixture
def backing(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """Options for a federation of processes over a real store and a real bus."""
    with etcd_servers() as etcd, mosquitto() as broker:
        (store,) = etcd.endpoints
        parts = ("--store", f"etcd://{store}", "--bus", broker.url, "--state", str(tmp_path / "state"))
        yield "--processes", "--replicas", "2", *parts


async def test_one_trace_shows_the_whole_way_of_a_job_across_processes(
    jaeger: Jaeger, tmp_path: Path, backing: tuple[str, ...]
) -> None:
    async with up(tmp_path, *backing, "--otlp", jaeger.otlp) as told:
        job = await ended(told["address"], gang("looked-up"))
        spans = await jaeger.trace(trace_id(own_traceparent(job, 1.0)))
    assert sorted(span["operationName"] for span in spans) == sorted(f"hanse.{name}" for name in ("job", *STAGES))
    by_name = {span["operationName"].removeprefix("hanse."): span for span in spans}
    begins = [by_name[stage]["startTime"] for stage in ("submit", "commit", "link", "place", "start", "run")]
    assert begins == sorted(begins)
    assert {by_name[stage]["service"] for stage in ("submit", "plan", "commit", "link")} == {"hanse-global"}
    assert {by_name[stage]["service"] for stage in ("place", "start", "startup", "run")} == {"hanse-agent"}
    life = by_name.pop("job")
    assert life["references"] == []
    assert {span["references"][0]["spanID"] for span in by_name.values()} == {life["spanID"]}
    assert {span["service"] for span in spans} == {"hanse-global", "hanse-agent"}
    assert not [(span["operationName"], span["warnings"]) for span in spans if span.get("warnings")]
    tags = {tag["key"]: tag["value"] for tag in life["tags"]}
    assert (tags["hanse.job"], tags["hanse.state"]) == (job, "SUCCEEDED")
