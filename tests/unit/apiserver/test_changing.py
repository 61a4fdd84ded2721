"""Hold, release and a new priority: for a job that waits, once for each request id, by way of its one state key."""

from dataclasses import replace

import pytest

from hanse.api.v1 import job_pb2, job_service_pb2
from hanse.apiserver.ports import Explanation
from hanse.apiserver.requests import Record, Request, Requests
from hanse.model.errors import AlreadyExists, FailedPrecondition, HanseError, InvalidArgument, NotFound
from hanse.model.ids import JobId
from hanse.model.job import JobSpec
from hanse.model.lifecycle import JobState, State, encode_state
from hanse.model.reasons import Reason
from hanse.store import keys
from hanse.store.contract import Put, Txn
from hanse.store.schema import PastAttempt, PastValue, PriorityValue, encode
from tests.unit.apiserver.stage import CTX, Stage, batch, second, spec, stage
from tests.unit.telling import counting


def hold(job: str = "train", request_id: str = "") -> job_service_pb2.HoldJobRequest:
    return job_service_pb2.HoldJobRequest(job=job, request_id=request_id)


def release(job: str = "train", request_id: str = "") -> job_service_pb2.ReleaseJobRequest:
    return job_service_pb2.ReleaseJobRequest(job=job, request_id=request_id)


def update(name: str, job: str = "train", request_id: str = "") -> job_service_pb2.UpdateJobRequest:
    return job_service_pb2.UpdateJobRequest(job=job, priority_class=name, request_id=request_id)


async def become(on: Stage, **changes: object) -> JobId:
    """The only job, with its state record changed behind the server's back."""
    [(job, state)] = (await on.states()).items()
    changed = encode_state(replace(state, **changes))  # type: ignore[arg-type]
    await on.store.core.transact(Txn((), (Put(keys.state(job), changed),)))
    return job


async def shown(on: Stage, job: str = "train") -> job_pb2.JobStatus:
    return (await on.api.jobs.get_job(CTX, job_service_pb2.GetJobRequest(job=job))).status


class NothingFits:
    """An explainer that knows no pool."""

    async def explain(self, job: JobId, spec: JobSpec, state: JobState) -> Explanation:
        return Explanation("train waits: no pool has joined yet", Reason.NO_POOLS)


# ---- hold and release ---------------------------------------------------------------------------------------


async def test_a_job_on_hold_says_so_and_by_whom_until_it_is_released() -> None:
    async with stage(explainer=NothingFits()) as on, second(on) as other:
        await on.submit(batch(spec()))
        answer = (await on.api.jobs.hold_job(CTX, hold())).status
        seen = await shown(other)
        told = await on.api.jobs.explain_job(CTX, job_service_pb2.ExplainJobRequest(job="train"))
        released = (await on.api.jobs.release_job(CTX, release())).status
    assert answer == seen
    assert (seen.state, seen.held, seen.reason, seen.held_by) == (job_pb2.JOB_STATE_PENDING, True, "JOB_HELD", "ann")
    assert seen.held_ms >= seen.submitted_ms
    assert seen.message == "on hold by ann; `hanse release train` lets it wait for places again"
    assert told.answer == f"train waits: {seen.message}"
    assert (told.reason, told.helps[0].change) == ("JOB_HELD", "`hanse release train`")
    assert (released.held, released.reason, released.held_by, released.held_ms) == (False, "WAITING", "", 0)


async def test_lists_show_who_holds_a_job() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        await on.api.jobs.hold_job(CTX, hold())
        [job] = (await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest())).jobs
    assert (job.status.reason, job.status.held_by) == ("JOB_HELD", "ann")


async def test_a_repeated_request_does_not_hold_what_was_released_since() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        await on.api.jobs.hold_job(CTX, hold())
        first = await on.api.jobs.hold_job(CTX, hold(request_id="h1"))  # finds it on hold already
        await on.api.jobs.release_job(CTX, release())
        again = await on.api.jobs.hold_job(CTX, hold(request_id="h1"))
        held = (await shown(on)).held
        with pytest.raises(AlreadyExists) as reused:
            await on.api.jobs.release_job(CTX, release(request_id="h1"))
    assert first == again
    assert not held
    assert reused.value.reason == "REQUEST_ID_REUSED"


@pytest.mark.parametrize("fate", ["lost", "silent", "late"])
async def test_an_unknown_outcome_is_settled(fate: str) -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        fates = [fate]
        on.store.rule = lambda txn: fates.pop() if fates else ""
        job = await on.api.jobs.hold_job(CTX, hold(request_id="h1"))
        await on.store.deliver()
        [state] = (await on.states()).values()
    assert job.status.held
    assert (state.held, state.state, state.reason) == (True, State.PENDING, Reason.JOB_HELD)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"state": State.RUNNING, "attempt": 1}, "only a job that waits can be put on hold, this one is RUNNING"),
        ({"state": State.STOPPING, "target": State.PENDING}, "this one is STOPPING towards PENDING"),
        ({"state": State.FAILED}, "the job has already ended as FAILED"),
    ],
)
async def test_a_job_that_does_not_wait_cannot_be_held(changes: dict[str, object], told: str) -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        await become(on, **changes)
        with pytest.raises(FailedPrecondition) as refused:
            await on.api.jobs.hold_job(CTX, hold())
    assert (refused.value.reason, refused.value.path) == ("JOB_NOT_WAITING", "job")
    assert told in refused.value.message
    assert "\n" not in refused.value.message


async def test_releasing_a_job_that_is_not_on_hold_is_no_error_unless_it_has_ended() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        assert not (await on.api.jobs.release_job(CTX, release())).status.held
        await become(on, state=State.RUNNING)
        assert (await on.api.jobs.release_job(CTX, release())).status.state == job_pb2.JOB_STATE_RUNNING
        await become(on, state=State.CANCELLED)
        with pytest.raises(FailedPrecondition, match="nothing to release"):
            await on.api.jobs.release_job(CTX, release())


async def test_an_answer_that_changed_nothing_carries_the_revision_of_what_it_shows() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        released = await on.api.jobs.release_job(CTX, release(request_id="r"))
        seen = await on.api.jobs.get_job(CTX, job_service_pb2.GetJobRequest(job="train"))
    assert released.revision == seen.revision


async def test_a_request_that_was_on_its_way_twice_is_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its twin takes effect, and the job is cancelled, between two looks of the slower one."""
    find = Requests.find
    twins = [1]

    async with stage() as on:
        await on.submit(batch(spec()))
        await on.store.core.transact(Txn((), (Put(keys.priority("high"), encode(PriorityValue(100))),)))

        async def overtaken(self: Requests, request: Request) -> Record | None:
            found = await find(self, request)
            if twins:
                twins.pop()
                await on.api.jobs.update_job(CTX, update("high", request_id="u"))
                await on.api.jobs.cancel_job(CTX, job_service_pb2.CancelJobRequest(job="train"))
            return found

        monkeypatch.setattr(Requests, "find", overtaken)
        answer = await on.api.jobs.update_job(CTX, update("high", request_id="u"))
    assert answer.status.priority == 100


async def test_a_job_on_hold_can_be_cancelled() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        await on.api.jobs.hold_job(CTX, hold())
        job = await on.api.jobs.cancel_job(CTX, job_service_pb2.CancelJobRequest(job="train"))
    assert (job.status.state, job.status.held, job.status.held_by) == (job_pb2.JOB_STATE_CANCELLED, False, "")


async def test_the_history_of_a_job_outlives_its_hold() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        job = await become(on, attempt=1)
        past = PastValue([PastAttempt(1, 10, 20, int(Reason.SHAPE), int(State.PENDING))])
        await on.store.core.transact(Txn((), (Put(keys.past(job), encode(past)),)))
        await on.api.jobs.hold_job(CTX, hold())
        assert [(a.attempt, a.reason) for a in (await shown(on)).attempts] == [(1, "SHAPE")]


# ---- priority -----------------------------------------------------------------------------------------------


async def test_a_new_class_counts_at_once_and_leaves_the_spec_as_it_was() -> None:
    async with stage() as on:
        submitted = await on.submit(batch(spec(), request_id="s1"))
        before = await shown(on)
        answer = (await on.api.jobs.update_job(CTX, update("urgent", request_id="u1"))).status
        again = (await on.api.jobs.update_job(CTX, update("urgent", request_id="u1"))).status
        full = await on.api.jobs.get_job(CTX, job_service_pb2.GetJobRequest(job="train"))
        repeated = await on.submit(batch(spec(), request_id="s1"))
        [state] = (await on.states()).values()
    assert (before.priority, before.priority_class) == (5, "")
    assert (answer.priority, answer.priority_class) == (90, "urgent")
    assert answer == again == full.status
    assert (full.spec.priority_class, state.priority) == ("", 90)
    assert [job.id for job in repeated.jobs] == [job.id for job in submitted.jobs]


async def test_a_class_that_changes_meanwhile_counts_by_its_new_value() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        urgent = keys.priority("urgent")
        fates = ["late"]
        on.store.rule = lambda txn: fates.pop() if fates else ""
        await on.api.jobs.update_job(CTX, update("urgent", request_id="u1"))
        [late] = on.store.late
        await on.store.core.transact(Txn((), (Put(urgent, encode(PriorityValue(7))),)))
        await on.store.deliver()
        answer = await on.api.jobs.update_job(CTX, update("urgent"))
    assert urgent in {guard.key for guard in late.guards}
    assert answer.status.priority == 7


@pytest.mark.parametrize(
    ("name", "kind", "reason", "told"),
    [
        (
            "urgnt",
            NotFound,
            "PRIORITY_CLASS_NOT_FOUND",
            'priority class "urgnt" does not exist; did you mean "urgent"?',
        ),
        ("", InvalidArgument, "PRIORITY_CLASS_MISSING", "nothing is to be changed; name a priority class"),
    ],
)
async def test_a_class_that_is_none_is_refused_by_its_field(
    name: str, kind: type[HanseError], reason: str, told: str
) -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        with pytest.raises(kind) as refused:
            await on.api.jobs.update_job(CTX, update(name))
    assert (refused.value.reason, refused.value.path, refused.value.message) == (reason, "priority_class", told)


async def test_a_job_that_waits_no_longer_keeps_its_priority() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        await become(on, state=State.BOUND, attempt=1)
        with pytest.raises(FailedPrecondition) as refused:
            await on.api.jobs.update_job(CTX, update("urgent"))
        [state] = (await on.states()).values()
    assert (refused.value.reason, state.priority) == ("JOB_NOT_WAITING", 5)
    assert "this one is BOUND" in refused.value.message


async def test_a_hold_does_not_forget_the_class_nor_the_class_the_hold() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        await on.api.jobs.update_job(CTX, update("urgent"))
        await on.api.jobs.hold_job(CTX, hold())
        await on.api.jobs.update_job(CTX, update("normal"))
        status = await shown(on)
    assert (status.priority_class, status.priority, status.held_by) == ("normal", 5, "ann")


async def test_changes_are_counted() -> None:
    with counting() as counted:
        async with stage() as on:
            await on.submit(batch(spec()))
            await on.api.jobs.hold_job(CTX, hold())
            await on.api.jobs.release_job(CTX, release())
            await on.api.jobs.update_job(CTX, update("urgent"))
            assert [counted("hanse.job.changes", what) for what in ("hold", "release", "priority")] == [1, 1, 1]
