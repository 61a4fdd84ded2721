"""What a replica tells of a job, and of itself."""

import logging
from dataclasses import replace

import pytest

from hanse.kit.telemetry import metrics
from hanse.model.ids import PoolName
from hanse.model.lifecycle import State
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus
from hanse.scheduler.shell.counting import kind_of, moved_of, tell_conflict, tell_report_conflict
from hanse.store import keys
from hanse.store.contract import Conflict, ModRevisionIs, Outcome, Put, Txn, Unknown
from hanse.store.memory import MemoryStore
from tests.unit.scheduler_shell.puppet import CLOCK, stage, submit, until, wait_state
from tests.unit.telling import TRACE, counting, telling

WAY = ["queue", "plan", "commit", "link", "end", "job"]


async def test_a_traced_job_is_told_from_the_queue_to_its_end() -> None:
    with telling() as told:
        async with stage() as found:
            replica = await found.replica()
            agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
            await agent.summary(agent.epoch.revision)
            job = await submit(found.store, 1, 2, trace=TRACE)
            key = await agent.bound(job)
            await agent.report(key, GangStatus.FINISHED)
            ended = await wait_state(found.store, job, State.SUCCEEDED)
            await until(lambda: sorted(told.stages) == sorted(WAY))
    life = told.one("job")
    assert (life.start_ms, life.end_ms, life.error) == (ended.submit_ms, told.one("end").end_ms, "")
    assert life.attributes["hanse.state"] == "SUCCEEDED"
    assert {span.parent_id for span in told.spans if span is not life} == {life.span_id}
    assert told.one("queue").start_ms == ended.submit_ms
    assert told.one("queue").end_ms == told.one("plan").start_ms
    assert told.one("plan").end_ms == told.one("commit").start_ms
    assert told.one("link").attributes["hanse.revision"] == told.one("commit").attributes["hanse.revision"]
    assert {span.attributes["hanse.job"] for span in told.spans} == {job}


async def test_a_job_that_is_not_traced_is_not_told() -> None:
    with telling() as told:
        async with stage() as found:
            replica = await found.replica()
            agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
            await agent.summary(agent.epoch.revision)
            job = await submit(found.store, 1, 2)
            await agent.report(await agent.bound(job), GangStatus.FINISHED)
            await wait_state(found.store, job, State.SUCCEEDED)
    assert told.spans == []


async def test_the_next_attempt_is_told_too() -> None:
    with telling() as told:
        async with stage() as found:
            replica = await found.replica()
            agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
            await agent.summary(agent.epoch.revision)
            job = await submit(found.store, 1, 2, trace=TRACE)
            await agent.report(await agent.bound(job), GangStatus.REFUSED, reason=Reason.SHAPE)
            await until(lambda: told.stages.count("link") == 2)
    links = [span for span in told.spans if span.name == "hanse.link"]
    assert [span.attributes["hanse.attempt"] for span in links] == [1, 2]
    assert links[0].span_id != links[1].span_id


async def test_what_a_replica_does_is_counted() -> None:
    with counting() as counted:
        async with stage() as found:
            replica = await found.replica()
            agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
            await agent.summary(agent.epoch.revision)
            first = await submit(found.store, 1, 2)
            await agent.report(await agent.bound(first), GangStatus.REFUSED, reason=Reason.SHAPE)
            second = await submit(found.store, 2, 1)
            await agent.report(await agent.bound(second), GangStatus.FINISHED)
            await wait_state(found.store, second, State.SUCCEEDED)
            blocked = await submit(found.store, 3, 500)
            await until(lambda: blocked in replica.states.pending)
            await until(lambda: any(counted("hanse.pending.classes", reason.name) for reason in Reason))
            assert counted("hanse.link.sessions") == 1
            assert counted("hanse.roots.held") == 1
            assert counted("hanse.pending.jobs") >= 1
            assert counted("hanse.pool.gpus", "p0", "h100", "free") == 32
    assert counted("hanse.refusals", "SHAPE") == 1
    assert counted("hanse.reports", "REFUSED") == 1
    assert counted("hanse.reports", "FINISHED") == 1
    assert counted("hanse.link.attachments", "granted") == 1
    assert counted("hanse.summaries") == 1
    assert counted("hanse.commit.transactions", "committed") >= 2
    assert counted("hanse.job.moves", "BOUND") >= 2
    assert counted("hanse.job.moves", "SUCCEEDED") == 1
    assert counted("hanse.job.state.duration", "PENDING") >= 2
    assert counted("hanse.cycle.decisions") >= 2
    assert counted("hanse.cycle.duration") >= counted("hanse.commit.transactions", "committed")


class Forgetful(MemoryStore):
    """Does what it is asked, and loses the first answer to a commit."""

    lost = False

    async def transact(self, txn: Txn, **terms: float) -> Outcome:
        outcome = await super().transact(txn, **terms)
        if not self.lost and any(op.key.startswith("bindings/") for op in txn.ops):
            self.lost = True
            return Unknown("lost")
        return outcome


async def test_a_commit_of_unknown_outcome_is_counted_when_it_is_lost_and_when_it_is_settled() -> None:
    with counting() as counted:
        async with stage(Forgetful(CLOCK)) as found:
            replica = await found.replica()
            agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
            await agent.summary(agent.epoch.revision)
            await agent.bound(await submit(found.store, 1, 2))
            await until(lambda: counted("hanse.commit.settled") == 1)
    assert counted("hanse.commit.transactions", "unknown") == 1


def test_every_kind_of_guard_has_a_word() -> None:
    guards = {
        "state/abcdefgh/job": "state",
        "queues/research": "queue",
        "grants/root": "grant",
        f"{keys.POOLS}iowa/config": "pool",
        f"{keys.POOLS}iowa/head/h100": "head",
        f"{keys.POOLS}iowa/agent": "agent",
    }
    assert {kind_of(key) for key in guards} == set(metrics.GUARD.values)
    assert {key: kind_of(key) for key in guards} == guards


async def test_refusals_of_agents_takeovers_and_fenced_streams_are_counted() -> None:
    with counting() as counted:
        async with stage() as found:
            replica = await found.replica()
            await until(lambda: counted("hanse.roots.taken", "committed") == 1)
            agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
            twin = found.puppet(replica, "p0", {"r1": 4})
            await twin.hello(instance="i2")
            await until(lambda: counted("hanse.link.refusals", "ALREADY_ATTACHED") == 1)
            await agent.summary(agent.epoch.revision)
            key = await agent.bound(await submit(found.store, 1, 2))
            other = replace(agent.epoch, revision=agent.epoch.revision + 1)
            await agent.report(key, GangStatus.RUNNING, epoch=other)
            await until(lambda: counted("hanse.link.fenced", "epoch") == 1)
            again = await found.puppet(replica, "p0", {"r1": 4}).attached()
            newer = Put(
                keys.pool_agent(again.pool), b'{"instance":"i3","replica":"r9","incarnation":1,"attached_ms":1}'
            )
            await found.store.transact(Txn((), (newer,)))
            await until(lambda: counted("hanse.link.fenced", "attach") == 1)


def test_a_conflict_is_counted_by_what_had_moved_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    guards = [ModRevisionIs(keys.pool_config(PoolName(f"p{n}")), 4) for n in range(6)]
    moved = moved_of(guards, Conflict(9, {guard.key: 4 if guard is guards[0] else 5 for guard in guards}))
    assert len(moved) == 5
    with counting() as counted, caplog.at_level(logging.INFO, logger="hanse"):
        tell_conflict(moved, 3)
        tell_report_conflict(moved, 2)
        assert (counted("hanse.commit.conflicts", "pool"), counted("hanse.report.conflicts", "pool")) == (5, 5)
    assert [record.getMessage() for record in caplog.records] == ["commit_conflict", "report_conflict"]
    assert vars(caplog.records[0])["moved"].endswith("pools/p4/config and 1 more")
