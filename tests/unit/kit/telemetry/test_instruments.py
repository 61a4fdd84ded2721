"""Tables that count: bounded labels, bounded series, gauges that forget."""

import ast
from pathlib import Path

import pytest

from hanse.kit.telemetry import metrics
from hanse.kit.telemetry.instruments import (
    OTHER,
    SERIES_MAX,
    Buckets,
    Counter,
    Gauge,
    Histogram,
    Label,
    Registry,
)
from tests.arch.tree import ROOT, project_files

COLOUR = Label("colour", "of the thing", ("red", "blue"))
NAME = Label("name", "of the thing")
SOURCE_ROOTS = ("api", "global", "pool_agent")


def test_a_counter_sums_by_its_labels() -> None:
    things = Counter("things", "{thing}", "Things.", COLOUR)
    things.add(2, "red")
    things.add(1, "blue")
    things.add(3, "red")
    assert (things.value("red"), things.value("blue"), things.value("green")) == (5, 1, 0)


def test_a_value_that_a_label_does_not_have_is_other() -> None:
    things = Counter("things", "{thing}", "Things.", COLOUR)
    things.add(1, "pink")
    things.add(1, "mauve")
    assert things.series == {(OTHER,): 2}


def test_series_are_bounded_whatever_names_come() -> None:
    things = Counter("things", "{thing}", "Things.", NAME)
    for number in range(SERIES_MAX + 10):
        things.add(1, f"thing-{number}")
    assert len(things.series) == SERIES_MAX + 1
    assert things.value(OTHER) == 10
    things.add(1, "thing-0")
    assert things.value("thing-0") == 2


def test_a_wrong_number_of_labels_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="1 labels"):
        Counter("things", "{thing}", "Things.", COLOUR).add(1)


def test_a_histogram_puts_a_bound_into_the_bucket_below() -> None:
    times = Histogram("times", "s", "Times.", bounds=(1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        times.record(value)
    found = times.series[()]
    assert (found.counts, found.total, found.count) == ([2, 2, 1], 14.0, 5)


def test_what_is_collected_does_not_change_any_more() -> None:
    registry = Registry()
    things = registry.declare(Counter("things", "{thing}", "Things."))
    times = registry.declare(Histogram("times", "s", "Times.", bounds=(1.0,)))
    things.add(1)
    times.record(0.5)
    read = {reading.instrument.name: reading.series for reading in registry.collect()}
    things.add(1)
    times.record(0.5)
    assert read["things"] == {(): 1}
    found = read["times"][()]
    assert isinstance(found, Buckets)
    assert found.counts == [1, 0]


def test_a_gauge_forgets_what_nobody_tells_any_more() -> None:
    registry = Registry()
    level = registry.declare(Gauge("level", "{thing}", "Things.", NAME))
    pools = ["a", "b"]

    def tell() -> None:
        for pool in pools:
            level.set(1, pool)

    with registry.observed(tell):
        assert [dict(r.series) for r in registry.collect()] == [{("a",): 1, ("b",): 1}]
        pools.remove("a")
        assert [dict(r.series) for r in registry.collect()] == [{("b",): 1}]
    assert [dict(r.series) for r in registry.collect()] == [{}]


def test_two_who_add_to_a_level_sum_up() -> None:
    registry = Registry()
    level = registry.declare(Gauge("level", "{thing}", "Things."))
    with registry.observed(lambda: level.add(2)), registry.observed(lambda: level.add(3)):
        registry.collect()
        assert [dict(r.series) for r in registry.collect()] == [{(): 5}]


def test_an_observer_that_fails_costs_only_its_own_gauges(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    level = registry.declare(Gauge("level", "{thing}", "Things."))

    def fail() -> None:
        raise KeyError("gone")

    with registry.observed(fail), registry.observed(lambda: level.set(3)):
        assert [dict(r.series) for r in registry.collect()] == [{(): 3}]
    assert "telemetry_observer_failed" in caplog.text


def test_a_name_is_declared_once() -> None:
    registry = Registry()
    registry.declare(Counter("things", "{thing}", "Things."))
    with pytest.raises(ValueError, match="twice"):
        registry.declare(Gauge("things", "{thing}", "Things."))


# ---- the catalogue -------------------------------------------------------------------------------------------


def uses() -> list[tuple[Path, ast.Call, str]]:
    """Every call of a method of a declared instrument in the product: file, call, the instrument's constant."""
    found = []
    for path in project_files():
        if path.suffix != ".py" or path.relative_to(ROOT).parts[0] not in SOURCE_ROOTS:
            continue
        text = path.read_text(encoding="utf-8")
        if "telemetry" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="metrics"), attr=constant))):
                    if constant != "REGISTRY":
                        found.append((path, node, constant))
                case _:
                    pass
    return found


def test_every_use_gives_as_many_labels_as_are_declared() -> None:
    assert uses()
    for path, call, constant in uses():
        instrument = getattr(metrics, constant)
        labels = len(call.args) - 1 if call.args else 0
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        where = f"{path.relative_to(ROOT)}:{call.lineno} {constant}"
        assert starred or labels == len(instrument.labels), where


def test_every_instrument_is_used() -> None:
    declared = {name for name in vars(metrics) if vars(metrics)[name] in metrics.REGISTRY.instruments.values()}
    assert declared - {constant for _, _, constant in uses()} == set()


@pytest.mark.parametrize("name", metrics.REGISTRY.instruments)
def test_an_instrument_is_named_and_described_in_full(name: str) -> None:
    instrument = metrics.REGISTRY.instruments[name]
    assert name.split(".")[0] in {"hanse", "rpc", "db", "process"}
    assert instrument.unit
    assert instrument.description.endswith(".")
    assert all(label.meaning and "." in label.name for label in instrument.labels)
