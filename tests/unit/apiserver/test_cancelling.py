"""Cancelling: a pending job at once, a live one by way of its bindings, once for each request id."""

import asyncio

import pytest

from hanse.api.v1 import job_pb2, job_service_pb2
from hanse.model.errors import FailedPrecondition, NotFound
from hanse.model.ids import Attempt, JobId, Part, PoolName
from hanse.model.lifecycle import Bind, JobState, Moved, State, encode_state, transition
from hanse.store import keys
from hanse.store.contract import Put, Txn
from hanse.store.schema import Amounts, BindingValue, BoundSet, Desired, SlotsValue, decode, encode
from tests.unit.apiserver.stage import CTX, GPU, Stage, batch, second, spec, stage

OSLO = PoolName("oslo")


def cancel(job: str, request_id: str = "") -> job_service_pb2.CancelJobRequest:
    return job_service_pb2.CancelJobRequest(job=job, request_id=request_id)


async def bind(on: Stage, job: JobId, state: JobState) -> str:
    """As a scheduler would; the key of the binding."""
    moved = transition(state, Bind((0,)), now_ms=state.submit_ms + 5)
    assert isinstance(moved, Moved)
    key = keys.binding(OSLO, job, Attempt(1), Part(0))
    value = BindingValue(
        int(Desired.START),
        [BoundSet(0, 2, 0, "h100")],
        [],
        [Amounts("h100", {GPU: 16})],
        bound_ms=state.submit_ms + 5,
    )
    ops = (
        Put(keys.SLOTS, encode(SlotsValue(["oslo"]))),
        Put(keys.state(job), encode_state(moved.state)),
        Put(key, encode(value)),
    )
    await on.store.core.transact(Txn((), ops))
    return key


async def test_a_pending_job_is_cancelled_at_once() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        job = await on.api.jobs.cancel_job(CTX, cancel("train"))
    assert (job.status.state, job.status.reason) == (job_pb2.JOB_STATE_CANCELLED, "CANCELLED_BY_USER")
    assert job.status.ended_ms > 0


async def test_a_live_job_is_told_to_stop_together_with_its_bindings() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        [(job, state)] = (await on.states()).items()
        key = await bind(on, job, state)
        answer = await on.api.jobs.cancel_job(CTX, cancel(job))
        items = (await on.store.core.read([key, keys.state(job)])).items
    assert answer.status.state == job_pb2.JOB_STATE_STOPPING
    assert answer.status.target == job_pb2.JOB_STATE_CANCELLED
    assert [(p.pool, p.flavor, p.pods) for p in answer.status.placement] == [("oslo", "h100", 2)]
    assert decode(items[key].value, BindingValue).desired == Desired.STOP
    assert items[key].mod_revision == items[keys.state(job)].mod_revision


async def test_cancelling_twice_is_no_error_and_a_repeated_request_moves_nothing() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        first = await on.api.jobs.cancel_job(CTX, cancel("train", "c1"))
        again = await on.api.jobs.cancel_job(CTX, cancel("train", "c1"))
        other = await on.api.jobs.cancel_job(CTX, cancel("train", "c2"))
    assert first.revision == again.revision == other.revision


@pytest.mark.parametrize("fate", ["lost", "silent", "late"])
async def test_an_unknown_outcome_is_settled(fate: str) -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        fates = [fate]
        on.store.rule = lambda txn: fates.pop() if fates else ""
        job = await on.api.jobs.cancel_job(CTX, cancel("train", "c1"))
        await on.store.deliver()
        [state] = (await on.states()).values()
    assert job.status.state == job_pb2.JOB_STATE_CANCELLED
    assert state.state is State.CANCELLED


async def test_one_id_cancels_one_job() -> None:
    async with stage() as on, second(on) as other:
        await on.submit(batch(spec("a"), spec("b")))
        answers = await asyncio.gather(
            on.api.jobs.cancel_job(CTX, cancel("a", "c1")),
            other.api.jobs.cancel_job(CTX, cancel("b", "c1")),
            return_exceptions=True,
        )
        states = [state.state for state in (await on.states()).values()]
    assert sorted(type(answer).__name__ for answer in answers) == ["AlreadyExists", "Job"]
    assert sorted(states) == [State.PENDING, State.CANCELLED]


async def test_a_job_that_ended_another_way_cannot_be_cancelled() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        [(job, state)] = (await on.states()).items()
        ended = encode_state(JobState(State.SUCCEEDED, Attempt(1), 0, state.submit_ms, state.submit_ms, 1))
        await on.store.core.transact(Txn((), (Put(keys.state(job), ended),)))
        with pytest.raises(FailedPrecondition) as refused:
            await on.api.jobs.cancel_job(CTX, cancel("train"))
    assert refused.value.reason == "JOB_ENDED"


async def test_an_unknown_job() -> None:
    async with stage() as on:
        with pytest.raises(NotFound) as refused:
            await on.api.jobs.cancel_job(CTX, cancel("nothing"))
    assert (refused.value.reason, refused.value.path) == ("JOB_NOT_FOUND", "job")
