"""What `bench/fleet` makes of its arguments, of the store's events, and of /proc."""

import pytest

from bench.contract import BenchArgumentError
from bench.equal_pools import nodes_of
from bench.fleet import run
from bench.fleet.acks import Acknowledgements
from bench.fleet.phases import Plan, peak_kb
from hanse.store.contract import Event, EventKind, KeyValue


def put(key: str, *, created: int, changed: int) -> Event:
    return Event(EventKind.PUT, KeyValue(key, b"", created, changed))


def delete(key: str, *, at: int) -> Event:
    return Event(EventKind.DELETE, KeyValue(key, b"", 0, at))


def test_an_acknowledgement_is_the_first_write_after_the_commit() -> None:
    heard = Acknowledgements()
    heard.hear([put("a", created=1, changed=1), put("b", created=1, changed=1)], 10.0)
    heard.hear([put("b", created=1, changed=2)], 10.02)
    heard.hear([put("a", created=1, changed=3), put("b", created=1, changed=4)], 10.05)
    assert heard.took_ms == pytest.approx([20.0, 50.0])


def test_what_was_refused_or_bound_before_is_not_an_acknowledgement() -> None:
    heard = Acknowledgements()
    heard.hear([put("old", created=1, changed=7), put("refused", created=8, changed=8)], 1.0)
    heard.hear([delete("refused", at=9), put("refused", created=10, changed=10)], 2.0)
    heard.hear([put("refused", created=10, changed=11)], 2.5)
    assert heard.took_ms == pytest.approx([500.0])


@pytest.mark.parametrize("nodes", [500, 1_000, 1_500, 5_000, 15_000, 50_000])
def test_pools_of_the_curve_have_just_as_many_nodes_as_asked(nodes: int) -> None:
    assert nodes_of(nodes) == nodes


@pytest.mark.parametrize("nodes", ["", "5000,", "0", "many"])
def test_nodes_that_are_no_numbers_are_refused(nodes: str) -> None:
    with pytest.raises(BenchArgumentError, match="NODES"):
        run({"NODES": nodes})


def test_pools_are_shared_out_to_as_many_processes_as_asked() -> None:
    plan = Plan(
        pools=5,
        nodes=(400,),
        replicas=4,
        processes=2,
        warm_s=0.0,
        seconds=1.0,
        latency_s=0.0,
        share=0.5,
        ack_s=0.0,
        ack_rate=1.0,
        root_s=0.0,
        burst=0,
        members_s=0.0,
        curve_s=0.0,
    )
    assert plan.shape().agents_per_process == plan.shape().clusters_per_process == 3


def test_peak_memory_is_read_in_thousands_of_bytes() -> None:
    assert peak_kb("Name:\ta\nVmPeak:\t9 kB\nVmHWM:\t    1000 kB\n") == pytest.approx(1024.0)
