"""A two-way stream of messages: what the link needs of any transport.

In one process the stream is a pair of bounded queues; over the network a gRPC stream; in the simulator a model
that delays, cuts and closes. Nothing above knows which.
"""

import asyncio
from collections import deque
from typing import Generic, Protocol, TypeVar

Out = TypeVar("Out")
In = TypeVar("In")
Out_contra = TypeVar("Out_contra", contravariant=True)
In_co = TypeVar("In_co", covariant=True)

STREAM_MESSAGES_MAX = 256  # messages that wait in one direction before `send` waits


class StreamClosed(Exception):
    """The stream has ended: attach anew."""


class Stream(Protocol[Out_contra, In_co]):
    """One end of a stream."""

    async def send(self, message: Out_contra) -> None:
        """Hand over a message; waits while the other end is slow. Raises StreamClosed."""
        ...

    async def receive(self) -> In_co:
        """The next message, in order. Raises StreamClosed when no more can come."""
        ...

    def close(self) -> None:
        """End both directions; never raises, may be repeated."""
        ...


class _Lane(Generic[Out]):
    """One direction: a bounded queue that can be closed.

    Whoever waits looks again after each change, so a wake-up is only a hint, and a cancelled one takes nothing along.
    A condition would say the same with a lock, which costs more than all the rest while nobody waits.
    """

    def __init__(self, capacity: int) -> None:
        self._items: deque[Out] = deque()
        self._capacity = capacity
        self._closed = False
        self._waiting: list[asyncio.Future[None]] = []

    async def put(self, item: Out) -> None:
        while not self._closed and len(self._items) >= self._capacity:
            await self._change()
        if self._closed:
            raise StreamClosed("the stream is closed")
        self._items.append(item)
        self._wake()

    async def get(self) -> Out:
        while not self._items:
            if self._closed:
                raise StreamClosed("the stream is closed")
            await self._change()
        item = self._items.popleft()
        self._wake()
        return item

    def close(self) -> None:
        self._closed = True
        self._wake()

    async def _change(self) -> None:
        change = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        await change

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)


class _End(Generic[Out, In]):
    def __init__(self, out: _Lane[Out], inbound: _Lane[In]) -> None:
        self._out = out
        self._in = inbound

    async def send(self, message: Out) -> None:
        await self._out.put(message)

    async def receive(self) -> In:
        return await self._in.get()

    def close(self) -> None:
        self._out.close()
        self._in.close()


def connected_pair(
    capacity: int = STREAM_MESSAGES_MAX,
) -> tuple[Stream[Out, In], Stream[In, Out]]:
    """Two ends of one in-process stream."""
    there: _Lane[Out] = _Lane(capacity)
    back: _Lane[In] = _Lane(capacity)
    return _End(there, back), _End(back, there)
