"""The exact search for gangs of several sets: its limits, and that sets meet on the very hosts that were chosen."""

import pytest

from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.job import Topology
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector
from hanse.shape.arrangement import Arrangement
from hanse.shape.ask import prepare
from hanse.shape.ground import ShapeGround, arranged
from hanse.shape.mixes import Scale, grid_of
from hanse.shape.together import Together
from tests.property.shape_cases import H100, inventory
from tests.property.shape_oracle import Tree


def gang(*sets: tuple[int, int], required: str = "") -> GangRequest:
    """Sets of (pods, GPUs of each)."""
    pods = [(n, Resources({NVIDIA_GPU: g})) for n, g in sets]
    return GangRequest(tuple(SetRequest(n, n, pod, (H100,), Selector(), (), Topology(required)) for n, pod in pods))


def racks(*hosts: Tree) -> Inventory:
    """Racks by the free GPUs of their hosts."""
    return inventory(list(hosts), 1)


def test_a_leader_joins_a_host_of_its_workers_and_not_one_that_looks_the_same() -> None:
    """Once a worker took 4 of 8 GPUs its host has 4 left, as the host of somebody else has in another rack."""
    pool = racks([4], [8])
    found = place(pool, gang((1, 2), (1, 6)), (H100, H100))
    assert isinstance(found, Placement)
    assert found.nodes == ("n-1-0",)


def test_the_greedy_would_take_two_racks_where_one_does() -> None:
    pool = racks([8, 4, 4], [8, 8])
    found = place(pool, gang((2, 4), (1, 8)), (H100, H100))
    assert isinstance(found, Placement)
    assert found.nodes == ("n-1-0", "n-1-1")


@pytest.mark.parametrize(
    ("counts", "small"), [((1, 80), True), ((1, 200), False), ((14, 14), True), ((5, 5, 5), True), ((9, 9, 9), False)]
)
def test_small_is_a_number_of_pairs(counts: tuple[int, ...], small: bool) -> None:
    assert (grid_of(counts, (1,) * len(counts)) is not None) is small


def test_host_slices_count_as_one_pod() -> None:
    assert grid_of((1, 400), (1, 1)) is None
    found = grid_of((1, 400), (1, 8))
    assert found is not None
    assert found.states[-1].tolist() == [1, 400]


def test_work_that_ends_early_is_no_proof_and_no_refusal() -> None:
    pool = racks([4, 4], [4, 4], [4, 4])
    asked = prepare(gang((3, 4), (3, 4)), (H100, H100))
    search = Together(ShapeGround(pool.shape(), asked.sets), asked.sets, work=1)
    assert search.found() is None
    assert not search.refused
    found = arranged(pool.shape(), asked)
    assert isinstance(found, Arrangement)
    assert found.proven


def test_no_arrangement_is_a_refusal_for_certain() -> None:
    pool = racks([4, 4], [8])
    assert arranged(pool.shape(), prepare(gang((2, 3), (1, 8), required="rack"), (H100, H100))) is not True
    assert arranged(pool.shape(), prepare(gang((3, 3), (1, 4), required="rack"), (H100, H100))) is True


def test_costs_compare_from_the_first_number_on() -> None:
    scale = Scale([3, 1 << 40, 1 << 40])
    assert scale.holds
    ordered = [(0, 5, 9), (1, 0, 1 << 40), (1, 1, 0), (1, 1, 1), (2, 0, 0)]
    packed = [scale.cost(amounts) for amounts in ordered]
    assert sorted(packed, key=lambda c: (c.real, c.imag)) == packed
    assert len(set(packed)) == len(packed)
    assert not Scale([1 << 40, 1 << 40, 1 << 40]).holds
