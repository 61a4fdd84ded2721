"""The openb bench on lists of a few pods: which lists it reads, when it stops asking, what it says without data."""

from pathlib import Path

import pytest

from bench import openb
from bench.contract import BenchArgumentError, BenchResult

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,2,T4\nn1,96000,393216,8,G2\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "p0,4000,8192,1,500,\np1,4000,8192,1,1000,G2\np2,1000,1024,0,0,\np3,2000,2048,2,1000,T4|G2\n"
)
BARE = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,4000,8192,1,500\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(openb, "DATA", tmp_path)
    (tmp_path / openb.NODES_FILE).write_text(NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS)
    (tmp_path / "openb_pod_list_gpushare40.csv").write_text(BARE)
    return tmp_path


def rows(result: BenchResult) -> dict[str, dict[str, object]]:
    assert isinstance(result.raw, dict)
    return {row["list"]: row for row in result.raw["rows"]}


def test_every_pod_list_of_the_folder_has_a_row(folder: Path) -> None:
    result = openb.run({"SEEDS": "2"})
    assert set(rows(result)) == {"default", "gpushare40"}
    assert {"list", "alloc100_pct", "alloc130_pct", "std130"} <= set(rows(result)["default"])
    assert result.figures["default_alloc130_pct"] == rows(result)["default"]["alloc130_pct"]
    assert result.figures["lists_at_or_above_fgd"] == 2  # few pods, all placed


def test_other_lists_have_no_published_row(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.csv").write_text(PODS)
    (other / "notes.csv").write_text("a,b\n1,2\n")
    result = openb.run({"SEEDS": "1", "LISTS": str(other)})
    assert list(rows(result)) == ["mine"]
    assert result.figures["default_alloc130_pct"] is None
    assert result.figures["lists_at_or_above_fgd"] is None
    assert isinstance(result.raw, dict)
    assert result.raw["reason"]


def test_without_data_there_are_no_figures_but_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openb, "DATA", tmp_path)
    result = openb.run({})
    assert set(result.figures.values()) == {None}
    assert isinstance(result.raw, dict)
    assert openb.NODES_FILE in str(result.raw["reason"])


@pytest.mark.parametrize("wrong", [{"SEEDS": "0"}, {"LISTS": "/nowhere"}, {"LIST": "x"}])
def test_wrong_use_is_told(folder: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(BenchArgumentError):
        openb.run(wrong)


def test_pods_are_drawn_once_each_then_again_until_the_demand_is_reached(folder: Path) -> None:
    pods = openb.read_pods(folder / "openb_pod_list_default.csv")
    drawn = list(openb.stream(pods, 13_000, 1))
    assert sorted(id(pod) for pod in drawn[:4]) == sorted(id(pod) for pod in pods)
    assert sum(pod.milli for pod in drawn) >= 13_000 > sum(pod.milli for pod in drawn[:-1])
    assert [pod.milli for pod in drawn] == [pod.milli for pod in openb.stream(pods, 13_000, 1)]
    assert [pod.milli for pod in drawn] != [pod.milli for pod in openb.stream(pods, 13_000, 2)]


def test_what_is_allocated_never_exceeds_what_there_is(folder: Path) -> None:
    nodes = openb.read_nodes(folder / openb.NODES_FILE)
    for name in ("default", "gpushare40"):
        run = openb.fill(nodes, openb.read_pods(folder / f"openb_pod_list_{name}.csv"), 3)
        assert 70 < run.at_100 <= run.at_130 <= 100


def test_a_list_in_which_no_pod_asks_for_a_gpu_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(BARE.replace("1,500", "0,0"))
    with pytest.raises(BenchArgumentError, match="demand"):
        openb.read_pods(tmp_path / "x.csv")
