"""A look over many pools at once, and what a cycle does to it."""

from hanse.model.ids import PoolName
from hanse.scheduler.core.shapes import Shapes
from hanse.scheduler.core.sieve import Sieve
from hanse.shape import Fit, Shape, apply, fit_ask, prepare
from hanse.shape.fleet import Fleet
from tests.unit.scheduler.worlds import H100, NONCE, inventory, request, world

SHAPES: dict[PoolName, Shape] = {
    PoolName(name): inventory({"r1": hosts, "r2": 1}).shape() for name, hosts in {"a": 2, "b": 4, "c": 3}.items()
}


def sieve_over(found: dict[PoolName, Shape]) -> tuple[Sieve, Shapes]:
    pools = world({str(name): shape for name, shape in found.items()}, {H100: 64}).snapshot(now_s=0.0, nonce=NONCE)
    shapes = Shapes(pools.pools)
    return Sieve(Fleet(), pools.pools, shapes), shapes


def sieve(found: dict[PoolName, Shape]) -> Sieve:
    return sieve_over(found)[0]


def worth_asking(found: Sieve, start: int, share: int) -> str:
    places = found.worth_asking(prepare(request(3, required="rack"), (H100,)), start, share, -1)
    return "".join("abc"[place] for place in places)


def test_pools_that_may_hold_it_come_in_the_order_of_the_walk() -> None:
    found = sieve(SHAPES)
    assert [worth_asking(found, start, 3) for start in (0, 1, 2)] == ["bc", "bc", "cb"]


def test_those_that_are_not_the_replicas_own_come_last() -> None:
    found = sieve(SHAPES)
    assert [worth_asking(found, start, 2) for start in (0, 1)] == ["bc", "bc"]


def test_a_pool_that_refused_is_not_asked_again() -> None:
    found = sieve(SHAPES)
    assert worth_asking(found, 0, 3) == "bc"
    found.refused(prepare(request(3, required="rack"), (H100,)), PoolName("b"))
    assert worth_asking(found, 0, 3) == "c"


def test_the_nearest_are_those_after_what_the_cycle_has_taken() -> None:
    found, shapes = sieve_over(SHAPES)
    ask = prepare(request(6, required="rack"), (H100,))
    assert [p.name for p in found.nearest(ask, 2, frozenset())] == ["b", "c"]
    taken = fit_ask(shapes[PoolName("b")], prepare(request(3, required="rack"), (H100,)))
    assert isinstance(taken, Fit)
    shapes[PoolName("b")] = apply(shapes[PoolName("b")], taken.decision)
    assert [p.name for p in found.nearest(ask, 3, frozenset({PoolName("a")}))] == ["c", "b"]


def test_what_pools_hold_of_a_gang_most_first() -> None:
    ask = prepare(request(9), (H100,))
    assert [(held, p.name) for held, p in sieve(SHAPES).held(ask, 9)] == [(5, "b"), (4, "c"), (3, "a")]
