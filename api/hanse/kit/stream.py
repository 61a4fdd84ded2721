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
    """One direction: a bounded queue that can be closed."""

    def __init__(self, capacity: int) -> None:
        self._items: deque[Out] = deque()
        self._capacity = capacity
        self._closed = False
        self._changed = asyncio.Condition()

    async def put(self, item: Out) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or len(self._items) < self._capacity)
            if self._closed:
                raise StreamClosed("the stream is closed")
            self._items.append(item)
            self._changed.notify_all()

    async def get(self) -> Out:
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or bool(self._items))
            if not self._items:
                raise StreamClosed("the stream is closed")
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def close(self) -> "asyncio.Task[None] | None":
        if self._closed:
            return None
        self._closed = True
        return asyncio.get_running_loop().create_task(self._wake(), name="stream-close")


class _End(Generic[Out, In]):
    def __init__(self, out: _Lane[Out], inbound: _Lane[In]) -> None:
        self._out = out
        self._in = inbound
        self._closing: list[asyncio.Task[None] | None] = []

    async def send(self, message: Out) -> None:
        await self._out.put(message)

    async def receive(self) -> In:
        return await self._in.get()

    def close(self) -> None:
        self._closing = [self._out.close(), self._in.close()]


def connected_pair(
    capacity: int = STREAM_MESSAGES_MAX,
) -> tuple[Stream[Out, In], Stream[In, Out]]:
    """Two ends of one in-process stream."""
    there: _Lane[Out] = _Lane(capacity)
    back: _Lane[In] = _Lane(capacity)
    return _End(there, back), _End(back, there)
