"""Draws the plots of docs/quality.md, docs/speed.md and docs/concurrency.md from what benches have left in bench/out.

`python -m bench.plots` writes those of PLOTS into docs/img, each if its bench has been run. Equal results give equal
files.
"""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict, cast

from bench.conflicts.plot import concurrency
from bench.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    TITLE_PX,
    Key,
    Panel,
    Scale,
    box,
    diamond,
    document,
    dot,
    legend,
    segment,
    text,
)
from bench.openb import LIST_PREFIX, PUBLISHED

ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = ROOT / "bench" / "out"
IMAGES: Final = ROOT / "docs" / "img"
WIDTH_PX: Final = 760
STRANDED_AIM_PCT: Final = 0.5
CURVE_NODES: Final = (400, 60_000)
"""Ends of the axis of nodes of a pool."""


class Series(TypedDict):
    seed: int
    hours: list[float]
    pools_pct: list[float]
    tree_pct: list[float]


class Seed(TypedDict):
    seed: int
    stranded_gpus_pct: float


class OpenbRow(TypedDict):
    list: str
    alloc130_pct: float
    std130: float
    seeds130_pct: Sequence[float]


class FleetRow(TypedDict):
    nodes_per_pool: int
    cpu_us_per_gang: float
    top_cpu_us_per_gang: float


# ---- 20 pools and one tree -----------------------------------------------------------------------------------


def hierarchy(raw: Mapping[str, object]) -> str:
    """GPUs allocated over time by both sides; below, what is stranded in each seed."""
    series = cast("Series", raw["series"])
    seeds = cast("Sequence[Seed]", raw["seeds"])
    since = cast("Sequence[float]", raw["counted_hours"])[0]
    height = 372 + 24 * len(seeds) + 64
    parts = [*_course(series, since), *_stranded(seeds, 372.0)]
    return document(WIDTH_PX, height, "GPUs allocated by 20 pools and by one tree of all nodes", parts)


def _course(series: Series, since: float) -> Iterator[str]:
    lowest = min(min(series["pools_pct"]), min(series["tree_pct"]))
    panel = Panel(
        Scale(0.0, series["hours"][-1], 60.0, WIDTH_PX - 20.0), Scale(min(85.0, lowest // 5 * 5), 100.0, 290.0, 60.0)
    )
    yield text(16, 24, f"GPUs allocated, % of all (seed {series['seed']})", size=TITLE_PX)
    yield from legend(
        [Key("line", BLUE, "20 pools, global and agents"), Key("line", ORANGE, "one tree of all nodes")], 46
    )
    yield box(panel.x.at(0), panel.y.at_low, panel.x.at(since), panel.y.at_high, GREY, opacity=0.15)
    yield text(panel.x.at(0) + 6, panel.y.at_low - 8, "not counted")
    yield from panel.grid_x(panel.x.ticks(0.25 if panel.x.high <= 2 else 1.0 if panel.x.high <= 12 else 4.0))
    yield from panel.grid_y(panel.y.ticks(5.0))
    yield text((panel.x.at_low + panel.x.at_high) / 2, panel.y.at_low + 38, "hours of virtual time", anchor="middle")
    yield panel.line(
        zip(series["hours"], series["tree_pct"], strict=True), ORANGE, width=5
    )  # seen on both sides where the lines meet
    yield panel.line(zip(series["hours"], series["pools_pct"], strict=True), BLUE)


def _stranded(seeds: Sequence[Seed], top: float) -> Iterator[str]:
    values = [seed["stranded_gpus_pct"] for seed in seeds]
    edge = max(1.0, *(abs(v) for v in values)) * 1.1
    bottom = top + 24.0 * len(seeds)
    panel = Panel(Scale(-edge, edge, 90.0, WIDTH_PX - 20.0), Scale(0.0, len(seeds), top, bottom))
    mean = sum(values) / len(values)
    yield text(16, top - 14, "Stranded by two levels, % of all GPUs: one tree less 20 pools", size=TITLE_PX)
    yield from panel.grid_x(panel.x.ticks(0.5))
    for row, (seed, value) in enumerate(zip(seeds, values, strict=True)):
        y = panel.y.at(row + 0.5)
        yield text(panel.x.at_low - 12, y + 4, f"seed {seed['seed']}", anchor="end")
        yield box(panel.x.at(0), y - 6, panel.x.at(value), y + 6, BLUE, opacity=0.8)
    for value, colour, dash in ((STRANDED_AIM_PCT, ORANGE, "5 4"), (mean, GREEN, ""), (0.0, INK, "")):
        yield segment(
            panel.x.at(value), top, panel.x.at(value), bottom, colour, dash=dash, width=2 if colour != INK else 1
        )
    keys = [
        Key("line", GREEN, f"mean {mean:+.2f}"),
        Key("line", ORANGE, f"aim: at most {STRANDED_AIM_PCT:g} (dashed)"),
    ]
    yield from legend(keys, bottom + 44)


# ---- openb ---------------------------------------------------------------------------------------------------


def openb(raw: Mapping[str, object]) -> str:
    """GPUs allocated at 130 % arrival, a row a list, beside what was published."""
    rows = cast("Sequence[OpenbRow]", raw["rows"])
    top, height = 74.0, 74 + 30 * len(rows) + 56
    known = [(row, PUBLISHED.get(row["list"].removeprefix(LIST_PREFIX))) for row in rows]
    runs = max(len(row["seeds130_pct"]) for row in rows)
    mean = "one seed" if runs == 1 else f"mean of {runs} seeds and their spread"
    values = [v for row, published in known for v in (row["alloc130_pct"], *(published or ()))]
    panel = Panel(
        Scale(min(values) // 1 - 0.5, max(values) // 1 + 1.5, 130.0, WIDTH_PX - 20.0),
        Scale(0.0, len(rows), top, top + 30.0 * len(rows)),
    )
    parts = [
        text(16, 24, "openb: GPUs allocated when 130 % of capacity has arrived, %", size=TITLE_PX),
        *legend(
            [
                Key("dot", BLUE, f"Hanse, {mean}"),
                Key("diamond", ORANGE, "FGD, published"),
                Key("ring", INK, "BestFit, published"),
            ],
            50,
        ),
        *panel.grid_x(panel.x.ticks(1.0)),
        text((panel.x.at_low + panel.x.at_high) / 2, panel.y.at_high + 40, "% of 6,212 GPUs", anchor="middle"),
        *(mark for at, (row, published) in enumerate(known) for mark in _list(panel, at, row, published)),
    ]
    return document(WIDTH_PX, height, "GPUs allocated on the openb pod lists", parts)


def _list(panel: Panel, at: int, row: OpenbRow, published: tuple[float, float] | None) -> Iterator[str]:
    y = panel.y.at(at + 0.5)
    yield text(panel.x.at_low - 14, y + 4, row["list"].removeprefix(LIST_PREFIX), anchor="end")
    yield segment(panel.x.at_low, y, panel.x.at_high, y, GREY, opacity=0.3)
    if published is not None:
        yield diamond(panel.x.at(published[0]), y, ORANGE)
        yield dot(panel.x.at(published[1]), y, INK, hollow=True)
    mean, spread = row["alloc130_pct"], row["std130"]
    yield segment(panel.x.at(mean - spread), y, panel.x.at(mean + spread), y, BLUE, width=2)
    yield dot(panel.x.at(mean), y, BLUE, radius=4.5)


# ---- nodes of a pool -------------------------------------------------------------------------------------------


def fleet(raw: Mapping[str, object]) -> str:
    """What a gang costs by nodes of a pool: in all processes, and in those above the agents."""
    rows = sorted(cast("Sequence[FleetRow]", raw["nodes"]), key=lambda row: row["nodes_per_pool"])
    edge = max(row["cpu_us_per_gang"] for row in rows) * 1.1
    step = 10.0 ** math.floor(math.log10(edge))
    low, high = (math.log10(nodes) for nodes in CURVE_NODES)
    panel = Panel(Scale(low, high, 90.0, WIDTH_PX - 20.0), Scale(0.0, edge, 300.0, 70.0))
    parts = [
        text(16, 24, "CPU of a gang by nodes of a pool, microseconds", size=TITLE_PX),
        *legend([Key("dot", ORANGE, "all processes"), Key("dot", BLUE, "all but agents and clusters")], 50),
        *panel.grid_y(panel.y.ticks(step if edge / step > 3 else step / 5)),
    ]
    for colour, figure in ((ORANGE, "cpu_us_per_gang"), (BLUE, "top_cpu_us_per_gang")):
        points = [(math.log10(row["nodes_per_pool"]), cast("float", row[figure])) for row in rows]  # type: ignore[literal-required]
        parts.append(panel.line(points, colour))
        parts.extend(dot(panel.x.at(x), panel.y.at(y), colour) for x, y in points)
    for row in rows:
        x = panel.x.at(math.log10(row["nodes_per_pool"]))
        parts.append(text(x, panel.y.at_low + 18, f"{row['nodes_per_pool']:,}", anchor="middle"))
    parts.append(
        text((panel.x.at_low + panel.x.at_high) / 2, panel.y.at_low + 40, "nodes of a pool", anchor="middle")
    )
    return document(WIDTH_PX, 356, "What a gang costs, by nodes of a pool", parts)


PLOTS: Final = {
    "concurrency": ("conflicts", concurrency),
    "fleet": ("fleet", fleet),
    "hierarchy": ("hierarchy", hierarchy),
    "openb": ("openb", openb),
}
"""By the name of the picture: the bench whose result is drawn, and how."""


def main() -> int:
    """Command line; see the module docstring."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, (bench, draw) in PLOTS.items():
        result = OUT / f"{bench}.json"
        if not result.exists():
            print(f"plots: {result.relative_to(ROOT)} is not there; make bench BENCH={bench}", file=sys.stderr)
            continue
        image = IMAGES / f"{name}.svg"
        image.write_text(draw(json.loads(result.read_text(encoding="utf-8"))["raw"]), encoding="utf-8")
        print(image.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
