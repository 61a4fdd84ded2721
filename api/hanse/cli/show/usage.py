"""What was used: a table with a sum, the same as values and as CSV, and what is missing in it."""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import counted, number, percent
from hanse.cli.paper import Paper, Tone, joined, wrapped
from hanse.cli.table import Cell, Column, table

if TYPE_CHECKING:
    from hanse.api.v1.usage_service_pb2 import UsageGap, UsageRow
    from hanse.client.usage import Usage

_HOUR_MS: Final = 3_600_000
_MICROS: Final = 1_000_000


def usage_page(found: "Usage", by: Sequence[str], title: str, paper: Paper) -> str:
    """The table, its sum, and what is missing."""
    until = datetime.fromtimestamp(found.until_ms / 1_000, UTC)
    lines = [paper.paint(f"usage of {title}, as of {until:%Y-%m-%d %H:%M} UTC", Tone.DIM), ""]
    whole = sum(row.gpu_ms for row in found.rows)
    paid = any(row.cost_micros for row in found.rows)
    columns = [*(Column(name, cut=1) for name in by), Column("GPU-hours", right=True), Column("share", right=True)]
    columns += [Column("cost", right=True)] if paid else []
    columns.append(Column("attempts", right=True))
    rows: list[list[Cell]] = [
        [*(named(row, name) for name in by), *_figures(row.gpu_ms, row.cost_micros, row.attempts, whole, paid=paid)]
        for row in found.rows
    ]
    if not rows:
        lines.append("nothing was used")
    elif by:
        cost, attempts = (sum(getattr(row, name) for row in found.rows) for name in ("cost_micros", "attempts"))
        total: list[Cell] = [("all", Tone.STRONG), *("" for _ in by[1:])]
        rows.append([*total, *_figures(whole, cost, attempts, whole, paid=paid)])
    lines += table(columns, rows, paper) if rows else []
    for line in _missing(found.gaps):
        told = wrapped(line, paper.width - 2) if paper.cut else [line]
        lines += ["", f"{paper.paint('!', Tone.WAITING)} {told[0]}", *[f"  {rest}" for rest in told[1:]]]
    return joined(lines)


def _figures(gpu_ms: int, cost_micros: int, attempts: int, whole: int, *, paid: bool) -> list[Cell]:
    cost: list[Cell] = [money(cost_micros)] if paid else []
    return [hours(gpu_ms), percent(gpu_ms, whole), *cost, number(attempts)]


def _missing(gaps: "Sequence[UsageGap]") -> Iterator[str]:
    """Sentences about what is not in the sums."""
    for gap in gaps:
        if gap.gpu_ms or gap.jobs:
            yield (
                f"{counted(gap.jobs, 'job')} of {gap.month} with {hours(gap.gpu_ms)} GPU-hours left the servers; how"
                f" much of that lies in these days is not known any more (`--month {gap.month}` counts it all)"
            )
        if gap.lost_ms:
            seen = datetime.fromtimestamp(gap.lost_ms / 1_000, UTC)
            yield (
                f"sums of {gap.month} lack something (seen {seen:%Y-%m-%d %H:%M} UTC): they were damaged, or the"
                " store was full; the archive's files have the jobs"
            )


def usage_object(found: "Usage", by: Sequence[str], start_ms: int) -> dict[str, object]:
    """The report for programs."""
    return {
        "since": start_ms,
        "until": found.until_ms,
        "usage": [
            {
                **{name: named(row, name) for name in by},
                "gpu_hours": round(row.gpu_ms / _HOUR_MS, 6),
                "gpu_ms": row.gpu_ms,
                "cost": row.cost_micros / _MICROS,
                "attempts": row.attempts,
            }
            for row in found.rows
        ],
        "missing": [
            {"month": gap.month, "jobs": gap.jobs, "gpu_ms": gap.gpu_ms, "lost_at": gap.lost_ms or None}
            for gap in found.gaps
        ],
    }


def usage_csv(found: "Usage", by: Sequence[str]) -> str:
    """A heading and a line for each row; amounts as decimals that a spreadsheet reads."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*by, "gpu_hours", "cost", "attempts"])
    for row in found.rows:
        names = [_harmless(named(row, name)) for name in by]
        lines.writerow([*names, f"{row.gpu_ms / _HOUR_MS:.6f}", f"{row.cost_micros / _MICROS:.6f}", row.attempts])
    return text.getvalue()


def _harmless(text: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def named(row: "UsageRow", dimension: str) -> str:
    """What a row is told apart by."""
    return {"queue": row.queue, "user": row.user, "flavor": row.flavor, "pool": row.pool}[dimension]


def hours(gpu_ms: int) -> str:
    """`1,204.5`: GPU-hours."""
    return f"{gpu_ms / _HOUR_MS:,.1f}"


def money(cost_micros: int) -> str:
    """`2,409.00`: of the site's unit."""
    return f"{cost_micros / _MICROS:,.2f}"
