"""One pool: what it is, and its free capacity as a picture.

The picture has a row for each coarsest domain and a cell for each lowest one, filled by how many of its hosts are
wholly free, because that is what a gang needs. Equal domains are folded when there are more than a screen holds.
Domains have no names here: nothing above a pool's agent knows them.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import clock, counted, duration, number, percent
from hanse.cli.bars import EMPTY, FULL, NOTHING, PARTLY, level
from hanse.cli.paper import Paper, Tone, joined
from hanse.cli.show.facts import facts
from hanse.cli.show.pools import largest, whole_hosts
from hanse.cli.show.words import pool_state
from hanse.cli.symbols import TIMES
from hanse.cli.table import Column, table

if TYPE_CHECKING:
    from hanse.api.v1.pool_pb2 import LargestGang, Pool, PoolFlavor, PoolShape, ShapeCell, ShapeRow

ROWS_MAX: Final = 40
CELLS_PER_LINE: Final = 40


def pool_page(pool: "Pool", paper: Paper) -> str:
    """What a pool is; with its shape, if that was asked for."""
    word, tone = pool_state(pool)
    head = f"{paper.paint(pool.name, Tone.STRONG)}  {paper.paint(word, tone)}  {pool.dialect}  {pool.region}".rstrip()
    lines = [head, *facts(list(_facts(pool)), paper)]
    if pool.HasField("shape"):
        lines += ["", *shape_lines(pool, pool.shape, paper)]
    return joined(lines)


def _facts(pool: "Pool") -> Iterator[tuple[str, str]]:
    if pool.message:
        yield "trouble", pool.message
    if pool.HasField("leave"):
        yield "leaving", leave_words(pool)
    elif pool.HasField("drain"):
        yield "draining", drain_words(pool)
    elif pool.cordoned:
        yield "cordoned", pool.cordon_reason or "takes no new work; what runs, runs on"
    if pool.levels:
        yield "levels", " > ".join(dict.fromkeys(one.alias or one.key for one in pool.levels))
    for flavor in pool.flavors:
        yield flavor.name, _flavor(flavor)
    if pool.HasField("largest_whole"):
        yield "largest", f"{largest(pool.largest_whole)}, wholly free"
    yield "gangs", f"{number(pool.gangs)} bound here"
    if pool.unusable_nodes:
        yield "unusable", f"{counted(pool.unusable_nodes, 'node')}: not ready, or of no flavor"
    yield "summary", _summary(pool)


def drain_words(pool: "Pool") -> str:
    """`3 gangs left, until 18:00:00: new switches`."""
    left = f"{counted(pool.gangs, 'gang')} left" if pool.gangs else "empty"
    until = f", until {clock(pool.drain.deadline_ms)}" if pool.drain.deadline_ms else ""
    return f"{left}{until}{': ' + pool.cordon_reason if pool.cordon_reason else ''}"


def leave_words(pool: "Pool") -> str:
    """`3 gangs left, until 18:00:00: sold`; of one that leaves by force, what its gangs wait for."""
    order = pool.leave
    if order.left_ms:
        return f"left at {clock(order.left_ms)}"
    if not order.force:
        return drain_words(pool)
    bound = counted(pool.gangs, "gang")
    why = f": {pool.cordon_reason}" if pool.cordon_reason else ""
    if order.vouch_dead:
        return f"vouched to be dead, {bound} to take back{why}"
    return f"by force, {bound} bound until its agent has stopped them{why}"


def _flavor(flavor: "PoolFlavor") -> str:
    free = f"{number(flavor.free_gpus)} free ({percent(flavor.free_gpus, flavor.gpus)})"
    whole = f"{counted(flavor.free_whole_hosts, 'host')} whole"
    return f"{counted(flavor.nodes, 'node')}, {counted(flavor.gpus, 'GPU')}, {free}, {whole}"


def _summary(pool: "Pool") -> str:
    if pool.summary_age_ms < 0:
        return "none yet"
    exact = "exact" if pool.summary_exact else "clipped: some capacity is left out"
    return f"{duration(pool.summary_age_ms)} old, {exact}"


# ---- the picture --------------------------------------------------------------------------------------------


def shape_lines(pool: "Pool", shape: "PoolShape", paper: Paper) -> list[str]:
    """The picture, its legend, and what still fits."""
    rows = sorted(shape.rows, key=_most_whole_first)
    drawn = [line for row in _shown(rows) for line in _row(*row)]
    columns = [Column(rows[0].level if rows else ""), Column(_cell_title(rows)), *_NUMBERS]
    lines = table(columns, drawn, paper, indent=2) if rows else ["  nothing is known of its shape yet"]
    some = level(1, 2)
    legend = f"  {FULL} all hosts whole  {some} some  {PARTLY} GPUs free, but no whole host  {NOTHING} nothing free"
    return [*lines, "", paper.paint(legend, Tone.DIM), "", *gang_lines(pool, shape.largest_gangs, paper)]


_NUMBERS: Final = (Column("whole hosts", right=True), Column("free GPUs", right=True))


def _most_whole_first(row: "ShapeRow") -> tuple[float, int]:
    whole, hosts = whole_hosts(row)
    return (-whole / hosts if hosts else 0.0, -_free_gpus(row))


def _free_gpus(row: "ShapeRow") -> int:
    return sum(cell.domains * cell.free_gpus for cell in row.cells)


def _shown(rows: "Sequence[ShapeRow]") -> "Iterator[tuple[str, ShapeRow]]":
    """Rows with their labels: each domain for itself, or equal ones folded."""
    folded = sum(row.domains for row in rows) > ROWS_MAX
    count = 0
    for row in rows:
        if folded:
            yield f"{row.domains:,} {TIMES}", row
        else:
            for _ in range(row.domains):
                count += 1
                yield str(count), row


def _cell_title(rows: "Sequence[ShapeRow]") -> str:
    levels = sorted({row.cell_level for row in rows})
    return f"one cell = one {' or '.join(levels)}"


def _row(label: str, row: "ShapeRow") -> Iterator[Sequence[str]]:
    cells = "".join(_cell(cell) * cell.domains for cell in row.cells)
    whole, hosts = whole_hosts(row)
    yield label, cells[:CELLS_PER_LINE], f"{number(whole)} of {number(hosts)}", number(_free_gpus(row))
    for start in range(CELLS_PER_LINE, len(cells), CELLS_PER_LINE):
        yield "", cells[start : start + CELLS_PER_LINE], "", ""


def _cell(cell: "ShapeCell") -> str:
    if cell.free_whole_hosts > 0:
        drawn = level(cell.free_whole_hosts, cell.hosts)
        return drawn if drawn != EMPTY else level(1, 6)
    return PARTLY if cell.free_gpus > 0 else NOTHING


# ---- what still fits ----------------------------------------------------------------------------------------


def gang_lines(pool: "Pool", gangs: "Sequence[LargestGang]", paper: Paper) -> list[str]:
    """The largest gang by level and size of a pod, a table for each flavor."""
    lines: list[str] = []
    for flavor in sorted({gang.flavor for gang in gangs}):
        lines += _gangs_of(pool, flavor, [gang for gang in gangs if gang.flavor == flavor], paper)
    return lines or ["  nothing fits now"]


def _gangs_of(pool: "Pool", flavor: str, gangs: "Sequence[LargestGang]", paper: Paper) -> list[str]:
    sizes = sorted({gang.gpus_per_pod for gang in gangs}, reverse=True)
    known = [one.alias for one in pool.levels]
    levels = sorted({gang.level for gang in gangs}, key=lambda name: known.index(name) if name in known else -1)
    pods = {(gang.level, gang.gpus_per_pod): gang.pods for gang in gangs}
    columns = [Column(f"largest gang, {flavor}"), *(Column(_pod(size), right=True) for size in sizes)]
    rows = [[_inside(name), *(number(pods.get((name, size), 0)) for size in sizes)] for name in levels]
    return table(columns, rows, paper, indent=2)


def _pod(gpus: int) -> str:
    return f"{gpus}-GPU pods" if gpus else "pods"


def _inside(level_name: str) -> str:
    return f"in one {level_name}" if level_name else "in the pool"
