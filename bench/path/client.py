"""The client, a process of its own: `python -m bench.path.client`. It follows the orders (`orders`) that come by
stdin, and ends with it.

A gang is placed when the watch first shows PLACED or later; its latency counts from the call that submitted it. The
watch may be quicker than the answer to that call. Submissions are never cut off: what was stored and not acknowledged
would be in nobody's book.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Final, TypeAlias

from bench.equal_pools import HELD_QUEUE
from bench.path.load import Gang, Gangs, Load
from bench.path.orders import (
    Accepted,
    Begin,
    Book,
    Burst,
    Confine,
    Count,
    Fill,
    Finish,
    Look,
    Order,
    Pace,
    Paced,
    Rest,
    order_of,
    to_line,
)
from hanse.api.v1 import job_pb2
from hanse.client import AsyncClient
from hanse.kit import process
from hanse.kit.tasks import cancelled

Answer: TypeAlias = Count | Paced | Accepted | Book

ENDED: Final = frozenset(
    {
        job_pb2.JOB_STATE_SUCCEEDED,
        job_pb2.JOB_STATE_FAILED,
        job_pb2.JOB_STATE_CANCELLED,
        job_pb2.JOB_STATE_LOST,
    }
)
PLACED: Final = ENDED | {job_pb2.JOB_STATE_PLACED, job_pb2.JOB_STATE_STARTING, job_pb2.JOB_STATE_RUNNING}

PATIENCE_S: Final = 90.0
"""For what is on its way to be placed, or to end."""

CALLS_MAX: Final = 64
"""Submissions under way at a fixed rate; a batch that is due beyond them is left out, and counted."""

LINE_BYTES_MAX: Final = 1 << 20


@dataclass(slots=True)
class Seen:
    """What the client has seen, by job. Moments are seconds of a clock of which only differences have a meaning.

    Attributes:
        sending: gangs of submissions that have not been answered.
        resting: gangs that are not meant to run.
        news: set whenever something has changed.
    """

    sending: int = 0
    resting: int = 0
    gangs: dict[str, Gang] = field(default_factory=dict)
    submitted_s: dict[str, float] = field(default_factory=dict)
    placed_s: dict[str, float] = field(default_factory=dict)
    ended: dict[str, job_pb2.JobState.ValueType] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def waiting(self) -> int:
        """Gangs on their way to be placed."""
        return self.sending + len(self.submitted_s) - len(self.placed_s) - self.resting

    def acknowledged(self, job: str, gang: Gang, at_s: float) -> None:
        """The answer to a submission that began at that moment."""
        self.gangs[job], self.submitted_s[job] = gang, at_s

    def shown(self, job: str, state: job_pb2.JobState.ValueType, at_s: float) -> None:
        """The watch shows it in a state."""
        if state in PLACED:
            self.placed_s.setdefault(job, at_s)
        if state in ENDED:
            self.ended[job] = state

    def count(self) -> Count:
        """Everything as numbers."""
        holding = self.placed_s.keys() - self.ended.keys()
        gpus = sum(self.gangs[job].gpus for job in holding if job in self.gangs)
        at_s = time.perf_counter()
        return Count(at_s, len(self.submitted_s), len(self.placed_s), len(self.ended), gpus)

    def book(self) -> Book:
        """What has to be found in the store and the clusters."""
        meant = (job for job, gang in self.gangs.items() if gang.spec.queue != HELD_QUEUE)
        states = {job: self.ended.get(job) for job in meant}
        odd = {job: state for job, state in states.items() if state != job_pb2.JOB_STATE_SUCCEEDED}
        words = {job: "not ended" if state is None else job_pb2.JobState.Name(state) for job, state in odd.items()}
        return Book({job: gang.pods for job, gang in self.gangs.items()}, words)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition on what is seen."""
        while not holds():
            self.news.clear()
            await self.news.wait()


class Client:
    """Submits to every replica in turn, and watches at the first one."""

    def __init__(self, replicas: Sequence[AsyncClient], load: Load) -> None:
        self.seen = Seen()
        self._load = load
        self._gangs = Gangs(load)
        self._replicas = cycle(replicas)
        self._watched = replicas[0]
        self._filling: list[asyncio.Task[None]] = []
        self._full = True

    async def watch(self) -> None:
        """Follow every job until cancelled."""
        async for news in self._watched.watch_jobs(snapshot=True):
            now_s = time.perf_counter()
            for event in news.events:
                self.seen.shown(event.job.id, event.job.status.state, now_s)
            self.seen.news.set()

    async def follow(self, order: Order) -> Answer:
        """Carry an order out. Raises TimeoutError if what it waits for does not come."""
        match order:
            case Begin() | Look():
                return self.seen.count()
            case Fill():
                self._full = False
                self._filling = [asyncio.create_task(self._fill(), name="fill") for _ in range(order.calls)]
                return self.seen.count()
            case Rest():
                self._full = True
                self.seen.news.set()
                await asyncio.gather(*self._filling)
                await self._placed()
                return self.seen.count()
            case Pace():
                return await self._pace(order)
            case Confine(queues):
                self._gangs.confine(queues)
                return self.seen.count()
            case Burst():
                return await self._burst(order)
            case Finish(patience_s):
                return await self._finish(patience_s)

    async def _fill(self) -> None:
        """Keep the window full."""
        load, seen = self._load, self.seen
        while True:
            await seen.until(lambda: self._full or seen.waiting + load.batch <= load.window)
            if self._full:
                return
            await self._submit(load.batch)

    async def _pace(self, order: Pace) -> Paced:
        before, calls, left_out = set(self.seen.submitted_s), set[asyncio.Task[None]](), 0
        due_s = begun_s = time.perf_counter()
        while due_s < begun_s + order.seconds:
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            due_s += order.batch / order.rate
            calls = {call for call in calls if not _succeeded(call)}
            if len(calls) < CALLS_MAX:
                calls.add(asyncio.create_task(self._submit(order.batch), name="submit"))
            else:
                left_out += 1
        await asyncio.gather(*calls)
        await self._placed()
        begun, placed = self.seen.submitted_s, self.seen.placed_s
        return Paced([(placed[job] - begun[job]) * 1e3 for job in begun if job not in before], left_out)

    async def _placed(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.seen.until(lambda: self.seen.waiting == 0)

    async def _burst(self, order: Burst) -> Accepted:
        """Made beforehand, since it is asked what the servers take. They wait for good: their queue is held."""
        sizes = [min(order.batch, order.gangs - done) for done in range(0, order.gangs, order.batch)]
        waiting = iter([self._gangs.batch(size, HELD_QUEUE) for size in sizes])
        begun_s = time.perf_counter()

        async def send() -> None:
            for gangs in waiting:
                await self._send(gangs)
                self.seen.resting += len(gangs)

        async with asyncio.TaskGroup() as group:
            for _ in range(order.calls):
                group.create_task(send(), name="burst")
        return Accepted(order.gangs, time.perf_counter() - begun_s)

    async def _finish(self, patience_s: float) -> Book:
        seen, ended = self.seen, -1
        meant = len(seen.gangs) - seen.resting
        while len(seen.ended) < meant and len(seen.ended) != ended:  # the book names what does not end
            ended = len(seen.ended)
            try:
                async with asyncio.timeout(patience_s):
                    await seen.until(lambda: len(seen.ended) >= meant)
            except TimeoutError:
                pass
        return seen.book()

    async def _submit(self, count: int) -> None:
        await self._send(self._gangs.batch(count))

    async def _send(self, gangs: Sequence[Gang]) -> None:
        count = len(gangs)
        self.seen.sending += count
        try:
            at_s = time.perf_counter()
            found = await next(self._replicas).submit([gang.spec for gang in gangs])
            found.raise_refusal()
            for job, gang in zip(found.ids, gangs, strict=True):
                self.seen.acknowledged(job, gang, at_s)
        finally:
            self.seen.sending -= count


def _succeeded(call: "asyncio.Task[None]") -> bool:
    """Whether a call has been answered; one that failed raises what went wrong."""
    if call.done():
        call.result()
    return call.done()


async def serve() -> None:
    """Follow orders until stdin ends."""
    orders = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    begin = order_of(await orders.readline())
    assert isinstance(begin, Begin)
    replicas = [AsyncClient(address, token="") for address in begin.addresses]
    client = Client(replicas, begin.load)
    watching = asyncio.create_task(client.watch(), name="watch")
    process.settle_memory()
    try:
        _tell(await client.follow(begin))
        while line := await orders.readline():
            _succeeded(watching)
            _tell(await client.follow(order_of(line)))
    finally:
        await cancelled([watching])
        for replica in replicas:
            await replica.close()


def _tell(answer: Answer) -> None:
    sys.stdout.buffer.write(to_line(answer))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    process.run(serve())
