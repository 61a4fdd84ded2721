"""What is put into an outlet is exported in batches, or dropped; nobody waits."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from hanse.kit.telemetry.outlet import Outlet

DEADLINE_S = 10.0


@dataclass
class Collector:
    """Takes batches as it is told: it can refuse, and it can hang."""

    takes: bool = True
    batches: list[list[int]] = field(default_factory=list)
    called: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    goes_on: threading.Event = field(default_factory=threading.Event)

    def export(self, batch: Sequence[int]) -> bool:
        self.batches.append(list(batch))
        self.called.release()
        self.goes_on.wait(DEADLINE_S)
        return self.takes

    def was_called(self) -> bool:
        return self.called.acquire(timeout=DEADLINE_S)


@pytest.fixture
def open_outlets() -> Iterator[Callable[[Collector], Outlet[int]]]:
    made: list[Outlet[int]] = []

    def make(collector: Collector) -> Outlet[int]:
        outlet = Outlet[int](
            "spans", collector.export, halt=collector.goes_on.set, items_max=8, batch_max=4, pause_s=0.001
        )
        made.append(outlet)
        return outlet

    yield make
    for outlet in made:
        outlet.close()


Make = Callable[[Collector], Outlet[int]]


def test_everything_is_exported_in_order(open_outlets: Make) -> None:
    collector = Collector()
    collector.goes_on.set()
    outlet = open_outlets(collector)
    for number in range(6):
        outlet.put(number)
    outlet.close()
    assert [number for batch in collector.batches for number in batch] == list(range(6))
    assert (outlet.exported, outlet.dropped) == (6, 0)
    assert all(len(batch) <= 4 for batch in collector.batches)


def test_while_the_collector_hangs_the_newest_are_kept(open_outlets: Make) -> None:
    collector = Collector()
    outlet = open_outlets(collector)
    outlet.put(0)
    assert collector.was_called()
    for number in range(1, 21):
        outlet.put(number)
    collector.goes_on.set()
    outlet.close()
    assert [number for batch in collector.batches for number in batch] == [0, *range(13, 21)]


def test_what_the_collector_refuses_is_dropped_and_said_once(
    open_outlets: Make, caplog: pytest.LogCaptureFixture
) -> None:
    collector = Collector(takes=False)
    collector.goes_on.set()
    outlet = open_outlets(collector)
    for number in range(3):
        outlet.put(number)
        assert collector.was_called()
    collector.takes = True
    outlet.put(3)
    assert collector.was_called()
    outlet.close()
    assert (outlet.exported, outlet.dropped) == (1, 3)
    said = [record.message for record in caplog.records]
    assert said == ["telemetry_collector_down", "telemetry_collector_back"]


def test_an_exporter_that_raises_does_not_end_the_outlet(open_outlets: Make) -> None:
    calls = threading.Semaphore(0)

    def fail(batch: Sequence[int]) -> bool:
        calls.release()
        raise RuntimeError("no")

    outlet = Outlet[int]("spans", fail, halt=lambda: None, items_max=8, batch_max=4, pause_s=0.001)
    for number in range(2):
        outlet.put(number)
        assert calls.acquire(timeout=DEADLINE_S)
    outlet.close()
    assert outlet.dropped == 2
