"""Watches over a store of this process: cursors over history, with a short buffer for those that keep up.

A watch is *live* while it has read everything up to the published revision: new events are put into its
buffer. When the buffer would overflow it stops being live and keeps only its cursor; once the reader has
drained the buffer, it is fed from history, page by page, until it has caught up and is live again. So a
reader that sleeps for an hour costs ``WATCH_BUFFER_EVENTS_MAX`` events of memory and is cut off only if
history is compacted beneath it. (etcd's synced and unsynced watchers; the alternative, an unbounded queue
per watcher, is how servers run out of memory.)

Events find their watches by one binary search each: the ranges of all live watches cut the key space into
segments, and each segment lists its watches. Twenty watches of ranges that do not overlap cost what one
costs.

Everything here runs on the event loop. Between a look at a cursor and its move there is no await, or the
cursor moves only after it, so a cancelled reader loses nothing.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from hanse.store.contract import WATCH_BATCH_EVENTS_MAX, Event, StoreUnavailable, WatchBatch

WATCH_BUFFER_EVENTS_MAX: Final = 4_096
"""Undelivered events of one live watch; beyond it the watch is fed from history."""

WATCH_PROGRESS_REVISIONS: Final = 10_000
"""An idle watch reports progress after so many revisions, so that it can be resumed after a compaction."""


class History(Protocol):
    """Where a watch that is behind reads."""

    async def history(self, start: str, end: str, *, first: int, last: int) -> WatchBatch:
        """Events of the range from revision ``first`` on, whole revisions, about
        ``WATCH_BATCH_EVENTS_MAX``; the batch's revision says how far it got, at most ``last``. Raises
        ``Compacted``."""
        ...


class WatchHub:
    """The watches of one store, and the revision up to which they have been told."""

    def __init__(self, history: History, *, revision: int) -> None:
        self.history = history
        self.revision = revision
        self.closed_because: str | None = None
        self._live: dict[CursorWatch, None] = {}
        self._segments: _Segments | None = None
        self._open: dict[CursorWatch, None] = {}

    def open(self, start: str, end: str, *, from_revision: int) -> "CursorWatch":
        watch = CursorWatch(self, start, end, from_revision=from_revision)
        self._open[watch] = None
        return watch

    def publish(self, revision: int, events: Sequence[Event]) -> None:
        """Tell everything that happened above the last published revision, up to ``revision``, in order."""
        before, self.revision = self.revision, revision
        news: dict[CursorWatch, list[Event]] = {}
        if self._live:
            segments = self._segments = self._segments or _Segments(self._live)
            for event in events:
                for watch in segments.at(event.kv.key):
                    news.setdefault(watch, []).append(event)
        for watch, its_events in news.items():
            watch.offer(its_events, before=before)
        if before // WATCH_PROGRESS_REVISIONS != revision // WATCH_PROGRESS_REVISIONS:
            for watch in self._live:
                watch.wake()

    def jump(self, revision: int) -> None:
        """Like ``publish``, when the events are only in history: every live watch reads them there."""
        before, self.revision = self.revision, revision
        for watch in tuple(self._live):
            watch.fall_behind(before=before)

    def close(self, because: str) -> None:
        self.closed_because = because
        for watch in self._open:
            watch.wake()

    def set_live(self, watch: "CursorWatch", live: bool) -> None:
        if live:
            self._live[watch] = None
        else:
            self._live.pop(watch, None)
        self._segments = None

    def forget(self, watch: "CursorWatch") -> None:
        self._open.pop(watch, None)
        self.set_live(watch, live=False)


class CursorWatch:
    """A ``Watch``; made by ``WatchHub.open``.

    ``_next`` is the revision after the last one in the buffer (or delivered); it is not kept up while
    live, when it is the hub's revision + 1 by definition.
    """

    def __init__(self, hub: WatchHub, start: str, end: str, *, from_revision: int) -> None:
        self.start, self.end = start, end
        self._hub = hub
        self._from = self._next = from_revision
        self._reported = from_revision - 1
        self._buffer: deque[Event] = deque()
        self._live = False
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        self._catch_up()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        while True:
            if self._closed:
                raise StopAsyncIteration
            if self._hub.closed_because is not None:
                raise StoreUnavailable(self._hub.closed_because)
            batch = self._take() or self._progress() or await self._read_history()
            if batch is not None:
                self._reported = batch.revision
                return batch
            if self._live and not self._buffer:
                await self._wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        self._buffer.clear()
        self._hub.forget(self)
        self.wake()

    # ---------------------------------------------------------------------------------- called by the hub

    def offer(self, events: Iterable[Event], *, before: int) -> None:
        """New events of the range, all above revision ``before``; whole revisions."""
        wanted = [event for event in events if event.kv.mod_revision >= self._from]
        if len(self._buffer) + len(wanted) > WATCH_BUFFER_EVENTS_MAX:
            self.fall_behind(before=before)
            return
        self._buffer.extend(wanted)
        self.wake()

    def fall_behind(self, *, before: int) -> None:
        self._next = max(self._from, before + 1)
        self._live = False
        self._hub.set_live(self, live=False)
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ----------------------------------------------------------------------------------------- the reader

    def _take(self) -> WatchBatch | None:
        """Whole revisions from the buffer."""
        if not self._buffer:
            return None
        taken: list[Event] = []
        while self._buffer:
            event = self._buffer[0]
            if len(taken) >= WATCH_BATCH_EVENTS_MAX and event.kv.mod_revision != taken[-1].kv.mod_revision:
                return WatchBatch(taken[-1].kv.mod_revision, tuple(taken))
            taken.append(self._buffer.popleft())
        return WatchBatch(self._read_to(), tuple(taken))

    def _progress(self) -> WatchBatch | None:
        due = self._live and self._read_to() - self._reported >= WATCH_PROGRESS_REVISIONS
        return WatchBatch(self._read_to(), ()) if due else None

    def _read_to(self) -> int:
        """The revision up to which the buffer and what was delivered are complete."""
        return self._hub.revision if self._live else self._next - 1

    async def _read_history(self) -> WatchBatch | None:
        self._catch_up()
        if self._live:
            return None
        batch = await self._hub.history.history(self.start, self.end, first=self._next, last=self._hub.revision)
        if self._closed:
            return None
        self._next = batch.revision + 1
        self._catch_up()
        return batch if batch.events else None

    def _catch_up(self) -> None:
        if not self._live and self._next > self._hub.revision:
            self._live = True
            self._hub.set_live(self, live=True)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


class _Segments:
    """Which of some ranges hold a key: the key space cut at every start and end, each piece with its
    watches."""

    def __init__(self, watches: Iterable[CursorWatch]) -> None:
        ordered = tuple(watches)
        self._cuts = sorted({cut for watch in ordered for cut in (watch.start, watch.end)})
        pieces: list[list[CursorWatch]] = [[] for _ in range(len(self._cuts) + 1)]
        for watch in ordered:
            for piece in range(bisect_right(self._cuts, watch.start), bisect_right(self._cuts, watch.end)):
                pieces[piece].append(watch)
        self._pieces = pieces

    def at(self, key: str) -> Sequence[CursorWatch]:
        return self._pieces[bisect_right(self._cuts, key)]
