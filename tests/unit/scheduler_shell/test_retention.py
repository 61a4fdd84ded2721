"""Ended jobs leave the store once they are archived, and nothing else ever does."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hanse.api.v1 import queue_service_pb2
from hanse.kit.telemetry import metrics
from hanse.model.ids import JobId, QueueUid, queue_of
from hanse.model.lifecycle import State, Stop, decode_state, encode_state
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus
from hanse.scheduler.core.retention import Retention
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.departures import JOBS_PER_TXN, ArchiveFailed
from hanse.scheduler.shell.ended import EndedJob
from hanse.scheduler.shell.replica import Replica, ReplicaConfig
from hanse.scheduler.shell.retention import Retainer
from hanse.scheduler.shell.states import States
from hanse.store import keys
from hanse.store.contract import Conflict, Delete, Put, Store, Txn, prefix_end
from hanse.store.memory import MemoryStore
from hanse.store.moves import commit_move
from hanse.store.schema import PoolConfigValue, SlotsValue, encode
from tests.unit.apiserver import stage as api
from tests.unit.apiserver.stage import CTX, FaultyStore, many
from tests.unit.scheduler_shell.puppet import CLOCK, stage, submit, until, wait_state
from tests.unit.scheduler_shell.retaining import ALL_AT_ONCE, Keeper, KeptJobs, ended, keeper
from tests.unit.telling import counting

# ---- what goes, and what stays -------------------------------------------------------------------------------


async def test_a_job_that_ran_is_archived_with_its_life_and_nothing_of_it_is_left() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        await found.store.transact(Txn((), (Put(keys.name("job-1", job), b""),)))
        await agent.report(await agent.bound(job), GangStatus.FINISHED)
        await wait_state(found.store, job, State.SUCCEEDED)
        on = Keeper(found.store, KeptJobs(found.store), replica)
        with counting() as counted:
            assert await on.retainer().walk() == 1
        assert await on.keys() == []
        assert (counted("hanse.archive.jobs"), counted("hanse.retention.dropped")) == (1, 1)
    (kept,) = on.archive.jobs
    assert kept.job == job
    assert kept.state.state is State.SUCCEEDED
    assert kept.spec is not None
    assert kept.spec.name == "job-1"
    assert kept.past is not None
    assert [part.pool for part in kept.past.attempts[0].parts] == ["p0"]


async def test_jobs_that_have_not_ended_stay() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        bound, waiting = await submit(found.store, 1, 2), await submit(found.store, 2, 64)
        await agent.bound(bound)
        on = Keeper(found.store, KeptJobs(found.store), replica)
        before = await on.keys()
        assert await on.retainer().walk() == 0
        assert {keys.state(bound), keys.state(waiting)} < set(before)
        assert await on.keys() == before
    assert on.archive.ids == []


async def test_the_young_stay_and_of_too_many_the_oldest_go() -> None:
    async with keeper() as on:
        jobs = await ended(on.store, 11)
        assert await on.retainer(Retention(age_s=1e10, jobs_max=11)).walk() == 0
        retainer = on.retainer(Retention(age_s=1e10, jobs_max=10))
        assert await retainer.walk() == 2
        assert retainer.kept == 9
    assert on.archive.ids == jobs[:2]


async def test_more_than_one_transaction_holds_go_at_once() -> None:
    async with keeper() as on:
        jobs = await ended(on.store, 2 * JOBS_PER_TXN + 1)
        assert await on.retainer().walk() == len(jobs)
        assert await on.keys() == []
    assert on.archive.ids == jobs


async def lost_but_bound(store: Store, job: JobId) -> str:
    """An operator gave the job's pool up, and nobody knows yet that its pods are gone; the key of what is bound."""
    kv = (await store.read([keys.state(job)])).items[keys.state(job)]
    state = replace(decode_state(kv.value), state=State.LOST, attempt=1, pools=(0,))  # type: ignore[arg-type]
    binding = f"{keys.BINDINGS}p0/{job}/00000001.0"
    ops = (
        Put(keys.SLOTS, encode(SlotsValue(["p0"]))),
        Put(keys.pool_config("p0"), encode(PoolConfigValue(0))),  # type: ignore[arg-type]
        Put(keys.state(job), encode_state(state)),
        Put(binding, b'{"desired":3,"sets":[],"request":[],"charges":[]}'),
    )
    await store.transact(Txn((), ops))
    return binding


async def test_a_job_stays_while_a_part_of_it_has_not_been_released() -> None:
    """P12: its agent may come back, and what it then still runs has to be told to stop."""
    async with keeper() as on:
        (job,) = await ended(on.store, 1)
        binding = await lost_but_bound(on.store, job)
        assert await on.retainer().walk() == 0
        await on.store.transact(Txn((), (Delete(binding),)))
        retainer = on.retainer()
        assert await retainer.walk() == 1


async def test_those_that_cannot_go_yet_do_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk can mark two jobs, and the two oldest must stay."""
    monkeypatch.setattr("hanse.scheduler.shell.retention.CANDIDATES_MAX", 2)
    async with keeper() as on:
        jobs = await ended(on.store, 6)
        bindings = [await lost_but_bound(on.store, job) for job in jobs[:2]]
        retainer = on.retainer()
        assert [await retainer.walk() for _ in range(3)] == [0, 2, 0]
        assert on.archive.ids == jobs[2:4]
        await on.store.transact(Txn((), tuple(Delete(binding) for binding in bindings)))
        assert [await retainer.walk() for _ in range(2)] == [2, 2]


async def test_jobs_go_no_faster_than_they_may() -> None:
    async with keeper() as on:
        await ended(on.store, 5)
        begun_s = CLOCK.monotonic()
        assert await on.retainer(Retention(age_s=0, drop_per_s=10)).walk() == 5
        assert CLOCK.monotonic() - begun_s >= 0.5


async def test_jobs_of_a_queue_that_is_gone_are_seen_to_and_those_of_others_are_not() -> None:
    async with keeper() as on:
        (job,) = await ended(on.store, 1)
        other = JobId(f"zzzzzzzz-{1:016d}")
        for key in (keys.spec, keys.state):
            kv = (await on.store.read([key(job)])).items[key(job)]
            await on.store.transact(Txn((), (Put(key(other), kv.value),)))
        assert queue_of(other) not in on.replica.world.queues
        nobody = Replica(ReplicaConfig(on.replica.config.replica), on.store, None, CLOCK, on.replica._rng)
        nobody.world.queues[queue_of(job)] = on.replica.world.queues[queue_of(job)]
        nobody.world.replicas.update(on.replica.world.replicas)
        await Keeper(on.store, on.archive, nobody).retainer().walk()
        assert on.archive.ids == [other]
        await on.retainer().walk()
        assert on.archive.ids == [other, job]


async def test_only_one_replica_sees_to_what_belongs_to_no_queue() -> None:
    async with stage() as found:
        first, second = await found.replica("r0", seed=1), await found.replica("r1", seed=2)
        await until(lambda: len(first.world.replicas) == len(second.world.replicas) == 2)
        retainers = [
            Retainer(
                found.store, one.world, one.states, CLOCK, KeptJobs(found.store), nonce="", retention=Retention()
            )
            for one in (first, second)
        ]
        spans = [list(one._spans()) for one in retainers]
        assert sorted(map(bool, spans)) == [False, True]


# ---- faults --------------------------------------------------------------------------------------------------


async def test_what_cannot_be_archived_stays_and_is_tried_again() -> None:
    async with keeper() as on:
        jobs = await ended(on.store, 3)
        before = await on.keys()
        on.archive.trouble = "the disk is full"
        retainer = on.retainer()
        with pytest.raises(ArchiveFailed):
            await retainer.walk()
        assert await on.keys() == before
        on.archive.trouble = ""
        assert await retainer.walk() == 3
    assert on.archive.ids == jobs


async def test_a_full_archive_is_told_once_and_counted_every_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hanse.scheduler.shell.retention.RETRY_S", 0.0)
    monkeypatch.setattr("hanse.scheduler.shell.retention.WALK_EVERY_MIN_S", 0.0)
    with counting() as counted:
        async with keeper() as on:
            await ended(on.store, 3)
            on.archive.trouble = "the disk is full"
            task = asyncio.create_task(on.retainer().run())
            await until(lambda: counted("hanse.archive.failures") >= 3)
            on.archive.trouble = ""
            await until(lambda: len(on.archive.jobs) == 3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    events = [record.message for record in caplog.records if record.message.startswith("archive")]
    assert events == ["archive_failed", "archive_works_again"]


@pytest.mark.parametrize("fate", ["lost", "silent", "late"])
async def test_an_answer_that_is_lost_costs_a_second_line_at_most(fate: str) -> None:
    store = FaultyStore(MemoryStore(CLOCK))
    async with keeper(store) as on:
        (job,) = await ended(store, 1)
        store.rule = lambda txn: fate if any(isinstance(op, Delete) for op in txn.ops) else ""
        assert await on.retainer().walk() == 0
        store.rule = lambda txn: ""
        assert await on.retainer().walk() == (0 if fate == "silent" else 1)
        assert all(isinstance(outcome, Conflict) for outcome in await store.deliver())
        assert await on.keys() == []
    assert set(on.archive.ids) == {job}


async def test_two_that_do_it_at_once_drop_each_job_once() -> None:
    async with keeper() as on:
        jobs = await ended(on.store, 100)
        other = KeptJobs(on.store)
        both = (on.retainer(), on.retainer(archive=other))
        with counting() as counted:
            dropped = sum(await asyncio.gather(*(one.walk() for one in both)))
        assert dropped == counted("hanse.retention.dropped") == 100
        assert await on.keys() == []
    assert {*on.archive.ids, *other.ids} == set(jobs)


async def test_of_a_transaction_only_what_somebody_has_touched_is_left() -> None:
    class Meddling(KeptJobs):
        async def keep(self, jobs: Sequence[EndedJob]) -> None:
            await super().keep(jobs)
            touched = keys.state(jobs[1].job)
            kv = (await self.store.read([touched])).items[touched]
            await self.store.transact(Txn((), (Put(touched, kv.value),)))

    async with keeper() as on:
        jobs = await ended(on.store, 3)
        assert await on.retainer(archive=Meddling(on.store)).walk() == 2
        assert await on.keys() == [keys.spec(jobs[1]), keys.state(jobs[1])]


# ---- request ids: a job is never run twice -------------------------------------------------------------------


@asynccontextmanager
async def served() -> AsyncIterator[tuple[api.Stage, Retainer, KeptJobs]]:
    """An API server whose users' jobs end at once, and a retainer that drops them as early as it may."""
    async with api.stage() as on:
        world, archive = World("r0"), KeptJobs(on.store)  # type: ignore[arg-type]
        states = States(on.store, lambda: None)
        retainer = Retainer(on.store, world, states, CLOCK, archive, nonce="", retention=ALL_AT_ONCE)
        retainer._spans = lambda: iter([(keys.STATES, prefix_end(keys.STATES))])  # type: ignore[method-assign]
        yield on, retainer, archive


async def end_all(on: api.Stage) -> None:
    for job in await on.states():
        await commit_move(
            on.store, job, Stop(State.CANCELLED, Reason.CANCELLED_BY_USER), clock=CLOCK, write_id=lambda: 1
        )


async def test_a_request_that_is_repeated_after_its_jobs_were_dropped_has_its_answer_and_stores_nothing() -> None:
    async with served() as (on, retainer, archive):
        first = await on.submit(many(100, request_id="r1"))
        await end_all(on)
        assert await retainer.walk() == 100
        assert await on.states() == {}
        again = await on.submit(many(100, request_id="r1"))
        assert await on.states() == {}
        assert [job.id for job in again.jobs] == [job.id for job in first.jobs]
    assert len(archive.jobs) == 100


async def test_jobs_of_a_batch_that_broke_off_stay_until_its_repetition_has_completed_it() -> None:
    """Three transactions; of the second, nothing arrives in time, and the client is away for a while."""
    async with served() as (on, retainer, archive):
        stored = 0

        def rule(txn: Txn) -> str:
            nonlocal stored
            stored += any(isinstance(op, Put) and op.key.startswith(keys.STATES) for op in txn.ops)
            return "late" if stored > 1 else ""

        on.store.rule = rule
        with pytest.raises(Exception, match="request id"):
            await on.submit(many(100, request_id="r1"))
        on.store.rule = lambda txn: ""
        early = set(await on.states())
        assert 0 < len(early) < 100
        await end_all(on)
        assert await retainer.walk() == 0
        answer = await on.submit(many(100, request_id="r1"))
        states = await on.states()
        assert set(states) == {job.id for job in answer.jobs}
        assert {job for job, state in states.items() if state.state is State.CANCELLED} == early
        await end_all(on)
        assert await retainer.walk() == 100
        assert all(isinstance(outcome, Conflict) for outcome in await on.store.deliver())
        await on.submit(many(100, request_id="r1"))
        assert await on.states() == {}
    assert sorted(archive.ids) == sorted(set(archive.ids))


async def test_a_queue_whose_jobs_were_dropped_can_be_deleted() -> None:
    async with served() as (on, retainer, _):
        await on.submit(many(3, request_id="r1"))
        await end_all(on)
        await on.api.queues.delete_queue(CTX, queue_service_pb2.DeleteQueueRequest(name="research", request_id="d"))
        assert await retainer.walk() == 3
        assert await on.count(keys.NAMES) == await on.count(keys.SPECS) == 0


# ---- as a part of a replica ----------------------------------------------------------------------------------


async def test_a_replica_drops_by_itself_what_is_beyond_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk begins as soon as more have ended than may stay, not only by its turn."""
    monkeypatch.setattr("hanse.scheduler.shell.retention.LOOK_EVERY_S", 0.01)
    async with stage() as found:
        archive = KeptJobs(found.store)
        replica = await found.replica(archive=archive, retention=Retention(age_s=1e10, jobs_max=10))
        await until(lambda: replica.states.loaded(QueueUid("abcdefgh")))
        jobs = await ended(found.store, 12)
        await until(lambda: len(archive.jobs) >= 2)
        assert metrics.REGISTRY.collect()
    assert archive.ids[:2] == jobs[:2]


async def test_a_replica_without_an_archive_drops_nothing() -> None:
    async with keeper() as on:
        assert on.replica._retainer is None
