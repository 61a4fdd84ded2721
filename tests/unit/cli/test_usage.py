"""What days and months `hanse usage` asks for, and what a spreadsheet and a program are given."""

import pytest

from hanse.api.v1 import usage_service_pb2 as pb
from hanse.cli.commands.usage import dimensions_of, window_of
from hanse.cli.failures import WrongUse
from hanse.cli.show.usage import usage_csv, usage_object
from hanse.client.usage import Usage
from hanse.store.usage import month_bounds

NOV, DEC = month_bounds("2026-11")
NOW = DEC + 12 * 3_600_000
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("month", "since", "until", "window"),
    [
        ("", "", "", (DEC, month_bounds("2026-12")[1], "2026-12")),
        ("2026-11", "", "", (NOV, DEC, "2026-11")),
        ("2025-12", "", "", (*month_bounds("2025-12"), "2025-12")),
        ("", "2026-11-03", "", (NOV + 2 * DAY_MS, 0, "2026-11-03 to now")),
        ("", "2026-11-01", "2026-11-30", (NOV, DEC, "2026-11-01 to 2026-11-30")),
        ("", "2026-11-03", "2026-11-03", (NOV + 2 * DAY_MS, NOV + 3 * DAY_MS, "2026-11-03 to 2026-11-03")),
    ],
)
def test_windows(month: str, since: str, until: str, window: tuple[int, int, str]) -> None:
    assert window_of(month, since, until, NOW) == window


@pytest.mark.parametrize(
    ("month", "since", "until"),
    [
        ("2026-11", "2026-11-03", ""),
        ("", "", "2026-11-03"),
        ("", "2026-11-03", "2026-11-02"),
        ("november", "", ""),
        ("", "yesterday", ""),
    ],
)
def test_what_is_no_window_is_wrong_use(month: str, since: str, until: str) -> None:
    with pytest.raises(WrongUse):
        window_of(month, since, until, NOW)


def test_by_what_it_is_told_apart() -> None:
    assert dimensions_of(" user, queue ") == ["user", "queue"]
    assert dimensions_of("") == []


@pytest.mark.parametrize("text", ["job", "queue,queue", "queue,"])
def test_by_what_it_cannot_be_told_apart(text: str) -> None:
    with pytest.raises(WrongUse):
        dimensions_of(text)


def report() -> Usage:
    row = pb.UsageRow(queue="research", user="=cmd|'/C calc'!A0", gpu_ms=5_400_000, cost_micros=3_750_000, attempts=2)
    return Usage([row], [pb.UsageGap(month="2026-11", jobs=3, gpu_ms=7)], NOW)


def test_a_spreadsheet_is_given_decimals_and_no_formula() -> None:
    assert usage_csv(report(), ["user", "queue"]) == (
        "user,queue,gpu_hours,cost,attempts\n'=cmd|'/C calc'!A0,research,1.500000,3.750000,2\n"
    )


def test_a_program_is_given_what_it_asked_for_and_what_is_missing() -> None:
    assert usage_object(report(), ["queue"], NOV) == {
        "since": NOV,
        "until": NOW,
        "usage": [{"queue": "research", "gpu_hours": 1.5, "gpu_ms": 5_400_000, "cost": 3.75, "attempts": 2}],
        "missing": [{"month": "2026-11", "jobs": 3, "gpu_ms": 7, "lost_at": None}],
    }
