"""Lines of `name   value`, with long values wrapped below themselves."""

from collections.abc import Sequence
from typing import Final

from hanse.cli.paper import Paper, Tone, columns_of, wrapped

NAME_COLUMNS: Final = 10


def facts(pairs: Sequence[tuple[str, str]], paper: Paper, *, indent: int = 2) -> list[str]:
    """The lines. A name that is empty, or repeats the one before, continues it."""
    width = max([NAME_COLUMNS, *(columns_of(name) for name, _ in pairs)])
    lines: list[str] = []
    before = ""
    for name, value in pairs:
        shown = "" if name == before else name
        before = name
        for line in wrapped(value, paper.width - indent - width - 1) if paper.cut else [value]:
            lines.append(f"{' ' * indent}{paper.paint(shown, Tone.DIM)}{' ' * (width - columns_of(shown))} {line}")
            shown = ""
    return lines
