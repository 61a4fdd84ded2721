"""Following jobs: snapshots, changes in order, resumption without loss, an honest end where history is gone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest

from hanse.api.v1 import job_pb2, job_service_pb2
from hanse.apiserver.watches import EVENTS_PER_RESPONSE_MAX
from hanse.model.errors import InvalidArgument, NotFound, OutOfRange
from hanse.store import keys
from hanse.store.contract import Compacted, Delete, Txn
from tests.unit.apiserver.stage import CTX, Stage, batch, many, spec, stage

PATIENCE_S: Final = 10.0
SNAPSHOT: Final = job_service_pb2.JOB_EVENT_KIND_SNAPSHOT
CHANGED: Final = job_service_pb2.JOB_EVENT_KIND_CHANGED
REMOVED: Final = job_service_pb2.JOB_EVENT_KIND_REMOVED


def watch(on: Stage, **request: object) -> AsyncIterator[job_service_pb2.WatchJobsResponse]:
    return on.api.jobs.watch_jobs(CTX, job_service_pb2.WatchJobsRequest(**request))  # type: ignore[arg-type]


async def until(
    responses: AsyncIterator[job_service_pb2.WatchJobsResponse], events: int
) -> list[job_service_pb2.WatchJobsResponse]:
    """Responses until so many events have come."""
    found: list[job_service_pb2.WatchJobsResponse] = []
    async with asyncio.timeout(PATIENCE_S):
        while sum(len(r.events) for r in found) < events or not found:
            found.append(await anext(responses))
    return found


def seen(responses: list[job_service_pb2.WatchJobsResponse]) -> list[tuple[int, str]]:
    return [(event.kind, event.job.name) for response in responses for event in response.events]


async def test_a_snapshot_and_then_changes() -> None:
    async with stage() as on:
        await on.submit(batch(spec("a"), spec("b")))
        responses = watch(on, snapshot=True)
        first = await until(responses, 2)
        await on.api.jobs.cancel_job(CTX, job_service_pb2.CancelJobRequest(job="a"))
        [change] = (await until(responses, 1))[-1].events
    assert sorted(seen(first)) == [(SNAPSHOT, "a"), (SNAPSHOT, "b")]
    assert first[-1].synced
    assert (change.kind, change.job.name, change.job.status.state) == (CHANGED, "a", job_pb2.JOB_STATE_CANCELLED)


async def test_a_large_snapshot_comes_in_pieces_and_says_when_it_is_complete() -> None:
    async with stage() as on:
        await on.submit(many(EVENTS_PER_RESPONSE_MAX + 50))
        responses = await until(watch(on, snapshot=True), EVENTS_PER_RESPONSE_MAX + 50)
    assert [r.synced for r in responses] == [False, True]
    assert len({r.revision for r in responses}) == 1


async def test_from_now_on_begins_with_a_revision_to_resume_at() -> None:
    async with stage() as on:
        await on.submit(batch(spec("a")))
        responses = watch(on)
        first = await anext(responses)
        await on.submit(batch(spec("b")))
        later = await until(responses, 1)
    assert (len(first.events), first.synced, first.revision > 0) == (0, True, True)
    assert seen(later) == [(CHANGED, "b")]


async def test_resuming_misses_nothing() -> None:
    async with stage() as on:
        start = (await on.submit(batch(spec("a")))).revision
        await on.submit(batch(spec("b")))
        first = await until(watch(on, after_revision=start), 1)
        await on.submit(batch(spec("c")))
        await on.api.jobs.cancel_job(CTX, job_service_pb2.CancelJobRequest(job="b"))
        rest = await until(watch(on, after_revision=first[-1].revision), 2)
    assert seen(first) == [(CHANGED, "b")]
    assert seen(rest) == [(CHANGED, "c"), (CHANGED, "b")]


async def test_many_changes_at_once_never_promise_more_than_was_sent() -> None:
    async with stage() as on:
        start = (await on.submit(batch(spec("first")))).revision
        await asyncio.gather(*(on.submit(many(40, request_id=f"r{i}")) for i in range(12)))
        number = 12 * 40
        responses = await until(watch(on, after_revision=start), number)
        names = [event.job.id for r in responses for event in r.events]
        for cut in range(1, len(responses)):
            missing = set(names) - {event.job.id for r in responses[:cut] for event in r.events}
            async with asyncio.timeout(PATIENCE_S):
                async for response in watch(on, after_revision=responses[cut - 1].revision):
                    missing -= {event.job.id for event in response.events}
                    if not missing:
                        break
    assert len(set(names)) == number


async def test_only_a_queue_or_some_jobs() -> None:
    async with stage() as on:
        answer = await on.submit(many(30))
        wanted = [answer.jobs[3].id, answer.jobs[17].id]
        responses = await until(watch(on, snapshot=True, job_ids=wanted), 2)
        queued = await until(watch(on, snapshot=True, queue="research"), 30)
    assert sorted(event.job.id for r in responses for event in r.events) == sorted(wanted)
    assert len(seen(queued)) == 30


async def test_a_job_that_is_no_longer_kept_is_removed() -> None:
    async with stage() as on:
        answer = await on.submit(batch(spec("a")))
        responses = watch(on, after_revision=answer.revision)
        [job] = await on.states()
        await on.store.core.transact(Txn((), (Delete(keys.state(job)),)))
        [event] = (await until(responses, 1))[-1].events
    assert (event.kind, event.job.id) == (REMOVED, job)


async def test_history_that_is_gone_ends_the_watch() -> None:
    async with stage() as on:
        start = (await on.submit(batch(spec("a")))).revision
        later = await on.submit(batch(spec("b")))
        await on.submit(batch(spec("c")))
        await on.store.core.compact(later.revision + 1)
        with pytest.raises(Compacted):
            await anext(watch(on, after_revision=start))


@pytest.mark.parametrize(
    ("request_", "kind", "reason"),
    [
        ({"after_revision": -1}, InvalidArgument, "REVISION_INVALID"),
        ({"after_revision": 10**12}, OutOfRange, "REVISION_UNKNOWN"),
        ({"queue": "reserach"}, NotFound, "QUEUE_NOT_FOUND"),
        ({"job_ids": ["train"]}, InvalidArgument, "JOB_ID_INVALID"),
        ({"job_ids": ["abcdefgh-0123456789abcdef"] * 1_001}, InvalidArgument, "TOO_MANY"),
        ({"queue": "research", "job_ids": ["abcdefgh-0123456789abcdef"]}, InvalidArgument, "JOB_ID_INVALID"),
    ],
)
async def test_what_cannot_be_watched(request_: dict[str, object], kind: type[Exception], reason: str) -> None:
    async with stage() as on:
        with pytest.raises(kind) as refused:
            await anext(watch(on, **request_))
    assert getattr(refused.value, "reason", "") == reason


async def test_a_watch_that_is_dropped_leaves_nothing_open() -> None:
    async with stage() as on:
        responses = watch(on)
        await anext(responses)
        waiting = asyncio.ensure_future(anext(responses))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [task for task in asyncio.all_tasks() if "watch" in task.get_name()] == []
