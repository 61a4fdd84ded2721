"""What a subscription has not read yet: the newest message of each topic, in the order in which topics
got news.

Every adapter uses it between its network and its reader. A backlog would be worthless (messages are full
state), and a queue of fixed length would drop the newest or starve quiet topics behind a chatty one.
"""

import asyncio
from typing import Self

from hanse.bus.contract import SUBSCRIPTION_TOPICS_MAX, BusClosed, BusMessage


class Inbox:
    """An async iterator for one reader; see ``contract.Subscription`` for how it ends."""

    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: dict[str, BusMessage] = {}
        self._ended = False
        self._ended_because: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    def put(self, message: BusMessage) -> None:
        """Replaces an unread message of the topic, at its place in the order."""
        if self._ended:
            return
        if message.topic in self._waiting:
            self.dropped += 1
        elif len(self._waiting) >= SUBSCRIPTION_TOPICS_MAX:
            del self._waiting[next(iter(self._waiting))]
            self.dropped += 1
        self._waiting[message.topic] = message
        self._wake()

    def end(self, because: str | None = None) -> None:
        """Unread messages are gone; with a cause the reader gets ``BusClosed``, without it just stops."""
        if self._ended:
            return
        self._ended, self._ended_because = True, because
        self._waiting.clear()
        self._wake()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BusMessage:
        while not self._waiting:
            if self._ended_because is not None:
                raise BusClosed(self._ended_because)
            if self._ended:
                raise StopAsyncIteration
            await self._wait()
        return self._waiting.pop(next(iter(self._waiting)))

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
