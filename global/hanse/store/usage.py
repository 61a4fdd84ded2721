"""What jobs used of accelerators: spans of time with places, months cut out of them, and sums that stay small. Pure.

An attempt uses its places from the moment in which it is bound until it has ended: that long nobody else can have
them, whether its pods run or not. A part of a split gang whose places were free earlier ends earlier.

* Usage is GPU-milliseconds, as integers: thousandths of a GPU times milliseconds, the last digits cut off once for
  each span and month. Cost is millionths of the site's unit, at the price that the pool had when the part was bound.
* Months are those of UTC. A span over a border is cut there, so months add up to the whole.
* An attempt counts in the month in which it was bound, with its first part; so however it is grouped, sums of
  attempts are numbers of attempts.
* Sums have a limit on their size: what finds no room for a row of its own any more goes to user `other`, then also to
  pool `other`, then to one row of all that is left. The totals stay exact.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from hanse.model.resources import DEVICE_MILLI, GPU_MILLI, GPU_RESOURCES
from hanse.store.schema import BindingValue, PastAttempt, PastPart, PastValue, SpentValue, UsageRow, UsageValue

OTHER: Final = "other"

USAGE_BYTES_MAX: Final = 64 * 1_024
"""Of a queue's month, for rows with users of their own: some 800."""

OTHER_BYTES_MAX: Final = 16 * 1_024
"""Beyond these, for rows of user `other` by flavor and pool; half of it again for those by flavor alone."""

ROW_BYTES: Final = 64
"""Of a row beside its names: its numbers, and what JSON needs."""

SPENT_ROWS_MAX: Final = 64
"""Months, flavors and pools that a job's history tells apart, of attempts that it does not keep."""

MONTHS_PER_JOB_MAX: Final = 12
"""Months that the usage of one job is spread over; what is older goes to the first of these."""

_HOUR_TO_MICROS: Final = 3_600
"""GPU-milliseconds times a price in thousandths for an hour, divided by this, are millionths."""


class UsageKey(NamedTuple):
    """What usage is told apart by within a queue's month."""

    user: str
    flavor: str
    pool: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum: GPU-milliseconds, millionths of the site's unit, attempts that began."""

    gpu_ms: int = 0
    cost_micros: int = 0
    attempts: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            self.gpu_ms + other.gpu_ms, self.cost_micros + other.cost_micros, self.attempts + other.attempts
        )


@dataclass(frozen=True, slots=True)
class Span:
    """Places of one flavor in one pool, held from one moment to another.

    Attributes:
        milli_gpus: thousandths of accelerators.
        price: of a GPU-hour, in thousandths of the site's unit; None: nobody noted it.
        first: the attempt is counted with this span.
    """

    flavor: str
    pool: str
    milli_gpus: int
    price: int | None
    from_ms: int
    to_ms: int
    first: bool = False

    def amount(self, from_ms: int, to_ms: int, price: int = 0) -> Amount:
        """What of it lies in [from_ms, to_ms); `price` is taken where none was noted."""
        ms = max(0, min(self.to_ms, to_ms) - max(self.from_ms, from_ms))
        gpu_ms = self.milli_gpus * ms // DEVICE_MILLI
        cost = gpu_ms * (price if self.price is None else self.price) // _HOUR_TO_MICROS
        return Amount(gpu_ms, cost, int(self.first and from_ms <= self.from_ms < to_ms))


# ---- months -------------------------------------------------------------------------------------------------


def month_of(ms: int) -> str:
    """`2026-11`, of a Unix time."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m")


def month_bounds(month: str) -> tuple[int, int]:
    """Its first millisecond, and that of the next one. Raises ValueError: it is not `YYYY-MM`."""
    start = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    if f"{start:%Y-%m}" != month:
        raise ValueError(month)
    end = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return _ms(start), _ms(end)


def months_between(from_ms: int, to_ms: int) -> Iterator[str]:
    """The months of which something lies in [from_ms, to_ms), oldest first."""
    while from_ms < to_ms:
        month = month_of(from_ms)
        yield month
        from_ms = month_bounds(month)[1]


def _ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000


# ---- spans --------------------------------------------------------------------------------------------------


def milli_gpus_of(value: BindingValue) -> dict[str, int]:
    """Thousandths of accelerators that a part has, by flavor."""
    found: dict[str, int] = {}
    for bound, asked in zip(value.sets, value.request, strict=False):
        whole = sum(asked.resources.get(name, 0) for name in GPU_RESOURCES)
        each = whole * DEVICE_MILLI + asked.resources.get(GPU_MILLI, 0)
        found[bound.flavor] = found.get(bound.flavor, 0) + bound.count * each
    return found


def price_of(value: BindingValue) -> int | None:
    """Of a GPU-hour where a part is bound, if somebody compared prices to choose."""
    return value.choice.won.cost if value.choice is not None else None


def spans_of_attempt(attempt: PastAttempt) -> list[Span]:
    """Of an attempt that has ended; none if it is not known when it began."""
    if attempt.bound_ms <= 0:
        return []
    return _numbered([_spans_of_part(part, attempt.bound_ms, attempt.ended_ms) for part in attempt.parts])


def spans_of_live(parts: Sequence[tuple[str, BindingValue]], gone: Mapping[int, PastPart], now_ms: int) -> list[Span]:
    """Of an attempt that goes on: its bindings by pool, and the parts that are gone already."""
    if not parts:
        return []
    bound_ms = min(value.bound_ms for _, value in parts)
    there = [
        [
            Span(flavor, pool, milli, price_of(value), value.bound_ms, now_ms)
            for flavor, milli in sorted(milli_gpus_of(value).items())
        ]
        for pool, value in parts
    ]
    return _numbered([*there, *(_spans_of_part(gone[number], bound_ms, now_ms) for number in sorted(gone))])


def _spans_of_part(part: PastPart, bound_ms: int, ended_ms: int) -> list[Span]:
    milli_gpus = part.milli_gpus if part.milli_gpus is not None else dict.fromkeys(part.flavors, 0)
    to_ms = part.gone_ms or ended_ms
    return [
        Span(flavor, part.pool, milli, part.price, bound_ms, to_ms) for flavor, milli in sorted(milli_gpus.items())
    ]


def _numbered(parts: Sequence[list[Span]]) -> list[Span]:
    spans = [span for part in parts for span in part]
    return [replace(spans[0], first=True), *spans[1:]] if spans else []


# ---- what a job used ----------------------------------------------------------------------------------------


class Used(NamedTuple):
    """A month's usage of one flavor in one pool."""

    month: str
    flavor: str
    pool: str


def by_month(spans: Iterable[Span], prices: Mapping[str, int]) -> dict[Used, Amount]:
    """Spans cut at months; `prices` by pool stand in for those that nobody noted."""
    found: dict[Used, Amount] = {}
    for span in spans:
        for month in months_between(span.from_ms, max(span.to_ms, span.from_ms + 1)):
            key = Used(month, span.flavor, span.pool)
            amount = span.amount(*month_bounds(month), prices.get(span.pool, 0))
            found[key] = found.get(key, Amount()) + amount
    return found


def used_by_month(past: PastValue, prices: Mapping[str, int]) -> dict[Used, Amount]:
    """What every attempt of a job used that has ended, kept in its history or not; at most MONTHS_PER_JOB_MAX
    months of it."""
    found = by_month((span for attempt in past.attempts for span in spans_of_attempt(attempt)), prices)
    for row in past.spent:
        key = Used(row.month, row.flavor, row.pool)
        found[key] = found.get(key, Amount()) + amount_of(row)
    months = sorted({key.month for key in found})
    first = months[-MONTHS_PER_JOB_MAX:][:1]
    folded: dict[Used, Amount] = {}
    for key, amount in found.items():
        into = key._replace(month=max(key.month, *first))
        folded[into] = folded.get(into, Amount()) + amount
    return folded


def spent_with(spent: Sequence[SpentValue], attempts: Iterable[PastAttempt]) -> list[SpentValue]:
    """What is remembered of attempts that are not kept, with some more of them."""
    rows = {Used(row.month, row.flavor, row.pool): amount_of(row) for row in spent}
    added = by_month((span for attempt in attempts for span in spans_of_attempt(attempt)), {})
    for key, amount in sorted(added.items()):
        into = key
        if into not in rows and len(rows) >= SPENT_ROWS_MAX:
            into = Used(key.month, OTHER, OTHER)
        if into not in rows and len(rows) >= SPENT_ROWS_MAX:
            into = max(rows)
        rows[into] = rows.get(into, Amount()) + amount
    return [SpentValue(*key, one.gpu_ms, one.cost_micros, one.attempts) for key, one in sorted(rows.items())]


# ---- sums ---------------------------------------------------------------------------------------------------


def added(value: UsageValue, amounts: Mapping[UsageKey, Amount], *, jobs: int) -> UsageValue:
    """A queue's month with some more of it, in no more rows than there may be."""
    rows = {UsageKey(row.user, row.flavor, row.pool): amount_of(row) for row in value.rows}
    taken = sum(map(_bytes_of, rows))
    for key in sorted(amounts):
        into = _row_for(key, rows, taken)
        taken += 0 if into in rows else _bytes_of(into)
        rows[into] = rows.get(into, Amount()) + amounts[key]
    told = [UsageRow(*key, one.gpu_ms, one.cost_micros, one.attempts) for key, one in sorted(rows.items())]
    return UsageValue(value.queue, told, value.jobs + jobs, value.lost_ms)


def amount_of(row: UsageRow | SpentValue) -> Amount:
    """What a row says."""
    return Amount(row.gpu_ms, row.cost_micros, row.attempts)


def _bytes_of(key: UsageKey) -> int:
    return ROW_BYTES + sum(len(name.encode()) for name in key)


def _row_for(key: UsageKey, rows: Mapping[UsageKey, Amount], taken: int) -> UsageKey:
    """The row in which something counts: its own, or the narrowest one that there is room for."""
    ladder = (
        (key, USAGE_BYTES_MAX),
        (key._replace(user=OTHER), USAGE_BYTES_MAX + OTHER_BYTES_MAX),
        (UsageKey(OTHER, key.flavor, OTHER), USAGE_BYTES_MAX + OTHER_BYTES_MAX * 3 // 2),
    )
    for row, most in ladder:
        if row in rows or taken + _bytes_of(row) <= most:
            return row
    return UsageKey(OTHER, OTHER, OTHER)
