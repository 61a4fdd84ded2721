"""Over which pools a gang is split, and what links cost."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from hanse.model.ids import PoolName
from hanse.model.job import Group, Slice, Topology
from hanse.scheduler.core.dividing import POOLS_MAX, divide
from hanse.scheduler.core.facts import PoolFacts
from hanse.scheduler.core.links import FAR, NEAR, Links, pair_of
from hanse.scheduler.core.plan import PartPlan, run_cycle
from hanse.scheduler.core.snapshot import Limits
from tests.unit.scheduler.worlds import H100, NONCE, RACK, inventory, job, pending, request, world

LIMITS = Limits()
CUT = Topology(slices=(Slice(2, "rack"),))


def facts(name: str, region: str = "", cost: int = 0) -> PoolFacts:
    return PoolFacts(PoolName(name), 0, 1, region=region, cost=cost)


def links(**said: int) -> Links:
    """Costs by `one__other`."""
    return Links({pair_of(*names.split("__")): cost for names, cost in said.items()})


@pytest.mark.parametrize(
    ("said", "cost"),
    [
        (links(), FAR),
        (links(eu__us=7), 7),
        (links(eu__us=7, a__us=5), 5),
        (links(eu__us=7, a__us=5, b__eu=4), 4),
        (links(eu__us=7, a__us=5, b__eu=4, a__b=9), 9),
    ],
)
def test_what_is_said_of_pools_goes_before_what_is_said_of_regions(said: Links, cost: int) -> None:
    one, other = facts("a", "eu"), facts("b", "us")
    assert (said.between(one, other), said.between(other, one)) == (cost, cost)


def test_pools_of_one_region_are_near_and_those_of_none_are_not() -> None:
    assert links().between(facts("a", "eu"), facts("b", "eu")) == NEAR
    assert links(eu__eu=3).between(facts("a", "eu"), facts("b", "eu")) == 3
    assert links().between(facts("a"), facts("b")) == FAR
    assert links(eu__eu=3).between(facts("a", "eu"), facts("a", "eu")) == NEAR


def slow(
    rooms: Sequence[int], count: int, pools_max: int, cost: Sequence[int], link: Mapping[tuple[int, int], int]
) -> tuple[int, ...] | None:
    """Every set of pools."""
    for size in range(1, pools_max + 1):
        sets = [s for s in itertools.combinations(range(len(rooms)), size) if sum(rooms[p] for p in s) >= count]
        if sets:
            return min(
                sets, key=lambda s: (sum(link[p] for p in itertools.combinations(s, 2)), sum(cost[p] for p in s), s)
            )
    return None


def _of(link: Mapping[tuple[int, int], int], one: int, other: int) -> int:
    return link[one, other]


def test_the_best_set_of_pools_is_found() -> None:
    rng = random.Random(3)
    for _ in range(400):
        rooms = sorted((rng.choice((1, 2, 2, 4, 8)) * 2 for _ in range(rng.randint(1, 8))), reverse=True)
        cost = [rng.choice((0, 0, 3)) for _ in rooms]
        link = {pair: rng.choice((0, 0, 5, 100)) for pair in itertools.combinations(range(len(rooms)), 2)}
        count, most = rng.randint(2, 40), rng.randint(1, 5)
        both_ways = {**link, **{(b, a): amount for (a, b), amount in link.items()}}
        found = divide(rooms, count, most, partial(_of, both_ways), cost.__getitem__)
        assert (tuple(place for place, _ in found) if found else None) == slow(rooms, count, most, cost, link)
        if found:
            assert sum(take for _, take in found) == count
            assert all(take == rooms[place] for place, take in found[:-1]), "only the last part is not full"
            assert all(take % 2 == 0 for _, take in found[:-1])


def test_no_more_pools_are_looked_at_than_is_said() -> None:
    asked: set[int] = set()

    def link(one: int, other: int) -> int:
        asked.update((one, other))
        return 1

    assert divide([2] * 200, 4, 2, link, lambda place: 0) == [(0, 2), (1, 2)]
    assert max(asked) < POOLS_MAX


def parts(
    pools: Mapping[str, tuple[int, str]],
    pods: int,
    limits: Limits = LIMITS,
    *,
    least: int = 0,
    most: int = 2,
    topology: Topology = CUT,
) -> list[tuple[str, int]]:
    """(pool, pods) of each part; pools by hosts and region."""
    found = world({name: inventory({"r": hosts}).shape() for name, (hosts, _) in pools.items()}, {H100: 640})
    for slot, (name, (_, region)) in enumerate(pools.items()):
        found.put_pool(PoolFacts(PoolName(name), slot, 4, region=region, levels=(RACK,)))
    plain = request(pods, max_pools=most, least=least)
    want = replace(plain, sets=(replace(plain.sets[0], topology=topology),))
    one = job(1, want)
    plan = run_cycle(
        found.snapshot(now_s=0.0, nonce=NONCE),
        pending([one]).service({}),
        {one.class_hash: want},
        limits,
        random.Random(1),
    )
    made: list[PartPlan] = [part for decision in plan.decisions for part in decision.parts]
    return [(part.pool, sum(count for _, count, _ in part.counts)) for part in made]


FOUR = {"a": (5, "us"), "b": (4, "eu"), "c": (4, "us"), "d": (5, "eu")}


def test_a_split_gang_stays_in_one_region_if_it_can_and_is_cut_between_slices() -> None:
    assert parts(FOUR, 8) == [("a", 4), ("c", 4)]
    assert parts({**FOUR, "c": (1, "us")}, 8) == [("b", 4), ("d", 4)]
    assert parts({**FOUR, "c": (1, "us"), "b": (1, "eu")}, 8) == [("a", 4), ("d", 4)], "fewest pools come first"


@pytest.mark.parametrize(
    "held", [Topology(required="rack"), Topology(group=Group("gang", "rack")), Topology(same=("example.com/subnet",))]
)
def test_what_one_domain_or_one_value_holds_is_not_cut(held: Topology) -> None:
    assert parts(FOUR, 8, topology=Topology()) != []
    assert parts(FOUR, 8, topology=held) == []


def test_operators_say_which_links_are_better() -> None:
    limits = Limits(links=links(us__us=50, eu__eu=60, b__c=1))
    assert parts(FOUR, 8, limits) == [("b", 4), ("c", 4)]


def test_an_elastic_gang_takes_what_several_pools_hold_if_that_is_its_minimum() -> None:
    two = {"a": (5, "us"), "b": (2, "us")}
    assert parts(two, 12) == []
    assert parts(two, 12, least=6) == [("a", 4), ("b", 2)]
    assert parts(two, 12, least=4) == [("a", 4)], "one pool comes first"
    assert parts(two, 12, least=8) == []
    assert parts(two, 12, least=6, most=1) == []
