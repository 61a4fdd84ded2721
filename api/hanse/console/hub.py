"""What callers follow: the pools, what happens, and how the federation is; shared by all who see the same.

A hub asks the API's services with the rights of one of its callers, so it can know nothing that they may not see, and
however many pages are open, the federation is asked once. Nothing is queued for a page: it has a cursor, and takes
what is newer than that in frames of bounded size. A page that is slow, or comes back, gets the newest state of what
changed meanwhile; if it was away for longer than what is remembered, everything anew.
"""

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from hanse.api.v1 import event_service_pb2, pool_pb2, pool_service_pb2, server_service_pb2
from hanse.apiserver.context import CallContext
from hanse.apiserver.failures import told
from hanse.console.access import denied
from hanse.console.desk import Desk
from hanse.console.forms import EVENT_COLUMNS, POOL_COLUMNS, Form, event_row, pool_row, status_form
from hanse.console.limits import (
    EVENTS_KEPT_MAX,
    EVENTS_PER_FRAME_MAX,
    FRAME_INTERVAL_S,
    HUBS_MAX,
    LINGER_S,
    POOL_REST_S,
    REMOVED_KEPT_MAX,
    RETRY_S,
    ROWS_PER_FRAME_MAX,
    STATUS_INTERVAL_S,
    STREAMS_MAX,
    STREAMS_PER_CALLER_MAX,
)
from hanse.console.sight import same_sight
from hanse.model.errors import HanseError, ResourceExhausted
from hanse.wire.json import Json

log = logging.getLogger(__name__)

EVENTS_ASKED: Final = 200


@dataclass(frozen=True, slots=True)
class Cursor:
    """What a page has: up to which version of the pools and of the status, and which event came last."""

    pools: int = 0
    status: int = 0
    event: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """What a page is sent at once, and where it is then; `more` lies beyond."""

    values: Mapping[str, Form]
    cursor: Cursor
    more: bool = False


class Hub:
    """Follows for one caller while somebody looks.

    Args:
        ctx: of one of those who follow; all of them see the same.
        nonce: tells this hub from another that a page may have followed before.
        hubs: how many there are, all of which cost the same event loop.
    """

    def __init__(self, desk: Desk, ctx: CallContext, nonce: str, hubs: Callable[[], int] = lambda: 1) -> None:
        self.nonce = nonce
        self._hubs = hubs
        self.streams = 0
        self._desk = desk
        self.ctx = ctx
        self._version = 0
        self._pools: OrderedDict[str, tuple[int, pool_pb2.Pool]] = OrderedDict()  # the last that changed last
        self._removed: OrderedDict[str, int] = OrderedDict()
        self._forgotten = 0  # removals up to this version are not remembered
        self._synced = False
        self._status: tuple[int, Form] = (0, {})
        self._events: deque[list[Json]] = deque(maxlen=EVENTS_KEPT_MAX)
        self._event = 0
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to follow."""
        if not self._tasks:
            for name, work in (
                ("pools", self._follow_pools),
                ("events", self._follow_events),
                ("status", self._look),
            ):
                self._tasks.append(asyncio.create_task(self._kept(work), name=f"console-{name}"))

    async def close(self) -> None:
        """Follow no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    # ---- what pages take -------------------------------------------------------------------------------------

    async def changed(self) -> None:
        """Waits until there may be something new."""
        news = self._news
        await news.wait()

    def newer(self, cursor: Cursor) -> bool:
        """Whether a frame would hold something."""
        pools = self._synced and cursor.pools != self._version
        return pools or cursor.status != self._status[0] or cursor.event != self._event

    def frame(self, cursor: Cursor) -> Frame:
        """What is newer than a cursor, as much as one frame takes."""
        values: dict[str, Form] = {}
        pools, more = self._pool_values(cursor.pools, values)
        status, form = self._status
        if status != cursor.status:
            values["status"] = form
        event = self._event_values(cursor.event, values)
        return Frame(values, Cursor(pools, status, event), more)

    def _pool_values(self, since: int, values: dict[str, Form]) -> tuple[int, bool]:
        """Adds pools; the version at which the page is then, and whether there is more."""
        if not self._synced:
            return since, False
        anew = since == 0 or since > self._version or since < self._forgotten
        if anew:
            since = 0
        newer = [item for item in reversed(self._pools.items()) if item[1][0] > since] if since else None
        rows = list(self._pools.items()) if newer is None else newer[::-1]
        some, more = rows[:ROWS_PER_FRAME_MAX], len(rows) > ROWS_PER_FRAME_MAX
        removed: list[Json] = [] if anew else [name for name, at in self._removed.items() if at > since]
        if some or removed or anew:
            value: Form = {"rows": [pool_row(pool, version) for _, (version, pool) in some]}
            if removed:
                value["removed"] = removed
            if anew:
                value |= {"anew": True, "columns": list(POOL_COLUMNS), "total": len(self._pools)}
            values["pools"] = value
        return (some[-1][1][0] if more else self._version), more

    def _event_values(self, since: int, values: dict[str, Form]) -> int:
        if since > self._event:
            since = 0
        if since < self._event:
            rows = [row for row in self._events if isinstance(row[0], int) and row[0] > since]
            some = rows[-EVENTS_PER_FRAME_MAX:]
            value: Form = {"rows": [*some], "skipped": self._event - since - len(some) if since else 0}
            if not since:
                value["columns"] = list(EVENT_COLUMNS)
            values["events"] = value
        return self._event

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # ---- what is followed ------------------------------------------------------------------------------------

    async def _kept(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Again after a failure, unless the caller may not see it."""
        while True:
            try:
                await work()
            except Exception as error:
                refused = told(error)
                if type(refused) is HanseError:
                    log.exception("console_follow_failed", extra={"reason": refused.reason})
                if denied(refused):
                    return
            await asyncio.sleep(RETRY_S)

    async def _follow_pools(self) -> None:
        first = True
        async for response in self._desk.follow(
            self.ctx, self._desk.pools.watch_pools, pool_service_pb2.WatchPoolsRequest()
        ):
            gone = list(response.removed)
            if first:
                there = {pool.name for pool in response.pools}
                gone, first = [name for name in self._pools if name not in there], False
            self._take_pools(response, gone)
            self._tell()
            await asyncio.sleep(max(FRAME_INTERVAL_S, POOL_REST_S * len(self._pools) * self._hubs()))

    def _take_pools(self, response: pool_service_pb2.WatchPoolsResponse, gone: list[str]) -> None:
        for name in gone:
            self._version += 1
            self._pools.pop(name, None)
            self._removed[name] = self._version
        if len(self._removed) > REMOVED_KEPT_MAX:
            self._forget()
        for pool in response.pools:
            self._version += 1
            self._pools[pool.name] = (self._version, pool)
            self._pools.move_to_end(pool.name)
            self._removed.pop(pool.name, None)
        self._version = max(1, self._version)
        self._synced = True

    def _forget(self) -> None:
        """Nothing is remembered of removals: pages begin anew, and every pool counts as changed."""
        self._removed.clear()
        self._forgotten = self._version
        for name, (_, pool) in self._pools.items():
            self._version += 1
            self._pools[name] = (self._version, pool)

    async def _follow_events(self) -> None:
        request = event_service_pb2.TailEventsRequest(tail_events=EVENTS_ASKED, follow=True)
        known = bool(self._event)  # begun anew, it tells again what was told
        async for response in self._desk.follow(self.ctx, self._desk.events.tail_events, request):
            for event in () if known else response.events:
                self._event += 1
                self._events.append(event_row(event, self._event))
            known = False
            self._tell()

    async def _look(self) -> None:
        while True:
            status = await self._desk.ask(
                self.ctx, self._desk.server.get_status, server_service_pb2.GetStatusRequest()
            )
            self._status = (self._status[0] + 1, status_form(status))
            self._tell()
            await asyncio.sleep(STATUS_INTERVAL_S)


class Places:
    """Counts streams, in all and by caller."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._most_each = most_each
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, principal: str) -> Iterator[None]:
        """A place for one stream while the block runs. Raises ResourceExhausted: reason TOO_MANY_STREAMS."""
        if self._open[principal] >= self._most_each or self._open.total() >= self._most:
            raise ResourceExhausted("too many pages are open; close some of them", reason="TOO_MANY_STREAMS")
        self._open[principal] += 1
        try:
            yield
        finally:
            self._open[principal] -= 1
            self._open += Counter()  # without those that have none


class Hubs:
    """The hubs of all callers; each ends a while after its last stream."""

    def __init__(self, desk: Desk, nonce: Callable[[], str]) -> None:
        self._desk = desk
        self._nonce = nonce
        self._hubs: dict[Hub, asyncio.TimerHandle | None] = {}  # with the timer of those that are about to end
        self._closing: set[asyncio.Task[None]] = set()
        self.places = Places(STREAMS_MAX, STREAMS_PER_CALLER_MAX)

    @asynccontextmanager
    async def stream(self, ctx: CallContext) -> AsyncIterator[Hub]:
        """The hub of all who see what the caller sees, for one stream. Raises ResourceExhausted."""
        with self.places.one(ctx.principal):
            hub = self._hub(ctx)
            if (timer := self._hubs[hub]) is not None:
                timer.cancel()
            self._hubs[hub] = None
            hub.streams += 1
            try:
                yield hub
            finally:
                hub.streams -= 1
                if not hub.streams and hub in self._hubs:
                    self._hubs[hub] = asyncio.get_running_loop().call_later(LINGER_S, self._end, hub)

    def _hub(self, ctx: CallContext) -> Hub:
        known = next((hub for hub in self._hubs if same_sight(hub.ctx.access, ctx.access)), None)
        if known is not None:
            return known
        if len(self._hubs) >= HUBS_MAX:
            raise ResourceExhausted(
                "too many callers with rights of their own look; try later", reason="TOO_MANY_HUBS"
            )
        hub = Hub(self._desk, replace(ctx, deadline_s=None), self._nonce(), lambda: len(self._hubs))
        self._hubs[hub] = None
        hub.start()
        return hub

    def _end(self, hub: Hub) -> None:
        self._hubs.pop(hub, None)
        task = asyncio.create_task(hub.close(), name="console-hub-end")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End all."""
        for hub, timer in list(self._hubs.items()):
            if timer is not None:
                timer.cancel()
            await hub.close()
        self._hubs.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)
