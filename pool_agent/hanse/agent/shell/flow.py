"""How much of an answer may be under way: streams of lines and bytes go no faster than their asker takes them.

The link carries reports too, so an answer has room for a window of replies, and waits for more to be made. One that
nobody takes for a minute is given up. What a command reads waits in a queue of the same kind, and each input that is
taken out of it is told of, so that the next may be sent.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final

from hanse.model.detail import DETAIL_LINES_PER_REPLY_MAX, INPUT_WINDOW, ExecInput
from hanse.model.errors import ResourceExhausted

SLOW_READER_S: Final = 60.0
LINE_CHARS_MAX: Final = 8_192
"""Of one log line; the rest of a longer one is cut off."""

REPLY_CHARS_MAX: Final = 131_072
"""Of the lines of one reply together."""


class Room:
    """Room for replies; a window of 0 is boundless."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._free = window
        self._made = asyncio.Event()

    def make(self, replies: int) -> None:
        """So many were taken."""
        self._free = min(self._window, self._free + max(0, replies))
        self._made.set()

    async def take(self) -> None:
        """Wait for room, and use it. Raises ResourceExhausted: nobody takes anything."""
        if not self._window:
            return
        try:
            async with asyncio.timeout(SLOW_READER_S):
                while self._free <= 0:
                    self._made.clear()
                    await self._made.wait()
        except TimeoutError:
            said = f"nothing was taken for {SLOW_READER_S:.0f} s: read faster"
            raise ResourceExhausted(said, reason="SLOW_READER") from None
        self._free -= 1


class Inputs(AsyncIterator[ExecInput]):
    """What a command reads, until its end.

    Args:
        taken: tells that so many were taken.
    """

    def __init__(self, taken: Callable[[int], Awaitable[None]]) -> None:
        self._taken = taken
        self._waiting: asyncio.Queue[ExecInput] = asyncio.Queue(INPUT_WINDOW)
        self._ended = False

    def put(self, value: ExecInput) -> bool:
        """Whether there was room for it."""
        try:
            self._waiting.put_nowait(value)
        except asyncio.QueueFull:
            return False
        return True

    async def __anext__(self) -> ExecInput:
        if self._ended:
            raise StopAsyncIteration
        value = await self._waiting.get()
        self._ended = value.end
        await self._taken(1)
        return value


def batches_of(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Lines, each cut to a bound, in replies that are bounded too."""
    batch: list[str] = []
    size = 0
    for line in lines:
        cut = line[:LINE_CHARS_MAX]
        if batch and (len(batch) == DETAIL_LINES_PER_REPLY_MAX or size + len(cut) > REPLY_CHARS_MAX):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(cut)
        size += len(cut)
    if batch:
        yield tuple(batch)
