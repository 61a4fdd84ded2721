"""Elastic gangs: all pods where they fit, else as many as fit, never fewer than the minimum."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hanse.model.job import Slice, Topology
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Selector
from hanse.scheduler.core.elastic import largest
from hanse.scheduler.core.explain import explain
from hanse.shape import Shape
from tests.unit.scheduler.test_plan import LIMITS, at, both, cycle
from tests.unit.scheduler.worlds import A100, GPU, H100, QUEUE, inventory, request, world

SMALL = inventory({"r": 3}).shape()
LARGE = inventory({"r": 6}).shape()


def elastic(count: int, least: int, gpus: int = 8, slices: tuple[Slice, ...] = (), required: str = "") -> SetRequest:
    topology = Topology(required=required, slices=slices)
    return SetRequest(count, least, Resources({GPU: gpus}), (), Selector(), (), topology)


def counts(want: GangRequest, pools: dict[str, Shape], gpus: int = 640) -> list[tuple[str, tuple[int, ...]]]:
    plan = cycle(world(pools, {H100: gpus}), [both(1, want)])
    return [(part.pool, tuple(n for _, n, _ in part.counts)) for d in plan.decisions for part in d.parts]


def test_all_pods_in_a_loose_pool_come_before_fewer_in_a_tight_one() -> None:
    assert counts(GangRequest((elastic(6, 2),)), {"a": SMALL, "b": LARGE}) == [("b", (6,))]


def test_as_many_as_fit_if_all_do_not() -> None:
    assert counts(GangRequest((elastic(8, 2),)), {"a": SMALL, "b": LARGE}) == [("b", (6,))]


def test_a_split_of_all_pods_comes_before_fewer_in_one_pool() -> None:
    want = GangRequest((elastic(8, 2),), max_pools=2)
    assert counts(want, {"a": SMALL, "b": LARGE}) == [("b", (6,)), ("a", (2,))]


def test_quota_bounds_the_size_and_is_charged_for_what_was_given() -> None:
    plan = cycle(world({"b": LARGE}, {H100: 40}), [both(1, GangRequest((elastic(8, 2),)))])
    (part,) = plan.decisions[0].parts
    assert part.counts == ((0, 5, 0),)
    assert [c.amount[GPU] for c in part.charges] == [40]
    assert part.request.sets[0].min_count == 5


def test_j4_whole_slices_are_added() -> None:
    want = GangRequest((elastic(8, 3, slices=(Slice(2, "rack"),)),))
    assert counts(want, {"p": inventory({"r": 7}).shape()}) == [("p", (6,))]
    racks = inventory({"r": 3, "s": 3, "t": 3}).shape()
    assert counts(want, {"p": racks}) == [("p", (6,))]
    assert counts(want, {"p": inventory({"r": 3, "s": 1}).shape()}) == []


def test_a_smaller_last_slice_is_filled_pod_by_pod() -> None:
    racks = inventory({"r": 4, "s": 3}).shape()
    want = GangRequest((elastic(12, 3, slices=(Slice(4, "rack", ragged=True),)),))
    assert counts(want, {"p": racks}) == [("p", (7,))]


def test_below_its_minimum_it_waits_and_is_told_so() -> None:
    found = world({"a": SMALL}, {H100: 640})
    want = GangRequest((elastic(8, 4),))
    plan = cycle(found, [both(1, want)])
    assert not plan.decisions
    (blocked,) = plan.blocked.values()
    assert (blocked.reason, blocked.verdicts[0].wanted, blocked.verdicts[0].found) == (Reason.SHAPE, 4, 3)
    told = explain(at(found), QUEUE, want, LIMITS)
    assert (told.reason, told.pools[0].wanted, told.pools[0].found) == (Reason.SHAPE, 4, 3)


def test_quota_below_the_minimum_is_said() -> None:
    plan = cycle(world({"b": LARGE}, {H100: 24}), [both(1, GangRequest((elastic(8, 4),)))])
    (blocked,) = plan.blocked.values()
    assert (blocked.reason, blocked.verdicts[0].wanted, blocked.verdicts[0].found) == (Reason.QUOTA, 32, 24)


def test_the_flavor_that_gives_most_is_taken() -> None:
    pools = {"a": inventory({"r": 3}, name=A100).shape(), "h": LARGE}
    want = GangRequest((replace(elastic(8, 2), flavors=(A100, H100)),))
    plan = cycle(world(pools, {A100: 640, H100: 640}), [both(1, want)])
    assert [(p.flavors, p.counts) for p in plan.decisions[0].parts] == [((H100,), ((0, 6, 0),))]


def test_d9_every_set_keeps_its_own_minimum() -> None:
    want = GangRequest((elastic(1, 1, gpus=1), elastic(10, 4, gpus=0), elastic(4, 2)))
    pool = inventory({"r": 3}).shape()
    assert counts(want, {"p": pool}) == [("p", (1, 10, 2))]
    assert counts(GangRequest((elastic(1, 1), elastic(10, 4, gpus=0), elastic(4, 3))), {"p": pool}) == []


def test_a_set_without_a_minimum_may_be_left_out() -> None:
    assert counts(GangRequest((elastic(3, 3), elastic(4, 0))), {"p": SMALL}) == [("p", (3,))]


def test_the_next_job_finds_what_the_elastic_one_left() -> None:
    found = world({"b": LARGE}, {H100: 640})
    plan = cycle(found, [both(1, GangRequest((elastic(8, 2),))), both(2, request(1), submit_ms=1)])
    assert len(plan.decisions) == 1


sizes = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 3)), min_size=1, max_size=3)


@given(sizes, st.integers(0, 40))
def test_nothing_can_be_added_to_what_was_found(sets: list[tuple[int, int, int]], room: int) -> None:
    asked = GangRequest(
        tuple(elastic(least * s + more * s, least * s, slices=(Slice(s, "rack"),)) for least, more, s in sets)
    )
    if not asked.is_elastic or asked.at_least.pods > room or asked.pods <= room:
        return
    found = largest(asked, lambda r: r.pods <= room)
    assert found.pods <= room
    assert all(s.least <= n.count <= s.count for s, n in zip(asked.sets, found.sets, strict=True))
    for s, n in zip(asked.sets, found.sets, strict=True):
        assert n.count == s.count or found.pods + s.step > room
