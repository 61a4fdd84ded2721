"""The plots of the docs: well-formed, inside their picture, and the same for equal results."""

from collections.abc import Mapping
from xml.etree import ElementTree

import pytest

from bench import plots
from bench.conflicts.plot import concurrency

HIERARCHY: Mapping[str, object] = {
    "series": {"seed": 0, "hours": [0.0, 1.0, 2.0], "pools_pct": [91.0, 95.0, 93.0], "tree_pct": [90.0, 96.0, 92.5]},
    "counted_hours": [0.5, 2.0],
    "seeds": [{"seed": 0, "stranded_gpus_pct": -0.4}, {"seed": 1, "stranded_gpus_pct": 2.25}],
}
OPENB: Mapping[str, object] = {
    "rows": [
        {"list": "default", "alloc130_pct": 95.6, "std130": 0.1, "seeds130_pct": [95.5, 95.7]},
        {"list": "unpublished & odd", "alloc130_pct": 88.0, "std130": 0.2, "seeds130_pct": [87.8, 88.2]},
    ]
}
FLEET: Mapping[str, object] = {
    "nodes": [
        {"nodes_per_pool": 5_000, "cpu_us_per_gang": 9_000.0, "top_cpu_us_per_gang": 4_000.0},
        {"nodes_per_pool": 500, "cpu_us_per_gang": 8_000.0, "top_cpu_us_per_gang": 4_100.5},
        {"nodes_per_pool": 50_000, "cpu_us_per_gang": 17_000.0, "top_cpu_us_per_gang": 4_200.0},
    ]
}


CONCURRENCY: Mapping[str, object] = {
    "runs": [
        {
            "replicas": replicas,
            "load": load,
            "prefer": prefer,
            "whole": whole,
            "gangs_per_s": 40.0 * replicas,
            "conflict_fraction": 0.0 if prefer else replicas / 20,
        }
        for load in (0.5, 0.95)
        for prefer in (True, False)
        for whole in (True, False)
        for replicas in (1, 2, 8)
    ]
}


@pytest.mark.parametrize(
    "picture", [plots.hierarchy(HIERARCHY), plots.openb(OPENB), concurrency(CONCURRENCY), plots.fleet(FLEET)]
)
def test_a_plot_is_well_formed_and_nothing_lies_outside_of_it(picture: str) -> None:
    root = ElementTree.fromstring(picture)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for mark in root:
        for name, value in mark.attrib.items():
            if name in ("x", "x1", "x2", "cx"):
                assert 0 <= float(value) <= width, mark.attrib
            if name in ("y", "y1", "y2", "cy"):
                assert 0 <= float(value) <= height, mark.attrib


def test_a_list_without_a_published_result_has_no_mark_of_one() -> None:
    root = ElementTree.fromstring(plots.openb(OPENB))
    diamonds = [mark for mark in root if mark.tag.endswith("polygon")]
    assert len(diamonds) == 1 + 1  # of the default list, and of the legend


def test_every_load_has_a_line_for_each_preference_and_kind_of_guard_above_and_below() -> None:
    root = ElementTree.fromstring(concurrency(CONCURRENCY))
    assert sum(mark.tag.endswith("polyline") for mark in root) == 2 * 2 * 4


def test_higher_is_drawn_higher() -> None:
    root = ElementTree.fromstring(plots.hierarchy(HIERARCHY))
    tree, pools = (mark.attrib["points"].split() for mark in root if mark.tag.endswith("polyline"))
    assert float(pools[1].split(",")[1]) < float(pools[0].split(",")[1])
    assert float(tree[1].split(",")[1]) < float(pools[1].split(",")[1])
