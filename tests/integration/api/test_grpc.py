"""The server as any gRPC client meets it: codes and details, limits, credentials, health, reflection."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc  # type: ignore[import-untyped]

from hanse.api.v1 import job_service_pb2, job_service_pb2_grpc
from hanse.apiserver.credentials import parse_tokens
from hanse.apiserver.serving import serve, services_of
from hanse.apiserver.settings import ApiSettings
from hanse.model.errors import FailedPrecondition, HanseError, InvalidArgument, PermissionDenied, Unavailable
from hanse.wire.limits import JOBS_PER_BATCH_MAX
from tests.integration.api.served import Served, served
from tests.unit.apiserver.stage import batch, many, spec, stage

PATIENCE_S: Final = 10.0
TOKEN: Final = "a-token-of-some-length"


def stub(at: Served) -> job_service_pb2_grpc.JobServiceStub:
    return job_service_pb2_grpc.JobServiceStub(grpc.insecure_channel(at.address))


async def failed(at: Served, request: job_service_pb2.GetJobRequest) -> grpc.aio.AioRpcError:
    """The error of a call, as gRPC tells it."""
    async with grpc.aio.insecure_channel(at.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await job_service_pb2_grpc.JobServiceStub(channel).GetJob(request)
    return refused.value


async def test_an_error_has_a_code_a_reason_and_a_place() -> None:
    async with served() as at:
        error = await failed(at, job_service_pb2.GetJobRequest(job="nothing"))
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (error.code(), status.code) == (grpc.StatusCode.NOT_FOUND, 5)
    assert (info.reason, info.domain, dict(info.metadata)) == ("JOB_NOT_FOUND", "hanse", {"path": "job"})
    assert error.details() == status.message
    assert "\n" not in status.message


async def test_a_mistake_of_the_server_tells_nothing_of_its_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as at:

        async def broken(*_: object) -> None:
            raise RuntimeError("secret /etc/passwd")

        monkeypatch.setattr(at.on.api.jobs, "_row", broken)
        await at.client.submit(spec())
        error = await failed(at, job_service_pb2.GetJobRequest(job="train"))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(error)


async def test_a_store_that_is_away_is_unavailable_and_nothing_more_is_said() -> None:
    async with served() as at:
        await at.on.store.core.close()
        error = await failed(at, job_service_pb2.GetJobRequest(job="train"))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


async def test_every_method_is_served_and_reflected() -> None:
    async with served() as at, grpc.aio.insecure_channel(at.address) as channel:
        for descriptor, service in services_of(at.on.api):
            assert all(hasattr(service, name) for name in _methods(descriptor.methods))
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked]))
        names = {s.name for s in (await call.read()).list_services_response.service}
    assert {descriptor.full_name for descriptor, _ in services_of(at.on.api)} < names


def _methods(methods: object) -> list[str]:
    from hanse.apiserver.rpc import method_name

    return [method_name(method.name) for method in methods]  # type: ignore[attr-defined]


async def test_health() -> None:
    async with served() as at, grpc.aio.insecure_channel(at.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "hanse.api.v1.JobService"):
            told = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert told.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_batch_that_is_too_large_is_refused_in_our_own_words() -> None:
    async with served() as at:
        for request in (many(JOBS_PER_BATCH_MAX + 1), _heavy()):
            async with grpc.aio.insecure_channel(at.address) as channel:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await job_service_pb2_grpc.JobServiceStub(channel).SubmitJobs(request)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "send at most" in (refused.value.details() or "")
        assert await at.on.states() == {}


def _heavy() -> job_service_pb2.SubmitJobsRequest:
    request = batch(spec())
    request.jobs[0].manifest.text = "x" * 5_000_000
    return request


async def test_a_message_beyond_all_limits_is_refused() -> None:
    async with served() as at:
        request = batch(spec())
        request.jobs[0].manifest.text = "x" * 100_000_000
        async with grpc.aio.insecure_channel(at.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await job_service_pb2_grpc.JobServiceStub(channel).SubmitJobs(request)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(InvalidArgument) as told:
            await at.client.submit(request.jobs[0])
        assert told.value.reason == "SPEC_TOO_LARGE"


async def test_too_many_calls_are_turned_away() -> None:
    async with served(settings=ApiSettings(calls_max=0)) as at:
        error = await failed(at, job_service_pb2.GetJobRequest(job="train"))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "in progress" in (error.details() or "")


async def test_too_many_streams_are_turned_away() -> None:
    async with served(settings=ApiSettings(streams_max=1)) as at, asyncio.timeout(PATIENCE_S):
        first = at.client.watch_jobs()
        await anext(first)
        async with grpc.aio.insecure_channel(at.address) as channel:
            second = job_service_pb2_grpc.JobServiceStub(channel).WatchJobs(job_service_pb2.WatchJobsRequest())
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await second.read()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_watcher_that_is_too_slow_is_cut_off_and_told_to_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = asyncio.Event()
    real_wait = asyncio.wait

    async def wait(fs: Any, **options: Any) -> Any:
        found = await real_wait(fs, **options)
        if not found[0]:
            stuck.set()
        return found

    monkeypatch.setattr("hanse.apiserver.rpc.asyncio.wait", wait)
    settings = ApiSettings(watch_write_deadline_s=0.1)
    async with served(settings=settings) as at, grpc.aio.insecure_channel(at.address) as channel:
        request = job_service_pb2.WatchJobsRequest(view=job_service_pb2.JOB_VIEW_FULL)
        slow = job_service_pb2_grpc.JobServiceStub(channel).WatchJobs(request)
        await slow.read()
        async with asyncio.timeout(PATIENCE_S):
            for number in range(40):
                await at.on.submit(_wide(number))
            await stuck.wait()
            with pytest.raises(grpc.aio.AioRpcError) as cut:
                await _read_all(slow)
    assert cut.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "resume" in (cut.value.details() or "")


async def _read_all(call: Any) -> None:
    while await call.read():
        pass


def _wide(number: int) -> job_service_pb2.SubmitJobsRequest:
    request = batch(*(spec(f"j{number}-{i}") for i in range(20)))
    for job in request.jobs:
        job.pod_sets[0].template.args.append("x" * 30_000)
    return request


async def test_a_deadline_is_kept() -> None:
    async with served(settings=ApiSettings(call_deadline_s=0.05)) as at:
        on_store = at.on.store

        async def never(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        on_store.read = never  # type: ignore[method-assign, assignment]
        error = await failed(at, job_service_pb2.GetJobRequest(job="abcdefgh-0123456789abcdef"))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "same request id" in (error.details() or "")


# ---- the door -----------------------------------------------------------------------------------------------


async def test_whoever_has_no_token_is_turned_away() -> None:
    credentials = parse_tokens(f"# people\nann {TOKEN}\n")
    async with served(credentials=credentials, token=TOKEN) as at:
        answer = await at.client.submit(spec(), request_id="r1")
        error = await failed(at, job_service_pb2.GetJobRequest(job="train"))
        async with grpc.aio.insecure_channel(at.address) as channel:
            watch = job_service_pb2_grpc.JobServiceStub(channel).WatchJobs(job_service_pb2.WatchJobsRequest())
            with pytest.raises(grpc.aio.AioRpcError) as turned_away:
                await watch.read()
        keys_of_requests = await at.on.count("requests/ann/r1")
    assert answer.ids
    assert keys_of_requests == 1
    assert error.code() is turned_away.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_wrong_token_is_told_in_the_models_words() -> None:
    async with served(credentials=parse_tokens(f"ann {TOKEN}"), token="another-token-entirely") as at:
        with pytest.raises(PermissionDenied) as refused:
            await at.client.jobs_page()
    assert refused.value.reason == "UNAUTHENTICATED"


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "10.1.2.3:7311", "example.org:7311"])
async def test_nobody_listens_beyond_this_machine_without_credentials(listen: str) -> None:
    async with stage() as on:
        with pytest.raises(FailedPrecondition) as refused:
            async with serve(on.api, listen=listen):
                pass
    assert refused.value.reason == "CREDENTIALS_MISSING"
    assert "token file" in refused.value.message


async def test_with_credentials_it_may() -> None:
    async with stage() as on, serve(on.api, listen="0.0.0.0:0", credentials=parse_tokens(f"ann {TOKEN}")) as serving:
        assert serving.port


@pytest.mark.parametrize("listen", ["7311", "host", ":7311", "127.0.0.1:x", "127.0.0.1:99999"])
async def test_what_is_no_address(listen: str) -> None:
    async with stage() as on:
        with pytest.raises(HanseError) as refused:
            async with serve(on.api, listen=listen):
                pass
    assert refused.value.path == "listen"


async def test_a_port_that_is_taken() -> None:
    async with served() as at:
        with pytest.raises(Unavailable) as refused:
            async with serve(at.on.api, listen=at.address):
                pass
    assert refused.value.reason == "ADDRESS_UNUSABLE"


async def test_bulk_over_one_stream() -> None:
    async with served() as at:

        async def requests() -> AsyncIterator[job_service_pb2.SubmitJobsRequest]:
            for number in range(30):
                yield batch(*(spec(f"j{number}-{i}") for i in range(10)))

        answers = [answer async for answer in at.client.submit_batches(requests())]
        assert len(await at.on.states()) == sum(len(a.jobs) for a in answers) == 300
    assert all(answer.request_id for answer in answers)
