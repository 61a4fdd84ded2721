"""Sums and pictures of a shape."""

from hanse.model.ids import FlavorName
from hanse.model.placement import Level
from hanse.shape import Cell, Group, Shape
from hanse.shape.domains import branch, leaf
from hanse.shape.lens import Table
from tests.unit.shape.builders import H100, host_class, shape

GB200 = FlavorName("gb200")


def two_flavors() -> Shape:
    """A block of two racks of both flavors, and a host without GPUs."""
    classes = (host_class(), host_class(GB200, 4), host_class(FlavorName("cpu"), 0))
    rack = leaf({(0, 8): 2, (0, 3): 1, (1, 4): 3, (1, 0): 1, (2, 0): 1})
    levels = (Level("b", "block"), Level("r", "rack"))
    return Shape((Group(levels, branch([(branch([(rack, 2)]), 1)])),), Table(classes))


def test_sums_by_flavor() -> None:
    found = two_flavors()
    assert found.flavors == ("cpu", "gb200", "h100")
    assert (found.hosts(), found.hosts(H100), found.hosts(GB200)) == (16, 6, 8)
    assert (found.free_gpus(), found.free_gpus(H100), found.free_gpus(GB200)) == (62, 38, 24)
    assert (found.gpus(H100), found.gpus(GB200)) == (48, 32)
    assert (found.whole_hosts(), found.whole_hosts(GB200)) == (10, 6)


def test_the_largest_whole_domain_by_level() -> None:
    found = two_flavors()
    assert [found.largest_whole(level, H100) for level in ("block", "rack", "host", "zone")] == [4, 2, 1, 0]
    assert shape([[8, 8], [8]], [[8, 8, 8, 0]]).largest_whole("rack") == 3


def test_the_picture_has_a_row_per_block_and_a_cell_per_rack() -> None:
    rows = {row.cells for row in shape([[8, 0], [8, 8]], [[3, 0]]).picture()}
    assert rows == {(Cell(2, 2, 16, 16), Cell(2, 1, 8, 16)), (Cell(2, 0, 3, 16),)}


def test_copies_are_spelled_out_in_the_picture() -> None:
    (row,) = two_flavors().picture()
    assert row.cells == (Cell(8, 5, 31, 40),) * 2


def test_order_of_writing_does_not_matter() -> None:
    assert shape([[8, 1], [2, 3]], [[4]]).key == shape([[4]], [[3, 2], [1, 8]]).key
