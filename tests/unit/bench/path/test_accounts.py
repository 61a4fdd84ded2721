"""What `bench/path` makes of readings: CPU from /proc, the table against the budget, and what the client has seen."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.path.budget import BUDGET, budget_table
from bench.path.client import Seen
from bench.path.cpu import TICKS_PER_S, CpuReading, machine_s, process_s, read_cpu, yardstick_ms
from bench.path.load import Gang
from bench.path.orders import Book, Burst, Confine, Finish, Order, Pace, answer_of, order_of, to_line
from bench.path.window import quantile
from hanse.api.v1 import job_pb2, job_spec_pb2


def gang(pods: int, gpus: int) -> Gang:
    return Gang(job_spec_pb2.JobSpec(), pods, gpus)


# ---- CPU --------------------------------------------------------------------------------------------------------


def test_a_process_is_charged_user_and_system_time_whatever_its_name() -> None:
    stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 9 9 20 0 3 0 100 0 0"
    assert process_s(stat) == 300 / TICKS_PER_S


def test_a_machine_is_busy_where_it_neither_idles_nor_waits_for_disks() -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice
    assert machine_s("cpu  10 20 30 4000 500 1 2 3 10 20\ncpu0 1 2 3\n") == 66 / TICKS_PER_S


def test_what_others_computed_is_the_rest() -> None:
    spent = CpuReading({"r0": 5.0, "etcd": 2.0}, 20.0).since(CpuReading({"r0": 1.0, "etcd": 1.0}, 10.0))
    assert spent == CpuReading({"r0": 4.0, "etcd": 1.0}, 10.0)
    assert spent.others_s == 5.0


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="no /proc here")
def test_own_process_can_be_read() -> None:
    read = read_cpu({"me": os.getpid()})
    assert 0 < read.own_s["me"] <= read.machine_s


def test_the_yardstick_takes_its_time_anywhere() -> None:
    assert 5.0 < yardstick_ms() < 5_000.0


# ---- the budget -------------------------------------------------------------------------------------------------


def test_every_process_stands_in_a_row_beside_its_budget() -> None:
    measured: Mapping[str, float] = {
        "etcd-m0": 100.0,
        "mosquitto": 10.0,
        "r0": 300.0,
        "r1": 200.0,
        "agents-0": 50.0,
        "agents-1": 60.0,
        "clusters": 70.0,
        "client": 5.0,
    }
    rows = budget_table(measured)
    found = {row["processes"]: (row["measured_us"], row["budget_us"]) for row in rows if isinstance(row, Mapping)}
    assert found["r0, r1"] == (500.0, 630)
    assert found["agents-0, agents-1, clusters"] == (180.0, 350)
    assert found["total"] == (795.0, 1_255)


def test_the_budget_is_that_of_the_design() -> None:
    assert sum(share.budget_us for share in BUDGET) == 1_255


def test_a_process_without_a_budget_is_named() -> None:
    with pytest.raises(KeyError, match="jaeger"):
        budget_table({"jaeger": 1.0})


# ---- what the client has seen -----------------------------------------------------------------------------------


def test_a_gang_waits_from_its_submission_until_the_watch_shows_it_placed() -> None:
    seen = Seen(sending=2)
    assert seen.waiting == 2
    seen.acknowledged("a", gang(4, 8), 1.0)
    seen.sending = 0
    seen.shown("a", job_pb2.JOB_STATE_BOUND, 2.0)
    assert seen.waiting == 1
    seen.shown("a", job_pb2.JOB_STATE_PLACED, 3.0)
    seen.shown("a", job_pb2.JOB_STATE_RUNNING, 4.0)
    assert (seen.waiting, seen.placed_s["a"], seen.count().gpus_held) == (0, 3.0, 8)


def test_what_has_ended_holds_nothing_and_was_placed_even_if_nobody_saw_it() -> None:
    seen = Seen()
    seen.acknowledged("a", gang(4, 8), 1.0)
    seen.shown("a", job_pb2.JOB_STATE_SUCCEEDED, 5.0)
    count = seen.count()
    assert (count.submitted, count.placed, count.ended, count.gpus_held) == (1, 1, 1, 0)


def test_the_watch_may_be_quicker_than_the_answer() -> None:
    seen = Seen(sending=1)
    seen.shown("a", job_pb2.JOB_STATE_PLACED, 2.0)
    assert seen.count().gpus_held == 0
    seen.sending = 0
    seen.acknowledged("a", gang(4, 8), 1.0)
    assert (seen.waiting, seen.count().gpus_held) == (0, 8)


def test_the_book_names_what_did_not_succeed() -> None:
    seen = Seen()
    for job in "abc":
        seen.acknowledged(job, gang(4, 8), 1.0)
    seen.shown("a", job_pb2.JOB_STATE_SUCCEEDED, 2.0)
    seen.shown("b", job_pb2.JOB_STATE_FAILED, 2.0)
    assert seen.book() == Book({"a": 4, "b": 4, "c": 4}, {"b": "JOB_STATE_FAILED", "c": "not ended"})


@pytest.mark.parametrize("order", [Pace(300.0, 30.0, 12), Finish(), Confine(1), Burst(1_000, 100, 4)])
def test_an_order_is_one_line(order: Order) -> None:
    line = to_line(order)
    assert order_of(line) == order
    assert line.count(b"\n") == 1


def test_an_answer_comes_back_as_it_was() -> None:
    book = Book({"a": 4}, {})
    assert answer_of(to_line(book), Book) == book


@pytest.mark.parametrize(
    ("values", "share", "found"), [([], 0.5, None), ([3.0, 1.0, 2.0], 0.5, 2.0), (list(range(100)), 0.99, 99)]
)
def test_quantiles(values: list[float], share: float, found: float | None) -> None:
    assert quantile(values, share) == found
