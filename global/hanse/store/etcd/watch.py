"""One watch of the store: a cursor, a bounded buffer, and a wish to be served.

A watch is *served* while the server has it (``watches`` keeps the stream), or another one is served in whose range
it lies (``sharing``). What comes is cut into whole revisions and
put into the buffer; the cursor, ``next_revision``, is the first revision that is not in it. When the buffer is full,
the watch gives its place on the server back, forgets what came too much, and asks to be served again, from its
cursor, when the reader has emptied the buffer. So a reader that sleeps for an hour costs one buffer here and nothing
there, and
a broken connection is the same thing as a full buffer: served again from the cursor.

A message may hold a part of a revision only (``fragment``). Then the newest revision in it is held back until the
rest has come, so that the cursor moves over whole revisions.

Everything runs on the event loop, and between a look at the buffer and its change there is no await, so a reader may
be cancelled at any time and loses nothing.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from hanse.store.contract import WATCH_BATCH_EVENTS_MAX, Compacted, Event, StoreError, StoreUnavailable, WatchBatch

WATCH_BUFFER_EVENTS_MAX: Final = 16_384
WATCH_BUFFER_BYTES_MAX: Final = 16 * 1_024 * 1_024
"""Unread events of one watch; beyond it the watch gives its place back. Catching up costs etcd a scan of all history
behind the cursor, so the buffer is worth several of its answers."""


class Serving(Protocol):
    """Who gets watches served."""

    def serve(self, watch: "EtcdWatch") -> None:
        """Have the server send events from the watch's cursor on, as soon as that is possible."""
        ...

    def unserve(self, watch: "EtcdWatch") -> None:
        """Not any more, for now."""
        ...

    def forget(self, watch: "EtcdWatch") -> None:
        """Never again."""
        ...


class EtcdWatch:
    """A ``Watch``; made by ``Watches.open``.

    Attributes:
        start, stop: its range.
        next_revision: the cursor.
        denied: the server has refused it, and we have asked for a new token since.
    """

    def __init__(self, serving: Serving, start: str, end: str, *, from_revision: int) -> None:
        self.start, self.stop = start, end
        self.next_revision = from_revision
        self.denied = False
        self._serving = serving
        self._buffer: deque[WatchBatch] = deque()
        self._events = self._bytes = 0
        self._held_back: list[Event] = []
        self._waits_for_room = False
        self._final: StoreError | None = None
        self._once: StoreUnavailable | None = None
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        while True:
            if self._closed:
                raise StopAsyncIteration
            if self._buffer:
                return self._take()
            if self._final is not None:
                raise self._final
            if self._once is not None:
                error, self._once = self._once, None
                self._serving.serve(self)
                raise error
            await self._wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._buffer.clear()
            self._held_back.clear()
            self._serving.forget(self)
            self._wake()

    # ------------------------------------------------------------------------------------ from the server

    @property
    def wants_serving(self) -> bool:
        """There is room, and nothing speaks against it."""
        return not (self._closed or self._waits_for_room) and self._final is None and self._once is None

    def begin(self) -> None:
        """What comes from now on begins at the cursor."""
        self._held_back.clear()

    def covers(self, other: "EtcdWatch") -> bool:
        """Whether the other's range lies in its own."""
        return self.start <= other.start and other.stop <= self.stop

    def offer(self, events: Sequence[Event], *, fragment: bool = False) -> Sequence[Event]:
        """The next events of its range; those before the cursor are known. Returns what went into the buffer."""
        found = self._held_back + [event for event in events if event.kv.mod_revision >= self.next_revision]
        self._held_back = []
        if fragment and found:
            found, self._held_back = _without_last_revision(found)
        if not found:
            return ()
        size_bytes = sum(len(event.kv.value) + len(event.kv.key) for event in found)
        if self._events and (
            self._events + len(found) > WATCH_BUFFER_EVENTS_MAX or self._bytes + size_bytes > WATCH_BUFFER_BYTES_MAX
        ):
            self._waits_for_room = True
            self._held_back = []
            self._serving.unserve(self)
            return ()
        for part in _batches(found):
            self._put(part, part[-1].kv.mod_revision)
        self._bytes += size_bytes
        return found

    def progress(self, revision: int) -> None:
        """Nothing more comes of revisions up to this one, and the reader shall know."""
        if not self._held_back and revision >= self.next_revision:
            self._put((), revision)

    def follow(self, next_revision: int) -> None:
        """Nothing more comes of revisions before this one. The reader is not told: that would wake it for nothing."""
        self.next_revision = max(self.next_revision, next_revision)

    def compacted(self, error: Compacted) -> None:
        """History is gone; the reader is told after what it has not read yet."""
        self._final = error
        self._wake()

    def tell(self, error: StoreUnavailable) -> None:
        """It is not served at present; the reader is told once, after what it has not read yet, and may go on."""
        self._once = error
        self._wake()

    def end(self, error: StoreUnavailable) -> None:
        """The store is closed: what was not read is gone, and there is no going on."""
        self._buffer.clear()
        self._final = error
        self._wake()

    # --------------------------------------------------------------------------------------------- inside

    def _put(self, part: Sequence[Event], revision: int) -> None:
        """Everything up to ``revision`` is in the buffer now."""
        self.next_revision = revision + 1
        if not part and self._buffer:
            self._buffer[-1] = WatchBatch(revision, self._buffer[-1].events)
        else:
            self._buffer.append(WatchBatch(revision, tuple(part)))
        self._events += len(part)
        self._wake()

    def _take(self) -> WatchBatch:
        """Whole batches from the buffer as long as they are small together."""
        batch = self._buffer.popleft()
        parts, count = [batch.events], len(batch.events)
        while self._buffer and count + len(self._buffer[0].events) <= WATCH_BATCH_EVENTS_MAX:
            batch = self._buffer.popleft()
            parts.append(batch.events)
            count += len(batch.events)
        self._events -= count
        if not self._buffer:
            self._bytes = 0
            if self._waits_for_room:
                self._waits_for_room = False
                self._serving.serve(self)
        merged = parts[0] if len(parts) == 1 else tuple(event for part in parts for event in part)
        return WatchBatch(batch.revision, merged)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _without_last_revision(found: list[Event]) -> tuple[list[Event], list[Event]]:
    """What belongs to older revisions than the newest, and what belongs to that."""
    newest = found[-1].kv.mod_revision
    at = len(found)
    while at and found[at - 1].kv.mod_revision == newest:
        at -= 1
    return found[:at], found[at:]


def _batches(found: Sequence[Event]) -> list[Sequence[Event]]:
    """Whole revisions, cut once a part holds ``WATCH_BATCH_EVENTS_MAX`` events."""
    parts: list[Sequence[Event]] = []
    begin, last = 0, found[0].kv.mod_revision
    for at, event in enumerate(found):
        revision = event.kv.mod_revision
        if revision != last and at - begin >= WATCH_BATCH_EVENTS_MAX:
            parts.append(found[begin:at])
            begin = at
        last = revision
    parts.append(found[begin:])
    return parts
