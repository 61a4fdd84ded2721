"""What jobs used stays in the store when they leave it, each job once."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from hanse.model.ids import Attempt, JobId, QueueUid, job_id, queue_of
from hanse.model.lifecycle import JobState, State, decode_state, encode_state
from hanse.model.report import GangStatus
from hanse.scheduler.shell.departures import batches, drop, ready_to_go
from hanse.scheduler.shell.ended import EndedJob
from hanse.scheduler.shell.rollups import ROLLUPS_PER_TXN, rollup_keys
from hanse.store import keys
from hanse.store.contract import (
    TXN_OPS_MAX,
    WRITE_DEADLINE_S,
    Delete,
    Outcome,
    Put,
    Store,
    StoreFull,
    Txn,
    prefix_end,
)
from hanse.store.memory import MemoryStore
from hanse.store.schema import (
    PastAttempt,
    PastPart,
    PastValue,
    UsageRow,
    UsageValue,
    decode,
    decode_spec,
    encode,
    encode_spec,
)
from hanse.store.usage import month_bounds
from tests.unit.apiserver.stage import FaultyStore
from tests.unit.scheduler_shell.puppet import CLOCK, stage, submit, until, wait_state
from tests.unit.scheduler_shell.retaining import end, keeper
from tests.unit.telling import counting


class NoRoom(FaultyStore):
    """A store that takes deletes only, while it is full."""

    full = False

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Outcome:
        if self.full and any(isinstance(op, Put) and op.key.startswith(keys.USAGE) for op in txn.ops):
            raise StoreFull("there is no room")
        return await super().transact(txn, deadline_s=deadline_s)


DECEMBER_MS = month_bounds("2026-12")[0]
STARTED, ENDED = DECEMBER_MS - 3_600_000, DECEMBER_MS + 3_600_000


async def ran(store: Store, number: int, *, pool: str = "p0", user: str = "alice") -> JobId:
    """A job that has ended after one attempt with four GPUs over the end of a month."""
    job = await submit(store, number, 1)
    await end(store, job, ended_ms=number)
    part = PastPart(pool, ["h100"], 1, milli_gpus={"h100": 4_000}, price=1_000)
    kv = (await store.read([keys.spec(job)])).items[keys.spec(job)]
    envelope = msgspec.structs.replace(decode_spec(kv.value), principal=user)
    ops = (
        Put(keys.past(job), encode(PastValue([PastAttempt(1, STARTED, ENDED, 0, 0, [part])]))),
        Put(keys.spec(job), encode_spec(envelope)),
    )
    kv = (await store.read([keys.state(job)])).items[keys.state(job)]
    state = encode_state(replace(decode_state(kv.value), attempt=1))  # type: ignore[arg-type]
    await store.transact(Txn((), (*ops, Put(keys.state(job), state))))
    return job


async def rollups(store: Store) -> dict[str, UsageValue]:
    """By month."""
    items = (await store.range(keys.USAGE, prefix_end(keys.USAGE))).items
    return {keys.usage_of(kv.key)[0]: decode(kv.value, UsageValue) for kv in items}


HOUR_4_GPUS = (4 * 3_600_000, 4_000_000)


async def test_what_jobs_used_stays_when_they_leave_cut_at_the_border_of_months() -> None:
    async with keeper() as on:
        for number in range(1, 41):
            await ran(on.store, number, user=f"user-{number % 2}")
        assert await on.retainer().walk() == 40
        found = await rollups(on.store)
    assert sorted(found) == ["2026-11", "2026-12"]
    hour, cost = HOUR_4_GPUS
    assert found["2026-11"].rows == [UsageRow(f"user-{i}", "h100", "p0", 20 * hour, 20 * cost, 20) for i in (0, 1)]
    assert found["2026-12"].rows == [UsageRow(f"user-{i}", "h100", "p0", 20 * hour, 20 * cost, 0) for i in (0, 1)]
    assert {one.jobs for one in found.values()} == {40}
    assert {one.queue for one in found.values()} == {"research"}


async def test_two_replicas_that_drop_the_same_jobs_count_them_once() -> None:
    async with keeper() as on:
        for number in range(1, 41):
            await ran(on.store, number)
        walks = await asyncio.gather(on.retainer().walk(), on.retainer().walk())
        assert sum(walks) == 40
        found = await rollups(on.store)
    assert [row.attempts for row in found["2026-11"].rows] == [40]


@pytest.mark.parametrize("fate", ["lost", "silent", "late"])
async def test_a_drop_whose_outcome_was_unknown_is_counted_once(fate: str) -> None:
    store = FaultyStore(MemoryStore(CLOCK))
    async with keeper(store) as on:
        await ran(on.store, 1)
        store.rule = lambda txn: fate if any(isinstance(op, Delete) for op in txn.ops) else ""
        assert await on.retainer().walk() == 0
        store.rule = lambda txn: ""
        await on.retainer().walk()
        await store.deliver()
        found = await rollups(on.store)
    assert [row.attempts for row in found["2026-11"].rows] == [1]


async def test_a_rollup_that_cannot_be_read_is_put_aside_and_told_and_jobs_leave(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with keeper() as on:
        job = await ran(on.store, 1)
        key = keys.usage("2026-11", queue_of(job))
        await on.store.transact(Txn((), (Put(key, b"no json"),)))
        assert await on.retainer().walk() == 1
        found = await rollups(on.store)
        kept = (await on.store.read([keys.usage_damaged("2026-11", queue_of(job))])).items
    assert [kv.value for kv in kept.values()] == [b"no json"]
    assert found["2026-11"].lost_ms > 0
    assert found["2026-12"].lost_ms == 0
    assert [row.gpu_ms for row in found["2026-11"].rows] == [HOUR_4_GPUS[0]]
    assert "usage_rollup_damaged" in caplog.messages


def ended_over(queue: str, number: int, *, months: int) -> EndedJob:
    """A job that has ended after so many months."""
    part = PastPart("p0", ["h100"], 1, milli_gpus={"h100": 4_000}, price=1_000)
    past = PastValue([PastAttempt(1, STARTED, STARTED + months * 31 * 86_400_000, 0, 0, [part])])
    state = JobState(State.SUCCEEDED, Attempt(1), 0, 0, 0, 0)
    return EndedJob(job_id(QueueUid(queue), "alice", f"r-{number}", 0), state, 1, None, None, past)


def test_a_transaction_stays_within_its_limits_however_many_queues_and_months() -> None:
    jobs = [ended_over(f"{number % 40:08}", number, months=number % 14) for number in range(1_000)]
    some = list(batches(jobs))
    assert sorted(one.job for batch in some for one in batch) == sorted(one.job for one in jobs)
    for batch in some:
        sums = {key for one in batch for key in rollup_keys(one)}
        assert 4 * len(batch) + len(sums) <= TXN_OPS_MAX
        assert len(sums) <= ROLLUPS_PER_TXN


async def test_a_store_without_room_lets_jobs_leave_and_the_sum_says_what_is_missing() -> None:
    store = NoRoom(MemoryStore(CLOCK))
    async with keeper(store) as on:
        await ran(on.store, 1)
        retainer = on.retainer()
        store.full = True
        with counting() as counted:
            assert await retainer.walk() == 1
        assert counted("hanse.usage.uncounted") == 1
        assert await rollups(on.store) == {}
        store.full = False
        await ran(on.store, 2)
        assert await retainer.walk() == 1
        found = await rollups(on.store)
    assert found["2026-11"].lost_ms > 0
    assert [row.attempts for row in found["2026-11"].rows] == [1]


async def test_two_that_drop_other_jobs_of_one_queue_at_once_lose_nothing() -> None:
    async with keeper() as on:
        jobs = [await ran(on.store, number) for number in (1, 2)]
        ready = [await ready_to_go(on.store, [job], now_ms=ENDED) for job in jobs]
        went = await asyncio.gather(*(drop(on.store, one, set(), now_ms=ENDED) for one in ready))
        assert list(went) == [1, 1]
        found = await rollups(on.store)
    assert [row.attempts for row in found["2026-11"].rows] == [2]


async def test_an_attempt_that_ends_counts_its_gpu_seconds_and_is_remembered_with_its_gpus() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        bound = await agent.bound(job)
        with counting() as counted:
            await agent.report(bound, GangStatus.FINISHED)
            await wait_state(found.store, job, State.SUCCEEDED)
            await until(lambda: counted("hanse.usage.gpu.duration", "research", "h100", "p0") > 0)
        kv = (await found.store.read([keys.past(job)])).items[keys.past(job)]
    (attempt,) = decode(kv.value, PastValue).attempts
    (part,) = attempt.parts
    assert part.milli_gpus == {"h100": 16_000}
    assert part.price is not None
