"""UsageService as coroutines on messages: what was used, from jobs that the store holds and sums of those that left.

All pages of one reading show one revision, so a job is either read with its life or is in the sums of the month, and
never both: states, histories and sums are scanned at that revision; bindings and specs are read as they are, and at
that revision if they are gone since. A page looks at a bounded number of jobs, whatever the store holds.

Sums have no days. Of a month of which only a part is asked for, they are told as a gap, and not counted.

A caller sees the usage of queues that they see. Sums of queues that are gone are told to whoever sees every queue.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec

from hanse.api.v1 import usage_service_pb2 as pb
from hanse.apiserver.access.rights import Access
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.context import CallContext
from hanse.apiserver.lookup import found_of
from hanse.apiserver.pages import PageToken, invalid_token, read_token, write_token
from hanse.apiserver.rows import Found, JobReader
from hanse.apiserver.sight import Sight
from hanse.kit.clock import Clock
from hanse.model.errors import InvalidArgument
from hanse.model.ids import JobId, Part, PoolName, QueueUid, queue_of
from hanse.store import keys
from hanse.store.contract import READ_KEYS_MAX, KeyValue, RangeResult, Store, StoreLimit, key_after, prefix_end
from hanse.store.moves import has_past, read_slots
from hanse.store.schema import (
    BindingValue,
    PastValue,
    PoolConfigValue,
    UsageValue,
    decode,
    decode_binding,
    decode_spec,
)
from hanse.store.usage import (
    OTHER,
    Amount,
    Span,
    amount_of,
    month_bounds,
    months_between,
    spans_of_attempt,
    spans_of_live,
)

JOBS_SCANNED_MAX: Final = 5_000
SPECS_SCANNED_MAX: Final = 2_000
ROLLUPS_SCANNED_MAX: Final = 200
KEYS_PER_STEP: Final = 500
ROLLUPS_PER_STEP: Final = 50
ROWS_MAX: Final = 10_000
"""Rows of one page, beyond which it ends early; about a megabyte."""

WINDOW_MONTHS_MAX: Final = 36
MOMENT_MAX_MS: Final = 4_102_444_800_000
"""The year 2100."""

_Names: TypeAlias = Mapping[QueueUid, str]
_By: TypeAlias = frozenset[int]
_RowKey: TypeAlias = tuple[str, str, str, str]


@dataclass(slots=True)
class _Gap:
    jobs: int = 0
    gpu_ms: int = 0
    lost_ms: int = 0


@dataclass(slots=True)
class _Page:
    """What one page has found so far.

    Attributes:
        scanned: shares of what one page may look at; full at 1.
    """

    by: _By
    rows: dict[_RowKey, Amount] = field(default_factory=dict)
    gaps: dict[str, _Gap] = field(default_factory=dict)
    scanned: float = 0.0

    @property
    def full(self) -> bool:
        return self.scanned >= 1 or len(self.rows) >= ROWS_MAX

    def add(self, queue: str, user: str, flavor: str, pool: str, amount: Amount) -> None:
        """More usage, told apart as it is wanted."""
        if amount == Amount():
            return
        every = (queue, user, flavor, pool)
        one, two, three, four = (text if i in self.by else "" for i, text in enumerate(every, start=1))
        key = (one, two, three, four)
        self.rows[key] = self.rows.get(key, Amount()) + amount


@dataclass(frozen=True, slots=True)
class _Window:
    """The time that is asked for; `revision`: 0 until the first range was read."""

    start_ms: int
    end_ms: int
    now_ms: int
    names: _Names
    prices: Mapping[str, int]
    slots: Sequence[PoolName]
    revision: int = 0

    def holds(self, month: str) -> bool:
        """Whether all that sums of a month can have is asked for."""
        start_ms, end_ms = month_bounds(month)
        return self.start_ms <= start_ms and (end_ms <= self.end_ms or self.now_ms <= self.end_ms)


class UsageService:
    """The methods of hanse.api.v1.UsageService."""

    def __init__(self, store: Store, reader: JobReader, sight: Sight, clock: Clock) -> None:
        self._store = store
        self._reader = reader
        self._sight = sight
        self._clock = clock

    async def read_usage(self, ctx: CallContext, request: pb.ReadUsageRequest) -> pb.ReadUsageResponse:
        """One page.

        Raises:
            InvalidArgument: reason WINDOW_INVALID, DIMENSION_INVALID, PAGE_TOKEN_INVALID.
            NotFound: reason QUEUE_NOT_FOUND.
            Compacted: the revision of the first page is no longer kept.
        """
        token, by = read_token(request.page_token, request), _dimensions(request.by)
        start_ms, end_ms, now_ms = self._times(request)
        names, spans = await self._spans(ctx.access, request.queue, list(months_between(start_ms, end_ms)))
        slots = await read_slots(self._store)
        window = _Window(start_ms, end_ms, now_ms, names, await self._prices(slots), slots, token.revision)
        page = _Page(by)
        after, revision = await self._scan(spans, token, window, page)
        return pb.ReadUsageResponse(
            rows=[_row(key, amount) for key, amount in sorted(page.rows.items())],
            gaps=[
                pb.UsageGap(month=month, jobs=gap.jobs, gpu_ms=gap.gpu_ms, lost_ms=gap.lost_ms)
                for month, gap in sorted(page.gaps.items())
            ],
            next_page_token=write_token(PageToken(token.filter, revision, after)) if after else "",
            revision=revision,
            until_ms=min(end_ms, now_ms),
        )

    def _times(self, request: pb.ReadUsageRequest) -> tuple[int, int, int]:
        """Beginning and end of the window, and now. Raises InvalidArgument."""
        now_ms = self._clock.now_ms()
        start_ms, end_ms = request.start_ms, request.end_ms or max(now_ms, request.start_ms + 1)
        if not 0 <= start_ms < end_ms <= MOMENT_MAX_MS:
            what = f"a window from {start_ms} to {end_ms} is none: the end has to come after the beginning"
            raise InvalidArgument(what, reason="WINDOW_INVALID", path="end_ms")
        if end_ms - start_ms > WINDOW_MONTHS_MAX * 31 * 86_400_000:
            what = f"a window has at most {WINDOW_MONTHS_MAX} months; ask for the rest by itself"
            raise InvalidArgument(what, reason="WINDOW_INVALID", path="start_ms")
        return start_ms, end_ms, now_ms

    async def _prices(self, pools: Sequence[PoolName]) -> dict[str, int]:
        """Of a GPU-hour in each pool as it is now, for what was bound without one."""
        items = (await self._store.read([keys.pool_config(pool) for pool in pools[:READ_KEYS_MAX]])).items
        return {str(keys.pool_of(key)): decode(kv.value, PoolConfigValue).cost for key, kv in items.items()}

    # ---- what is scanned ---------------------------------------------------------------------------------------

    async def _spans(self, access: Access, queue: str, months: Sequence[str]) -> tuple[_Names, list[tuple[str, str]]]:
        """Names of queues, and the ranges of keys to look through, in order: none of a queue that is not seen."""
        if queue:
            stored = await self._sight.queue(access, queue)
            names = {QueueUid(stored.value.uid): queue}
        else:
            names = {QueueUid(one.value.uid): str(name) for name, one in (await self._sight.queues(access)).items()}
            if access.everywhere(Verb.VIEW):
                return names, [_span(prefix) for prefix in (keys.STATES, *map(keys.usages, months))]
        uids = sorted(names)
        jobs = [_span(keys.states(uid)) for uid in uids]
        sums = [(keys.usage(month, uid), key_after(keys.usage(month, uid))) for month in months for uid in uids]
        return names, [*jobs, *sums]

    async def _scan(
        self, spans: Iterable[tuple[str, str]], token: PageToken, window: _Window, page: _Page
    ) -> tuple[str, int]:
        """Look through the spans behind the token, until they or the page are full; the last key, "" at the end, and
        the revision."""
        for start, end in spans:
            if end <= token.after:
                continue
            at = max(start, key_after(token.after)) if token.after else start
            while at < end:
                if page.full:
                    return token.after, window.revision
                found = await self._range(at, end, window.revision)
                window = replace(window, revision=window.revision or found.revision)
                await self._take(found.items, window, page)
                if found.items:
                    token = PageToken(token.filter, window.revision, found.items[-1].key)
                if not found.more or not found.items:
                    break
                at = key_after(found.items[-1].key)
            # No key is `end` itself; of a span that is one key it holds a character that no token may have.
            token = PageToken(token.filter, window.revision, start if end == key_after(start) else end)
        return "", window.revision

    async def _range(self, start: str, end: str, revision: int) -> RangeResult:
        limit = KEYS_PER_STEP if start.startswith(keys.STATES) else ROLLUPS_PER_STEP
        try:
            return await self._store.range(start, end, limit=limit, at_revision=revision)
        except StoreLimit:
            raise invalid_token("is of a moment that this store has not seen") from None

    async def _take(self, items: Sequence[KeyValue], window: _Window, page: _Page) -> None:
        if not items:
            page.scanned += KEYS_PER_STEP / JOBS_SCANNED_MAX / 10  # an empty range is a call, too
        elif items[0].key.startswith(keys.USAGE):
            for kv in items:
                _take_rollup(kv, window, page)
            page.scanned += len(items) / ROLLUPS_SCANNED_MAX
        else:
            await self._take_jobs(items, window, page)
            users = pb.USAGE_DIMENSION_USER in page.by
            page.scanned += len(items) / (SPECS_SCANNED_MAX if users else JOBS_SCANNED_MAX)

    # ---- jobs that are there -----------------------------------------------------------------------------------

    async def _take_jobs(self, items: Sequence[KeyValue], window: _Window, page: _Page) -> None:
        found = [one for one in map(found_of, items) if _concerns(one, window)]
        pasts = await self._pasts(items, window.revision) if any(has_past(one.state) for one in found) else {}
        bindings = await self._bindings([one for one in found if one.state.state.live], window)
        spans = {one.job: _spans_of(one, pasts.get(one.job), bindings, window) for one in found}
        used = [one.job for one in found if spans[one.job] or pasts.get(one.job, PastValue()).spent]
        users = await self._users(used, window.revision) if pb.USAGE_DIMENSION_USER in page.by else {}
        for job in used:
            uid = queue_of(job)
            queue, user = window.names.get(uid, str(uid)), users.get(job) or OTHER
            for span in spans[job]:
                amount = span.amount(window.start_ms, window.end_ms, window.prices.get(span.pool, 0))
                page.add(queue, user, span.flavor, span.pool, amount)
            for row in pasts.get(job, PastValue()).spent:
                if window.holds(row.month):
                    page.add(queue, user, row.flavor, row.pool, amount_of(row))
                elif row.month in months_between(window.start_ms, window.end_ms):
                    page.gaps.setdefault(row.month, _Gap()).gpu_ms += row.gpu_ms

    async def _pasts(self, items: Sequence[KeyValue], revision: int) -> dict[JobId, PastValue]:
        """Histories of the jobs between the first and the last of these states: both lie in the same order."""
        at, end = (keys.past(keys.job_of(items[place].key)) for place in (0, -1))
        found: dict[JobId, PastValue] = {}
        while True:
            read = await self._store.range(at, key_after(end), limit=KEYS_PER_STEP, at_revision=revision)
            found.update((keys.job_of(kv.key), past) for kv in read.items if (past := _past(kv)) is not None)
            if not read.more or not read.items:
                return found
            at = key_after(read.items[-1].key)

    async def _bindings(self, live: Sequence[Found], window: _Window) -> dict[JobId, list[tuple[str, BindingValue]]]:
        wanted: dict[str, tuple[JobId, str]] = {}
        for one in live:
            for number, slot in enumerate(one.state.pools):
                if slot < len(window.slots):
                    there = window.slots[slot]
                    wanted[keys.binding(there, one.job, one.state.attempt, Part(number))] = (one.job, there)
        found: dict[JobId, list[tuple[str, BindingValue]]] = {}
        for key, value in (await self._as_of(list(wanted), window.revision)).items():
            job, pool = wanted[key]
            found.setdefault(job, []).append((pool, decode_binding(value)))
        return found

    async def _users(self, jobs: Sequence[JobId], revision: int) -> dict[JobId, str]:
        heads = await self._reader.heads(jobs)
        gone = [keys.spec(job) for job in jobs if not heads[job].owner]
        late = {keys.job_of(key): _owner(value) for key, value in (await self._as_of(gone, revision)).items()}
        return {job: heads[job].owner or late.get(job, "") for job in jobs}

    async def _as_of(self, wanted: Sequence[str], revision: int) -> dict[str, bytes]:
        """Values that do not change in what is looked at: as they are now; of those that are gone, as they were."""
        found = {key: kv.value for key, kv in (await self._store.read(wanted)).items.items()} if wanted else {}
        for key in wanted:
            if key not in found:
                items = (await self._store.range(key, key_after(key), limit=1, at_revision=revision)).items
                found.update((kv.key, kv.value) for kv in items)
        return found


def _span(prefix: str) -> tuple[str, str]:
    return prefix, prefix_end(prefix)


def _dimensions(numbers: Iterable[int]) -> _By:
    """What rows are told apart by. Raises InvalidArgument."""
    known = set(pb.UsageDimension.values()) - {pb.USAGE_DIMENSION_UNSPECIFIED}
    for place, number in enumerate(numbers):
        if number not in known:
            what = f"{number} is no dimension of usage: queue, user, flavor and pool are"
            raise InvalidArgument(what, reason="DIMENSION_INVALID", path=f"by[{place}]")
    return frozenset(numbers)


def _concerns(one: Found, window: _Window) -> bool:
    """Whether some of a job's life may lie in the window."""
    if not one.state.attempt or one.state.submit_ms >= window.end_ms:
        return False
    return not one.state.state.terminal or one.state.changed_ms >= window.start_ms


def _spans_of(
    one: Found, past: PastValue | None, bindings: Mapping[JobId, list[tuple[str, BindingValue]]], window: _Window
) -> list[Span]:
    known = past or PastValue()
    spans = [span for attempt in known.attempts for span in spans_of_attempt(attempt)]
    return [*spans, *spans_of_live(bindings.get(one.job, []), known.gone, window.now_ms)]


def _take_rollup(kv: KeyValue, window: _Window, page: _Page) -> None:
    month, uid = keys.usage_of(kv.key)
    try:
        value = decode(kv.value, UsageValue)
    except msgspec.DecodeError:
        page.gaps.setdefault(month, _Gap()).lost_ms = window.now_ms
        return
    gap = _Gap(lost_ms=value.lost_ms)
    if window.holds(month):
        for row in value.rows:
            queue = window.names.get(uid) or value.queue or str(uid)
            page.add(queue, row.user, row.flavor, row.pool, amount_of(row))
    else:
        gap.jobs, gap.gpu_ms = value.jobs, sum(row.gpu_ms for row in value.rows)
    if gap != _Gap():
        known = page.gaps.setdefault(month, _Gap())
        known.jobs, known.gpu_ms = known.jobs + gap.jobs, known.gpu_ms + gap.gpu_ms
        known.lost_ms = max(known.lost_ms, gap.lost_ms)


def _past(kv: KeyValue) -> PastValue | None:
    try:
        return decode(kv.value, PastValue)
    except msgspec.DecodeError:
        return None


def _owner(value: bytes) -> str:
    try:
        return decode_spec(value).principal
    except (zlib.error, msgspec.DecodeError):
        return ""


def _row(key: _RowKey, amount: Amount) -> pb.UsageRow:
    queue, user, flavor, pool = key
    return pb.UsageRow(
        queue=queue,
        user=user,
        flavor=flavor,
        pool=pool,
        gpu_ms=amount.gpu_ms,
        cost_micros=amount.cost_micros,
        attempts=amount.attempts,
    )
