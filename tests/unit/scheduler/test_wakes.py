"""Scenarios G1, G7 and A10: what an event costs a large backlog, and how much a slow agent is given."""

import random
from collections.abc import Mapping

import pytest

from hanse.model.ids import PoolName
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.scheduler.core.backlog import PASSING_LOOK_S, Backlog
from hanse.scheduler.core.pending import PendingSet
from hanse.scheduler.core.plan import Plan, run_cycle
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.core.world import World
from tests.unit.scheduler.worlds import H100, NONCE, binding, inventory, job, pending, request, summary, world

JOBS = 10_000
SHAPES = tuple(request(count, gpus) for gpus in (1, 2, 4, 8) for count in range(1, 16))
REQUESTS = {job(1, want).class_hash: want for want in SHAPES}
FULL = {f"r{rack}-0": 8 for rack in range(4)}
RACKS = {f"r{rack}": 1 for rack in range(4)}
LIMITS = Limits()


def cycle(
    found: World,
    jobs: PendingSet,
    backlog: Backlog,
    limits: Limits = LIMITS,
    *,
    now_s: float = 0.0,
    requests: Mapping[int, GangRequest] = REQUESTS,
) -> Plan:
    service = jobs.service(backlog.skip(now_s))
    snapshot = found.snapshot(now_s=now_s, nonce=NONCE)
    plan = run_cycle(snapshot, service, requests, limits, random.Random(1), backlog.before())
    for decision in plan.decisions:
        jobs.remove(decision.job.job)
    backlog.remember(plan, now_s)
    return plan


@pytest.fixture
def waiting() -> tuple[World, PendingSet, Backlog]:
    """Ten thousand jobs of sixty sizes before two full pools; all have been looked at once."""
    shape = inventory(RACKS, used=FULL).shape()
    found = world({"p": shape, "q": shape}, {H100: 1_000_000})
    jobs = pending(job(number, SHAPES[number % len(SHAPES)], submit_ms=number) for number in range(JOBS))
    backlog = Backlog(found, jobs)
    assert len(cycle(found, jobs, backlog).blocked) == len(SHAPES)
    return found, jobs, backlog


def test_g1_eight_gpus_that_are_free_again_cost_less_than_one_job_in_a_hundred(
    waiting: tuple[World, PendingSet, Backlog],
) -> None:
    found, jobs, backlog = waiting
    room = inventory(RACKS, used={**FULL, "r0-0": 0}).shape()
    found.accept_summary(PoolName("p"), summary(room, 2, 10))
    plan = cycle(found, jobs, backlog)
    assert plan.decisions[0].job.turn.submit_ms == 0
    assert sum(d.parts[0].request.gpus for d in plan.decisions) == 8
    assert len(plan.decisions) + len(plan.blocked) < JOBS / 100
    assert all({v.pool for v in b.verdicts} == {"p", "q"} for b in plan.blocked.values())


def test_g7_a_backlog_that_nothing_can_help_is_not_looked_at(waiting: tuple[World, PendingSet, Backlog]) -> None:
    found, jobs, backlog = waiting
    found.accept_summary(PoolName("p"), summary(inventory(RACKS, used=FULL).shape(), 2, 10))
    plan = cycle(found, jobs, backlog)
    assert not plan.decisions
    assert not plan.blocked


def test_a10_a_slow_agent_is_given_no_more_than_it_may_leave_unanswered() -> None:
    found = world({"p": inventory({"r1": 9}).shape()}, {H100: 640})
    want = request(1, 8)
    found.put_binding("b", binding(99, "p", want, revision=11))
    jobs = pending(job(number, want) for number in range(5))
    backlog = Backlog(found, jobs)
    limits = Limits(unacknowledged_max=3)
    plan = cycle(found, jobs, backlog, limits)
    assert len(plan.decisions) == 2
    (blocked,) = plan.blocked.values()
    assert blocked.reason is Reason.LAGGING
    answered = inventory({"r1": 9}, used={"r1-0": 8}).shape()
    found.accept_summary(PoolName("p"), summary(answered, 2, 11))
    assert len(cycle(found, jobs, backlog, limits, now_s=PASSING_LOOK_S).decisions) == 3


LARGE = SHAPES[45:49]
"""Eight GPUs a pod and more: none fits into one free GPU."""


@pytest.fixture
def overtaken() -> tuple[World, PendingSet, Backlog]:
    """Four kinds of job wait for an agent that is behind, and a fifth, served last, fits elsewhere."""
    shape = inventory({"r1": 9}).shape()
    found = world({"p": shape, "q": inventory({"r1": 1}, used={"r1-0": 7}).shape()}, {H100: 640})
    found.put_binding("b", binding(99, "p", request(1, 8), revision=11))
    jobs = pending(job(number, want, submit_ms=number) for number, want in enumerate((*LARGE, request(1, 1))))
    return found, jobs, Backlog(found, jobs)


def test_slow_cycles_that_see_few_kinds_of_job_come_to_all_of_them(
    overtaken: tuple[World, PendingSet, Backlog],
) -> None:
    """Each lasts as long as it takes until those that were seen first may be looked at again."""
    limits = Limits(unacknowledged_max=1, classes_max=2)
    plans = [cycle(*overtaken, limits, now_s=number * PASSING_LOOK_S) for number in range(3)]
    assert [len(plan.decisions) for plan in plans] == [0, 0, 1]


def test_a_memory_for_few_requests_comes_to_all_of_them(overtaken: tuple[World, PendingSet, Backlog]) -> None:
    found, jobs, backlog = overtaken
    placed = 0
    for number in range(3):
        now_s = number * PASSING_LOOK_S
        skipped = backlog.skip(now_s)
        read = [number for number in jobs.classes() if number not in skipped][:2]
        few = {number: REQUESTS[number] for number in read}
        placed += len(cycle(found, jobs, backlog, Limits(unacknowledged_max=1), now_s=now_s, requests=few).decisions)
    assert placed == 1
