"""One trace shows the whole way of one job: in one process, and across processes."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from hanse.client import AsyncClient
from hanse.kit.telemetry.trace_context import own_traceparent, parse_traceparent
from hanse.model.ids import FlavorName, JobId, QueueName
from hanse.model.job import JobSpec, PodSet, PodTemplate
from hanse.model.resources import Resources
from tests.integration.processes import EXIT_DEADLINE_S, HANSE, READY_DEADLINE_S
from tests.services.otlp import Collector, Received, collector
from tests.services.process import free_ports

FLEET: Final = """
flavors:
  - name: h100
    labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
queues:
  - {name: default, quotas: [{flavor: h100, nominal: {nvidia.com/gpu: 512}}]}
pools:
  - name: iowa
    start_s: 0.1
    start_jitter_s: 0.1
    stop_s: 0.1
    run_s: 0.3
    groups:
      - {node_prefix: iowa, gpu: h100, levels: [{name: rack, count: 2}, {name: host, count: 8}]}
"""
STAGES: Final = ["submit", "queue", "plan", "commit", "link", "place", "start", "startup", "run", "end"]

Up = Callable[..., AbstractAsyncContextManager[dict[str, Any]]]


@pytest.fixture
def up(tmp_path: Path) -> Up:
    """Runs `hanse up` with further options; gives what its first line says."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)

    @asynccontextmanager
    async def run(*options: str, **variables: str) -> AsyncIterator[dict[str, Any]]:
        with (tmp_path / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                str(HANSE),
                *("up", "--fleet", str(fleet), "--listen", "127.0.0.1:0", "-o", "json", *options),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, "NO_COLOR": "1", **variables},
            )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(READY_DEADLINE_S):
                line = await process.stdout.readline()
            assert line, (tmp_path / "log").read_text()
            yield json.loads(line)
        finally:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(EXIT_DEADLINE_S):
                assert await process.wait() == 0, (tmp_path / "log").read_text()

    return run


def gang(name: str) -> JobSpec:
    pods = PodSet(
        name="worker",
        count=4,
        min_count=4,
        resources=Resources({"nvidia.com/gpu": 4, "cpu": 1_000}),
        flavors=(FlavorName("h100"),),
        template=PodTemplate(image="trainer", command=("python", "train.py")),
    )
    return JobSpec(name, QueueName("default"), (pods,))


async def ended(address: str, spec: JobSpec) -> JobId:
    """Submit a job and wait for its end."""
    async with AsyncClient(address) as client:
        submitted = await client.submit([spec])
        submitted.raise_refusal()
        job = submitted.ids[0]
        await client.wait(job)
    return JobId(job)


def assert_one_tree(spans: list[Received], job: JobId) -> Received:
    """Every stage once, below the job's span, in one trace; the job's span."""
    names = [span.name.removeprefix("hanse.") for span in spans]
    assert sorted(names) == sorted(["job", *STAGES])
    assert len({span.span.trace_id for span in spans}) == 1
    (root,) = [span for span in spans if span.name == "hanse.job"]
    assert {span.span.parent_span_id for span in spans if span is not root} == {root.span.span_id}
    assert all(root.start_ms <= span.start_ms <= span.end_ms for span in spans)
    return root


def done(found: Collector, job: JobId) -> Callable[[], bool]:
    return lambda: len(found.of_job(job)) > len(STAGES)


async def test_one_trace_shows_the_whole_way_of_a_job(up: Up) -> None:
    async with collector() as found, up("--store", "memory:", "--otlp", found.address) as told:
        job = await ended(told["address"], gang("whole-way"))
        await found.until(done(found, job))
    spans = found.of_job(job)
    root = assert_one_tree(spans, job)
    own = parse_traceparent(own_traceparent(job, 1.0))
    assert own is not None
    assert (root.span.trace_id.hex(), root.span.span_id.hex()) == (f"{own.trace_id:032x}", f"{own.span_id:016x}")
    assert root.span.parent_span_id == b""
    assert root.attributes["hanse.state"] == "SUCCEEDED"
    by_stage = {span.name.removeprefix("hanse."): span for span in spans}
    begins = [by_stage[stage].start_ms for stage in STAGES if stage != "submit"]
    assert begins == sorted(begins)
    assert {by_stage[stage].attributes.get("hanse.pool") for stage in STAGES if stage != "submit"} == {"iowa"}
    assert by_stage["run"].end_ms - by_stage["run"].start_ms >= 200
    assert {span.attributes.get("hanse.attempt", 1) for span in spans} == {1}


async def test_the_trace_goes_on_across_processes(up: Up, tmp_path: Path) -> None:
    store = ("--processes", "--store", f"sqlite:{tmp_path}/h.sqlite", "--state", str(tmp_path / "state"))
    async with collector() as found, up(*store, "--otlp", found.address) as told:
        job = await ended(told["address"], gang("far-away"))
        await found.until(done(found, job))
    spans = found.of_job(job)
    assert_one_tree(spans, job)
    services = {span.name.removeprefix("hanse."): span.service for span in spans}
    at_the_agent = {"place", "start", "startup", "run"}
    assert {stage for stage, service in services.items() if service == "hanse-agent"} == at_the_agent
    assert {stage for stage, service in services.items() if service == "hanse-global"} == {*services} - at_the_agent


async def test_nothing_is_traced_at_a_ratio_of_zero_and_metrics_come_all_the_same(up: Up) -> None:
    options = ("--store", "memory:", "--trace-ratio", "0")
    async with (
        collector() as found,
        up(*options, OTEL_EXPORTER_OTLP_ENDPOINT=found.address, OTEL_METRIC_EXPORT_INTERVAL="200") as told,
    ):
        await ended(told["address"], gang("unseen"))
        moves = ("hanse-up", "hanse.job.moves")
        await found.until(lambda: moves in found.metrics and len(found.metrics[moves].sum.data_points) > 3)
        assert found.spans == []
        assert found.metrics["hanse-up", "db.client.operation.duration"].unit == "s"


async def test_a_collector_that_goes_and_comes_back_is_never_waited_for(up: Up) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    async with up("--store", "memory:", "--otlp", address) as told:
        before = await ended(told["address"], gang("before"))
        async with collector(address) as found:
            numbers = iter(range(1_000))
            async with asyncio.timeout(READY_DEADLINE_S):
                while not any(span.name == "hanse.job" for span in found.spans):
                    after = await ended(told["address"], gang(f"after-{next(numbers)}"))
        assert before != after


async def scraped(address: str) -> dict[str, float]:
    """Every series of a Prometheus endpoint."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n")
    body = (await reader.read()).partition(b"\r\n\r\n")[2].decode()
    writer.close()
    lines = [line.rpartition(" ") for line in body.splitlines() if not line.startswith("#")]
    return {series: float(value) for series, _, value in lines}


async def test_what_prometheus_scrapes_changes_with_what_happens(up: Up) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    async with up("--store", "memory:", "--prometheus", address) as told:
        before = await scraped(address)
        assert before['hanse_pool_gpus{hanse_pool="iowa",hanse_flavor="h100",hanse_gpu_state="free"}'] == 128
        assert before['hanse_agent_attached{hanse_pool="iowa"}'] == 1
        assert before["hanse_link_sessions"] == 1
        await ended(told["address"], gang("counted"))
        after = await scraped(address)
    for series, by in {
        'hanse_submitted_jobs_total{hanse_outcome="accepted"}': 1,
        'hanse_job_moves_total{hanse_state="BOUND"}': 1,
        'hanse_job_moves_total{hanse_state="SUCCEEDED"}': 1,
        'hanse_commit_transactions_total{hanse_outcome="committed"}': 1,
        'hanse_reports_total{hanse_status="FINISHED"}': 1,
        'hanse_agent_placements_total{hanse_pool="iowa",hanse_outcome="placed"}': 1,
        'hanse_job_state_duration_seconds_count{hanse_state="PENDING"}': 1,
    }.items():
        assert after[series] - before.get(series, 0) == by, series
    submits = (
        'rpc_server_call_duration_seconds_count{rpc_system_name="grpc",'
        'rpc_method="hanse.api.v1.JobService/SubmitJobs",rpc_response_status_code="OK"}'
    )
    assert after[submits] == 1
    assert after["process_uptime_seconds"] > before["process_uptime_seconds"]
