"""A pool's free capacity as rows and cells for a picture, and the largest gangs that still fit. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Final, TypeVar

from hanse.api.v1 import pool_pb2, pool_service_pb2
from hanse.model.detail import RackUse
from hanse.model.ids import FlavorName
from hanse.model.job import Topology
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Selector
from hanse.shape import Cell, NoFit, Row, Shape, fit

T = TypeVar("T")

RACKS_MAX: Final = 4_096
ROWS_MAX: Final = 512
"""Rows of different domains in one picture."""


def shape_message(shape: Shape, *, rows_only: bool = False) -> pool_pb2.PoolShape:
    """The picture of a shape, with the largest gangs that still fit unless only rows are wanted."""
    rows = [_row(row, copies) for row, copies in _folded(shape.picture())]
    return pool_pb2.PoolShape(rows=rows[:ROWS_MAX], largest_gangs=[] if rows_only else largest_gangs(shape))


def racks_message(found: Sequence[RackUse]) -> pool_service_pb2.PoolRacks:
    """What an agent told of its lowest domains."""
    return pool_service_pb2.PoolRacks(
        racks=[pool_service_pb2.PoolRack(**asdict(one)) for one in found[:RACKS_MAX]],
        left_out=max(0, len(found) - RACKS_MAX),
    )


def _row(row: Row, copies: int) -> pool_pb2.ShapeRow:
    return pool_pb2.ShapeRow(
        domains=copies,
        level=row.levels[0].alias if row.levels else "",
        cell_level=row.levels[-1].alias if row.levels else "",
        cells=[_cell(cell, number) for cell, number in _folded(row.cells)],
    )


def _cell(cell: Cell, copies: int) -> pool_pb2.ShapeCell:
    return pool_pb2.ShapeCell(
        domains=copies,
        hosts=cell.hosts,
        gpus=cell.gpus,
        free_gpus=cell.free_gpus,
        free_whole_hosts=cell.whole_hosts,
    )


def _folded(items: Iterable[T]) -> Iterator[tuple[T, int]]:
    """Equal neighbours as one, with their number."""
    for item, same in groupby(items):
        yield item, sum(1 for _ in same)


def largest_gangs(shape: Shape) -> list[pool_pb2.LargestGang]:
    """For each flavor, size of pod and level: how many such pods one domain holds now."""
    found: list[pool_pb2.LargestGang] = []
    for flavor in shape.flavors:
        for resource, gpus in _pods_of(shape, flavor):
            for level in ("", *(level.alias for level in shape.levels)):
                pods = _most(shape, flavor, Resources({resource: gpus}), level)
                found.append(pool_pb2.LargestGang(level=level, flavor=flavor, gpus_per_pod=gpus, pods=pods))
    return found


def _pods_of(shape: Shape, flavor: FlavorName) -> list[tuple[str, int]]:
    """Pods that are asked about: of one accelerator, and of a whole host."""
    hosts = {(c.gpu, c.gpus) for c in shape.table.classes if c.flavor == flavor and c.gpus}
    return sorted({(gpu, size) for gpu, gpus in hosts for size in (1, gpus)})


def _most(shape: Shape, flavor: FlavorName, pod: Resources, level: str) -> int:
    """How many pods fit: the refusal of a gang that is certainly too large says how many there was room for."""
    too_many = shape.gpus() + 1
    one = SetRequest(too_many, too_many, pod, (flavor,), Selector(), (), Topology(required=level))
    answer = fit(shape, GangRequest((one,)), (flavor,))
    return answer.found if isinstance(answer, NoFit) else too_many
