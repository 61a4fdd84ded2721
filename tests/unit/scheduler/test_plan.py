"""The pure cycle: what goes where, what waits, and why."""

import random
from dataclasses import replace

import pytest

from hanse.model.ids import FlavorName, Part, PoolName, ReplicaId
from hanse.model.job import Group, Slice, Topology
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.scheduler.core.choice import Standing
from hanse.scheduler.core.explain import explain
from hanse.scheduler.core.pending import PendingJob
from hanse.scheduler.core.plan import Plan, flavor_choices, run_cycle, verify
from hanse.scheduler.core.preference import preference
from hanse.scheduler.core.snapshot import Limits, Snapshot
from hanse.scheduler.core.world import World
from hanse.shape import Ask, prepare
from tests.unit.scheduler.worlds import (
    A100,
    H100,
    NONCE,
    QUEUE,
    binding,
    inventory,
    job,
    pending,
    queue,
    request,
    world,
)

LIMITS = Limits()
WHOLE = inventory({"r1": 4, "r2": 4}).shape()
BROKEN = inventory({"r1": 4, "r2": 4}, used={f"r{r}-{n}": 1 for r in (1, 2) for n in range(4)}).shape()


def at(found: World) -> Snapshot:
    return found.snapshot(now_s=0.0, nonce=NONCE)


def cycle(found: World, jobs: list[tuple[PendingJob, GangRequest]], limits: Limits = LIMITS) -> Plan:
    service = pending(j for j, _ in jobs).service({})
    return run_cycle(at(found), service, {j.class_hash: r for j, r in jobs}, limits, random.Random(1))


def both(number: int, want: GangRequest, **kwargs: int) -> tuple[PendingJob, GangRequest]:
    return job(number, want, **kwargs), want


def test_a_gang_goes_whole_to_the_pool_that_holds_it_not_to_the_one_with_more_in_sum() -> None:
    found = world({"broken": BROKEN, "small": inventory({"r1": 2}).shape()}, {H100: 64})
    plan = cycle(found, [both(1, request(2))])
    assert [p.pool for d in plan.decisions for p in d.parts] == ["small"]


def test_a_choice_remembers_what_won_and_what_came_next() -> None:
    pools = {"split": inventory({"r1": 2, "r2": 2}), "tight": inventory({"r1": 3}), "loose": inventory({"r1": 4})}
    found = world(
        {name: nodes.shape() for name, nodes in {**pools, "none": inventory({"r1": 1})}.items()}, {H100: 64}
    )
    (decision,) = cycle(found, [both(1, request(3))]).decisions
    choice = decision.parts[0].choice
    assert choice is not None
    assert (choice.fitting, choice.asked) == (3, 4)
    assert choice.won == Standing(PoolName("tight"), (1, 1, 3, 0), 0, ("rack", "rack"), (3, 3))
    assert choice.second == Standing(PoolName("loose"), (1, 1, 3, 8), 0, ("rack", "rack"), (4, 4))


def test_fewer_domains_go_before_a_lower_cost_and_a_lower_cost_before_a_tighter_pool() -> None:
    pools = {"tight": {"r1": 3}, "cheap": {"r1": 3, "r2": 3}, "split": {"r1": 2, "r2": 2}}
    costs = {"tight": 3, "cheap": 2, "split": 1}
    found = world({name: inventory(racks).shape() for name, racks in pools.items()}, {H100: 64})
    for name, cost in costs.items():
        facts = found.pool_facts(PoolName(name))
        assert facts is not None
        found.put_pool(replace(facts, cost=cost))
    (decision,) = cycle(found, [both(1, request(3))]).decisions
    assert decision.parts[0].pool == "cheap"


def test_small_work_goes_where_something_is_broken_already() -> None:
    broken = inventory({"r1": 2, "r2": 8}, used={"r1-0": 4})
    found = world({"a-whole": inventory({"r1": 2}).shape(), "b-broken": broken.shape()}, {H100: 64})
    (decision,) = cycle(found, [both(1, request(1, gpus=8))]).decisions
    assert decision.parts[0].pool == "b-broken"


def test_every_job_is_compared_with_every_pool_the_first_of_a_cycle_by_asking_and_the_others_by_a_look() -> None:
    found = world({f"p{n:02}": inventory({"r1": 8}).shape() for n in range(20)}, {H100: 2_000})
    jobs = [both(n, request(1)) for n in range(5)]
    plan = cycle(found, jobs, replace(LIMITS, candidates_max=8, comparisons_max=45))
    choices = [d.parts[0].choice for d in plan.decisions]
    assert [c.fitting for c in choices if c is not None] == [20, 20, 20, 20, 20]
    assert len({d.parts[0].pool for d in plan.decisions}) == 1
    off = cycle(found, jobs, replace(LIMITS, candidates_max=8, comparisons_max=45, prefer_pools=False))
    assert [d.parts[0].choice.fitting for d in off.decisions if d.parts[0].choice] == [20] * 5


TWO = frozenset({ReplicaId("r0"), ReplicaId("r1")})


def of_two(
    found: World, jobs: list[tuple[PendingJob, GangRequest]], limits: Limits = LIMITS, *, seed: int = 1
) -> Plan:
    """A cycle of the first of two replicas."""
    snapshot, service = replace(at(found), schedulers=TWO), pending([one for one, _ in jobs]).service({})
    return run_cycle(snapshot, service, {o.class_hash: want for o, want in jobs}, limits, random.Random(seed))


def test_of_two_replicas_each_compares_its_own_half_of_a_large_fleet() -> None:
    found = world({f"p{n:02}": inventory({"r1": 8}).shape() for n in range(20)}, {H100: 2_000})
    (decision,) = of_two(found, [both(1, request(1))]).decisions
    choice = decision.parts[0].choice
    assert choice is not None
    assert choice.fitting == choice.asked == 10
    assert decision.parts[0].pool in preference(ReplicaId("r0"), TWO, found.pool_names()).own


@pytest.mark.parametrize("comparisons", [0, 64])
def test_a_replica_takes_from_others_pools_only_what_its_own_do_not_hold(comparisons: int) -> None:
    names = [PoolName(f"p{n:02}") for n in range(40)]
    own = preference(ReplicaId("r0"), TWO, tuple(names)).own
    kept = min(own)
    hosts = {n: 8 if n == kept else 1 if n in own else 4 for n in names}
    shapes = {str(n): inventory({"r1": count}).shape() for n, count in hosts.items()}
    limits = replace(LIMITS, comparisons_max=comparisons)
    jobs = [both(n, request(4)) for n in range(3)]
    for seed in range(8):
        pools = [d.parts[0].pool for d in of_two(world(shapes, {H100: 2_000}), jobs, limits, seed=seed).decisions]
        assert pools[:2] == [kept, kept]
        assert pools[2] not in own


def test_without_a_preference_every_replica_asks_all_pools_alike() -> None:
    found = world({f"p{n:02}": inventory({"r1": 8}).shape() for n in range(20)}, {H100: 2_000})
    off = replace(LIMITS, prefer_pools=False)
    (decision,) = of_two(found, [both(1, request(1))], off).decisions
    choice = decision.parts[0].choice
    assert choice is not None
    assert (decision.parts[0].pool, choice.fitting) == ("p00", 20)


def test_priority_goes_before_age_and_age_before_id() -> None:
    found = world({"p": inventory({"r1": 2}).shape()}, {H100: 64})
    plan = cycle(
        found,
        [both(1, request(1), submit_ms=5), both(2, request(1), submit_ms=1), both(3, request(1), priority=9)],
    )
    assert [d.job.job[-1] for d in plan.decisions] == ["3", "2"]


def test_a_new_priority_moves_a_job_at_once_within_its_class() -> None:
    want = request(2)
    jobs = pending([job(1, want, submit_ms=1), job(2, want, submit_ms=2)])
    assert jobs.head(job(1, want).class_hash).job == job(1, want).job
    jobs.put(job(2, want, priority=5, submit_ms=2))
    assert [one.job for one in jobs.members(job(1, want).class_hash)] == [job(2, want).job, job(1, want).job]
    assert jobs.queue_positions(job(1, want).job) == (1, 2)


def test_two_gangs_and_room_for_one_give_one_decision() -> None:
    found = world({"p": WHOLE}, {H100: 640})
    plan = cycle(found, [both(1, request(8), submit_ms=1), both(2, request(8), submit_ms=2)])
    assert len(plan.decisions) == 1
    assert [b.reason for b in plan.blocked.values()] == [Reason.SHAPE]


def test_what_is_in_flight_counts() -> None:
    found = world({"p": WHOLE}, {H100: 640})
    found.put_binding("b", binding(7, "p", request(1), revision=11))
    assert not cycle(found, [both(1, request(8))]).decisions


def test_quota_is_the_sum_of_live_bindings() -> None:
    found = world({"p": WHOLE}, {H100: 16})
    found.put_binding("b", binding(7, "p", request(1), revision=8))
    plan = cycle(found, [both(1, request(2))])
    assert not plan.decisions
    (blocked,) = plan.blocked.values()
    assert (blocked.reason, blocked.verdicts[0].wanted, blocked.verdicts[0].found) == (Reason.QUOTA, 16, 8)
    found.remove_binding("b")
    assert len(cycle(found, [both(1, request(2))]).decisions) == 1


def test_no_more_jobs_of_a_queue_run_than_may_and_one_that_ends_lets_the_next() -> None:
    found = world({"p": WHOLE}, {H100: 640})
    found.put_queue(queue({H100: 640}, running=2), 3)
    found.put_binding("b.0", binding(7, "p", request(1), revision=11))
    found.put_binding("b.1", replace(binding(7, "p", request(1), revision=11), part=Part(1)))
    jobs = [both(1, request(1)), both(2, request(2))]
    plan = cycle(found, jobs)
    assert [d.job.job[-1] for d in plan.decisions] == ["1"], "two parts are one job"
    (blocked,) = plan.blocked.values()
    assert (blocked.reason, blocked.quota_bound) == (Reason.QUOTA, True)
    why = explain(at(found), QUEUE, request(2), LIMITS)
    assert why.reason is Reason.WAITING, "the explanation is of the world as it is"
    found.put_binding("c", binding(1, "p", request(1), revision=12))
    why = explain(at(found), QUEUE, request(2), LIMITS)
    assert (why.reason, why.quota[0].detail) == (
        Reason.QUOTA,
        "queue research runs 2 jobs, as many as it may at a time",
    )
    assert why.helps == ()
    assert verify(at(found), plan.decisions, LIMITS) == ()
    found.remove_binding("b.0")
    assert not cycle(found, [both(2, request(2))]).decisions
    found.remove_binding("b.1")
    assert len(cycle(found, [both(2, request(2))]).decisions) == 1


def test_a_flavor_without_quota_is_not_used() -> None:
    found = world({"p": WHOLE}, {A100: 640})
    assert not cycle(found, [both(1, request(1))]).decisions
    assert not cycle(found, [both(1, request(1, flavors=(H100,)))]).decisions


def test_the_next_flavor_is_tried_when_the_first_has_no_room() -> None:
    found = world({"a": inventory({"r": 1}, name=A100).shape(), "h": WHOLE}, {A100: 640, H100: 640})
    plan = cycle(found, [both(1, request(2, flavors=(A100, H100)))])
    assert [d.parts[0].flavors for d in plan.decisions] == [(H100,)]


def test_a_held_queue_and_a_foreign_root_bind_nothing() -> None:
    assert not cycle(world({"p": WHOLE}, {H100: 640}, held=True), [both(1, request(1))]).decisions
    foreign = world({"p": WHOLE}, {H100: 640})
    plan = run_cycle(
        foreign.snapshot(now_s=0.0, nonce="another start"),
        pending([job(1, request(1))]).service({}),
        {job(1, request(1)).class_hash: request(1)},
        LIMITS,
        random.Random(1),
    )
    assert not plan.decisions


def test_a_cordoned_or_stale_pool_gets_nothing() -> None:
    stale = world({"p": WHOLE}, {H100: 640})
    plan = run_cycle(
        stale.snapshot(now_s=31.0, nonce=NONCE),
        pending([job(1, request(1))]).service({}),
        {job(1, request(1)).class_hash: request(1)},
        LIMITS,
        random.Random(1),
    )
    assert [b.reason for b in plan.blocked.values()] == [Reason.STALE]


def test_a_gang_that_may_is_split_between_slices_over_the_fewest_pools() -> None:
    pools = {"a": inventory({"r": 3}).shape(), "b": inventory({"r": 5}).shape(), "c": inventory({"r": 2}).shape()}
    want = request(6, slices=(Slice(2, "rack"),), max_pools=2)
    plan = cycle(world(pools, {H100: 640}), [both(1, want)])
    parts = plan.decisions[0].parts
    assert [(p.pool, p.counts) for p in parts] == [("b", ((0, 4, 0),)), ("a", ((0, 2, 4),))]
    assert not cycle(world(pools, {H100: 640}), [both(1, request(6))]).decisions


def test_equal_arguments_give_equal_plans_whatever_the_order_of_insertion() -> None:
    jobs = [both(n, request(1 + n % 3), submit_ms=n) for n in range(6)]
    shapes = {"a": WHOLE, "b": BROKEN, "c": inventory({"r": 3}).shape()}
    one = cycle(world(shapes, {H100: 640}), jobs)
    reordered = world(dict(reversed(shapes.items())), {H100: 640})
    for name, slot in (("a", 0), ("b", 1), ("c", 2)):
        facts = reordered.pool_facts(PoolName(name))
        assert facts is not None
        reordered.put_pool(type(facts)(PoolName(name), slot, 4, levels=facts.levels))
    two = cycle(reordered, list(reversed(jobs)))
    assert one.decisions == two.decisions


def test_a_bug_in_one_class_stops_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(want: GangRequest, flavors: tuple[FlavorName, ...]) -> Ask:
        if want.pods == 3:
            raise ZeroDivisionError("a bug")
        return prepare(want, flavors)

    monkeypatch.setattr("hanse.scheduler.core.cycle.prepare", broken)
    plan = cycle(world({"p": WHOLE}, {H100: 640}), [both(1, request(3)), both(2, request(1), submit_ms=9)])
    assert len(plan.decisions) == 1
    assert list(plan.failed.values()) == ["ZeroDivisionError: a bug"]


def test_verify_keeps_what_still_fits_and_drops_what_does_not() -> None:
    found = world({"p": WHOLE}, {H100: 640})
    plan = cycle(found, [both(1, request(4), submit_ms=1), both(2, request(4), submit_ms=2)])
    assert len(verify(at(found), plan.decisions, LIMITS)) == 2
    found.put_binding("other", binding(7, "p", request(2), revision=12))
    assert [d.job.job[-1] for d in verify(at(found), plan.decisions, LIMITS)] == ["1"]


def test_flavor_choices_keep_the_order_and_share_one_for_sets_without() -> None:
    two = GangRequest(request(1).sets + request(1).sets)
    assert list(flavor_choices(two, [H100, A100], [A100, H100])) == [(H100, H100), (A100, A100)]
    named = GangRequest(request(1, flavors=(A100,)).sets + request(1).sets)
    assert list(flavor_choices(named, [H100, A100], [A100, H100])) == [(A100, H100), (A100, A100)]
    assert not list(flavor_choices(request(1, flavors=(A100,)), [H100], [H100, A100]))


def test_an_explanation_names_every_pool_with_the_constraint_and_what_would_help() -> None:
    found = world({"broken": BROKEN, "racks": inventory({"r1": 3, "r2": 3}).shape()}, {H100: 640})
    answer = explain(at(found), QUEUE, request(4, required="rack"), LIMITS)
    assert {v.pool for v in answer.pools} == {"broken", "racks"}
    assert answer.reason is Reason.SHAPE
    near = answer.pools[0]
    assert (near.pool, near.wanted, near.found) == ("racks", 4, 3)
    assert any("3 pods instead of 4" in h for h in answer.helps)
    assert any("preferred instead of required" in h for h in answer.helps)


def test_a_group_that_no_domain_holds_is_told_that_without_it_the_gang_would_start() -> None:
    found = world({"racks": inventory({"r1": 3, "r2": 3}).shape()}, {H100: 640})
    group = Topology(required="rack", group=Group("gang", "rack"))
    both = GangRequest(tuple(replace(s, topology=group) for s in (*request(1).sets, *request(3).sets)))
    answer = explain(at(found), QUEUE, both, LIMITS)
    assert answer.pools[0].constraint == "pods of gang in one rack"
    assert any("preferred instead of required level" in h for h in answer.helps)


def test_quota_that_stands_in_the_way_is_said_for_every_pool_that_would_hold_the_job() -> None:
    found = world({"whole": WHOLE, "broken": BROKEN}, {H100: 16})
    answer = explain(at(found), QUEUE, request(4), LIMITS)
    assert answer.reason is Reason.QUOTA
    by_pool = {v.pool: v for v in answer.pools}
    assert (by_pool[PoolName("whole")].reason, by_pool[PoolName("whole")].wanted) == (Reason.QUOTA, 32)
    assert by_pool[PoolName("whole")].found == 16
    assert by_pool[PoolName("broken")].reason is Reason.SHAPE


def test_a_queue_without_quota_of_any_accepted_flavor_says_so() -> None:
    found = world({"whole": WHOLE}, {A100: 640})
    answer = explain(at(found), QUEUE, request(4, flavors=(H100,)), LIMITS)
    (verdict,) = answer.pools
    assert (answer.reason, verdict.reason, verdict.wanted, verdict.found) == (Reason.QUOTA, Reason.QUOTA, 32, 0)
