"""Which message is for whom: filters, subscriptions, and the identifiers that keep them apart.

Each SUBSCRIBE has an identifier of its own, which the broker puts on every message that it sends for it. The broker
knows one subscription per filter; for a second subscriber to the same filter it is asked again, under a new
identifier, so that retained messages with that identifier are greetings for the newcomer alone, and live ones are for
all.

A broker that knows no identifiers is met by comparing filters; greetings then go to all.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Self

from hanse.bus.contract import BusMessage
from hanse.bus.inbox import Inbox
from hanse.bus.topics import matches

IDENTIFIER_OF_HOLDER: Final = 1
"""Of the connection's own subscription; readers' begin behind it."""

IDENTIFIER_MAX: Final = 268_435_455
"""MQTT's limit."""


class MqttSubscription:
    """A ``Subscription``; made by ``MqttConnection.subscribe``."""

    def __init__(self, drop: "Callable[[MqttSubscription], Awaitable[None]]", filter_: str) -> None:
        self.filter = filter_
        self.inbox = Inbox()
        self._drop = drop

    @property
    def dropped(self) -> int:
        return self.inbox.dropped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BusMessage:
        return await self.inbox.__anext__()

    async def close(self) -> None:
        self.inbox.end()
        await self._drop(self)


class _Route:
    """One filter and who wants it: live messages all, greetings under an identifier those who asked with it."""

    def __init__(self, filter_: str) -> None:
        self.filter = filter_
        self.subscriptions: dict[MqttSubscription, None] = {}
        self.greeted: dict[int, tuple[MqttSubscription, ...]] = {}


class Routes:
    """The subscriptions of one connection; see the module."""

    def __init__(self) -> None:
        self._by_filter: dict[str, _Route] = {}
        self._by_identifier: dict[int, _Route] = {}
        self._last_identifier = IDENTIFIER_OF_HOLDER

    def add(self, subscription: MqttSubscription) -> None:
        """It gets what comes for its filter from now on."""
        route = self._by_filter.setdefault(subscription.filter, _Route(subscription.filter))
        route.subscriptions[subscription] = None

    def greet(self, filter_: str, newcomers: tuple[MqttSubscription, ...]) -> int:
        """The identifier with which to ask the broker for a filter, so that retained messages greet the newcomers."""
        self._last_identifier += 1
        if self._last_identifier > IDENTIFIER_MAX:
            self._last_identifier = IDENTIFIER_OF_HOLDER + 1
        route = self._by_filter[filter_]
        route.greeted[self._last_identifier] = newcomers
        self._by_identifier[self._last_identifier] = route
        return self._last_identifier

    def begin_again(self) -> list[tuple[str, tuple[MqttSubscription, ...]]]:
        """A new broker connection knows no identifiers: what it has to be asked for, to greet whom."""
        self._by_identifier.clear()
        for route in self._by_filter.values():
            route.greeted.clear()
        return [(route.filter, tuple(route.subscriptions)) for route in self._by_filter.values()]

    def deliver(self, message: BusMessage, identifiers: tuple[int, ...]) -> None:
        """Into the inboxes."""
        if not identifiers:
            for route in self._by_filter.values():
                if matches(route.filter, message.topic):
                    _put(route.subscriptions, message)
        for identifier in identifiers:
            known = self._by_identifier.get(identifier)
            if known is not None:
                _put(known.greeted.get(identifier, ()) if message.retained else known.subscriptions, message)

    def remove(self, subscription: MqttSubscription) -> None:
        """It gets nothing more."""
        route = self._by_filter.get(subscription.filter)
        if route is not None:
            route.subscriptions.pop(subscription, None)

    def forget(self, filter_: str) -> bool:
        """Drop the filter if nobody wants it any more; whether that was so."""
        route = self._by_filter.get(filter_)
        if route is None or route.subscriptions:
            return False
        del self._by_filter[filter_]
        for identifier in route.greeted:
            self._by_identifier.pop(identifier, None)
        return True

    def end(self, told: str | None) -> None:
        """The connection is over: readers stop, or are told why."""
        for route in self._by_filter.values():
            for subscription in route.subscriptions:
                subscription.inbox.end(told)
        self._by_filter.clear()
        self._by_identifier.clear()


def _put(subscriptions: Iterable[MqttSubscription], message: BusMessage) -> None:
    for subscription in subscriptions:
        subscription.inbox.put(message)
