"""The plot of docs/concurrency.md: what so many replicas bind, and how often they collide, from the bench's `raw`."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypedDict, cast

from bench.drawing import BLUE, GREEN, GREY, ORANGE, TITLE_PX, Key, Panel, Scale, document, dot, legend, text

WIDTH_PX: Final = 760
PANEL_PX: Final = 230.0
TOPS: Final = (96.0, 396.0)
LEFTS: Final = (60.0, 430.0)
BREADTH_PX: Final = 310.0


class Run(TypedDict):
    """One setting, as `raw.runs` has it."""

    replicas: int
    load: float
    prefer: bool
    whole: bool
    gangs_per_s: float
    conflict_fraction: float


class Line(NamedTuple):
    """One line of a panel, and how thick it is: a thick one is seen on both sides of a thin one on top of it."""

    prefer: bool
    whole: bool
    colour: str
    words: str
    thick: float


LINES: Final = (
    Line(True, True, GREEN, "preference, whole pools", 5.0),
    Line(True, False, BLUE, "preference, flavors", 1.6),
    Line(False, True, GREY, "none, whole pools", 1.6),
    Line(False, False, ORANGE, "none, flavors", 1.6),
)


def concurrency(raw: Mapping[str, object]) -> str:
    """A column for each load; above, gangs a second against one replica; below, transactions in conflict."""
    runs = cast("Sequence[Run]", raw["runs"])
    loads = sorted({run["load"] for run in runs if not run["prefer"] and run["replicas"] == 1})[: len(LEFTS)]
    parts = [
        text(16, 24, "Replicas that schedule at once (virtual time)", size=TITLE_PX),
        *legend([Key("line", line.colour, line.words) for line in LINES], 48, gap=14.0),
    ]
    for left, load in zip(LEFTS, loads, strict=False):
        own = [run for run in runs if run["load"] == load]
        parts += [*_rates(own, left, load), *_fractions(own, left)]
    return document(WIDTH_PX, 680, "What many replicas bind, and how often they collide", parts)


def _rates(runs: Sequence[Run], left: float, load: float) -> Iterator[str]:
    most = max(run["replicas"] for run in runs)
    alone = next(run["gangs_per_s"] for run in runs if run["replicas"] == 1)
    panel = _panel(left, TOPS[0], most, most * 1.05)
    yield text(left, TOPS[0] - 14, f"gangs/s ÷ one replica's, {load:.0%} of GPUs taken")
    yield from _grid(panel, most, [most * part / 4 for part in range(5)])
    yield from _lines(panel, runs, lambda run: run["gangs_per_s"] / alone)


def _fractions(runs: Sequence[Run], left: float) -> Iterator[str]:
    most = max(run["replicas"] for run in runs)
    top = max(10.0, *(run["conflict_fraction"] * 100 for run in runs)) * 1.05
    panel = _panel(left, TOPS[1], most, top)
    yield text(left, TOPS[1] - 14, "transactions in conflict, %")
    yield from _grid(panel, most, panel.y.ticks(10.0))
    yield from _lines(panel, runs, lambda run: run["conflict_fraction"] * 100)
    middle = (panel.x.at_low + panel.x.at_high) / 2
    yield text(middle, panel.y.at_low + 38, "replicas", anchor="middle")


def _panel(left: float, top: float, most: int, high: float) -> Panel:
    across = Scale(0.0, max(1.0, math.log2(most)), left, left + BREADTH_PX)
    return Panel(across, Scale(0.0, high, top + PANEL_PX, top))


def _grid(panel: Panel, most: int, ticks: Sequence[float]) -> Iterator[str]:
    yield from panel.grid_y(ticks)
    for power in range(int(math.log2(most)) + 1):
        at = panel.x.at(power)
        yield text(at, panel.y.at_low + 18, str(2**power), anchor="middle")


def _lines(panel: Panel, runs: Sequence[Run], value: Callable[[Run], float]) -> Iterator[str]:
    for line in LINES:
        own = [run for run in runs if (run["prefer"], run["whole"]) == (line.prefer, line.whole)]
        points = sorted({math.log2(run["replicas"]): value(run) for run in own}.items())
        if points:
            yield panel.line(points, line.colour, width=line.thick)
            yield from (dot(panel.x.at(x), panel.y.at(y), line.colour, radius=line.thick + 0.9) for x, y in points)
