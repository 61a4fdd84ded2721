"""Numbers and times read as people write them."""

from datetime import UTC

import pytest

from hanse.cli import amounts
from hanse.cli.symbols import DASH


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 ms"),
        (4, "4 ms"),
        (1_234, "1.2 s"),
        (45_000, "45 s"),
        (14 * 60_000, "14 min"),
        (3 * 3_600_000 + 12 * 60_000, "3 h 12 min"),
        (3 * 3_600_000, "3 h"),
        (52 * 3_600_000, "2 d 4 h"),
    ],
)
def test_duration(ms: int, text: str) -> None:
    assert amounts.duration(ms) == text


@pytest.mark.parametrize(
    ("value", "text"), [(43_200, "12 h"), (90, "90 s"), (120, "2 min"), (172_800, "2 d"), (0, "0 s")]
)
def test_a_length_that_was_asked_for_is_told_exactly(value: int, text: str) -> None:
    assert amounts.seconds(value) == text


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("nvidia.com/gpu", 1, "1 GPU"),
        ("amd.com/gpu", 8, "8 GPUs"),
        ("cpu", 1_000, "1 CPU"),
        ("cpu", 500, "0.5 CPUs"),
        ("cpu", 2_000_000, "2,000 CPUs"),
        ("memory", 2**40, "1Ti memory"),
        ("memory", 1_000, "1,000 memory"),
        ("rdma/hca", 2, "2 rdma/hca"),
    ],
)
def test_amount(resource: str, value: int, text: str) -> None:
    assert amounts.amount(resource, value) == text


def test_accelerators_come_first() -> None:
    assert amounts.amounts({"cpu": 96_000, "rdma/hca": 1, "nvidia.com/gpu": 8}) == "8 GPUs, 96 CPUs, 1 rdma/hca"


def test_all_is_never_said_of_nearly_all() -> None:
    assert amounts.percent(9_999, 10_000) == "99 %"
    assert amounts.percent(0, 0) == DASH


@pytest.mark.parametrize(
    ("values", "text"), [([], ""), ([5], "5"), ([3, 1, 2], f"1{DASH}3"), ([0, 1, 3, 5, 6], f"0{DASH}1, 3, 5{DASH}6")]
)
def test_ranges(values: list[int], text: str) -> None:
    assert amounts.ranges(values) == text


def test_words() -> None:
    assert amounts.counted(1, "host") == "1 host"
    assert amounts.counted(4_096, "switch") == "4,096 switches"
    assert amounts.first_few(["a", "b", "c"], 2) == "a, b, 1 more"
    assert amounts.clock(0, UTC) == "00:00:00"
