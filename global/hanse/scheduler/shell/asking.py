"""Questions to one agent over its stream, and their answers, in pieces, with limits both ways.

Answers share the stream with reports and summaries, so nobody's curiosity may fill it. An agent that counts its
replies sends at most REPLY_WINDOW of them ahead of what the asker has taken, and is told here of each that was; a
slow reader so holds up the program that he reads from and nothing else. Inputs of a command are counted the same way
in the other direction. An older agent counts nothing: what its asker does not take in time is lost, and the stream
goes on.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from hanse.kit.stream import StreamClosed
from hanse.model.detail import (
    INPUT_WINDOW,
    REPLY_WINDOW,
    Cancel,
    DetailReply,
    DetailRequest,
    ExecInput,
    Question,
    Taken,
)
from hanse.model.ids import PoolName

WAITING_MAX: Final = 1_000
"""Pieces of one answer that wait for their asker."""

TOLD_AFTER: Final = REPLY_WINDOW // 4
"""Replies that were taken before the agent is told so."""

Tell = Callable[[DetailRequest], None]
Put = Callable[[DetailRequest], Awaitable[None]]


class Asking:
    """The questions of one attachment.

    Args:
        tell: puts a message on the stream at once. Raises StreamClosed.
        put: waits for room on it.
    """

    def __init__(self, pool: PoolName, tell: Tell, put: Put) -> None:
        self.pool = pool
        self._tell = tell
        self._put = put
        self._answers: dict[int, Answers] = {}
        self._asked = 0
        self._left = False

    def ask(self, question: Question) -> "Answers":
        """Ask the agent; the answer comes in pieces. Raises StreamClosed."""
        self._asked += 1
        answers = self._answers[self._asked] = Answers(self, self._asked)
        if self._left:
            answers.leave()
        try:
            self._tell(DetailRequest(self._asked, question))
        except StreamClosed:
            del self._answers[self._asked]
            raise
        return answers

    def answer(self, reply: DetailReply) -> None:
        """A piece has come; nobody may wait for it any more."""
        answers = self._answers.get(reply.id)
        if answers is not None:
            answers.take_in(reply)

    def leave(self) -> None:
        """The agent has gone: whoever still waits is told that no more comes."""
        self._left = True
        for answers in self._answers.values():
            answers.leave()

    def stop(self, number: int, *, ended: bool) -> None:
        """The asker has gone."""
        self._answers.pop(number, None)
        if not ended:
            self.tell(number, Cancel())

    def tell(self, number: int, question: Question) -> None:
        """Say something about a question, if the stream is still there."""
        with contextlib.suppress(StreamClosed):
            self._tell(DetailRequest(number, question))

    async def put(self, number: int, value: ExecInput) -> None:
        """Raises StreamClosed."""
        if self._left:
            raise StreamClosed(f"the agent of {self.pool} has left")
        await self._put(DetailRequest(number, value))


class Answers:
    """The pieces of one answer; leave it with `close`."""

    def __init__(self, asking: Asking, number: int) -> None:
        self._asking = asking
        self._number = number
        self._pieces: asyncio.Queue[DetailReply | None] = asyncio.Queue(WAITING_MAX)
        self._room = asyncio.Semaphore(INPUT_WINDOW)
        self._taken = 0
        self._ended = False

    def take_in(self, reply: DetailReply) -> None:
        """A piece has come from the agent."""
        for _ in range(min(reply.inputs_taken, INPUT_WINDOW)):
            self._room.release()
        if reply != DetailReply(reply.id, inputs_taken=reply.inputs_taken):
            with contextlib.suppress(asyncio.QueueFull):
                self._pieces.put_nowait(replace(reply, inputs_taken=0))

    def leave(self) -> None:
        """No more comes."""
        if self._pieces.full():
            self._pieces.get_nowait()
        self._pieces.put_nowait(None)

    async def next(self) -> DetailReply | None:
        """The next piece, None after the last.

        Raises:
            StreamClosed: the agent left before the last.
        """
        if self._ended:
            return None
        if self._taken >= TOLD_AFTER:
            self._asking.tell(self._number, Taken(self._taken))
            self._taken = 0
        reply = await self._pieces.get()
        if reply is None:
            raise StreamClosed(f"the agent of {self._asking.pool} has left")
        self._ended = reply.end
        self._taken += reply.counted
        return reply

    async def tell(self, value: ExecInput) -> None:
        """Hand on an input, once the command has read enough of those before. Raises StreamClosed."""
        await self._room.acquire()
        await self._asking.put(self._number, value)

    def close(self) -> None:
        """No more of it, please."""
        self._asking.stop(self._number, ended=self._ended)
