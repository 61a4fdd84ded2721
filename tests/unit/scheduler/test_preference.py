"""How pools are dealt out among replicas."""

from collections import Counter

import pytest

from hanse.model.ids import PoolName, ReplicaId
from hanse.scheduler.core.preference import Preference, preference

POOLS = tuple(PoolName(f"p{n:03}") for n in range(200))


def replicas(count: int) -> frozenset[ReplicaId]:
    return frozenset(ReplicaId(f"r{n}") for n in range(count))


def of(members: frozenset[ReplicaId], pools: tuple[PoolName, ...] = POOLS) -> dict[ReplicaId, Preference]:
    return {each: preference(each, members, pools) for each in sorted(members)}


@pytest.mark.parametrize("count", [1, 2, 7, 32, 300])
def test_every_pool_is_one_replicas_own_and_shares_differ_by_one(count: int) -> None:
    shares = [found.own for found in of(replicas(count)).values()]
    assert sorted(pool for own in shares for pool in own) == list(POOLS)
    assert max(len(own) for own in shares) - min(len(own) for own in shares) <= 1


def test_a_replica_looks_at_every_pool_once_and_at_its_own_first() -> None:
    for found in of(replicas(8)).values():
        order = sorted(POOLS, key=lambda pool: found.places[pool])
        assert sorted(found.places.values()) == list(range(len(POOLS)))
        assert frozenset(order[: len(found.own)]) == found.own


def test_replicas_whose_own_pools_are_full_go_on_to_different_ones() -> None:
    next_ones = Counter(
        min((p for p in POOLS if p not in found.own), key=lambda pool: found.places[pool])
        for found in of(replicas(16)).values()
    )
    assert max(next_ones.values()) <= 2


def test_a_replica_that_comes_takes_its_share_and_moves_few_others() -> None:
    before, after = of(replicas(7)), of(replicas(8))
    moved = sum(len(before[each].own - after[each].own) for each in before)
    assert moved <= 2 * len(POOLS) // 8


def test_the_order_of_names_and_who_asks_change_nothing() -> None:
    members = replicas(3)
    assert preference(ReplicaId("r1"), members, POOLS) == preference(ReplicaId("r1"), members, POOLS[::-1])
    assert preference(ReplicaId("r9"), members, POOLS) == preference(
        ReplicaId("r9"), members | {ReplicaId("r9")}, POOLS
    )


def test_where_there_is_no_pool_nothing_is_dealt() -> None:
    assert preference(ReplicaId("r0"), replicas(2), ()) == Preference({}, frozenset())


def test_with_fewer_pools_than_replicas_some_own_none() -> None:
    found = of(replicas(5), POOLS[:2])
    assert sorted(len(each.own) for each in found.values()) == [0, 0, 0, 1, 1]
