"""Server-sent events: the page's one live stream, and the lines of a log.

Every frame has an id from which the stream can be resumed: the hub it came from, and the cursor behind it. A browser
sends the last one by itself when a connection breaks. A stream says something at least every HEARTBEAT_S, so that its
reader can tell a quiet federation from a broken line. Who reads is looked at again every RIGHTS_LOOK_S, and the
stream ends once they have not the rights any more with which they came.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import StreamingResponse

from hanse.api.v1 import job_service_pb2
from hanse.apiserver.context import CallContext
from hanse.apiserver.failures import told
from hanse.console.access import Entry
from hanse.console.desk import Desk
from hanse.console.hub import Cursor, Hub, Hubs
from hanse.console.limits import FRAME_INTERVAL_S, HEARTBEAT_S, LOG_TAIL_DEFAULT, RIGHTS_LOOK_S, STREAM_LIFE_S
from hanse.console.sight import same_rights
from hanse.kit.clock import Clock
from hanse.kit.tasks import close_iterator
from hanse.model.errors import InvalidArgument, Unavailable
from hanse.wire.json import error_to_json

T = TypeVar("T")

HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Watcher:
    """Whoever reads a stream, looked at again and again."""

    def __init__(self, entry: Entry, request: Request, ctx: CallContext, clock: Clock) -> None:
        self._entry = entry
        self._request = request
        self.ctx = ctx
        self.clock = clock
        self._until_s = clock.monotonic() + STREAM_LIFE_S
        self._look_s = clock.monotonic() + RIGHTS_LOOK_S

    async def check(self) -> bool:
        """Whether the stream goes on. Raises PermissionDenied, or Unavailable with reason RIGHTS_CHANGED."""
        now_s = self.clock.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + RIGHTS_LOOK_S
            if not same_rights((await self._entry.context(self._request)).access, self.ctx.access):
                raise Unavailable("your rights have changed meanwhile; look again", reason="RIGHTS_CHANGED")
        return now_s < self._until_s


# ---- what changes -------------------------------------------------------------------------------------------


def live_answer(watcher: Watcher, hubs: Hubs, last: str) -> StreamingResponse:
    """The live stream; `last` is the id to go on from, "" for none."""
    return StreamingResponse(_live(watcher, hubs, last), media_type="text/event-stream", headers=HEADERS)


async def _live(watcher: Watcher, hubs: Hubs, last: str) -> AsyncIterator[bytes]:
    try:
        async with hubs.stream(watcher.ctx) as hub:
            cursor = cursor_of(last, hub.nonce)
            yield b"retry: 1000\n\n"
            while await watcher.check():
                frame = hub.frame(cursor)
                cursor = frame.cursor
                if frame.values:
                    yield _event("frame", frame.values, cursor_id(hub.nonce, cursor))
                if frame.more:
                    await asyncio.sleep(0)
                    continue
                await asyncio.sleep(FRAME_INTERVAL_S)
                if not await _news(hub, cursor):
                    yield _event("beat", {})
    except Exception as error:
        yield _event("refused", error_to_json(told(error)))


async def _news(hub: Hub, cursor: Cursor) -> bool:
    """Whether there is something new within a heartbeat."""
    if hub.newer(cursor):
        return True
    try:
        await asyncio.wait_for(hub.changed(), HEARTBEAT_S)
    except TimeoutError:
        return False
    return True


def cursor_id(nonce: str, cursor: Cursor) -> str:
    """The id of a frame."""
    return f"{nonce}.{cursor.pools}.{cursor.status}.{cursor.event}"


def cursor_of(text: str, nonce: str) -> Cursor:
    """Where an id leads; to the begin if it is not one of this hub."""
    words = text.split(".")
    if len(words) != 4 or words[0] != nonce or not all(w.isdecimal() and len(w) < 16 for w in words[1:]):
        return Cursor()
    return Cursor(*(int(word) for word in words[1:]))


# ---- a log --------------------------------------------------------------------------------------------------


def log_answer(watcher: Watcher, request: Request, desk: Desk, hubs: Hubs) -> StreamingResponse:
    """The lines of one pod."""
    query = request.query_params
    asked = job_service_pb2.TailLogsRequest(
        job=request.path_params["job"],
        pod_set=query.get("set", ""),
        rank=number(query.get("rank", "0"), "rank"),
        tail_lines=number(query.get("tail", str(LOG_TAIL_DEFAULT)), "tail"),
        follow=query.get("follow") == "1",
    )
    return StreamingResponse(_lines(watcher, desk, hubs, asked), media_type="text/event-stream", headers=HEADERS)


async def _lines(
    watcher: Watcher, desk: Desk, hubs: Hubs, asked: job_service_pb2.TailLogsRequest
) -> AsyncIterator[bytes]:
    try:
        with hubs.places.one(watcher.ctx.principal):
            responses = desk.follow(watcher.ctx, desk.jobs.tail_logs, asked)
            async for response in _while(watcher.check, responses):
                yield _event("lines", [[line.time_ms, line.text] for line in response.lines])
        yield _event("end", {})
    except Exception as error:
        yield _event("refused", error_to_json(told(error)))


async def _while(goes_on: Callable[[], Awaitable[bool]], values: AsyncIterator[T]) -> AsyncIterator[T]:
    """What comes, for as long as it goes on; that is asked also while nothing comes."""
    coming: asyncio.Future[T] | None = None
    try:
        while await goes_on():
            coming = coming or asyncio.ensure_future(anext(values))
            done, _ = await asyncio.wait({coming}, timeout=RIGHTS_LOOK_S)
            if done:
                try:
                    value = coming.result()
                except StopAsyncIteration:
                    return
                coming = None
                yield value
    finally:
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await coming
        await close_iterator(values)


def number(text: str, path: str) -> int:
    """A number of a query. Raises InvalidArgument."""
    if not text.isdecimal() or len(text) > 12:
        raise InvalidArgument("give a number", reason="NUMBER_INVALID", path=path)
    return int(text)


def _event(name: str, value: object, mark: str = "") -> bytes:
    head = f"id: {mark}\n" if mark else ""
    return f"{head}event: {name}\ndata: ".encode() + orjson.dumps(value) + b"\n\n"
