"""Links that are slow, stall one way, break, and keep delivering what a dead agent once said.

A connection is two pipes. Messages keep their order within a pipe, as in any stream; what is drawn is when they
arrive, when a pipe stalls, and when each end learns that the connection is over. The end that has learnt raises
`StreamClosed`; the other one may go on believing for `link_linger_s`, and what was on its way still arrives there.
Messages are serialised on the way, so that nobody can change what somebody else still holds.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from hanse.kit.stream import STREAM_MESSAGES_MAX, StreamClosed
from hanse.link.v1 import link_pb2
from hanse.model.ids import PoolName
from tests.sim.loop import Actor
from tests.sim.weather import Weather

Out = TypeVar("Out", bound=Message)
In = TypeVar("In", bound=Message)
M = TypeVar("M", bound=Message)

Heard = Callable[[Actor, Message], None]

STALL_MAX_S: Final = 15.0
STRAYS_KEPT_MAX: Final = 32
DATED: Final = frozenset({"desired", "reports", "summary"})
"""Messages that carry an epoch, so that who hears one can tell whether it is for this stream."""


class _Pipe(Generic[M]):
    """One direction. `sent` counts what is on its way or waits to be read: what a window of flow control bounds.

    `strays`: what was said this way on any stream of the pool, as far as it says when that was.
    """

    def __init__(self, weather: Weather, heard: Callable[[M], None], strays: deque[M]) -> None:
        self._weather = weather
        self._strays = strays
        self._heard = heard
        self._under_way: deque[M] = deque()  # timers that are due at once run in any order; this keeps it
        self._arrived: deque[M] = deque()
        self._sent = 0
        self._last_at_s = 0.0
        self._stalled_until_s = 0.0
        self._waiters: list[asyncio.Future[None]] = []
        self.closed_out = False
        self.closed_in = False

    async def put(self, message: M) -> None:
        while self._sent >= STREAM_MESSAGES_MAX and not self.closed_out:
            await self._wait()
        if self.closed_out:
            raise StreamClosed("the connection is over")
        self._sent += 1
        self._heard(message)
        loop, swarm = self._weather.loop, self._weather.swarm
        leaves_s = max(loop.time(), self._stalled_until_s) + self._weather.lag(swarm.link_lag_s)
        self._last_at_s = max(self._last_at_s, leaves_s)
        copy = type(message).FromString(message.SerializeToString(deterministic=True))
        self._under_way.append(copy)
        loop.world_later(self._last_at_s - loop.time(), self._arrive)
        if message.WhichOneof("body") in DATED:
            self._stray(copy)

    def _stray(self, message: M) -> None:
        """Perhaps something that was said long ago comes after this message."""
        if self._strays and self._weather.hits(self._weather.swarm.link_stray_p):
            self._sent += 1
            self._under_way.append(self._weather.rng.choice(self._strays))
            self._weather.loop.world_later(self._last_at_s - self._weather.loop.time(), self._arrive)
        self._strays.append(message)

    async def get(self) -> M:
        while not self._arrived:
            if self.closed_in:
                raise StreamClosed("the connection is over")
            await self._wait()
        self._sent -= 1
        message = self._arrived.popleft()
        self._wake()
        return message

    def stall(self, span_s: float) -> None:
        """What is sent from now on arrives after this time at the earliest."""
        self._stalled_until_s = self._weather.loop.time() + span_s

    def close_out(self) -> None:
        self.closed_out = True
        self._wake()

    def close_in(self) -> None:
        self.closed_in = True
        self._wake()

    def _arrive(self) -> None:
        message = self._under_way.popleft()
        if not self.closed_in:
            self._arrived.append(message)
            self._wake()

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class _End(Generic[Out, In]):
    """A `Stream` for one process."""

    def __init__(self, connection: "Connection[Any, Any]", out: _Pipe[Out], inbound: _Pipe[In]) -> None:
        self._connection = connection
        self._out = out
        self._in = inbound

    async def send(self, message: Out) -> None:
        await self._out.put(message)

    async def receive(self) -> In:
        return await self._in.get()

    def close(self) -> None:
        """This end knows at once, the other one later."""
        self._out.close_out()
        self._in.close_in()
        self._connection.hang_up(self._out, self._in)


class Strays:
    """What was said on the streams of one pool, in either direction."""

    def __init__(self) -> None:
        self.there: deque[Any] = deque(maxlen=STRAYS_KEPT_MAX)
        self.back: deque[Any] = deque(maxlen=STRAYS_KEPT_MAX)


class Connection(Generic[Out, In]):
    """One connection between two processes; `near` and `far` are its ends, `client` dialled it."""

    def __init__(self, weather: Weather, client: Actor, server: Actor, heard: Heard, strays: "Strays") -> None:
        self.client = client
        self.server = server
        self.over = False
        self._weather = weather
        self._there: _Pipe[Out] = _Pipe(weather, lambda message: heard(client, message), strays.there)
        self._back: _Pipe[In] = _Pipe(weather, lambda message: None, strays.back)
        self.near: _End[Out, In] = _End(self, self._there, self._back)
        self.far: _End[In, Out] = _End(self, self._back, self._there)

    def hang_up(self, out: _Pipe[Out] | _Pipe[In], inbound: _Pipe[In] | _Pipe[Out]) -> None:
        """The end that writes to `out` is gone; the other one hears of it."""
        self.over = True
        self._later(out.close_in)
        self._later(inbound.close_out)

    def break_off(self) -> None:
        """The network drops it; each end learns by itself."""
        self.over = True
        for close in (self._there.close_out, self._there.close_in, self._back.close_out, self._back.close_in):
            self._later(close)

    def stall_one_way(self) -> str:
        """One direction goes silent for a while; which one is drawn, and told."""
        there = self._weather.rng.random() < 0.5
        span_s = self._weather.rng.uniform(0.5, STALL_MAX_S)
        if there:
            self._there.stall(span_s)
        else:
            self._back.stall(span_s)
        return f"{'upward' if there else 'downward'} for {span_s:.1f}s"

    def calm(self) -> None:
        self._there.stall(0.0)
        self._back.stall(0.0)

    def _later(self, close: Callable[[], None]) -> None:
        linger_s = self._weather.swarm.link_linger_s
        delay_s = self._weather.rng.uniform(0.0, linger_s)
        self._weather.loop.world_later(delay_s, close)


LinkConnection = Connection[link_pb2.AttachRequest, link_pb2.AttachResponse]


class Network:
    """The links of a run; `heard` is told of every message that an agent sends."""

    def __init__(self, weather: Weather, heard: Heard) -> None:
        self._weather = weather
        self._heard = heard
        self._connections: list[LinkConnection] = []
        self._strays: dict[PoolName, Strays] = {}

    def connect(self, client: Actor, server: Actor, pool: PoolName) -> LinkConnection:
        self._connections = [c for c in self._connections if not c.over]
        strays = self._strays.setdefault(pool, Strays())
        connection = LinkConnection(self._weather, client, server, self._heard, strays)
        self._connections.append(connection)
        return connection

    def open(self) -> list[LinkConnection]:
        """Those that nobody has ended, oldest first."""
        return [c for c in self._connections if not c.over]

    def died(self, actor: Actor) -> None:
        """A process is gone: the kernel, or a time-out, ends its connections."""
        for connection in self.open():
            if actor in (connection.client, connection.server):
                connection.break_off()

    def calm(self) -> None:
        for connection in self.open():
            connection.calm()
