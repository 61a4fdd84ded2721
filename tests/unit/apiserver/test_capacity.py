"""What can never fit is refused for good, and only where that is certain."""

from dataclasses import replace

from hanse.apiserver.capacity import EmptyFleet, NeverFits
from hanse.apiserver.ports import PoolView
from hanse.model.ids import FlavorName, PoolName, QueueName, QueueUid
from hanse.model.job import Topology
from hanse.model.queue import FlavorQuota, Queue
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import EMPTY, Resources
from hanse.model.selectors import Selector
from tests.unit.apiserver.stage import GPU, H100, pool

A100 = FlavorName("a100")
QUEUE = Queue(QueueUid("abcdefgh"), QueueName("q"), quotas=(FlavorQuota(H100, EMPTY), FlavorQuota(A100, EMPTY)))


def workers(count: int, *flavors: FlavorName, required: str = "") -> SetRequest:
    return SetRequest(count, count, Resources({GPU: 8}), flavors, Selector(), (), Topology(required=required))


def verdict(*pools: PoolView, sets: tuple[SetRequest, ...], max_pools: int = 1) -> NeverFits | None:
    request = GangRequest(sets, max_pools)
    return EmptyFleet().never_fits(tuple(p.offer for p in pools), request, queue=QUEUE, class_hash=1)


def test_one_pool_that_could_hold_it_is_enough() -> None:
    assert verdict(pool("a", 1, 2), pool("b", 1, 8), sets=(workers(8),)) is None


def test_the_nearest_miss_is_told() -> None:
    never = verdict(pool("a", 1, 2), pool("b", 1, 6), pool("c", 1, 4), sets=(workers(8),))
    assert never is not None
    assert (never.pool, never.miss.reason, never.miss.wanted, never.miss.found) == ("b", Reason.SHAPE, 8, 6)


def test_any_flavor_of_the_queue_will_do_for_a_job_that_names_none() -> None:
    a100 = pool("a", 1, 8, flavor=A100)
    assert verdict(a100, sets=(workers(8),)) is None
    assert verdict(a100, sets=(workers(8, H100),)) is not None
    assert verdict(a100, sets=(workers(8, H100, A100),)) is None


def test_pod_sets_may_be_of_different_flavors_only_where_a_pool_has_both() -> None:
    both = (workers(2, H100), workers(2, A100))
    assert verdict(pool("a", 1, 8, flavor=A100), pool("b", 1, 8), sets=both) is not None


def test_nothing_is_certain_while_a_pool_has_not_told_its_shape() -> None:
    assert verdict(pool("a", 1, 2), PoolView(PoolName("new")), sets=(workers(8),)) is None
    assert verdict(sets=(workers(8),)) is None


def test_a_detached_pool_counts() -> None:
    assert verdict(replace(pool("a", 1, 8), attached=False, shape=None), sets=(workers(8),)) is None


def test_a_gang_that_may_be_split_is_not_judged() -> None:
    assert verdict(pool("a", 1, 2), sets=(workers(8),), max_pools=2) is None


def test_verdicts_are_kept_until_a_shape_changes() -> None:
    fleet, small, large = EmptyFleet(), pool("a", 1, 2), pool("a", 1, 8)
    request = GangRequest((workers(8),))
    first = fleet.never_fits((small.offer,), request, queue=QUEUE, class_hash=7)
    again = fleet.never_fits((replace(small, cordoned=True).offer,), request, queue=QUEUE, class_hash=7)
    grown = fleet.never_fits((large.offer,), request, queue=QUEUE, class_hash=7)
    assert first is not None
    assert again is first
    assert grown is None


def test_too_many_combinations_of_flavors_are_not_judged() -> None:
    fleet = [FlavorName(f"f{i}") for i in range(5)]
    queue = Queue(QueueUid("abcdefgh"), QueueName("q"), quotas=tuple(FlavorQuota(f, EMPTY) for f in fleet))
    sets = tuple(workers(9_000) for _ in range(4))
    pools = tuple(pool(str(f), 1, 1, flavor=f).offer for f in fleet)
    assert EmptyFleet().never_fits(pools, GangRequest(sets), queue=queue, class_hash=1) is not None
