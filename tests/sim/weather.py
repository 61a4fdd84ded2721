"""What every faulty adapter has in common: how long a message takes, and calls that go on without their caller.

A call leaves the caller's process when it is made. From then on it is a thing of the world: it reaches the other
side although the caller was killed meanwhile, and its answer reaches a caller that was paused when that goes on. That
is why each call runs as a task of the world and the caller only waits for its answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final, Generic, TypeVar

from tests.sim.loop import SimLoop
from tests.sim.swarm import Swarm

T = TypeVar("T")

SLOW_P: Final = 0.05
SLOW_FACTOR: Final = 8.0


class Weather:
    """The faults of one run, shared by all of its adapters; `swarm` is replaced when the run heals."""

    def __init__(self, loop: SimLoop, swarm: Swarm, rng: Random) -> None:
        self.loop = loop
        self.swarm = swarm
        self.rng = rng

    def lag(self, mean_s: float) -> float:
        """How long one message takes: exponential, sometimes much longer."""
        factor = SLOW_FACTOR if self.rng.random() < SLOW_P else 1.0
        return self.rng.expovariate(1.0 / mean_s) * factor if mean_s > 0 else 0.0

    def hits(self, probability: float) -> bool:
        """Whether a fault of this probability happens now."""
        return probability > 0 and self.rng.random() < probability


class Answer(Generic[T]):
    """What a call that is on its way comes back with: a value or an error, once."""

    __slots__ = ("_error", "_value", "_waiter")

    def __init__(self, loop: SimLoop) -> None:
        self._waiter: asyncio.Future[None] = loop.create_future()
        self._value: T | None = None
        self._error: Exception | None = None

    def give(self, value: T | None, error: Exception | None = None) -> None:
        """Called by the world; an answer to a caller that has given up is lost."""
        if not self._waiter.done():
            self._value, self._error = value, error
            self._waiter.set_result(None)

    async def get(self, deadline_s: float) -> T:
        """Raises what the call raised, or TimeoutError."""
        async with asyncio.timeout(deadline_s):
            await self._waiter
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None is a value of T if the call returns None


def send_call(weather: Weather, lag_s: float, call: Callable[[], Awaitable[T]], name: str) -> Answer[T]:
    """Let a call travel, happen, and its answer travel back. `lag_s` is the mean of each way."""
    answer: Answer[T] = Answer(weather.loop)

    async def carry() -> None:
        await asyncio.sleep(weather.lag(lag_s))
        value: T | None = None
        failure: Exception | None = None
        try:
            value = await call()
        except Exception as error:
            failure = error
        weather.loop.world_later(weather.lag(lag_s), answer.give, value, failure)

    weather.loop.world_task(carry(), name=name)
    return answer
