"""The bus inside one process: for ``hanse up`` and tests, and what the simulator wraps with faults.

Pure asyncio. A publish yields to the loop once and then puts the message into every matching
subscription's inbox, so it waits for nobody; slow readers see the newest message per topic (``inbox``).
Everything goes in order of registration, so equal calls give equal deliveries.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

from hanse.bus.contract import (
    PUBLISH_DEADLINE_S,
    BusClosed,
    BusLimit,
    BusMessage,
    BusUnavailable,
    Will,
)
from hanse.bus.inbox import Inbox
from hanse.bus.topics import check_filter, check_message, is_wildcard, matches

RETAINED_TOPICS_MAX: Final = 65_536
"""Topics with a retained message; a publish that would retain one more is refused."""


class InProcessBus:
    """A ``Bus``; everything that connects to the same object hears each other."""

    def __init__(self) -> None:
        self._connections: dict[str, InProcessConnection] = {}
        self._retained: dict[str, bytes] = {}
        self._by_topic: dict[str, dict[InProcessSubscription, None]] = {}
        self._by_pattern: dict[InProcessSubscription, None] = {}

    async def connect(self, client_id: str, *, will: Will | None = None) -> "InProcessConnection":
        if not client_id:
            raise BusLimit("client id is empty: give every client its own")
        if will is not None:
            check_message(will.topic, will.payload)
        await asyncio.sleep(0)
        before = self._connections.get(client_id)
        if before is not None:
            before.fail(f"client id {client_id!r} has connected again: only one connection may use it")
        connection = self._connections[client_id] = InProcessConnection(self, client_id, will)
        return connection

    def send(self, topic: str, payload: bytes, *, retain: bool) -> None:
        """Deliver, and remember if asked to."""
        if retain and payload and topic not in self._retained and len(self._retained) >= RETAINED_TOPICS_MAX:
            raise BusUnavailable(f"the bus retains {RETAINED_TOPICS_MAX} topics already: clear some")
        if retain and payload:
            self._retained[topic] = payload
        elif retain:
            self._retained.pop(topic, None)
        message = BusMessage(topic, payload)
        for subscription in self._by_topic.get(topic, ()):
            subscription.inbox.put(message)
        for subscription in self._by_pattern:
            if matches(subscription.filter, topic):
                subscription.inbox.put(message)

    def add(self, subscription: "InProcessSubscription") -> None:
        """Register, and greet with what is retained."""
        if is_wildcard(subscription.filter):
            self._by_pattern[subscription] = None
        else:
            self._by_topic.setdefault(subscription.filter, {})[subscription] = None
        for topic, payload in self._retained.items():
            if matches(subscription.filter, topic):
                subscription.inbox.put(BusMessage(topic, payload, retained=True))

    def remove(self, subscription: "InProcessSubscription") -> None:
        self._by_pattern.pop(subscription, None)
        same_topic = self._by_topic.get(subscription.filter, {})
        same_topic.pop(subscription, None)
        if not same_topic:
            self._by_topic.pop(subscription.filter, None)

    def forget(self, connection: "InProcessConnection") -> None:
        if self._connections.get(connection.client_id) is connection:
            del self._connections[connection.client_id]


class InProcessConnection:
    """A ``BusConnection``; made by ``InProcessBus.connect``."""

    def __init__(self, bus: InProcessBus, client_id: str, will: Will | None) -> None:
        self.client_id = client_id
        self._bus = bus
        self._will = will
        self._over: str | None = None
        self._subscriptions: dict[InProcessSubscription, None] = {}

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, deadline_s: float = PUBLISH_DEADLINE_S
    ) -> None:
        check_message(topic, payload)
        await asyncio.sleep(0)
        self._check_open()
        if deadline_s <= 0:
            raise BusUnavailable(f"publish on {topic!r}: the deadline was over before the call began")
        self._bus.send(topic, payload, retain=retain)

    async def subscribe(self, filter: str) -> "InProcessSubscription":  # noqa: A002 - MQTT's word for it
        check_filter(filter)
        await asyncio.sleep(0)
        self._check_open()
        subscription = InProcessSubscription(self, filter)
        self._subscriptions[subscription] = None
        self._bus.add(subscription)
        return subscription

    async def close(self) -> None:
        self._end("the connection was closed", told=None)

    async def abort(self) -> None:
        if self._end("the connection was aborted", told=None):
            self._send_will()

    def fail(self, because: str) -> None:
        """End it from the bus's side: the will is published and readers are told."""
        if self._end(because, told=because):
            self._send_will()

    def drop(self, subscription: "InProcessSubscription") -> None:
        self._subscriptions.pop(subscription, None)
        self._bus.remove(subscription)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _end(self, because: str, *, told: str | None) -> bool:
        """False if it was over already."""
        if self._over is not None:
            return False
        self._over = because
        for subscription in tuple(self._subscriptions):
            self.drop(subscription)
            subscription.inbox.end(told)
        self._bus.forget(self)
        return True

    def _send_will(self) -> None:
        if self._will is not None:
            self._bus.send(self._will.topic, self._will.payload, retain=self._will.retain)

    def _check_open(self) -> None:
        if self._over is not None:
            raise BusClosed(f"{self._over}: connect anew")


class InProcessSubscription:
    """A ``Subscription``; made by ``InProcessConnection.subscribe``."""

    def __init__(self, connection: InProcessConnection, filter_: str) -> None:
        self.filter = filter_
        self.inbox = Inbox()
        self._connection = connection

    @property
    def dropped(self) -> int:
        return self.inbox.dropped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BusMessage:
        return await self.inbox.__anext__()

    async def close(self) -> None:
        self._connection.drop(self)
        self.inbox.end()
