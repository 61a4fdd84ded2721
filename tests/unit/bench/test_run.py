"""The bench runner: what it refuses, what it leaves behind, what a bench may ask of its arguments."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench import run as runner
from bench.contract import BenchArgs, BenchArgumentError, BenchResult

BENCH_SOURCE = """
from bench.contract import BenchArgs, BenchResult

def run(args):
    asked = BenchArgs(args)
    pools = asked.whole("POOLS", 3)
    return BenchResult({"pools": pools, "placed_ms_p50": 1.5, "watts": None}, {"args": asked.done()})
"""


@pytest.fixture
def bench_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one bench, `tiny`, in place of the project's."""
    (tmp_path / "tiny.py").write_text(BENCH_SOURCE, encoding="utf-8")
    monkeypatch.setattr(runner, "BENCH_ROOT", tmp_path)
    monkeypatch.setattr(runner, "OUT", tmp_path / "out")
    monkeypatch.setattr("bench.__path__", [str(tmp_path)])
    return tmp_path


def test_result_holds_figures_raw_and_machine(bench_folder: Path) -> None:
    assert runner.main(["BENCH=tiny", "POOLS=5"]) == 0
    document = json.loads((bench_folder / "out/tiny.json").read_text(encoding="utf-8"))
    assert document["figures"] == {"pools": 5, "placed_ms_p50": 1.5, "watts": None}
    assert document["raw"] == {"args": {"POOLS": "5"}}
    assert document["machine"]["cores"] >= 1


def test_failed_run_leaves_no_older_result(bench_folder: Path) -> None:
    (bench_folder / "out").mkdir()
    (bench_folder / "out/tiny.json").write_text("{}", encoding="utf-8")
    assert runner.main(["BENCH=tiny", "POOLS=none"]) == 2
    assert not (bench_folder / "out/tiny.json").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param([], "BENCH=", id="no bench"),
        pytest.param(["BENCH=nothing"], "tiny", id="an unknown bench names the known ones"),
        pytest.param(["BENCH=tiny", "POOLS"], "POOLS: arguments", id="an argument without a value"),
        pytest.param(["BENCH=tiny", "POOLS=0"], "at least 1", id="a number that is too small"),
        pytest.param(["BENCH=tiny", "POLS=4"], "POLS: no such argument", id="a misspelt argument"),
        pytest.param(["BENCH=../run"], "no such bench", id="a path"),
    ],
)
def test_wrong_use_is_one_line(
    bench_folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    assert runner.main(arguments) == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_figure_that_json_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"figures\.x"):
        runner.refuse_unfit({"x": value})


def test_arguments_have_defaults() -> None:
    asked = BenchArgs({"RATE": "2.5"})
    assert (asked.number("RATE", 1.0), asked.whole("POOLS", 20), asked.text("STORE", "sqlite")) == (2.5, 20, "sqlite")
    assert asked.done() == {"RATE": "2.5", "POOLS": "20", "STORE": "sqlite"}


def test_argument_that_is_no_number_is_refused() -> None:
    with pytest.raises(BenchArgumentError, match="RATE=fast: give a number"):
        BenchArgs({"RATE": "fast"}).number("RATE", 1.0)


def test_every_bench_keeps_the_contract() -> None:
    for name in runner.bench_names():
        module = __import__(f"bench.{name}", fromlist=["run"])
        assert callable(module.run), f"bench/{name}.py has no run(args)"


def test_result_needs_no_raw() -> None:
    figures: Mapping[str, float | None] = {"x": 1.0}
    assert BenchResult(figures).raw is None
