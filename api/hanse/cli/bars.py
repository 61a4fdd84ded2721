"""Bars and cells of block characters. Pure.

A full cell means all, never nearly all: a share is rounded down, so that a rack that lacks one host looks different
from a whole one.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

LEVELS: Final = "▁▂▃▄▅▆▇"
FULL: Final = LEVELS[-1]
EMPTY: Final = LEVELS[0]
PARTLY: Final = "░"
NOTHING: Final = "·"


def bar(part: int, whole: int, cells: int) -> str:
    """How much of a whole there is: full cells, then empty ones. Something is never drawn as nothing."""
    filled = cells if part >= whole else min(cells - 1, max(1 if part > 0 else 0, part * cells // max(1, whole)))
    return FULL * filled + EMPTY * (cells - filled)


def level(part: int, whole: int) -> str:
    """One cell: the lowest for nothing, the highest for all."""
    if whole <= 0 or part <= 0:
        return EMPTY
    if part >= whole:
        return FULL
    return LEVELS[min(len(LEVELS) - 2, max(1, part * (len(LEVELS) - 1) // whole))]


def heights(parts: Sequence[tuple[int, int]], cells: int) -> str:
    """Many shares as a row of cells: as they are if they fit, else neighbours summed into one cell."""
    if len(parts) <= cells:
        return "".join(level(part, whole) for part, whole in parts)
    edges = [len(parts) * i // cells for i in range(cells + 1)]
    groups = [parts[first:end] for first, end in pairwise(edges)]
    return "".join(level(sum(p for p, _ in group), sum(w for _, w in group)) for group in groups)
