"""Finding, listing and showing jobs: names, pages, filters, history."""

import pytest

from hanse.api.v1 import job_pb2, job_service_pb2, queue_pb2, queue_service_pb2
from hanse.apiserver.listing import SPECS_SCANNED_MAX
from hanse.apiserver.pages import PageToken, read_token, write_token
from hanse.model.errors import FailedPrecondition, HanseError, InvalidArgument, NotFound
from hanse.model.ids import Attempt, JobId, Part, PoolName
from hanse.model.lifecycle import JobState, State, encode_state
from hanse.model.reasons import Reason
from hanse.store import keys
from hanse.store.contract import Compacted, Put, Txn
from hanse.store.schema import (
    BindingValue,
    BoundSet,
    LevelUseValue,
    PastAttempt,
    PastPart,
    PastValue,
    SlotsValue,
    encode,
)
from tests.unit.apiserver.stage import CTX, Stage, batch, many, spec, stage

WAITING = job_pb2.JOB_STATE_PENDING


def get(job: str, *, queue: str = "") -> job_service_pb2.GetJobRequest:
    return job_service_pb2.GetJobRequest(job=job, queue=queue)


async def add_queue(on: Stage, name: str) -> None:
    request = queue_service_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name=name))
    await on.api.queues.create_queue(CTX, request)


async def listed(on: Stage, request: job_service_pb2.ListJobsRequest) -> tuple[list[str], int]:
    """Names of all pages, sorted, and how many pages there were."""
    names: list[str] = []
    pages = 0
    while True:
        page = await on.api.jobs.list_jobs(CTX, request)
        names.extend(job.name for job in page.jobs)
        pages += 1
        request.page_token = page.next_page_token
        if not request.page_token:
            return sorted(names), pages


# ---- naming -------------------------------------------------------------------------------------------------


async def test_a_job_is_found_by_id_by_name_and_by_a_unique_prefix() -> None:
    async with stage() as on:
        answer = await on.submit(batch(spec("train-7"), spec("eval-1")))
        for text in (answer.jobs[0].id, "train-7", "tr", "train-"):
            assert (await on.api.jobs.get_job(CTX, get(text))).name == "train-7"


async def test_a_name_that_is_written_out_wins_over_longer_ones() -> None:
    async with stage() as on:
        await on.submit(batch(spec("train-a"), spec("train"), spec("train.b"), spec("train0")))
        assert (await on.api.jobs.get_job(CTX, get("train"))).name == "train"


async def test_of_namesakes_the_newest_is_meant() -> None:
    async with stage() as on:
        await on.submit(batch(spec("train")))
        newer = await on.submit(batch(spec("train")))
        assert (await on.api.jobs.get_job(CTX, get("train"))).id == newer.jobs[0].id


@pytest.mark.parametrize(
    ("text", "kind", "reason", "told"),
    [
        ("tr", FailedPrecondition, "JOB_AMBIGUOUS", ("train", "trial")),
        ("same", FailedPrecondition, "JOB_AMBIGUOUS", ("research", "other")),
        ("zzz", NotFound, "JOB_NOT_FOUND", ("zzz",)),
        ("", InvalidArgument, "JOB_MISSING", ()),
        ("a/b", InvalidArgument, "NAME_INVALID", ()),
        ("Ü", InvalidArgument, "NAME_INVALID", ()),
        ("abcdefgh-0123456789abcdef", NotFound, "JOB_NOT_FOUND", ("archive_dir",)),
    ],
)
async def test_what_is_not_one_job_is_refused(
    text: str, kind: type[HanseError], reason: str, told: tuple[str, ...]
) -> None:
    async with stage() as on:
        await add_queue(on, "other")
        await on.submit(batch(spec("train"), spec("trial"), spec("same"), spec("same", queue="other")))
        with pytest.raises(kind) as refused:
            await on.api.jobs.get_job(CTX, get(text))
        assert (await on.api.jobs.get_job(CTX, get("same", queue="other"))).queue == "other"
    assert refused.value.reason == reason
    assert all(part in refused.value.message for part in told)


# ---- showing ------------------------------------------------------------------------------------------------


async def test_a_running_job_shows_its_placement_and_its_times() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        [(job, state)] = (await on.states()).items()
        at = state.submit_ms
        running = JobState(State.RUNNING, Attempt(2), 5, at, at + 40, 1, Reason.UNSPECIFIED, pools=(0, 1))
        parts = [
            BindingValue(2, [BoundSet(0, 1, i, "h100")], [], [], 2, at + 10, 3, at + 20 + i, at + 30, at + 40 + i,
                         [LevelUseValue("rack", 1, [f"r{i}"])])
            for i in range(2)
        ]  # fmt: skip
        ops = [Put(keys.SLOTS, encode(SlotsValue(["oslo", "iowa"]))), Put(keys.state(job), encode_state(running))]
        for i, name in enumerate(("oslo", "iowa")):
            ops.append(Put(keys.binding(PoolName(name), job, Attempt(2), Part(i)), encode(parts[i])))
        past = PastAttempt(1, at + 1, at + 5, int(Reason.INFRASTRUCTURE), int(State.PENDING), [PastPart("oslo")])
        ops.append(Put(keys.past(job), encode(PastValue([past], 3))))
        await on.store.core.transact(Txn((), tuple(ops)))
        shown = (await on.api.jobs.get_job(CTX, get("train"))).status
    assert [(p.pool, p.flavor, p.pods, p.domains[0].names[0]) for p in shown.placement] == [
        ("oslo", "h100", 1, "r0"),
        ("iowa", "h100", 1, "r1"),
    ]
    times = (shown.bound_ms, shown.placed_ms, shown.started_ms, shown.running_ms, shown.ended_ms)
    assert times == (at + 10, at + 21, at + 30, at + 41, 0)
    assert [(c.type, c.status) for c in shown.conditions] == [
        ("Bound", 1),
        ("Placed", 1),
        ("Running", 1),
        ("Ended", 2),
    ]
    assert [(a.attempt, a.reason, a.placement[0].pool) for a in shown.attempts] == [(1, "INFRASTRUCTURE", "oslo")]
    assert (shown.attempts_dropped, shown.reason) == (3, "")


async def test_an_ended_job_shows_where_its_last_attempt_was() -> None:
    async with stage() as on:
        await on.submit(batch(spec()))
        [(job, state)] = (await on.states()).items()
        at = state.submit_ms
        ended = JobState(State.SUCCEEDED, Attempt(1), 5, at, at + 90, 1, Reason.COMPLETED)
        part = PastPart("oslo", ["h100"], 2, [], at + 20, at + 30, at + 40)
        past = PastAttempt(1, at + 10, at + 90, int(Reason.COMPLETED), int(State.SUCCEEDED), [part])
        ops = (Put(keys.state(job), encode_state(ended)), Put(keys.past(job), encode(PastValue([past]))))
        await on.store.core.transact(Txn((), ops))
        shown = (await on.api.jobs.get_job(CTX, get("train"))).status
    assert [(p.pool, p.pods) for p in shown.placement] == [("oslo", 2)]
    assert (shown.running_ms, shown.ended_ms, shown.reason) == (at + 40, at + 90, "COMPLETED")
    assert [(c.type, c.reason) for c in shown.conditions if c.status == 1] == [("Ended", "COMPLETED")]


async def test_a_job_whose_spec_is_damaged_is_shown_all_the_same() -> None:
    async with stage() as on:
        answer = await on.submit(batch(spec()))
        job = JobId(answer.jobs[0].id)
        await on.store.core.transact(Txn((), (Put(keys.spec(job), b"not zlib"),)))
        shown = await on.api.jobs.get_job(CTX, get(job))
    assert (shown.id, shown.status.state) == (job, job_pb2.JOB_STATE_PENDING)


# ---- lists --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 1_000])
async def test_pages_hold_every_job_once(size: int) -> None:
    async with stage() as on:
        await on.submit(many(60))
        names, _ = await listed(on, job_service_pb2.ListJobsRequest(page_size=size))
    assert names == [f"job-{i:04d}" for i in range(60)]


async def test_filters() -> None:
    async with stage() as on:
        await add_queue(on, "other")
        labelled = batch(spec("blue-1"), spec("blue-2", queue="other"), spec("red-1"), spec("red.2", queue="other"))
        labelled.jobs[0].labels["team"] = labelled.jobs[2].labels["team"] = "x"
        await on.submit(labelled)
        await on.api.jobs.cancel_job(CTX, job_service_pb2.CancelJobRequest(job="red-1"))
        for request, names in (
            (job_service_pb2.ListJobsRequest(queue="other"), ["blue-2", "red.2"]),
            (job_service_pb2.ListJobsRequest(name_prefix="red"), ["red-1", "red.2"]),
            (job_service_pb2.ListJobsRequest(name_prefix="red", queue="other"), ["red.2"]),
            (job_service_pb2.ListJobsRequest(labels={"team": "x"}), ["blue-1", "red-1"]),
            (job_service_pb2.ListJobsRequest(states=[job_pb2.JOB_STATE_CANCELLED]), ["red-1"]),
            (
                job_service_pb2.ListJobsRequest(
                    states=[job_pb2.JOB_STATE_PENDING], labels={"team": "x"}, name_prefix="b"
                ),
                ["blue-1"],
            ),
        ):
            for size in (1, 100):
                asked = job_service_pb2.ListJobsRequest(page_size=size)
                asked.MergeFrom(request)
                assert (await listed(on, asked))[0] == names, request


async def test_a_listing_shows_one_moment() -> None:
    async with stage() as on:
        await on.submit(many(20))
        first = await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(page_size=5))
        await on.submit(batch(*(spec(f"late-{i}") for i in range(20))))
        names, _ = await listed(on, job_service_pb2.ListJobsRequest(page_size=5, page_token=first.next_page_token))
    assert len(names) == 15
    assert not any(name.startswith("late") for name in names)


async def test_a_scan_is_bounded_and_an_empty_page_carries_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.apiserver.listing.SPECS_SCANNED_MAX", 10)
    assert SPECS_SCANNED_MAX > 10
    async with stage() as on:
        await on.submit(many(45))
        page = await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(labels={"team": "x"}))
        assert (len(page.jobs), bool(page.next_page_token)) == (0, True)
        assert await listed(on, job_service_pb2.ListJobsRequest(labels={"team": "x"})) == ([], 5)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: setattr(m, "page_token", "garbage!"), "PAGE_TOKEN_INVALID"),
        (lambda m: setattr(m, "page_token", "AAAA"), "PAGE_TOKEN_INVALID"),
        (lambda m: setattr(m, "page_token", "x" * 5_000), "PAGE_TOKEN_INVALID"),
        (lambda m: setattr(m, "queue", "research"), "PAGE_TOKEN_INVALID"),
        (lambda m: setattr(m, "page_size", -1), "PAGE_SIZE_INVALID"),
        (lambda m: m.states.append(99), "PAGE_TOKEN_INVALID"),
    ],
)
async def test_tokens_and_sizes_that_are_wrong(change, reason: str) -> None:  # type: ignore[no-untyped-def]
    async with stage() as on:
        await on.submit(many(5))
        first = await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(page_size=2))
        request = job_service_pb2.ListJobsRequest(page_token=first.next_page_token)
        change(request)
        with pytest.raises(InvalidArgument) as refused:
            await on.api.jobs.list_jobs(CTX, request)
    assert refused.value.reason == reason


async def test_a_token_of_a_moment_that_this_store_has_not_seen() -> None:
    async with stage() as on:
        await on.submit(many(5))
        first = await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(page_size=2))
        token = read_token(first.next_page_token, job_service_pb2.ListJobsRequest())
        future = write_token(PageToken(token.filter, 10**9, token.after))
        with pytest.raises(InvalidArgument) as refused:
            await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(page_token=future))
    assert "list again" in refused.value.message


async def test_a_token_older_than_the_history_is_out_of_range() -> None:
    async with stage() as on:
        await on.submit(many(5))
        first = await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(page_size=2))
        later = await on.submit(batch(spec("later")))
        await on.store.core.compact(later.revision)
        with pytest.raises(Compacted):
            await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(page_token=first.next_page_token))


async def test_an_unknown_queue_or_state() -> None:
    async with stage() as on:
        with pytest.raises(NotFound):
            await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(queue="reserach"))
        with pytest.raises(InvalidArgument):
            await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(states=[99]))  # type: ignore[list-item]
        with pytest.raises(InvalidArgument):
            await on.api.jobs.list_jobs(CTX, job_service_pb2.ListJobsRequest(name_prefix="a/b"))
