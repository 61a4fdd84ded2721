"""Bounds on the parts of sets of children, against every set and what it really costs."""

import random
from itertools import chain, combinations

import pytest

from hanse.model.job import Slice
from hanse.shape.ask import prepare
from hanse.shape.bounds import cannot_do_with, least_below
from hanse.shape.capacity import Cap
from hanse.shape.seat import views
from hanse.shape.sets import in_order, sets_of
from hanse.shape.solve import _with_children
from hanse.shape.tightest import fewest
from tests.unit.shape.builders import H100, gang, pods, shape


def block(rng: random.Random, *slices: Slice) -> Cap:
    """A block of racks with any number of free GPUs on each host, as pods of one GPU see it."""
    racks = [[rng.randint(0, 8) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(2, 6))]
    asked = prepare(gang(pods(8, 1, slices=slices)), (H100,)).sets[0]
    return views(shape(racks), asked)[0].cap.kids[0][0]


def in_so_many(cap: Cap, count: int, n: int) -> int:
    """The fewest hosts in which some `count` racks hold n, slices left aside; many if none do."""
    racks = [
        [size for size, many in kid.census[0] for _ in range(many)] for kid, copies in cap.kids for _ in range(copies)
    ]
    heaps = [sorted(chain(*some), reverse=True) for some in combinations(racks, count)]
    return min([h for heap in heaps for h in range(1, len(heap) + 1) if sum(heap[:h]) >= n], default=1_000)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_said_to_be_impossible_is(seed: int) -> None:
    rng = random.Random(seed)
    cap = block(rng)
    for n in range(cap.peak[1] + 1, cap.fit + 1):
        count = fewest(cap.census[0], n)
        real = in_so_many(cap, count, n)
        assert least_below(cap, 1, count, n) <= real
        assert not cannot_do_with(cap, 1, count, n, real)


@pytest.mark.parametrize("seed", range(40))
def test_no_set_costs_less_than_its_bound(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.randint(2, 6)
    cap = block(rng, Slice(size, "rack"))
    for n in range(size * (cap.peak[1] // size + 1), cap.fit + 1, size):
        count = fewest(cap.census[0], n)
        sets = sets_of(cap, count, n)
        assert sets is not None
        for least, kids in in_order(cap, sets, n):
            found = _with_children(cap, kids, n)
            assert found is None or found.cost >= least
