"""Trying again: a new job from the stored spec of one that has ended, once for each request id."""

from dataclasses import replace

import pytest

from hanse.api.v1 import job_pb2, job_service_pb2
from hanse.model.errors import AlreadyExists, FailedPrecondition, NotFound
from hanse.model.ids import JobId, QueueName
from hanse.model.lifecycle import State, encode_state
from hanse.store import keys
from hanse.store.contract import Delete, Put, Txn
from tests.unit.apiserver.stage import CTX, Stage, batch, second, spec, stage
from tests.unit.telling import counting


def retry(job: str = "train", request_id: str = "") -> job_service_pb2.RetryJobRequest:
    return job_service_pb2.RetryJobRequest(job=job, request_id=request_id)


async def ended(on: Stage, job: JobId | None = None, state: State = State.FAILED) -> JobId:
    """A job of the server, ended."""
    states = await on.states()
    job = job or next(iter(states))
    record = encode_state(replace(states[job], state=state))
    await on.store.core.transact(Txn((), (Put(keys.state(job), record),)))
    return job


async def shown(on: Stage, job: str) -> job_pb2.Job:
    return await on.api.jobs.get_job(CTX, job_service_pb2.GetJobRequest(job=job))


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED, State.LOST])
async def test_a_job_that_has_ended_is_submitted_once_more(state: State) -> None:
    async with stage() as on, second(on) as other:
        await on.submit(batch(replace(spec(), labels={"team": "vision"}, priority_class="urgent")))
        old = await ended(on, state=state)
        new = await on.api.jobs.retry_job(CTX, retry())
        before, after = await shown(other, old), await shown(other, new.id)
        listed = (await other.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest())).jobs
    assert new.id != old
    assert (new.retry_of, after.retry_of, before.retry_of) == (old, old, "")
    assert after.spec == before.spec
    assert (new.status.state, new.status.priority, new.status.attempt) == (job_pb2.JOB_STATE_PENDING, 90, 0)
    assert before.status.state == job_pb2.JobState.ValueType(state)
    assert {job.id: job.retry_of for job in listed} == {old: "", new.id: old}


async def test_the_priority_that_a_job_was_given_last_is_kept() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        await on.api.jobs.update_job(CTX, job_service_pb2.UpdateJobRequest(job="train", priority_class="urgent"))
        await ended(on)
        new = await on.api.jobs.retry_job(CTX, retry())
    assert (new.status.priority, new.status.priority_class) == (90, "urgent")


async def test_a_repeated_request_names_the_same_job_though_the_name_means_another_by_then() -> None:
    async with stage() as on, second(on) as other:
        await on.submit(batch(spec()))
        old = await ended(on)
        first = await on.api.jobs.retry_job(CTX, retry(request_id="r1"))
        again = await other.api.jobs.retry_job(CTX, retry(request_id="r1"))
        await ended(on, JobId(first.id))
        later = await other.api.jobs.retry_job(CTX, retry(request_id="r1"))
        with pytest.raises(AlreadyExists) as reused:
            await on.api.jobs.retry_job(CTX, retry(old, request_id="r1"))
        jobs = len(await on.states())
    assert first == again
    assert (later.id, later.retry_of) == (first.id, old)
    assert (reused.value.reason, jobs) == ("REQUEST_ID_REUSED", 2)


@pytest.mark.parametrize("fate", ["lost", "silent", "late"])
async def test_an_unknown_outcome_is_settled(fate: str) -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        await ended(on)
        fates = [fate]
        on.store.rule = lambda txn: fates.pop() if fates else ""
        new = await on.api.jobs.retry_job(CTX, retry(request_id="r1"))
        await on.store.deliver()
        again = await on.api.jobs.retry_job(CTX, retry(request_id="r1"))
        jobs = len(await on.states())
    assert (new.id, jobs) == (again.id, 2)


@pytest.mark.parametrize(
    ("state", "reason"),
    [(State.PENDING, "JOB_NOT_ENDED"), (State.STOPPING, "JOB_NOT_ENDED"), (State.SUCCEEDED, "JOB_SUCCEEDED")],
)
async def test_a_job_that_lives_or_has_succeeded_is_not_tried_again(state: State, reason: str) -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        await ended(on, state=state)
        with pytest.raises(FailedPrecondition) as refused:
            await on.api.jobs.retry_job(CTX, retry())
        jobs = len(await on.states())
    assert (refused.value.reason, refused.value.path, jobs) == (reason, "job", 1)
    assert "submit its file once more" in refused.value.message


async def test_a_retry_is_refused_for_what_a_submission_is_refused_for() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        old = await ended(on)
        await on.store.core.transact(Txn((), (Delete(keys.queue(QueueName("research"))),)))
        with pytest.raises(NotFound) as refused:
            await on.api.jobs.retry_job(CTX, retry(old))
    assert (refused.value.reason, refused.value.path) == ("QUEUE_NOT_FOUND", "queue")


async def test_a_spec_that_is_no_longer_kept() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        old = await ended(on)
        await on.store.core.transact(Txn((), (Delete(keys.spec(old)),)))
        with pytest.raises(NotFound) as refused:
            await on.api.jobs.retry_job(CTX, retry())
    assert refused.value.reason == "SPEC_NOT_KEPT"


async def test_a_repeated_request_needs_nothing_of_the_old_job() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        old = await ended(on)
        first = await on.api.jobs.retry_job(CTX, retry(request_id="r1"))
        await on.store.core.transact(Txn((), (Delete(keys.spec(old)), Delete(keys.state(old)))))
        assert await on.api.jobs.retry_job(CTX, retry(request_id="r1")) == first


async def test_retries_are_counted() -> None:
    with counting() as counted:
        async with stage() as on:
            await on.submit(batch(spec()))
            await ended(on)
            await on.api.jobs.retry_job(CTX, retry())
        assert (counted("hanse.job.changes", "retry"), counted("hanse.submitted.jobs", "accepted")) == (1, 2)
