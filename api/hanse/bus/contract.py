"""What every bus promises: topics, retained messages, a last will. The part of MQTT v5 that the
federation needs.

The bus carries summaries and hints, never truth: losing a message costs latency. So delivery is at least
once while a connection lasts, in order per topic and publisher, and a subscriber that is slow gets the
*newest* message of each topic instead of a backlog: full state with a sequence number makes older ones
worthless. What it missed is counted.

Rules:

* A **retained** message stays with its topic and greets every new subscription (``BusMessage.retained``
  is true for those and only those). An empty retained payload clears the topic; it reaches live
  subscribers, and greets nobody.
* A **will** is published by the bus when its connection ends in any way but ``close()``.
* One connection per **client id**: a second ``connect`` takes over. The first is over then, its will is
  published before the new ``connect`` returns, and everything on it raises ``BusClosed``.
* A broken network is the adapter's business: it reconnects and subscribes again (retained messages then
  come again); until it has, ``publish`` raises ``BusUnavailable``. A publisher repeats its state from
  time to time anyway.

Not taken: request/response, shared subscriptions, QoS levels as arguments (every message here is QoS 1),
handlers as callbacks (they hide who is slow).
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Final, Protocol, Self

BUS_PAYLOAD_MAX_BYTES: Final = 16_384
"""Twice the largest summary."""

BUS_TOPIC_MAX_BYTES: Final = 1_024
"""Length of a topic or filter in UTF-8; MQTT itself would take 65,535."""

SUBSCRIPTION_TOPICS_MAX: Final = 16_384
"""Topics with an undelivered message that one subscription holds; beyond it the longest waiting one is
dropped."""

CONNECT_DEADLINE_S: Final = 5.0
PUBLISH_DEADLINE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class BusMessage:
    """One message; ``retained``: it was published before the subscription existed."""

    topic: str
    payload: bytes
    retained: bool = False


@dataclass(frozen=True, slots=True)
class Will:
    """What the bus publishes in the name of a connection that ended ungracefully."""

    topic: str
    payload: bytes
    retain: bool = False


class BusError(Exception):
    """Root of everything a bus raises; one line for people, ``reason`` for machines.

    ::

        BusError
        ├── BusUnavailable   UNAVAILABLE          not accepted by the broker in time; it may or may not arrive
        ├── BusClosed        FAILED_PRECONDITION  this connection is over; connect anew
        └── BusLimit         INVALID_ARGUMENT     the caller's fault: payload too long, bad topic or filter
    """

    reason: ClassVar[str] = "BUS_ERROR"


class BusUnavailable(BusError):
    reason = "BUS_UNAVAILABLE"


class BusClosed(BusError):
    reason = "BUS_CLOSED"


class BusLimit(BusError, ValueError):
    reason = "BUS_LIMIT"


class Subscription(Protocol):
    """Iterate it (one reader). Stops after ``close()`` of it or of its connection, and after ``abort()``;
    raises ``BusClosed`` when the connection was taken over."""

    @property
    def dropped(self) -> int:
        """Messages replaced by a newer one of their topic, or dropped, before they were read."""
        ...

    def __aiter__(self) -> AsyncIterator[BusMessage]: ...

    async def __anext__(self) -> BusMessage: ...

    async def close(self) -> None: ...


class BusConnection(Protocol):
    """One client's connection. Leaving its ``async with`` closes it; by an error other than a
    cancellation too."""

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, deadline_s: float = PUBLISH_DEADLINE_S
    ) -> None:
        """Returns once the bus has it. At most ``BUS_PAYLOAD_MAX_BYTES``; a topic holds neither ``+`` nor
        ``#``."""
        ...

    async def subscribe(self, filter: str) -> Subscription:  # noqa: A002 - MQTT's word for it
        """MQTT filters: ``+`` is one level, a last ``#`` is the level above and everything below.

        From the return on nothing matching is missed; retained messages come first.
        """
        ...

    async def close(self) -> None:
        """End gracefully: no will. Closing twice is no error."""
        ...

    async def abort(self) -> None:
        """End as a crash would: the will is published."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Bus(Protocol):
    async def connect(self, client_id: str, *, will: Will | None = None) -> BusConnection:
        """Raises ``BusUnavailable`` if the broker does not answer within ``CONNECT_DEADLINE_S``."""
        ...
