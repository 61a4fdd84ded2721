"""What jobs used of accelerators: cut at months, added up, and never in more rows than there may be."""

import pytest

from hanse.store import usage
from hanse.store.schema import (
    Amounts,
    BindingValue,
    BoundSet,
    ChoiceValue,
    PastAttempt,
    PastPart,
    PastValue,
    SetRequestValue,
    StandingValue,
    UsageRow,
    UsageValue,
    decode,
    encode,
)
from hanse.store.usage import Amount, Span, UsageKey, Used, added, by_month, month_bounds, months_between

HOUR_MS = 3_600_000
NOV, DEC = month_bounds("2026-11")
"""The first millisecond of each."""


def attempt(
    number: int = 1, *, bound: int = NOV, ended: int = NOV + HOUR_MS, parts: int = 1, gpus: int = 8
) -> PastAttempt:
    made = [PastPart(f"p{i}", ["h100"], gpus, milli_gpus={"h100": gpus * 1_000}, price=2_500) for i in range(parts)]
    return PastAttempt(number, bound, ended, 0, 0, made)


# ---- months --------------------------------------------------------------------------------------------------


def test_months_are_those_of_utc_and_follow_each_other() -> None:
    assert month_bounds("2026-12")[1] == month_bounds("2027-01")[0]
    assert list(months_between(NOV - 1, DEC + 1)) == ["2026-10", "2026-11", "2026-12"]
    assert list(months_between(NOV, DEC)) == ["2026-11"]
    assert usage.month_of(DEC - 1) == "2026-11"


@pytest.mark.parametrize("text", ["2026-13", "2026-1", "26-11", "november", "2026-11-01", ""])
def test_what_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        month_bounds(text)


def test_a_span_over_a_border_is_cut_there_and_counts_where_it_began() -> None:
    span = Span("h100", "p0", 8_000, 2_500, DEC - HOUR_MS, DEC + 2 * HOUR_MS, first=True)
    assert by_month([span], {}) == {
        Used("2026-11", "h100", "p0"): Amount(8 * HOUR_MS, 20_000_000, 1),
        Used("2026-12", "h100", "p0"): Amount(16 * HOUR_MS, 40_000_000, 0),
    }


def test_a_clock_that_went_back_takes_nothing_away() -> None:
    span = Span("h100", "p0", 8_000, None, DEC, DEC - HOUR_MS, first=True)
    assert list(by_month([span], {}).values()) == [Amount(0, 0, 1)]


# ---- spans ---------------------------------------------------------------------------------------------------


def binding(*, pool: str = "p0", bound: int = NOV, price: int | None = 3_000) -> BindingValue:
    standing = StandingValue(pool, (0, 0, 0, 0), price or 0, ("", ""))
    asked = SetRequestValue(4, 4, {"nvidia.com/gpu": 8, "cpu": 1}, [], [], [], "", "", [])
    share = SetRequestValue(2, 2, {"hanse.dev/gpu-milli": 250}, [], [], [], "", "", [])
    return BindingValue(
        2,
        [BoundSet(0, 4, 0, "h100"), BoundSet(1, 2, 0, "l4")],
        [asked, share],
        [Amounts("h100", {})],
        bound_ms=bound,
        choice=ChoiceValue(standing, None, 1, 1) if price is not None else None,
    )


def test_whole_and_shared_accelerators_count_by_flavor_at_the_price_of_the_choice() -> None:
    spans = usage.spans_of_live([("p0", binding())], {}, NOV + HOUR_MS)
    assert [(s.flavor, s.milli_gpus, s.price, s.first) for s in spans] == [
        ("h100", 32_000, 3_000, True),
        ("l4", 500, 3_000, False),
    ]
    assert sum(s.amount(NOV, DEC).gpu_ms for s in spans) == 32 * HOUR_MS + HOUR_MS // 2


def test_without_a_choice_the_price_is_that_of_the_pool_now() -> None:
    (span, _) = usage.spans_of_live([("p0", binding(price=None))], {}, NOV + HOUR_MS)
    assert span.amount(NOV, DEC, 1_000).cost_micros == 32 * 1_000_000


def test_a_part_that_was_gone_earlier_ends_earlier() -> None:
    gone = PastPart("p1", ["h100"], 1, milli_gpus={"h100": 1_000}, gone_ms=NOV + HOUR_MS)
    spans = usage.spans_of_live([("p0", binding())], {1: gone}, NOV + 3 * HOUR_MS)
    assert [(s.pool, s.to_ms - s.from_ms) for s in spans if s.flavor == "h100"] == [
        ("p0", 3 * HOUR_MS),
        ("p1", HOUR_MS),
    ]


def test_an_attempt_of_an_earlier_version_counts_without_accelerators() -> None:
    old = PastAttempt(1, NOV, DEC, 0, 0, [PastPart("p0", ["h100"], 4)])
    assert usage.used_by_month(PastValue([old]), {}) == {Used("2026-11", "h100", "p0"): Amount(0, 0, 1)}


def test_an_attempt_whose_beginning_is_not_known_uses_nothing() -> None:
    assert usage.spans_of_attempt(attempt(bound=0)) == []


def test_a_split_gang_is_one_attempt() -> None:
    found = usage.used_by_month(PastValue([attempt(parts=3)]), {})
    assert sum(one.attempts for one in found.values()) == 1
    assert sum(one.gpu_ms for one in found.values()) == 24 * HOUR_MS


# ---- what a history does not keep ----------------------------------------------------------------------------


def test_attempts_that_are_not_kept_still_count() -> None:
    spent = usage.spent_with([], [attempt(1), attempt(2)])
    spent = usage.spent_with(spent, [attempt(3)])
    past = PastValue([attempt(4)], dropped=3, spent=spent)
    assert usage.used_by_month(past, {}) == {Used("2026-11", "h100", "p0"): Amount(32 * HOUR_MS, 80_000_000, 4)}


def test_what_is_remembered_of_them_has_a_limit_and_the_sum_stays() -> None:
    many = [
        attempt(parts=8, bound=NOV + i * 31 * 24 * HOUR_MS, ended=NOV + i * 31 * 24 * HOUR_MS + 1) for i in range(40)
    ]
    spent = usage.spent_with([], many)
    assert len(spent) <= usage.SPENT_ROWS_MAX
    assert (sum(row.attempts for row in spent), sum(row.gpu_ms for row in spent)) == (40, 40 * 8 * 8)


def test_one_job_is_spread_over_so_many_months_and_what_is_older_goes_to_the_first_of_them() -> None:
    found = usage.used_by_month(PastValue([attempt(bound=month_bounds("2023-01")[0], ended=DEC)]), {})
    months = {used.month for used in found}
    assert len(months) == usage.MONTHS_PER_JOB_MAX
    assert sum(one.gpu_ms for one in found.values()) == 8 * (DEC - month_bounds("2023-01")[0])


# ---- sums ----------------------------------------------------------------------------------------------------


def test_rows_have_a_limit_and_the_rest_goes_to_other() -> None:
    users = {UsageKey(f"user-{i:06}@example.com", "h100", f"pool-{i % 3}"): Amount(1, 2, 1) for i in range(5_000)}
    value = UsageValue("research")
    value = added(value, users, jobs=5_000)
    most = usage.USAGE_BYTES_MAX + 2 * usage.OTHER_BYTES_MAX
    assert len(encode(value)) < most
    assert [row.pool for row in value.rows if row.user == usage.OTHER] == ["pool-0", "pool-1", "pool-2"]
    assert (sum(r.gpu_ms for r in value.rows), sum(r.cost_micros for r in value.rows)) == (5_000, 10_000)
    assert value.jobs == 5_000


def test_a_row_that_is_there_grows_although_there_is_no_room() -> None:
    full = added(UsageValue("q"), {UsageKey(f"u{i:05}", "f", "p"): Amount(1) for i in range(2_000)}, jobs=1)
    again = added(full, {UsageKey("u00001", "f", "p"): Amount(5)}, jobs=1)
    assert len(again.rows) == len(full.rows)
    assert UsageRow("u00001", "f", "p", 6) in again.rows


def test_many_pools_end_in_rows_by_flavor_and_then_in_one() -> None:
    keys = {UsageKey(f"user-{i}", f"flavor-{i}", f"pool-{i}"): Amount(1) for i in range(6_000)}
    value = added(UsageValue("q"), keys, jobs=1)
    assert len(encode(value)) < usage.USAGE_BYTES_MAX + 2 * usage.OTHER_BYTES_MAX
    assert next(row for row in value.rows if row.flavor == usage.OTHER).gpu_ms > 0
    assert sum(row.gpu_ms for row in value.rows) == 6_000


def test_a_value_of_a_later_version_is_read() -> None:
    assert decode(b'{"queue":"q","rows":[["u","f","p",1,2,3,9]],"new":1}', UsageValue).rows == [
        UsageRow("u", "f", "p", 1, 2, 3)
    ]
