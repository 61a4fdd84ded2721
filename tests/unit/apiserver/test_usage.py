"""What was used, read from jobs that are there and sums of those that left, each once."""

from dataclasses import dataclass, replace

import pytest

from hanse.api.v1 import queue_pb2, queue_service_pb2
from hanse.api.v1 import usage_service_pb2 as pb
from hanse.apiserver import usage
from hanse.apiserver.access.policy import Binding, Policy
from hanse.apiserver.access.verbs import Role
from hanse.model.errors import InvalidArgument, NotFound
from hanse.model.ids import Attempt, JobId, QueueUid, queue_of
from hanse.model.lifecycle import JobState, State, encode_state
from hanse.store import keys
from hanse.store.contract import Delete, Put, Txn
from hanse.store.schema import (
    BindingValue,
    BoundSet,
    ChoiceValue,
    PastAttempt,
    PastPart,
    PastValue,
    PoolConfigValue,
    SetRequestValue,
    SlotsValue,
    SpentValue,
    StandingValue,
    UsageRow,
    UsageValue,
    encode,
)
from hanse.store.usage import month_bounds, month_of
from tests.unit.apiserver.stage import CTX, Stage, batch, spec, stage

HOUR_MS = 3_600_000
NOV, DEC = month_bounds("2026-11")
ALL = (pb.USAGE_DIMENSION_QUEUE, pb.USAGE_DIMENSION_USER, pb.USAGE_DIMENSION_FLAVOR, pb.USAGE_DIMENSION_POOL)


async def submitted(on: Stage, number: int, *, user: str = "ann", queue: str = "research") -> JobId:
    request = batch(spec(f"job-{number}", queue=queue), request_id=f"r-{number}")
    return JobId((await on.api.jobs.submit_jobs(replace(CTX, principal=user), request)).jobs[0].id)


def attempt(bound: int, ended: int, *, gpus: int = 4, pool: str = "oslo") -> PastAttempt:
    part = PastPart(pool, ["h100"], 1, milli_gpus={"h100": gpus * 1_000}, price=2_000)
    return PastAttempt(1, bound, ended, 0, 0, [part])


async def ran(on: Stage, job: JobId, *attempts: PastAttempt, spent: list[SpentValue] | None = None) -> None:
    """The job has ended after these attempts."""
    state = JobState(State.SUCCEEDED, Attempt(len(attempts)), 0, attempts[0].bound_ms, attempts[-1].ended_ms, 0)
    past = PastValue(list(attempts), spent=spent or [])
    ops = (Put(keys.state(job), encode_state(state)), Put(keys.past(job), encode(past)))
    await on.store.core.transact(Txn((), ops))


async def runs(on: Stage, job: JobId, bound: int) -> None:
    """The job has 8 GPUs in tokyo since then, and its pool has a price of its own."""
    state = JobState(State.RUNNING, Attempt(1), 0, bound, bound, 0, pools=(0,))
    asked = SetRequestValue(1, 1, {"nvidia.com/gpu": 8}, [], [], [], "", "", [])
    choice = ChoiceValue(StandingValue("tokyo", (0, 0, 0, 0), 3_000, ("", "")), None, 1, 1)
    value = BindingValue(2, [BoundSet(0, 1, 0, "h100")], [asked], [], bound_ms=bound, choice=choice)
    ops = (
        Put(keys.state(job), encode_state(state)),
        Put(keys.SLOTS, encode(SlotsValue(["tokyo"]))),
        Put(keys.pool_config("tokyo"), encode(PoolConfigValue(0, cost=9_000))),  # type: ignore[arg-type]
        Put(f"{keys.BINDINGS}tokyo/{job}/00000001.0", encode(value)),
    )
    await on.store.core.transact(Txn((), ops))


async def rollup(on: Stage, month: str, uid: QueueUid, *, lost_ms: int = 0) -> None:
    """One job of bob's with 10 GPU-hours left the queue."""
    value = UsageValue("research", [UsageRow("bob", "h100", "oslo", 10 * HOUR_MS, 20_000_000, 1)], 1, lost_ms)
    await on.store.core.transact(Txn((), (Put(keys.usage(month, uid), encode(value)),)))


@dataclass
class Report:
    """All pages, added up by whoever asks."""

    rows: dict[tuple[str, ...], tuple[int, int, int]]
    gaps: dict[str, tuple[int, int, int]]
    pages: int


async def report(
    on: Stage, start: int = NOV, end: int = DEC, *, by: tuple[int, ...] = ALL, queue: str = "", ctx: object = CTX
) -> Report:
    request = pb.ReadUsageRequest(start_ms=start, end_ms=end, by=by, queue=queue)  # type: ignore[arg-type]
    found = Report({}, {}, 0)
    while True:
        page = await on.api.usage.read_usage(ctx, request)  # type: ignore[arg-type]
        found.pages += 1
        for row in page.rows:
            key = (row.queue, row.user, row.flavor, row.pool)
            before = found.rows.get(key, (0, 0, 0))
            found.rows[key] = (before[0] + row.gpu_ms, before[1] + row.cost_micros, before[2] + row.attempts)
        for gap in page.gaps:
            found.gaps[gap.month] = (gap.jobs, gap.gpu_ms, gap.lost_ms)
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


# ---- what counts ---------------------------------------------------------------------------------------------


async def test_jobs_that_are_there_and_sums_of_those_that_left_add_up() -> None:
    async with stage() as on:
        await ran(on, await submitted(on, 1), attempt(NOV, NOV + HOUR_MS), attempt(NOV + HOUR_MS, NOV + 3 * HOUR_MS))
        job = await submitted(on, 2, user="bob")
        await ran(on, job, attempt(NOV, NOV + HOUR_MS))
        await rollup(on, "2026-11", queue_of(job))
        found = await report(on)
    assert found.rows == {
        ("research", "ann", "h100", "oslo"): (12 * HOUR_MS, 24_000_000, 2),
        ("research", "bob", "h100", "oslo"): (14 * HOUR_MS, 28_000_000, 2),
    }
    assert not found.gaps


async def test_what_is_not_asked_for_is_not_told_apart() -> None:
    async with stage() as on:
        for number, user in enumerate(("ann", "bob")):
            await ran(on, await submitted(on, number, user=user), attempt(NOV, NOV + HOUR_MS))
        assert (await report(on, by=())).rows == {("", "", "", ""): (8 * HOUR_MS, 16_000_000, 2)}
        assert (await report(on, by=(pb.USAGE_DIMENSION_USER,))).rows == {
            ("", user, "", ""): (4 * HOUR_MS, 8_000_000, 1) for user in ("ann", "bob")
        }


async def test_an_attempt_is_cut_where_the_window_is() -> None:
    async with stage() as on:
        lives = attempt(NOV - HOUR_MS, NOV + HOUR_MS), attempt(DEC - HOUR_MS, DEC + HOUR_MS)
        await ran(on, await submitted(on, 1), *lives)
        found = await report(on)
        earlier = await report(on, NOV - 10 * HOUR_MS, NOV)
    assert list(found.rows.values()) == [(8 * HOUR_MS, 16_000_000, 1)]
    assert list(earlier.rows.values()) == [(4 * HOUR_MS, 8_000_000, 1)]


async def test_one_that_runs_counts_until_now_at_the_price_it_was_bound_at() -> None:
    async with stage() as on:
        now_ms = on.api.clock.now_ms()
        await runs(on, await submitted(on, 1), now_ms - HOUR_MS)
        found = await report(on, now_ms - 2 * HOUR_MS, 0)
        (key, (gpu_ms, cost, attempts)), *_ = found.rows.items()
        assert key == ("research", "ann", "h100", "tokyo")
        assert 8 * HOUR_MS <= gpu_ms < 8 * HOUR_MS + 8 * 60_000
        assert (cost // 1_000_000, attempts) == (24, 1)
        later = await report(on, now_ms - 2 * HOUR_MS, now_ms - HOUR_MS // 2)
    assert next(iter(later.rows.values()))[0] == 4 * HOUR_MS


async def test_attempts_that_a_history_does_not_keep_count_in_their_month() -> None:
    async with stage() as on:
        spent = [SpentValue("2026-11", "h100", "rome", 7, 3, 30)]
        await ran(on, await submitted(on, 1), attempt(NOV, NOV + HOUR_MS), spent=spent)
        assert (await report(on)).rows["research", "ann", "h100", "rome"] == (7, 3, 30)
        assert (await report(on, DEC, DEC + HOUR_MS)).rows == {}


# ---- what is missing -----------------------------------------------------------------------------------------


async def test_of_single_days_the_sums_are_a_gap_and_not_counted() -> None:
    async with stage() as on:
        job = await submitted(on, 1)
        await ran(on, job, attempt(NOV, NOV + HOUR_MS))
        await rollup(on, "2026-11", queue_of(job))
        await rollup(on, "2026-10", queue_of(job))
        found = await report(on, NOV, DEC - 1)
        whole = await report(on, month_bounds("2026-10")[0], DEC)
    assert found.rows == {("research", "ann", "h100", "oslo"): (4 * HOUR_MS, 8_000_000, 1)}
    assert found.gaps == {"2026-11": (1, 10 * HOUR_MS, 0)}
    assert whole.rows["research", "bob", "h100", "oslo"] == (20 * HOUR_MS, 40_000_000, 2)


async def test_the_month_that_goes_on_is_whole_until_now() -> None:
    async with stage() as on:
        now_ms = on.api.clock.now_ms()
        month = month_of(now_ms)
        await rollup(on, month, queue_of(await submitted(on, 1)))
        found = await report(on, month_bounds(month)[0], 0)
    assert not found.gaps
    assert found.rows["research", "bob", "h100", "oslo"][0] == 10 * HOUR_MS


async def test_sums_that_lack_something_or_cannot_be_read_say_so() -> None:
    async with stage() as on:
        uid = queue_of(await submitted(on, 1))
        await rollup(on, "2026-11", uid, lost_ms=5)
        assert (await report(on)).gaps == {"2026-11": (0, 0, 5)}
        await on.store.core.transact(Txn((), (Put(keys.usage("2026-11", uid), b"no json"),)))
        found = await report(on)
    assert found.rows == {}
    assert found.gaps["2026-11"][2] > 5


# ---- pages ---------------------------------------------------------------------------------------------------


async def test_a_page_looks_at_so_much_and_a_job_that_leaves_between_two_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage, "KEYS_PER_STEP", 2)
    monkeypatch.setattr(usage, "SPECS_SCANNED_MAX", 2)
    async with stage() as on:
        jobs = [await submitted(on, number) for number in range(5)]
        for job in jobs:
            await ran(on, job, attempt(NOV, NOV + HOUR_MS))
        request = pb.ReadUsageRequest(start_ms=NOV, end_ms=DEC, by=ALL)
        first = await on.api.usage.read_usage(CTX, request)
        on.api.jobs.reader._heads.clear()
        gone = [Delete(key(job)) for job in jobs for key in (keys.state, keys.past, keys.spec)]
        await on.store.core.transact(Txn((), tuple(gone)))
        await rollup(on, "2026-11", queue_of(jobs[0]))
        pages = [first]
        while pages[-1].next_page_token:
            request.page_token = pages[-1].next_page_token
            pages.append(await on.api.usage.read_usage(CTX, request))
    assert len(pages) >= 3
    rows = [row for page in pages for row in page.rows]
    assert {row.user for row in rows} == {"ann"}
    assert (sum(row.attempts for row in rows), sum(row.gpu_ms for row in rows)) == (5, 20 * HOUR_MS)


async def test_many_queues_without_jobs_are_pages_too_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "JOBS_SCANNED_MAX", 100)
    async with stage() as on:
        for number in range(9):
            queue = queue_pb2.Queue(name=f"team-{number}")
            await on.api.queues.create_queue(CTX, queue_service_pb2.CreateQueueRequest(queue=queue))
        await rollup(on, "2026-11", queue_of(await submitted(on, 1)))
        found = await report(on, ctx=seen_by("vic", "team-*", "research"))
    assert found.pages > 3
    assert next(iter(found.rows.values()))[0] == 10 * HOUR_MS


# ---- who sees what -------------------------------------------------------------------------------------------


def seen_by(who: str, *queues: str, cluster: bool = False) -> object:
    """A call of somebody who views these queues."""
    policy = Policy((Binding(Role.VIEWER, frozenset({who}), frozenset(), queues, cluster),))
    return replace(CTX, principal=who, access=policy.access(who, ()))


async def test_a_tenant_sees_its_queues_alone_and_no_queue_that_is_gone() -> None:
    async with stage() as on:
        queue = queue_pb2.Queue(name="other", quotas=[queue_pb2.FlavorQuota(flavor="h100")])
        await on.api.queues.create_queue(CTX, queue_service_pb2.CreateQueueRequest(queue=queue))
        mine, theirs = await submitted(on, 1), await submitted(on, 2, user="eve", queue="other")
        for job in (mine, theirs):
            await ran(on, job, attempt(NOV, NOV + HOUR_MS))
            await rollup(on, "2026-11", queue_of(job))
        await rollup(on, "2026-11", QueueUid("zzzzzzzz"))
        eve, adm = seen_by("eve", "other"), seen_by("adm", cluster=True)
        assert {row[0] for row in (await report(on, ctx=eve)).rows} == {"other"}
        assert (await report(on, ctx=eve, by=())).rows == {("", "", "", ""): (14 * HOUR_MS, 28_000_000, 2)}
        assert (await report(on, ctx=adm, by=())).rows == {("", "", "", ""): (38 * HOUR_MS, 76_000_000, 5)}
        with pytest.raises(NotFound) as real:
            await report(on, ctx=eve, queue="research")
        with pytest.raises(NotFound) as made_up:
            await report(on, ctx=eve, queue="nonesuch")
    assert str(real.value).replace("research", "nonesuch") == str(made_up.value)


# ---- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "by", "reason"),
    [
        (DEC, NOV, (), "WINDOW_INVALID"),
        (-1, NOV, (), "WINDOW_INVALID"),
        (0, 2**62, (), "WINDOW_INVALID"),
        (0, DEC, (), "WINDOW_INVALID"),
        (NOV, DEC, (9,), "DIMENSION_INVALID"),
        (NOV, DEC, (0,), "DIMENSION_INVALID"),
    ],
)
async def test_what_cannot_be_asked(start: int, end: int, by: tuple[int, ...], reason: str) -> None:
    async with stage() as on:
        with pytest.raises(InvalidArgument) as caught:
            await report(on, start, end, by=by)
    assert caught.value.reason == reason
