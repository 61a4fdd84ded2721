"""A bus that loses, repeats, reorders and delays; the in-process bus does the rest."""

import asyncio
from typing import Final, Self

from hanse.bus.contract import (
    PUBLISH_DEADLINE_S,
    BusConnection,
    BusError,
    BusUnavailable,
    Subscription,
    Will,
)
from hanse.bus.inprocess import InProcessBus
from tests.sim.loop import Actor
from tests.sim.weather import Weather

AWAY_ANSWER_S: Final = 0.2


class BusWeather:
    """The broker of a run, and whether it is there."""

    def __init__(self, weather: Weather) -> None:
        self.common = weather
        self.broker = InProcessBus()
        self._down_until_s = 0.0
        self._connections: list[tuple[Actor, BusConnection]] = []

    def take_down(self, span_s: float) -> None:
        self._down_until_s = self.common.loop.time() + span_s

    def heal(self) -> None:
        self._down_until_s = 0.0

    @property
    def away(self) -> bool:
        return self.common.loop.time() < self._down_until_s

    def joined(self, actor: Actor, connection: BusConnection) -> None:
        self._connections.append((actor, connection))

    def died(self, actor: Actor) -> None:
        """The broker misses a process, and publishes its will."""
        for owner, connection in self._connections:
            if owner is actor:
                self.common.loop.world_later(self.common.lag(1.0), self._abort, connection)
        self._connections = [pair for pair in self._connections if pair[0] is not actor]

    def _abort(self, connection: BusConnection) -> None:
        self.common.loop.world_task(connection.abort(), name="bus-abort")


class FaultyBus:
    """A `Bus` for one process."""

    def __init__(self, weather: BusWeather, actor: Actor) -> None:
        self._weather = weather
        self._actor = actor

    async def connect(self, client_id: str, *, will: Will | None = None) -> "FaultyConnection":
        await asyncio.sleep(self._weather.common.lag(self._weather.common.swarm.bus_lag_s))
        if self._weather.away:
            await asyncio.sleep(AWAY_ANSWER_S)
            raise BusUnavailable("the broker cannot be reached")
        connection = await self._weather.broker.connect(client_id, will=will)
        self._weather.joined(self._actor, connection)
        return FaultyConnection(self._weather, connection)


class FaultyConnection:
    """A `BusConnection`."""

    def __init__(self, weather: BusWeather, inner: BusConnection) -> None:
        self._weather = weather
        self._inner = inner

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, deadline_s: float = PUBLISH_DEADLINE_S
    ) -> None:
        common, swarm = self._weather.common, self._weather.common.swarm
        await asyncio.sleep(0)
        if self._weather.away or deadline_s <= 0:
            raise BusUnavailable("the broker cannot be reached; it may or may not have the message")
        if common.hits(swarm.bus_loss_p):
            return
        for _ in range(2 if common.hits(swarm.bus_repeat_p) else 1):
            common.loop.world_task(self._deliver(topic, payload, retain), name="bus-publish")

    async def subscribe(self, filter: str) -> Subscription:  # noqa: A002 - the contract's word for it
        return await self._inner.subscribe(filter)

    async def close(self) -> None:
        await self._inner.close()

    async def abort(self) -> None:
        await self._inner.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _deliver(self, topic: str, payload: bytes, retain: bool) -> None:
        common = self._weather.common
        await asyncio.sleep(common.lag(common.swarm.bus_lag_s))
        try:
            await self._inner.publish(topic, payload, retain=retain)
        except BusError:
            return  # the connection ended meanwhile: a message lost
