"""Many streams over one, the carrier: what several agents of one process and a replica say to each other travels
together.

A message of its own costs a call of the transport at both ends, which is more than all that is done with most
messages; a few in one cost what one costs. Whoever uses a stream does not know that it is carried.

* **Frames** name their stream by number. The side that opens gives the numbers, each once, and says so at once: the
  first frame of a number, which is higher than all before it, opens the stream at the other side. A stream's messages
  arrive once and in order.
* **The first frame after a pause goes at once.** What comes within GATHER_S behind it goes together.
* **A window for each stream**: so many messages may be under way that the other end's user has not taken; then `send`
  waits. So a slow reader holds up its own stream, and neither the others nor memory.
* A stream ends with an end frame, or with the carrier, which ends all of them. The carrier ends with its last stream,
  so that nobody who leaves is held up by it.

Rejected: leaving it to HTTP/2, which has streams and windows of its own. It saves connections, and no call of the
transport.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from google.protobuf.message import DecodeError

from hanse.kit.stream import Stream, StreamClosed
from hanse.kit.tasks import race

GATHER_S: Final = 0.01
"""Bundles are at least so far apart, while there is something to send."""

WINDOW_MESSAGES: Final = 256
"""Messages of one stream and direction that wait to be taken, before `send` waits."""

WINDOW_BYTES_MAX: Final = 64 << 20
"""Bytes of them; a stream whose other end sends more, or says that it may, is ended."""

BUNDLE_FRAMES_MAX: Final = 1_000
BUNDLE_BYTES_MAX: Final = 1 << 20
"""A bundle takes no further frame once its messages have so many bytes."""

STREAMS_MAX: Final = 10_000
"""Streams of one carrier; one more is ended at once."""

Out = TypeVar("Out")
In = TypeVar("In")


class Frame(NamedTuple):
    """A piece of one stream.

    Attributes:
        message: encoded; None if the frame brings none.
        taken: messages that the sender's user has taken since the last frame that said so.
        end: the stream has ended.
    """

    stream: int
    message: bytes | None = None
    taken: int = 0
    end: bool = False


class Carrier(Protocol):
    """One end of what carries a bundle."""

    async def send(self, frames: Sequence[Frame]) -> None:
        """Raises StreamClosed."""
        ...

    async def receive(self) -> Sequence[Frame]:
        """Raises StreamClosed when no more can come."""
        ...

    def close(self) -> None:
        """End it; never raises, may be repeated."""
        ...


class Coding(NamedTuple, Generic[Out, In]):
    """How messages become bytes, and how those of the other side are read."""

    encode: Callable[[Out], bytes]
    decode: Callable[[bytes], In]


class Bundle(Generic[Out, In]):
    """One side of a carrier, with its streams; see the module.

    Args:
        accept: told of every stream that the other side opens; without it, none is taken.
    """

    def __init__(
        self,
        carrier: Carrier,
        coding: Coding[Out, In],
        accept: "Callable[[Stream[Out, In]], None] | None" = None,
    ) -> None:
        self._carrier = carrier
        self._coding = coding
        self._accept = accept
        self._ends: dict[int, _End[Out, In]] = {}
        self._opened = 0
        self._out: deque[Frame] = deque()
        self._news = asyncio.Event()
        self._used = False
        self._ended = False

    def __len__(self) -> int:
        """Streams that are open."""
        return len(self._ends)

    @property
    def ended(self) -> bool:
        """Whether nothing can be opened any more."""
        return self._ended

    def open(self) -> Stream[Out, In]:
        """A new stream. Raises StreamClosed if the carrier has ended, or has too many."""
        if self._ended or len(self._ends) >= STREAMS_MAX:
            raise StreamClosed("the carrier has ended" if self._ended else f"{STREAMS_MAX} streams are open")
        self._opened += 1
        end = self._add(self._opened)
        self.push(Frame(self._opened))
        return end

    async def run(self) -> None:
        """Carry until the carrier or the last stream ends, or until cancelled; all streams have ended then."""
        try:
            await race(receive=self._receive(), send=self._send())
        except StreamClosed as error:  # which is how a carrier ends
            self._close(str(error))
        finally:
            self._close("the carrier has ended")

    def _close(self, cause: str) -> None:
        """End everything; may be repeated."""
        self._ended = True
        self._carrier.close()
        for end in self._ends.values():
            end.hear_end(cause)
        self._ends.clear()

    # ---- for its streams -------------------------------------------------------------------------------------

    def push(self, frame: Frame) -> None:
        """Send it with the next bundle."""
        self._out.append(frame)
        self._news.set()

    def forget(self, number: int) -> None:
        """The stream has ended at this side; the other one is told."""
        if self._ends.pop(number, None) is not None:
            self.push(Frame(number, end=True))

    # ---- the carrier -----------------------------------------------------------------------------------------

    def _add(self, number: int) -> "_End[Out, In]":
        self._used = True
        end = self._ends[number] = _End(self, number, self._coding)
        return end

    async def _send(self) -> None:
        while True:
            await self._news.wait()
            while self._out:
                await self._carrier.send(self._next_bundle())
                await asyncio.sleep(GATHER_S)
            if self._used and not self._ends:
                return
            self._news.clear()

    def _next_bundle(self) -> list[Frame]:
        frames: list[Frame] = []
        size = 0
        while self._out and len(frames) < BUNDLE_FRAMES_MAX:
            size += len(self._out[0].message or b"")
            if frames and size > BUNDLE_BYTES_MAX:
                break
            frames.append(self._out.popleft())
        return frames

    async def _receive(self) -> None:
        newest = 0
        while True:
            for frame in await self._carrier.receive():
                end = self._ends.get(frame.stream)
                if end is None and self._accept is not None and frame.stream > newest and not frame.end:
                    newest = frame.stream
                    end = self._take_in(newest)
                if end is not None:
                    end.hear(frame)

    def _take_in(self, number: int) -> "_End[Out, In] | None":
        assert self._accept is not None
        if len(self._ends) >= STREAMS_MAX:
            self.push(Frame(number, end=True))
            return None
        end = self._add(number)
        self._accept(end)
        return end


class _End(Generic[Out, In]):
    """One end of one stream."""

    def __init__(self, bundle: Bundle[Out, In], number: int, coding: Coding[Out, In]) -> None:
        self._bundle = bundle
        self._number = number
        self._coding = coding
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        self._window = WINDOW_MESSAGES
        self._taken = 0
        self._closed = False
        self._cause = ""
        self._waiting: list[asyncio.Future[None]] = []

    async def send(self, message: Out) -> None:
        while not self._closed and not self._window:
            await self._change()
        if self._closed:
            raise StreamClosed(self._cause)
        self._window -= 1
        self._bundle.push(Frame(self._number, self._coding.encode(message)))

    async def receive(self) -> In:
        while not self._inbox:
            if self._closed:
                raise StreamClosed(self._cause)
            await self._change()
        message = self._inbox.popleft()
        self._taken += 1
        if self._taken >= WINDOW_MESSAGES // 2 and not self._closed:
            self._bundle.push(Frame(self._number, taken=self._taken))
            self._taken = 0
        self._inbox_bytes -= len(message)
        try:
            return self._coding.decode(message)
        except DecodeError:
            raise StreamClosed("the other end has sent what is no message") from None

    def close(self) -> None:
        self._bundle.forget(self._number)
        self.hear_end("the stream is closed")

    def hear(self, frame: Frame) -> None:
        """What the other end says."""
        fair = 0 <= frame.taken <= WINDOW_MESSAGES - self._window
        if fair:
            self._window += frame.taken
        if frame.message is not None:
            self._inbox.append(frame.message)
            self._inbox_bytes += len(frame.message)
        fair = fair and len(self._inbox) <= WINDOW_MESSAGES and self._inbox_bytes <= WINDOW_BYTES_MAX
        if frame.end or not fair:
            self._bundle.forget(self._number)
            self.hear_end("the other end has ended the stream" if fair else "the other end keeps no limit")
        self._wake()

    def hear_end(self, cause: str) -> None:
        """Nothing can be sent any more, and nothing comes but what has arrived."""
        self._cause = self._cause or cause
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
