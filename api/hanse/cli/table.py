"""Tables of plain text: columns as wide as their longest cell, some of them narrower where the paper ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hanse.cli.paper import Paper, Tone, columns_of, cut_to

Cell: TypeAlias = str | tuple[str, Tone]
"""A text, or a text with its tone."""

GAP: Final = "  "
CUT_COLUMNS_MIN: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        right: numbers stand right.
        cut: its cells may be cut where the paper ends: those with 1 first, then those with 2; 0 for never.
    """

    title: str
    right: bool = False
    cut: int = 0


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], paper: Paper, *, indent: int = 0) -> list[str]:
    """The lines of a table, headings first. Columns without a title and without any text are left out."""
    kept = [i for i, column in enumerate(columns) if column.title or any(_text(row[i]) for row in rows)]
    columns = [columns[i] for i in kept]
    rows = [[row[i] for i in kept] for row in rows]
    widths = _widths(columns, rows, paper, indent)
    margin = " " * indent

    def line(cells: Sequence[Cell]) -> str:
        padded = (_padded(*of, paper) for of in zip(cells, columns, widths, strict=True))
        return (margin + GAP.join(padded)).rstrip()

    head = [line([(column.title, Tone.DIM) for column in columns])] if any(c.title for c in columns) else []
    return head + [line(row) for row in rows]


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], paper: Paper, indent: int) -> list[int]:
    widths = [
        max([columns_of(column.title), *(columns_of(_text(row[i])) for row in rows)])
        for i, column in enumerate(columns)
    ]
    over = indent + sum(widths) + len(GAP) * (len(widths) - 1) - paper.width
    if paper.cut:
        for turn in sorted({column.cut for column in columns if column.cut}):
            over = _shrink(widths, [i for i, column in enumerate(columns) if column.cut == turn], over)
    return widths


def _shrink(widths: list[int], flexible: Sequence[int], over: int) -> int:
    """Take columns from the widest of some until nothing is over, or all are at their least; what is still over."""
    while over > 0:
        widest = max(flexible, key=lambda i: widths[i])
        if widths[widest] <= CUT_COLUMNS_MIN:
            break
        widths[widest] -= 1
        over -= 1
    return over


def _padded(cell: Cell, column: Column, width: int, paper: Paper) -> str:
    text, tone = (cell, Tone.PLAIN) if isinstance(cell, str) else cell
    shown = cut_to(text, width)
    space = " " * (width - columns_of(shown))
    painted = paper.paint(shown, tone)
    return space + painted if column.right else painted + space
