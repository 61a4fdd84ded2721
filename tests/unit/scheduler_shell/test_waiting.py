"""Jobs that are told to wait: none on hold is ever bound, whoever schedules; a new priority counts from then on."""

import pytest

from hanse.kit.telemetry import metrics
from hanse.model.ids import JobId
from hanse.model.lifecycle import Event, Illegal, SetHold, SetPriority, State
from hanse.model.report import GangStatus
from hanse.store.moves import MoveDone, commit_move
from tests.unit.scheduler_shell.puppet import CLOCK, Stage, stage, state_of, submit, until


def pending_counted() -> float:
    """What the metric of pending jobs says now."""
    readings = {reading.instrument.name: reading.series for reading in metrics.REGISTRY.collect()}
    found = readings["hanse.pending.jobs"][()]
    assert isinstance(found, float | int)
    return found


async def change(found: Stage, job: JobId, event: Event) -> None:
    done = await commit_move(found.store, job, event, clock=CLOCK, write_id=found.replicas[0].write_id)
    assert isinstance(done, MoveDone)


async def test_a_job_on_hold_waits_until_it_is_released() -> None:
    async with stage() as found:
        replica = await found.replica()
        held = await submit(found.store, 1, 2)
        await until(lambda: held in replica.states.pending)
        await change(found, held, SetHold(held=True))
        await until(lambda: held not in replica.states.pending)
        assert pending_counted() == 1
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        other = await submit(found.store, 2, 2)
        await agent.bound(other)
        assert (await state_of(found.store, held)).state is State.PENDING
        await change(found, held, SetHold(held=False))
        await agent.bound(held)


async def test_a_hold_outlives_the_replica() -> None:
    async with stage() as found:
        first = await found.replica("r0")
        held = await submit(found.store, 1, 2)
        await change(found, held, SetHold(held=True))
        await first.leave()
        second = await found.replica("r1", seed=2)
        agent = await found.puppet(second, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        await agent.bound(await submit(found.store, 2, 2))
        state = await state_of(found.store, held)
        assert (state.state, state.held) == (State.PENDING, True)


async def test_a_job_that_comes_back_from_an_attempt_comes_back_without_a_hold() -> None:
    async with stage() as found:
        replica = await found.replica()
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        job = await submit(found.store, 1, 2)
        await change(found, job, SetHold(held=True))
        await change(found, job, SetHold(held=False))
        key = await agent.bound(job)
        await agent.report(key, GangStatus.RUNNING)
        await agent.report(key, GangStatus.RELEASED)
        await until(lambda: any(k.attempt == 2 for k in agent.desired))
        assert not (await state_of(found.store, job)).held
        refused = await commit_move(found.store, job, SetHold(held=True), clock=CLOCK, write_id=replica.write_id)
        assert isinstance(refused, Illegal)


@pytest.mark.parametrize("raised", [0, 1])
async def test_the_job_of_the_higher_priority_is_bound_first(raised: int) -> None:
    async with stage(quota=16) as found:
        replica = await found.replica()
        jobs = [await submit(found.store, number, 2) for number in (1, 2)]
        await until(lambda: len(replica.states.pending) == 2)
        await change(found, jobs[raised], SetPriority(90))
        await until(lambda: (p := replica.states.pending.get(jobs[raised])) is not None and p.state.priority == 90)
        agent = await found.puppet(replica, "p0", {"r1": 4}).attached()
        await agent.summary(agent.epoch.revision)
        await agent.bound(jobs[raised])
        other = await state_of(found.store, jobs[1 - raised])
        assert (other.state, other.attempt) == (State.PENDING, 0)
