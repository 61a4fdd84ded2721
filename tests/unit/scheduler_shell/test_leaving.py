"""A pool that leaves: what becomes of its jobs, its keys and its agent."""

from dataclasses import replace

from hanse.model.ids import JobId, PoolName
from hanse.model.lifecycle import State
from hanse.model.reasons import Reason
from hanse.model.report import GangStatus
from hanse.scheduler.core.facts import LeaveFacts
from hanse.scheduler.shell.replica import Replica
from hanse.store import keys, schema
from hanse.store.contract import Delete, Put, Txn
from hanse.store.schema import DrainValue, LeaveValue, LeftValue, PoolConfigValue
from tests.unit.scheduler_shell.puppet import Puppet, Stage, stage, state_of, submit, until, wait_state

P0 = PoolName("p0")


async def value_of(found: Stage, key: str) -> bytes | None:
    kv = (await found.store.read([key])).items.get(key)
    return kv.value if kv is not None else None


async def order(found: Stage, leave: LeaveValue | None, *, pool: PoolName = P0) -> None:
    """As the API writes it."""
    key = keys.pool_config(pool)
    value = schema.decode(await value_of(found, key) or b"", PoolConfigValue)
    drain = DrainValue(1) if leave is not None and not leave.force else None
    value = PoolConfigValue(value.slot, value.cluster_uid, cordoned=leave is not None, drain=drain, leave=leave)
    ops = (Put(key, schema.encode(value)),)
    await found.store.transact(Txn((), (*ops, Delete(keys.pool_agent(pool))) if leave and leave.vouched else ops))


async def left(found: Stage, replica: Replica, pool: PoolName = P0) -> LeftValue:
    """What is remembered of a pool, once it is gone."""
    await until(lambda: pool not in replica.world.pool_names())
    rest = (await found.store.range(f"pools/{pool}/", f"pools/{pool}0")).items
    assert [kv.key for kv in rest if not kv.key.endswith(("/left", "/agent"))] == []
    return schema.decode(await value_of(found, keys.pool_left(pool)) or b"", LeftValue)


async def open_for_work(found: Stage, replica: Replica, *pools: str) -> list[Puppet]:
    agents = [await found.puppet(replica, pool, {"r1": 4}).attached() for pool in pools]
    for agent in agents:
        await agent.summary(agent.epoch.revision)
    await until(lambda: all(replica.world.ledger(a.pool).summary is not None for a in agents))
    return agents


async def running(found: Stage, agent: Puppet, number: int, pods: int = 2) -> JobId:
    job = await submit(found.store, number, pods)
    await agent.report(await agent.bound(job), GangStatus.RUNNING)
    await wait_state(found.store, job, State.RUNNING)
    return job


async def silent(replica: Replica, agent: Puppet) -> None:
    """The agent is gone, and its stream with it."""
    agent.close()
    await until(lambda: replica.session(agent.pool) is None and not replica.world.attached_to(agent.pool))


async def test_a_pool_goes_once_its_last_binding_is_gone_and_not_before() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        job = await running(found, agent, 1)
        key = await agent.bound(job)
        await order(found, LeaveValue(7))
        await until(lambda: bool(replica.world.leaving()))
        await agent.report(key, GangStatus.FINISHED)
        await wait_state(found.store, job, State.SUCCEEDED)
        value = await left(found, replica)
        assert (value.cluster_uid, value.since_ms, value.force) == ("cluster-p0", 7, False)
        await until(lambda: replica.session(P0) is None)


async def test_by_force_jobs_are_lost_and_stay_bound_until_their_agent_has_stopped_them() -> None:
    async with stage(quota=16) as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        job = await running(found, agent, 1)
        await silent(replica, agent)
        await order(found, LeaveValue(7, force=True, incarnation=1))
        lost = await wait_state(found.store, job, State.LOST)
        assert lost.reason is Reason.POOL_LOST
        assert P0 in replica.world.pool_names()
        assert len(replica.world.ledger(P0).bindings()) == 1, "what may still run is charged"
        back = await found.puppet(replica, "p0", {"r1": 4}).attached()
        key = await back.bound(job)
        assert back.desired[key].action.name == "STOP"
        await back.report(key, GangStatus.RELEASED)
        assert (await left(found, replica)).force
        assert (await state_of(found.store, job)).state is State.LOST


async def test_vouched_to_be_dead_its_jobs_run_elsewhere() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        job = await running(found, agent, 1)
        await silent(replica, agent)
        [other] = await open_for_work(found, replica, "p1")
        await order(found, LeaveValue(7, force=True, vouched=True, incarnation=1))
        key = await other.bound(job)
        assert key.attempt == 2
        assert (await state_of(found.store, job)).failures == 0
        assert (await left(found, replica)).vouched


async def test_an_order_that_is_changed_to_a_vouch_ends_what_was_lost_too() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        job = await running(found, agent, 1)
        await silent(replica, agent)
        await order(found, LeaveValue(7, force=True, incarnation=1))
        await wait_state(found.store, job, State.LOST)
        await order(found, LeaveValue(7, force=True, vouched=True, incarnation=1))
        assert (await left(found, replica)).vouched
        assert (await state_of(found.store, job)).state is State.LOST


async def test_an_order_that_is_taken_back_before_it_is_carried_out_takes_nothing() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        job = await running(found, agent, 1)
        await silent(replica, agent)
        facts = replica.world.pool_facts(P0)
        assert facts is not None
        await order(found, None)
        leaves = replica._leaves
        await leaves._one(replace(facts, leave=LeaveFacts(7, force=True, vouched=False, incarnation=1)))
        assert (await state_of(found.store, job)).state is State.RUNNING


async def test_the_agent_of_a_pool_that_left_stops_what_it_runs_and_is_told() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        await silent(replica, agent)
        await order(found, LeaveValue(7, force=True, vouched=True, incarnation=1))
        await left(found, replica)
        back = await found.puppet(replica, "p0", {"r1": 4}).attached()
        assert (back.complete, back.desired, back.refusal) == (True, {}, None), "it may stop what it still runs"
        assert back.epoch > agent.epoch
        await back.summary(back.epoch.revision, stopping=1)
        await back.summary(back.epoch.revision)
        await until(lambda: back.refusal is not None)
        assert back.refusal is not None
        assert (back.refusal.reason, back.refusal.retry) == ("POOL_LEFT", False)
        assert "--undo" in back.refusal.message
        await until(lambda: replica.session(P0) is None)
        assert P0 not in replica.world.pool_names()
        await until(lambda: keys.barred("agent", P0) in replica.world.barred)  # and shows its certificate in vain


async def test_a_guest_that_still_runs_something_keeps_its_certificate() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        await silent(replica, agent)
        await order(found, LeaveValue(7, force=True, vouched=True, incarnation=1))
        await left(found, replica)
        back = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await back.summary(back.epoch.revision, stopping=1)
        await until(lambda: replica.world.ledger(P0).summary is not None)
        assert not (await found.store.read([keys.barred("agent", P0)])).items


async def test_while_it_is_vouched_to_be_dead_nobody_attaches_and_another_cluster_never() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        await silent(replica, agent)
        replica._leaves._wake.clear()
        replica._leaves._is_mine = lambda pool: False  # type: ignore[method-assign]
        await order(found, LeaveValue(7, force=True, vouched=True, incarnation=1))
        early = found.puppet(replica, "p0", {"r1": 4})
        await early.hello()
        await until(lambda: early.refusal is not None)
        assert early.refusal is not None
        assert (early.refusal.reason, early.refusal.retry) == ("POOL_LEAVING", True)
        del replica._leaves._is_mine
        await left(found, replica)
        other = found.puppet(replica, "p0", {"r1": 4})
        await other.hello(cluster="elsewhere")
        await until(lambda: other.refusal is not None)
        assert other.refusal is not None
        assert other.refusal.reason == "POOL_LEFT"


async def test_a_pool_that_is_let_in_again_joins_as_a_new_one() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        await order(found, LeaveValue(7))
        await left(found, replica)
        await found.store.transact(Txn((), (Delete(keys.pool_left(P0)),)))
        [again] = await open_for_work(found, replica, "p0")
        facts = replica.world.pool_facts(P0)
        assert facts is not None
        assert (facts.cordoned, facts.leave, facts.slot) == (False, None, 0)
        assert again.epoch > agent.epoch
        await running(found, again, 2)


async def test_a_vouched_part_of_a_split_gang_ends_the_other_part_first() -> None:
    async with stage() as found:
        replica = await found.replica()
        agents = await open_for_work(found, replica, "p0", "p1")
        job = await submit(found.store, 1, 8, max_pools=2)
        parts = [await agent.bound(job) for agent in agents]
        for agent, key in zip(agents, parts, strict=True):
            await agent.report(key, GangStatus.HELD)
        await wait_state(found.store, job, State.STARTING)
        await silent(replica, agents[0])
        await order(found, LeaveValue(7, force=True, vouched=True, incarnation=1))
        assert (await left(found, replica)).vouched
        assert (await state_of(found.store, job)).state is State.STOPPING, "the other part still runs"
        assert agents[1].desired[parts[1]].action.name == "STOP"
        await agents[1].report(parts[1], GangStatus.RELEASED)
        await wait_state(found.store, job, State.PENDING)


async def test_an_order_of_another_life_of_the_store_takes_nothing_back() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        job = await running(found, agent, 1)
        await silent(replica, agent)
        for vouched in (False, True):
            await order(found, LeaveValue(7, force=True, vouched=vouched, incarnation=2))
            revision = (await found.store.read([keys.pool_config(P0)])).items[keys.pool_config(P0)].mod_revision
            await replica.feed.reached(revision)
            await replica._leaves._one(replica.world.leaving()[0])
        assert (await state_of(found.store, job)).state is State.RUNNING
        again = await found.puppet(replica, "p0", {"r1": 4}).attached()
        assert again.refusal is None


async def test_a_pool_that_has_not_come_back_since_a_restore_goes_only_by_force() -> None:
    async with stage() as found:
        replica = await found.replica()
        [agent] = await open_for_work(found, replica, "p0")
        await silent(replica, agent)
        await found.store.transact(Txn((), (Put(keys.INCARNATION, b"2"),)))
        await until(lambda: replica.world.missing() == (P0,))
        await order(found, LeaveValue(7))
        await until(lambda: bool(replica.world.leaving()))
        await replica._leaves._one(replica.world.leaving()[0])
        assert await value_of(found, keys.pool_config(P0)) is not None
        await order(found, LeaveValue(7, force=True, incarnation=2))
        assert (await left(found, replica)).force
