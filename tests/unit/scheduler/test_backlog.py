"""What wakes a waiting class, and what does not."""

import random

from hanse.model.ids import PoolName
from hanse.model.reasons import Reason
from hanse.scheduler.core.backlog import AVOID_FIRST_S, PASSING_LOOK_S, Backlog
from hanse.scheduler.core.pending import PendingSet
from hanse.scheduler.core.plan import Plan, run_cycle
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.core.world import World
from tests.unit.scheduler.worlds import H100, NONCE, binding, inventory, job, pending, queue, request, summary, world

WANT = request(4)
NUMBER = job(1, WANT).class_hash


def cycle(found: World, jobs: PendingSet, backlog: Backlog, now_s: float) -> Plan:
    snapshot = found.snapshot(now_s=0.0, nonce=NONCE, avoided=backlog.avoided(now_s))
    service = jobs.service(backlog.skip(now_s))
    plan = run_cycle(snapshot, service, {NUMBER: WANT}, Limits(), random.Random(1), backlog.before())
    backlog.remember(plan, now_s)
    return plan


def stage(quota: int = 640) -> tuple[World, PendingSet, Backlog]:
    found = world({"p": inventory({"r1": 3}).shape()}, {H100: quota})
    jobs = pending([job(1, WANT)])
    backlog = Backlog(found, jobs)
    assert not cycle(found, jobs, backlog, 0.0).decisions
    return found, jobs, backlog


def test_a_summary_that_says_the_same_wakes_nobody_and_one_with_more_room_does() -> None:
    found, jobs, backlog = stage()
    found.accept_summary(PoolName("p"), summary(inventory({"r1": 3}).shape(), 2, 10))
    assert NUMBER in backlog.skip(1.0)
    found.accept_summary(PoolName("p"), summary(inventory({"r1": 4}).shape(), 3, 10))
    assert NUMBER not in backlog.skip(1.0)
    assert len(cycle(found, jobs, backlog, 1.0).decisions) == 1


def test_a_new_pool_wakes() -> None:
    found, jobs, backlog = stage()
    extra = world({"p": inventory({"r1": 3}).shape(), "q": inventory({"r1": 9}).shape()}, {H100: 640})
    facts = extra.pool_facts(PoolName("q"))
    assert facts is not None
    found.put_pool(facts)
    found.put_attached(PoolName("q"), "r0")
    found.accept_summary(PoolName("q"), summary(inventory({"r1": 9}).shape(), 1, 10))
    assert [d.parts[0].pool for d in cycle(found, jobs, backlog, 1.0).decisions] == ["q"]


def test_quota_that_is_freed_or_changed_wakes() -> None:
    for change in ("release", "settings"):
        found = world({"p": inventory({"r1": 8}).shape()}, {H100: 32})
        found.put_binding("b", binding(7, "p", request(1), revision=8))
        jobs = pending([job(1, WANT)])
        backlog = Backlog(found, jobs)
        assert not cycle(found, jobs, backlog, 0.0).decisions
        assert NUMBER in backlog.skip(0.5)
        if change == "release":
            found.remove_binding("b")
        else:
            found.put_queue(queue({H100: 640}), 20)
        assert len(cycle(found, jobs, backlog, 0.5).decisions) == 1


def test_a_pool_that_refused_is_left_out_for_a_while_and_then_asked_again() -> None:
    found = world({"p": inventory({"r1": 8}).shape()}, {H100: 640})
    jobs = pending([job(1, WANT)])
    backlog = Backlog(found, jobs)
    backlog.refused(NUMBER, PoolName("p"), 0.0)
    assert not cycle(found, jobs, backlog, 0.1).decisions
    assert NUMBER in backlog.skip(0.2)
    later = AVOID_FIRST_S + PASSING_LOOK_S + 0.2
    assert len(cycle(found, jobs, backlog, later).decisions) == 1


def test_refusals_in_a_row_make_the_pause_longer() -> None:
    found = world({"p": inventory({"r1": 8}).shape()}, {H100: 640})
    backlog = Backlog(found, pending([job(1, WANT)]))
    for _ in range(3):
        backlog.refused(NUMBER, PoolName("p"), 0.0)
    assert backlog.avoided(3.9)
    assert not backlog.avoided(4.1)


def test_a_pool_that_lacks_something_is_not_asked_again_because_a_gang_has_left_it() -> None:
    found = world({"p": inventory({"r1": 8}).shape()}, {H100: 640})
    backlog = Backlog(found, pending([job(1, WANT)]))
    found.put_binding("runs", binding(7, "p", request(1), revision=8))
    for _ in range(5):
        backlog.refused(NUMBER, PoolName("p"), 0.0, Reason.NEEDS)
    found.answer_binding("runs")
    found.remove_binding("runs")
    assert backlog.avoided(AVOID_FIRST_S) == {(NUMBER, PoolName("p")): Reason.NEEDS}


def test_a_gang_that_leaves_the_pool_ends_the_pause_and_the_refused_one_itself_does_not() -> None:
    found = world({"p": inventory({"r1": 8}).shape()}, {H100: 640})
    backlog = Backlog(found, pending([job(1, WANT)]))
    for key in ("refused", "runs"):
        found.put_binding(key, binding(7, "p", request(1), revision=8))
    for _ in range(5):
        backlog.refused(NUMBER, PoolName("p"), 0.0)
    found.remove_binding("refused")
    assert backlog.avoided(AVOID_FIRST_S)
    found.answer_binding("runs")
    found.remove_binding("runs")
    assert backlog.avoided(AVOID_FIRST_S / 2)
    assert not backlog.avoided(AVOID_FIRST_S)
