"""What the API tells of the jobs that come in, and of those that it ends itself."""

import asyncio

from hanse.api.v1 import job_service_pb2
from hanse.apiserver.context import CallContext
from hanse.kit.telemetry.trace_context import own_traceparent, parse_traceparent
from hanse.model.ids import JobId
from tests.unit.apiserver.stage import CTX, batch, spec, stage
from tests.unit.telling import TRACE, counting, telling


async def test_a_job_is_told_as_submitted_in_a_trace_of_its_own() -> None:
    with telling() as told:
        async with stage() as on:
            answer = await on.submit(batch(spec()))
            job = JobId(answer.jobs[0].id)
            assert (await on.states())[job].traced
    own = parse_traceparent(own_traceparent(job, 1.0))
    assert own is not None
    submit = told.one("submit")
    assert (submit.trace_id, submit.parent_id, submit.scope) == (own.trace_id, own.span_id, "api")
    assert submit.attributes == {"hanse.job": job, "hanse.queue": "research"}


async def test_the_callers_decision_to_sample_is_kept() -> None:
    with telling(ratio=0.0) as told:
        async with stage() as on:
            for trace in (TRACE, TRACE[:-2] + "00"):
                ctx = CallContext(principal="ann", trace=trace)
                await on.api.jobs.submit_jobs(ctx, batch(spec(), request_id=trace))
            traced = [state.traced for state in (await on.states()).values()]
    assert sorted(traced) == [False, True]
    assert told.stages == ["submit"]


async def test_the_same_request_again_names_the_same_trace() -> None:
    with telling() as told:
        async with stage() as on:
            for _ in range(2):
                await on.submit(batch(spec(), request_id="r1"))
    assert told.stages == ["submit"]


async def test_a_pending_job_that_is_cancelled_has_its_life_told() -> None:
    with telling() as told:
        async with stage() as on:
            answer = await on.submit(batch(spec()))
            await on.api.jobs.cancel_job(CTX, job_service_pb2.CancelJobRequest(job=answer.jobs[0].id))
            async with asyncio.timeout(10):
                while "job" not in told.stages:  # noqa: ASYNC110 - spans are told by a task of the server
                    await asyncio.sleep(0)
    life = told.one("job")
    assert life.attributes["hanse.state"] == "CANCELLED"
    assert told.one("submit").parent_id == life.span_id


async def test_what_comes_in_is_counted() -> None:
    with counting() as counted:
        async with stage() as on:
            await on.submit(batch(spec("a"), spec("b"), spec("c", queue="nowhere")))
            await on.api.jobs.cancel_job(CTX, job_service_pb2.CancelJobRequest(job="a"))
    assert counted("hanse.submitted.jobs", "accepted") == 2
    assert counted("hanse.submitted.jobs", "refused") == 1
    assert counted("hanse.submit.duration") == 1
    assert counted("hanse.job.moves", "PENDING") == 2
    assert counted("hanse.job.moves", "CANCELLED") == 1
