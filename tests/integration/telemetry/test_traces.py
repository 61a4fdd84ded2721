"""One trace shows the whole way of one job: in one process, and across processes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from hanse.kit.telemetry.trace_context import own_traceparent, parse_traceparent
from hanse.model.ids import JobId
from tests.integration.processes import READY_DEADLINE_S
from tests.integration.telemetry.ups import STAGES, ended, gang, processes, up
from tests.services.otlp import Collector, Received, collector
from tests.services.process import free_ports


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


async def test_one_trace_shows_the_whole_way_of_a_job(tmp_path: Path) -> None:
    async with collector() as found, up(tmp_path, "--store", "memory:", "--otlp", found.address) as told:
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


async def test_the_trace_goes_on_across_processes(tmp_path: Path) -> None:
    async with collector() as found, up(tmp_path, *processes(tmp_path), "--otlp", found.address) as told:
        job = await ended(told["address"], gang("far-away"))
        await found.until(done(found, job))
    spans = found.of_job(job)
    assert_one_tree(spans, job)
    services = {span.name.removeprefix("hanse."): span.service for span in spans}
    at_the_agent = {"place", "start", "startup", "run"}
    assert {stage for stage, service in services.items() if service == "hanse-agent"} == at_the_agent
    assert {stage for stage, service in services.items() if service == "hanse-global"} == {*services} - at_the_agent


async def test_nothing_is_traced_at_a_ratio_of_zero_and_metrics_come_all_the_same(tmp_path: Path) -> None:
    options = ("--store", "memory:", "--trace-ratio", "0")
    async with (
        collector() as found,
        up(tmp_path, *options, OTEL_EXPORTER_OTLP_ENDPOINT=found.address, OTEL_METRIC_EXPORT_INTERVAL="200") as told,
    ):
        await ended(told["address"], gang("unseen"))
        moves = ("hanse-up", "hanse.job.moves")
        await found.until(lambda: moves in found.metrics and len(found.metrics[moves].sum.data_points) > 3)
        assert found.spans == []
        assert found.metrics["hanse-up", "db.client.operation.duration"].unit == "s"


async def test_a_collector_that_goes_and_comes_back_is_never_waited_for(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    async with up(tmp_path, "--store", "memory:", "--otlp", address) as told:
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


async def test_what_prometheus_scrapes_changes_with_what_happens(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    async with up(tmp_path, "--store", "memory:", "--prometheus", address) as told:
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
