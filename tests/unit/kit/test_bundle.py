"""Many streams over one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from google.protobuf.message import DecodeError

from hanse.kit.bundle import WINDOW_MESSAGES, Bundle, Coding, Frame
from hanse.kit.stream import Stream, StreamClosed, connected_pair
from hanse.kit.tasks import cancelled

DEADLINE_S = 10.0
PLAIN = Coding[str, str](str.encode, bytes.decode)

TextStream = Stream[str, str]


@dataclass
class Counted:
    """One end of a carrier in this process, which counts the bundles that were sent."""

    inner: Stream[Sequence[Frame], Sequence[Frame]]
    sent: list[Sequence[Frame]] = field(default_factory=list)

    async def send(self, frames: Sequence[Frame]) -> None:
        self.sent.append(frames)
        await self.inner.send(frames)

    async def receive(self) -> Sequence[Frame]:
        return await self.inner.receive()

    def close(self) -> None:
        self.inner.close()


@dataclass
class Sides:
    """Who opens streams, who is told of them, and what carries them."""

    opener: Bundle[str, str]
    taken: "asyncio.Queue[TextStream]"
    carrier: Counted
    back: Counted
    done: "asyncio.Task[object]"

    async def stream(self) -> tuple[TextStream, TextStream]:
        """Both ends of a new stream, on which one message has been said."""
        mine = self.opener.open()
        await mine.send("hello")
        theirs = await self.taken.get()
        assert await theirs.receive() == "hello"
        return mine, theirs


@asynccontextmanager
async def sides(coding: Coding[str, str] = PLAIN) -> AsyncIterator[Sides]:
    there: Stream[Sequence[Frame], Sequence[Frame]]
    back: Stream[Sequence[Frame], Sequence[Frame]]
    there, back = connected_pair()
    taken: asyncio.Queue[TextStream] = asyncio.Queue()
    carriers = Counted(there), Counted(back)
    opener, taker = Bundle(carriers[0], coding), Bundle(carriers[1], coding, taken.put_nowait)
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(b.run()) for b in (opener, taker)]
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield Sides(opener, taken, *carriers, tasks[0])
    finally:
        await cancelled(tasks)


async def test_what_several_say_at_once_travels_together() -> None:
    async with sides() as found:
        pairs = [await found.stream() for _ in range(20)]
        before = len(found.carrier.sent)
        for number, (mine, _) in enumerate(pairs):
            await mine.send(f"{number}")
        assert [await theirs.receive() for _, theirs in pairs] == [f"{number}" for number in range(20)]
        assert len(found.carrier.sent) - before <= 2


async def test_who_opened_first_need_not_speak_first() -> None:
    async with sides() as found:
        mine = [found.opener.open() for _ in range(3)]
        theirs = [await found.taken.get() for _ in range(3)]
        for number in (2, 0, 1):
            await mine[number].send(f"{number}")
        assert [await end.receive() for end in theirs] == ["0", "1", "2"]


async def test_a_slow_reader_holds_up_its_own_stream_and_no_other() -> None:
    async with sides() as found:
        (slow, slow_end), (quick, quick_end) = await found.stream(), await found.stream()
        sent, more = 0, asyncio.Event()

        async def flood() -> None:
            nonlocal sent
            while True:
                await slow.send("x")
                sent += 1
                if sent > WINDOW_MESSAGES:
                    more.set()

        async def talk() -> None:
            for number in range(3 * WINDOW_MESSAGES):
                await quick.send(f"{number}")

        tasks: list[asyncio.Task[object]] = [asyncio.create_task(flood()), asyncio.create_task(talk())]
        heard = [await quick_end.receive() for _ in range(3 * WINDOW_MESSAGES)]
        assert heard == [f"{number}" for number in range(3 * WINDOW_MESSAGES)]
        assert sent == WINDOW_MESSAGES - 1  # one was said before
        for _ in range(WINDOW_MESSAGES):
            await slow_end.receive()
        await more.wait()
        await cancelled(tasks)


async def test_the_end_of_one_stream_is_not_the_end_of_others() -> None:
    async with sides() as found:
        (one, one_end), (two, two_end) = await found.stream(), await found.stream()
        await one.send("last")
        one.close()
        assert await one_end.receive() == "last"
        with pytest.raises(StreamClosed):
            await one_end.receive()
        with pytest.raises(StreamClosed):
            await one.send("more")
        await two_end.send("still here")
        assert await two.receive() == "still here"
        assert len(found.opener) == 1


async def test_the_side_that_was_told_may_end_a_stream_too() -> None:
    async with sides() as found:
        mine, theirs = await found.stream()
        theirs.close()
        with pytest.raises(StreamClosed):
            await mine.receive()
        assert not len(found.opener)


async def test_the_carrier_ends_with_its_last_stream_which_is_heard_out() -> None:
    async with sides() as found:
        (one, one_end), (two, _) = await found.stream(), await found.stream()
        two.close()
        await one_end.send("good-bye")
        one_end.close()
        assert await one.receive() == "good-bye"
        with pytest.raises(StreamClosed):
            await one.receive()
        await found.done
        assert found.opener.ended


async def test_the_end_of_the_carrier_ends_all() -> None:
    async with sides() as found:
        (one, one_end), (two, _) = await found.stream(), await found.stream()
        waiting = asyncio.create_task(two.receive())
        found.back.close()
        for receive in (one.receive(), one_end.receive(), waiting):
            with pytest.raises(StreamClosed):
                await receive
        with pytest.raises(StreamClosed):
            found.opener.open()


@pytest.mark.parametrize("taken", [-1, WINDOW_MESSAGES + 1, 2**31 - 1])
async def test_who_grants_what_is_no_window_is_cut_off(taken: int) -> None:
    async with sides() as found:
        _, theirs = await found.stream()
        found.opener.push(Frame(1, taken=taken))
        with pytest.raises(StreamClosed, match="keeps no limit"):
            async with asyncio.timeout(DEADLINE_S):
                await theirs.receive()


async def test_what_is_no_message_ends_its_stream_alone() -> None:
    def broken(data: bytes) -> str:
        if data == b"nonsense":
            raise DecodeError("truncated")
        return data.decode()

    async with sides(Coding(str.encode, broken)) as found:
        _, first = await found.stream()
        second_mine, second = await found.stream()
        found.opener.push(Frame(1, b"nonsense"))
        with pytest.raises(StreamClosed, match="no message"):
            await first.receive()
        await second_mine.send("still there")
        assert await second.receive() == "still there"


async def test_who_sends_more_than_the_window_is_cut_off() -> None:
    async with sides() as found:
        mine, theirs = await found.stream()
        for _ in range(WINDOW_MESSAGES + 1):
            found.opener.push(Frame(1, b"x"))
        with pytest.raises(StreamClosed):
            await mine.receive()
        with pytest.raises(StreamClosed):
            await theirs.send("y")
