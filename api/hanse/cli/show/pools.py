"""All pools as a table: how much there is, how much is free, and how whole that is."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import counted, number
from hanse.cli.bars import heights
from hanse.cli.paper import Paper, joined
from hanse.cli.show.words import pool_state
from hanse.cli.table import Cell, Column, table

if TYPE_CHECKING:
    from hanse.api.v1.pool_pb2 import LargestWhole, Pool, PoolShape, ShapeRow

BAR_CELLS: Final = 8

_COLUMNS: Final = (
    Column("pool", cut=1),
    Column("nodes", right=True),
    Column("GPUs", right=True),
    Column("free", right=True),
    Column("whole blocks"),
    Column("largest whole"),
    Column(""),
)


def pools_page(pools: "Sequence[Pool]", shapes: "Mapping[str, PoolShape]", paper: Paper) -> str:
    """The table, and a line for each pool that is not well.

    Args:
        shapes: by name of the pool; a pool without one has no bars.
    """
    if not pools:
        return "no pool has joined yet\n"
    lines = table(_COLUMNS, [_row(pool, shapes.get(pool.name)) for pool in pools], paper)
    troubles = [f"  {pool.name}: {_trouble(pool)}" for pool in pools if _trouble(pool)]
    return joined([*lines, *([""] if troubles else []), *troubles])


def _row(pool: "Pool", shape: "PoolShape | None") -> Sequence[Cell]:
    word, tone = pool_state(pool)
    return (
        pool.name,
        number(pool.nodes),
        number(pool.gpus),
        number(pool.free_gpus),
        whole_bars(shape) if shape is not None else "",
        largest(pool.largest_whole) if pool.HasField("largest_whole") else "none",
        "" if word == "healthy" else (word, tone),
    )


def _trouble(pool: "Pool") -> str:
    word = "leaving" if pool.HasField("leave") else "draining" if pool.HasField("drain") else "cordoned"
    return f"{word}: {pool.cordon_reason}" if pool.cordoned and pool.cordon_reason else pool.message


def largest(whole: "LargestWhole") -> str:
    """`256 hosts in a block`."""
    if not whole.hosts:
        return "none"
    if whole.level in ("", "host"):
        return counted(whole.hosts, "host")
    return f"{counted(whole.hosts, 'host')} in a {whole.level}"


def whole_bars(shape: "PoolShape") -> str:
    """How whole its coarsest domains are, the most whole first: one cell each, or several in one."""
    parts = sorted(
        (whole_hosts(row) for row in shape.rows for _ in range(row.domains)),
        key=lambda part: part[0] / part[1] if part[1] else 0.0,
        reverse=True,
    )
    return heights(parts, BAR_CELLS)


def whole_hosts(row: "ShapeRow") -> tuple[int, int]:
    """Hosts of one domain that are wholly free, and all of them."""
    return (
        sum(cell.domains * cell.free_whole_hosts for cell in row.cells),
        sum(cell.domains * cell.hosts for cell in row.cells),
    )
