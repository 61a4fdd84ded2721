"""What is accepted, what is refused and how, and that nothing is half stored."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from typing import Final

import pytest

from hanse.api.v1 import job_pb2, job_service_pb2, job_spec_pb2, queue_service_pb2
from hanse.apiserver.context import CallContext
from hanse.apiserver.ports import PoolView
from hanse.apiserver.settings import ApiSettings
from hanse.model.errors import InvalidArgument
from hanse.model.ids import JobId, PoolName, QueueUid, job_id
from hanse.model.lifecycle import State
from hanse.model.reasons import Reason
from hanse.store import keys
from hanse.store.schema import decode_spec
from hanse.wire.job import spec_to_wire
from hanse.wire.limits import JOBS_PER_BATCH_MAX
from tests.unit.apiserver.stage import CTX, batch, many, pool, spec, stage

PATIENCE_S: Final = 10.0


def changed(change: Callable[[job_spec_pb2.JobSpec], object]) -> job_spec_pb2.JobSpec:
    """A good job, spoilt."""
    message = spec_to_wire(spec())
    change(message)
    return message


async def test_an_accepted_job_is_pending_under_an_id_of_its_queue() -> None:
    async with stage() as on:
        answer = await on.submit(batch(spec(), request_id="r1"))
        queue = await on.api.queues.get_queue(CTX, queue_service_pb2.GetQueueRequest(name="research"))
        [(job, state)] = (await on.states()).items()
    assert job == job_id(QueueUid(queue.uid), "ann", "r1", 0) == answer.jobs[0].id
    assert answer.jobs[0].state == job_pb2.JOB_STATE_PENDING
    assert (state.state, state.reason, state.priority, state.attempt) == (State.PENDING, Reason.WAITING, 5, 0)


async def test_a_job_may_name_an_alias_of_its_queue() -> None:
    async with stage() as on:
        queue = await on.api.queues.get_queue(CTX, queue_service_pb2.GetQueueRequest(name="research"))
        queue.aliases.append("team-a")
        await on.api.queues.update_queue(CTX, queue_service_pb2.UpdateQueueRequest(queue=queue, request_id="q"))
        named = changed(lambda m: setattr(m, "queue", "team-a"))
        answer = await on.submit(batch(named, request_id="r1"))
        again = await on.submit(batch(named, request_id="r1"))
        job = await on.api.jobs.get_job(CTX, job_service_pb2.GetJobRequest(job=answer.jobs[0].id))
    assert answer.jobs[0].id == job_id(QueueUid(queue.uid), "ann", "r1", 0) == again.jobs[0].id
    assert (job.queue, job.spec.queue) == ("research", "research")


REFUSED: dict[str, tuple[Callable[[job_spec_pb2.JobSpec], object], str, str]] = {
    "an unknown queue": (lambda m: setattr(m, "queue", "reserach"), "QUEUE_NOT_FOUND", "queue"),
    "no queue": (lambda m: setattr(m, "queue", ""), "QUEUE_MISSING", "queue"),
    "a queue that is no name": (lambda m: setattr(m, "queue", "../x"), "NAME_INVALID", "queue"),
    "an unknown priority": (
        lambda m: setattr(m, "priority_class", "urgnet"),
        "PRIORITY_CLASS_NOT_FOUND",
        "priority_class",
    ),
    "an unknown flavor": (lambda m: m.pod_sets[0].flavors.append("h200"), "FLAVOR_UNKNOWN", "pod_sets[0].flavors[0]"),
    "a name with odd characters": (lambda m: setattr(m, "name", "Ünsinn/1"), "NAME_INVALID", "name"),
    "a negative count": (lambda m: setattr(m.pod_sets[0], "count", -1), "COUNT_OUT_OF_RANGE", "pod_sets[0].count"),
    "a huge count": (lambda m: setattr(m.pod_sets[0], "count", 2**62), "COUNT_OUT_OF_RANGE", "pod_sets[0].count"),
    "an unknown level": (
        lambda m: setattr(m.pod_sets[0].topology, "required_level", "rakc"),
        "LEVEL_UNKNOWN",
        "pod_sets[0].required",
    ),
    "a slice that does not divide": (
        lambda m: m.pod_sets[0].topology.slices.add(size=3, level="rack"),
        "SLICE_SIZE",
        "pod_sets[0].slices[0].size",
    ),
    "job arrays": (lambda m: setattr(m.array, "size", 3), "NOT_SUPPORTED_YET", "array"),
    "dependencies": (lambda m: m.dependencies.add(job="x"), "NOT_SUPPORTED_YET", "dependencies"),
    "a begin time": (lambda m: setattr(m, "begin_ms", 1), "NOT_SUPPORTED_YET", "begin_ms"),
    "a reservation": (lambda m: setattr(m, "reservation", "x"), "NOT_SUPPORTED_YET", "reservation"),
    "a service": (lambda m: setattr(m, "service", True), "NOT_SUPPORTED_YET", "service"),
    "a priority band": (lambda m: setattr(m, "priority_band", 1), "NOT_SUPPORTED_YET", "priority_band"),
    "elastic resizing": (
        lambda m: setattr(m.pod_sets[0], "max_count", 9),
        "NOT_SUPPORTED_YET",
        "pod_sets[0].max_count",
    ),
    "moving when the pool is lost": (lambda m: setattr(m, "on_pool_lost", 2), "NOT_SUPPORTED_YET", "on_pool_lost"),
    "an enum of a later version": (lambda m: setattr(m, "on_pool_lost", 77), "ENUM_UNKNOWN", "on_pool_lost"),
    "more than any pool holds": (
        lambda m: m.pod_sets[0].MergeFrom(job_spec_pb2.PodSet(count=9, min_count=9)),
        "NEVER_FITS",
        "pod_sets",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_refused_with_reason_and_place(what: str) -> None:
    change, reason, path = REFUSED[what]
    async with stage(pool("oslo", 2, 4)) as on:
        answer = await on.submit(batch(changed(change)))
        stored = await on.states()
    error = answer.jobs[0].error
    assert (error.reason, error.path, answer.jobs[0].reason) == (reason, path, reason)
    assert "\n" not in error.message
    assert len(error.message) > 10
    assert (answer.jobs[0].id, stored) == ("", {})


async def test_refusals_suggest_what_was_meant() -> None:
    async with stage(pool("oslo", 2, 4)) as on:
        answer = await on.submit(
            batch(
                spec("a", queue="reserach"),
                changed(lambda m: m.MergeFrom(job_spec_pb2.JobSpec(name="b", priority_class="urgnet"))),
                spec("c", required="rakc"),
            )
        )
    messages = [job.error.message for job in answer.jobs]
    assert ['"research"' in messages[0], '"urgent"' in messages[1], '"rack"' in messages[2]] == [True] * 3


async def test_a_gang_that_never_fits_is_told_by_how_much() -> None:
    async with stage(pool("oslo", 2, 4), pool("iowa", 3, 5)) as on:
        answer = await on.submit(batch(spec(count=6, required="rack")))
    message = answer.jobs[0].error.message
    assert answer.jobs[0].error.reason == "NEVER_FITS"
    assert all(part in message for part in ("iowa", "wanted 6", "found 5"))


@pytest.mark.parametrize("pools", [(), (PoolView(PoolName("new")),)])
async def test_while_no_shape_is_known_jobs_wait(pools: tuple[PoolView, ...]) -> None:
    async with stage(*pools) as on:
        answer = await on.submit(batch(spec(count=1_000, required="nonsense")))
    assert answer.jobs[0].state == job_pb2.JOB_STATE_PENDING


async def test_a_host_level_is_known_everywhere() -> None:
    async with stage(pool("oslo", 1, 2)) as on:
        answer = await on.submit(batch(spec(count=1, required="host")))
    assert answer.jobs[0].id


async def test_an_atomic_batch_with_one_bad_job_stores_none() -> None:
    async with stage() as on:
        answer = await on.submit(batch(spec("good"), spec("bad", queue="nowhere"), atomic=True))
        assert (await on.states(), await on.count(keys.SPECS), await on.count(keys.NAMES)) == ({}, 0, 0)
    assert answer.aborted
    assert [job.id for job in answer.jobs] == ["", ""]
    assert [job.error.reason for job in answer.jobs] == ["", "QUEUE_NOT_FOUND"]


async def test_without_atomic_good_jobs_are_stored_beside_bad_ones() -> None:
    async with stage() as on:
        answer = await on.submit(batch(spec("good"), spec("bad", queue="nowhere"), spec("fine")))
        assert len(await on.states()) == 2
    assert [bool(job.id) for job in answer.jobs] == [True, False, True]


async def test_one_name_twice_in_a_submission_is_refused() -> None:
    async with stage() as on:
        answer = await on.submit(batch(spec("a"), spec("a"), spec("b")))
    assert [job.error.reason for job in answer.jobs] == ["", "DUPLICATE", ""]


async def test_only_checking_stores_nothing() -> None:
    async with stage() as on:
        request = batch(spec(), spec("bad", queue="nowhere"), request_id="r1")
        request.validate_only = True
        answer = await on.submit(request)
        assert await on.states() == {}
        assert await on.count(keys.REQUESTS + "ann/r1") == 0
    assert [job.error.reason for job in answer.jobs] == ["", "QUEUE_NOT_FOUND"]


async def test_a_large_batch_takes_several_transactions() -> None:
    async with stage() as on:
        answer = await on.submit(many(200))
        assert len(await on.states()) == await on.count(keys.SPECS) == await on.count(keys.NAMES) == 200
    assert len({job.id for job in answer.jobs}) == 200


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (many(JOBS_PER_BATCH_MAX + 1), "BATCH_TOO_LARGE"),
        (batch(), "BATCH_EMPTY"),
        (batch(spec(), request_id="no/slash"), "REQUEST_ID_INVALID"),
        (batch(spec(), request_id="x" * 129), "REQUEST_ID_INVALID"),
    ],
)
async def test_a_batch_that_is_wrong_as_a_whole(request_: job_service_pb2.SubmitJobsRequest, reason: str) -> None:
    async with stage() as on:
        with pytest.raises(InvalidArgument) as refused:
            await on.submit(request_)
        assert await on.states() == {}
    assert refused.value.reason == reason


async def test_a_spec_over_the_limit_is_refused() -> None:
    async with stage(settings=ApiSettings(spec_bytes_max=400)) as on:
        message = spec_to_wire(spec())
        message.manifest.text = random.Random(7).randbytes(1_000).hex()
        answer = await on.submit(batch(message, spec("small")))
    assert [job.error.reason for job in answer.jobs] == ["SPEC_TOO_LARGE", ""]


async def test_a_full_queue_takes_no_more() -> None:
    async with stage(settings=ApiSettings(queue_pending_max=3)) as on:
        first = await on.submit(many(2))
        second = await on.submit(batch(spec("x"), spec("y"), spec("z")))
        assert len(await on.states()) == 3
    assert all(job.id for job in first.jobs)
    assert [job.error.reason for job in second.jobs] == ["", "QUEUE_FULL", "QUEUE_FULL"]


async def test_a_queue_may_have_a_smaller_limit_of_its_own() -> None:
    async with stage(settings=ApiSettings(queue_pending_max=3)) as on:
        found = await on.api.queues.get_queue(CTX, queue_service_pb2.GetQueueRequest(name="research"))
        found.limits.pending_jobs_max = 2
        changed = await on.api.queues.update_queue(CTX, queue_service_pb2.UpdateQueueRequest(queue=found))
        answer = await on.submit(many(3))
    assert changed.limits.pending_jobs_max == 2
    assert [job.error.reason for job in answer.jobs] == ["", "", "QUEUE_FULL"]
    assert "2 waiting jobs" in answer.jobs[2].error.message


async def test_a_stream_answers_each_batch_without_waiting_for_the_next() -> None:
    async with stage() as on:
        answered = [asyncio.Event() for _ in range(20)]

        async def batches() -> AsyncIterator[job_service_pb2.SubmitJobsRequest]:
            for number in range(20):
                yield batch(spec(f"job-{number}"), request_id=f"b{number}")
                await answered[number].wait()

        async with asyncio.timeout(PATIENCE_S):
            number = 0
            async for answer in on.api.jobs.stream_jobs(CTX, batches()):
                assert answer.request_id == f"b{number}"
                answered[number].set()
                number += 1
        assert len(await on.states()) == number == 20


async def test_a_bad_batch_does_not_end_a_stream() -> None:
    async with stage() as on:

        async def batches() -> AsyncIterator[job_service_pb2.SubmitJobsRequest]:
            yield batch(spec("a"))
            yield batch()
            yield batch(spec("b"))

        answers = [answer async for answer in on.api.jobs.stream_jobs(CTX, batches())]
    assert [answer.error.reason for answer in answers] == ["", "BATCH_EMPTY", ""]
    assert [bool(answer.jobs) for answer in answers] == [True, False, True]


@pytest.mark.parametrize("given", ["", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"])
async def test_a_job_carries_the_trace_of_its_submitter_or_one_of_its_own(given: str) -> None:
    async with stage() as on:
        ctx = CallContext(principal="ann", trace=given)
        answer = await on.api.jobs.submit_jobs(ctx, batch(spec(), request_id="r1"))
        key = keys.spec(JobId(answer.jobs[0].id))
        envelope = decode_spec((await on.store.core.read([key])).items[key].value)
    assert (envelope.principal, envelope.request_id) == ("ann", "r1")
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]", envelope.trace)
    assert not given or envelope.trace == given
