"""The global half of the path: pending, bound, reported, ended; with an agent that the test plays."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hanse.model.ids import JobId
from hanse.model.lifecycle import State, Stop
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus
from hanse.store import keys, schema
from hanse.store.contract import (
    READ_DEADLINE_S,
    Committed,
    Outcome,
    Put,
    ReadResult,
    StoreUnavailable,
    Txn,
    Unknown,
)
from hanse.store.memory import MemoryStore
from hanse.store.moves import MoveDone, commit_move
from tests.unit.scheduler.worlds import QUEUE
from tests.unit.scheduler_shell.puppet import CLOCK, Stage, stage, state_of, submit, until, wait_state


async def bindings(found: Stage) -> list[str]:
    return [kv.key for kv in (await found.store.range("bindings/", "bindings0")).items]


async def test_a_job_goes_the_whole_way_and_leaves_no_binding() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        key = await agent.bound(job)
        assert (await state_of(found.store, job)).state is State.BOUND
        await agent.report(key, GangStatus.HELD)
        await wait_state(found.store, job, State.PLACED)
        await agent.report(key, GangStatus.RUNNING)
        await wait_state(found.store, job, State.RUNNING)
        await agent.report(key, GangStatus.FINISHED)
        ended = await wait_state(found.store, job, State.SUCCEEDED)
        assert ended.attempt == 1
        await until(lambda: key not in agent.desired)
        assert not await bindings(found)
        past = (await found.store.read([keys.past(job)])).items[keys.past(job)]
        assert [a.outcome for a in schema.decode(past.value, schema.PastValue).attempts] == [State.SUCCEEDED]


async def test_a_refused_job_gets_a_new_attempt_and_not_the_same_pool_at_once() -> None:
    async with stage() as found:
        replica = await found.replica()
        first = await found.puppet(replica, "p0", {"r1": 4}).attached()
        second = await found.puppet(replica, "p1", {"r1": 4}).attached()
        await first.summary(first.epoch.revision)
        job = await submit(found.store, 1, 2)
        key = await first.bound(job)
        await second.summary(second.epoch.revision)
        await until(lambda: replica.world.ledger(second.pool).summary is not None)
        await first.report(key, GangStatus.REFUSED, reason=Reason.SELECTOR)
        again = await second.bound(job)
        assert again.attempt == 2
        assert replica.cycle.counts["refused_SELECTOR"] == 1


async def test_a_late_refusal_of_an_old_attempt_does_not_touch_the_new_one() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        old = await agent.bound(job)
        await agent.report(old, GangStatus.REFUSED, reason=Reason.SHAPE)
        await until(lambda: any(k.attempt == 2 for k in agent.desired))
        await agent.report(old, GangStatus.REFUSED, reason=Reason.SHAPE)
        new = next(k for k in agent.desired if k.attempt == 2)
        await agent.report(new, GangStatus.RUNNING)
        assert (await wait_state(found.store, job, State.RUNNING)).attempt == 2


async def test_quota_holds_and_its_release_wakes_the_next() -> None:
    async with stage(quota=16) as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        one, two = await submit(found.store, 1, 2), await submit(found.store, 2, 2)
        key = await agent.bound(one)
        await until(lambda: len(replica.cycle.backlog) == 1)
        waiting = await state_of(found.store, two)
        assert waiting.state is State.PENDING
        assert replica.cycle.backlog.reason(waiting.class_hash) is Reason.QUOTA
        await agent.report(key, GangStatus.FINISHED)
        await agent.bound(two)


async def test_cancel_stops_first_and_ends_with_the_release() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        key = await agent.bound(job)
        stop = Stop(State.CANCELLED, Reason.CANCELLED_BY_USER)
        moved = await commit_move(found.store, job, stop, clock=CLOCK, write_id=replica.write_id)
        assert isinstance(moved, MoveDone)
        await until(lambda: agent.desired[key].action.name == "STOP")
        assert (await state_of(found.store, job)).state is State.STOPPING
        await agent.report(key, GangStatus.RELEASED)
        await wait_state(found.store, job, State.CANCELLED)
        assert not await bindings(found)


async def test_a_split_gang_starts_by_one_decision_when_all_parts_are_held() -> None:
    async with stage() as found:
        replica = await found.replica()
        agents = [await found.puppet(replica, p, {"r1": 2}).attached() for p in ("p0", "p1")]
        for agent in agents:
            await agent.summary(agent.epoch.revision)
        await until(lambda: all(replica.world.ledger(a.pool).summary is not None for a in agents))
        job = await submit(found.store, 1, 4, max_pools=2)
        held = [await agent.bound(job) for agent in agents]
        assert {a.desired[k].action.name for a, k in zip(agents, held, strict=True)} == {"HOLD"}
        await agents[0].report(held[0], GangStatus.HELD)
        await agents[1].report(held[1], GangStatus.HELD)
        await until(lambda: all(a.desired[k].action.name == "START" for a, k in zip(agents, held, strict=True)))
        for agent, key in zip(agents, held, strict=True):
            await agent.report(key, GangStatus.RUNNING)
        await wait_state(found.store, job, State.RUNNING)
        for agent, key in zip(agents, held, strict=True):
            await agent.report(key, GangStatus.FINISHED)
        await wait_state(found.store, job, State.SUCCEEDED)
        assert not await bindings(found)


async def test_reports_of_a_superseded_agent_change_nothing() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        key = await agent.bound(job)
        agent_key = keys.pool_agent(agent.pool)
        value = (await found.store.read([agent_key])).items[agent_key].value
        await found.store.transact(Txn((), (Put(agent_key, value),)))
        await agent.report(key, GangStatus.RUNNING)
        await until(lambda: replica.session(agent.pool) is None)
        assert (await state_of(found.store, job)).state is State.BOUND


async def test_a_stream_whose_epoch_is_superseded_ends_without_waiting_for_a_report() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        agent_key = keys.pool_agent(agent.pool)
        value = (await found.store.read([agent_key])).items[agent_key].value
        await found.store.transact(Txn((), (Put(agent_key, value),)))
        await until(lambda: replica.session(agent.pool) is None)


async def test_a_second_instance_and_another_cluster_are_refused_while_the_first_lives() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        twin = found.puppet(replica, "p0", {"r1": 4})
        await twin.hello(instance="i2")
        await until(lambda: twin.refusal is not None)
        other = found.puppet(replica, "p0", {"r1": 4})
        await other.hello(instance="i3", cluster="elsewhere")
        await until(lambda: other.refusal is not None)
        assert twin.refusal is not None
        assert other.refusal is not None
        assert (twin.refusal.reason, twin.refusal.retry) == ("ALREADY_ATTACHED", True)
        assert (other.refusal.reason, other.refusal.retry) == ("CLUSTER", False)
        agent.close()
        await until(lambda: replica.session(agent.pool) is None)
        again = await found.puppet(replica, "p0", {"r1": 4}).attached()
        assert again.epoch > agent.epoch


async def test_every_start_rewrites_its_grants_and_the_other_replica_takes_over() -> None:
    async with stage() as found:
        first = await found.replica("r0", seed=1)
        root = f"queue.{QUEUE}"
        await until(lambda: root in first.world.held_roots(first.nonce))
        before = first.world.grants[root].revision
        await found.close()
        second = await found.replica("r0", seed=2)
        await until(lambda: root in second.world.held_roots(second.nonce))
        assert second.world.grants[root].revision > before


async def test_whom_an_operator_names_holds_a_root_for_as_long_as_he_lives() -> None:
    async with stage() as found:
        replicas = [await found.replica(name, seed=seed) for seed, name in enumerate(("r0", "r1"), start=1)]
        root = f"queue.{QUEUE}"

        def holder() -> str:
            return next((r.config.replica for r in replicas if root in r.world.held_roots(r.nonce)), "")

        await until(lambda: bool(holder()) and all(len(r.world.replicas) == 2 for r in replicas))
        usual = holder()
        other = next(r for r in replicas if r.config.replica != usual)
        name = Put(keys.holder(root), schema.encode(schema.HolderValue(other.config.replica)))
        await found.store.transact(Txn((), (name,)))
        await until(lambda: holder() == other.config.replica)
        agent = await found.puppet(other, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        await agent.bound(await submit(found.store, 1, 2))
        await other.leave()
        await until(lambda: holder() == usual)


class LossyStore(MemoryStore):
    """Loses the answer of the next bind; `applies` says whether it takes effect all the same."""

    def __init__(self, *, applies: bool) -> None:
        super().__init__(CLOCK)
        self.applies = applies
        self.lost: list[Txn] = []

    async def transact(self, txn: Txn, **more: float) -> Outcome:
        binds = any(op.key.startswith("bindings/") and isinstance(op, Put) for op in txn.ops)
        if not binds or self.lost:
            return await super().transact(txn, **more)
        self.lost.append(txn)
        if self.applies:
            await super().transact(txn, **more)
        return Unknown("the reply was lost")


@pytest.mark.parametrize("applies", [True, False])
async def test_an_unknown_bind_is_settled_and_the_job_is_bound_once(applies: bool) -> None:
    store = LossyStore(applies=applies)
    async with stage(store, quota=16) as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(store, 1, 2)
        await agent.bound(job)
        assert len(store.lost) == 1
        await until(lambda: replica.committer.counts["settled"] == 1)
        assert len(await bindings(found)) == 1
        late = await MemoryStore.transact(store, store.lost[0])
        assert not isinstance(late, Committed)
        assert replica.world.usage.by_flavor(QUEUE)


async def test_a_stale_state_key_is_read_again_not_fought_over() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        job = await submit(found.store, 1, 2)
        await until(lambda: job in replica.states.pending)
        key = keys.state(job)
        value = (await found.store.read([key])).items[key].value
        await found.store.transact(Txn((), (Put(key, value),)))
        await agent.summary(agent.epoch.revision)
        await agent.bound(job)


async def test_reports_of_a_wrong_epoch_end_the_stream() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        job = JobId(f"{QUEUE}-{1:016d}")
        from hanse.model.fence import GangKey
        from hanse.model.ids import Attempt, Part

        old = replace(agent.epoch, revision=agent.epoch.revision - 1)
        await agent.report(GangKey(job, Attempt(1), Part(0)), GangStatus.RUNNING, epoch=old)
        await until(lambda: replica.session(agent.pool) is None)


async def test_a_store_that_is_away_for_a_while_costs_time_only() -> None:
    class Away(MemoryStore):
        away = False

        async def transact(self, txn: Txn, **more: float) -> Outcome:
            if self.away:
                raise StoreUnavailable("away")
            return await super().transact(txn, **more)

    store = Away(CLOCK)
    async with stage(store) as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(store, 1, 2)
        store.away = True
        await until(lambda: replica.cycle.counts["cycles"] > 0)
        store.away = False
        await agent.bound(job)


class CountingStore(MemoryStore):
    """Counts the keys of jobs that are read one by one."""

    def __init__(self) -> None:
        super().__init__(CLOCK)
        self.jobs_read = 0

    async def read(self, keys_: Sequence[str], *, deadline_s: float = READ_DEADLINE_S) -> ReadResult:
        self.jobs_read += sum(key.startswith((keys.STATES, keys.BINDINGS)) for key in keys_)
        return await super().read(keys_, deadline_s=deadline_s)


async def test_reports_on_a_job_that_this_replica_bound_read_nothing_of_it() -> None:
    store = CountingStore()
    async with stage(store) as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        key = await agent.bound(await submit(store, 1, 2))
        for status in (GangStatus.STARTED, GangStatus.RUNNING, GangStatus.FINISHED):
            await agent.report(key, status)
            await until(lambda status=status: replica.reports.counts[status.name.lower()] == 1)  # type: ignore[misc]
        assert store.jobs_read == 0
        assert (await state_of(store, key.job)).state is State.SUCCEEDED


async def test_a_report_on_a_job_that_somebody_else_moved_is_decided_from_the_store() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        key = await agent.bound(job)
        await agent.report(key, GangStatus.STARTED)
        await wait_state(found.store, job, State.STARTING)
        stop = Stop(State.CANCELLED, Reason.CANCELLED_BY_USER)
        await commit_move(found.store, job, stop, clock=CLOCK, write_id=replica.write_id)
        await agent.report(key, GangStatus.RUNNING)  # of what is remembered this would make RUNNING
        await until(lambda: replica.reports.counts["conflicts"] == 1)
        await agent.report(key, GangStatus.RELEASED)
        await wait_state(found.store, job, State.CANCELLED)
        assert replica.reports.counts["running"] == 0
