"""Which jobs leave a pool that is drained."""

import pytest

from hanse.model.ids import PoolName
from hanse.model.request import GangRequest
from hanse.scheduler.core.draining import leaving, residents
from hanse.scheduler.core.facts import BindingFacts
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.core.world import World
from tests.unit.scheduler.worlds import A100, H100, NONCE, binding, inventory, request, world

HERE = PoolName("here")


def bound(found: World, *jobs: tuple[int, GangRequest, int]) -> list[BindingFacts]:
    """Bindings in the pool that is drained: (number, request, revision)."""
    made = [binding(number, HERE, want, revision) for number, want, revision in jobs]
    for one in made:
        found.put_binding(f"b{one.job}", one)
    return found.ledger(HERE).bindings()


def leave(found: World, bindings: list[BindingFacts], *, moving: int = 0, overdue: bool = False) -> list[int]:
    """Numbers of the jobs that may leave."""
    snapshot = found.snapshot(now_s=0.0, nonce=NONCE)
    told = leaving(snapshot, Limits(), HERE, residents(bindings), moving=moving, overdue=overdue)
    return [int(one.job.rpartition("-")[2]) for one in told]


@pytest.fixture
def two() -> World:
    """Four hosts here, three elsewhere."""
    return world(
        {"here": inventory({"r1": 4}).shape(), "there": inventory({"r1": 3}).shape()}, {H100: 640, A100: 640}
    )


def test_the_youngest_goes_first_and_only_who_has_room_elsewhere(two: World) -> None:
    here = bound(two, (1, request(1), 11), (2, request(4), 12), (3, request(2), 13))
    assert leave(two, here) == [3, 1]


def test_one_at_a_time(two: World) -> None:
    assert leave(two, bound(two, (1, request(1), 11)), moving=1) == []


def test_after_the_deadline_all_go_room_or_not(two: World) -> None:
    here = bound(two, (1, request(4), 11), (2, request(1), 12))
    assert leave(two, here, moving=1, overdue=True) == [2, 1]


def test_a_pool_that_takes_no_work_is_no_room(two: World) -> None:
    here = bound(two, (1, request(1), 11))
    two.put_attached(PoolName("there"), "")
    assert leave(two, here) == []


def test_what_a_job_holds_pays_for_the_same_flavor_and_for_no_other() -> None:
    tight = {H100: 8, A100: 0}
    same = world({"here": inventory({"r": 1}).shape(), "there": inventory({"r": 1}).shape()}, tight)
    assert leave(same, bound(same, (1, request(1), 11))) == [1]
    pools = {"here": inventory({"r": 1}).shape(), "there": inventory({"r": 1}, name=A100).shape()}
    other = world(pools, {H100: 8, A100: 4})
    assert leave(other, bound(other, (1, request(1), 11))) == []
    enough = world(pools, {H100: 8, A100: 8})
    assert leave(enough, bound(enough, (1, request(1), 11))) == [1]
