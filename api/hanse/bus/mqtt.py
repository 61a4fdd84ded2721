"""The bus over MQTT 5: what one connection of the contract is over many connections to the broker.

A connection to the broker ends with every restart of it. So this one connects again, with growing pauses, until it is
closed or somebody else takes its client id, and then brings the broker to where it was:

* every filter is subscribed again, so retained messages come again, as the contract says;
* the last retained message of each topic that was published here is published again. A broker without persistence has
  forgotten them, and one that had given us up has published our will over our presence. Whoever publishes state says
  it again only when it changes.

While it is away, ``publish`` fails at once, and subscriptions are silent.

A broker that closes a connection because another client has taken its id need not say so (mosquitto 2.0.11 does not),
and connecting again would take the id back, for ever. So whoever holds an id listens to a topic of that id, and
whoever
lost a connection asks there, under another id, before it connects again: if somebody answers, it is over.

Nothing piles up: a message goes straight from the socket into the inboxes of those who wanted it (``mqtt_routes``),
each of which holds the newest per topic (``inbox``).
"""

import asyncio
import hashlib
import logging
import random
import ssl
from collections import OrderedDict
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
from hanse.bus.mqtt_link import LinkFailed, MqttLink
from hanse.bus.mqtt_options import MqttOptions
from hanse.bus.mqtt_routes import IDENTIFIER_OF_HOLDER, MqttSubscription, Routes
from hanse.bus.topics import check_filter, check_message
from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.tasks import cancelled
from hanse.model.errors import InvalidArgument

log = logging.getLogger(__name__)

RECONNECT: Final = BackoffPolicy(first_s=0.1, max_s=3.0)
SUBSCRIBE_DEADLINE_S: Final = 5.0
HOLDERS: Final = "hanse/v1/bus/holders"
"""Below it: for each client id a topic on which its holder can be asked, and topics for answers."""

ANSWER_S: Final = 0.3
"""How long a question waits for its answer."""

REPEATED_TOPICS_MAX: Final = 64
"""Topics whose last retained message is published again after a reconnection: the newest. An agent has three."""


class MqttBus:
    """A ``Bus``. Raises InvalidArgument at once if a certificate cannot be read."""

    def __init__(self, options: MqttOptions, *, rng: random.Random | None = None) -> None:
        options.context()
        self._options = options
        self._rng = rng or random.Random()

    async def connect(self, client_id: str, *, will: Will | None = None) -> "MqttConnection":
        if not client_id:
            raise BusLimit("client id is empty: give every client its own")
        if will is not None:
            check_message(will.topic, will.payload)
        connection = MqttConnection(self, client_id, will, self._rng)
        try:
            await connection.start()
        except LinkFailed as failed:
            raise BusUnavailable(
                f"broker {self._options.endpoint} cannot be used: {failed}: start it, or correct the address or login"
            ) from None
        return connection

    @property
    def endpoint(self) -> str:
        """``host:port``, for people."""
        return self._options.endpoint

    async def link(self, connection: "MqttConnection") -> MqttLink:
        """A new connection to the broker. Raises LinkFailed."""
        return await MqttLink.open(
            self._options, self._now(), connection.client_id, connection.will, connection.deliver
        )

    def _now(self) -> ssl.SSLContext | None:
        """The files as they are now: certificates are renewed under a bus that runs. Raises LinkFailed."""
        try:
            return self._options.context()
        except InvalidArgument as error:
            raise LinkFailed(str(error)) from None

    async def is_held(self, client_id: str) -> bool:
        """Whether somebody who is connected says that the id is his. Raises LinkFailed."""
        asks = f"{self._rng.getrandbits(64):016x}"
        answered = asyncio.Event()
        link = await MqttLink.open(
            self._options, self._now(), f"{client_id}?{asks}", None, lambda message, identifiers: answered.set()
        )
        try:
            topic = holder_topic(client_id)
            await link.subscribe(f"{topic}/{asks}", IDENTIFIER_OF_HOLDER, timeout_s=SUBSCRIBE_DEADLINE_S)
            await link.publish(topic, asks.encode(), retain=False, timeout_s=PUBLISH_DEADLINE_S)
            async with asyncio.timeout(ANSWER_S):
                await answered.wait()
        except TimeoutError:
            return False
        finally:
            await link.close()
        return True


def holder_topic(client_id: str) -> str:
    """Where the holder of an id can be asked; an id may hold what a topic may not."""
    return f"{HOLDERS}/{hashlib.sha256(client_id.encode()).hexdigest()[:32]}"


class MqttConnection:
    """A ``BusConnection``; made by ``MqttBus.connect``."""

    def __init__(self, bus: MqttBus, client_id: str, will: Will | None, rng: random.Random) -> None:
        self.client_id = client_id
        self.will = will
        self._bus = bus
        self._backoff = Backoff(RECONNECT, rng)
        self._link: MqttLink | None = None
        self._linked = asyncio.Event()
        self._over: str | None = None
        self._routes = Routes()
        self._retained: OrderedDict[str, bytes] = OrderedDict()
        self._subscribing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._answering: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect for the first time. Raises LinkFailed."""
        link = await self._bus.link(self)
        try:
            await self._hold(link)
        except BaseException:
            await link.cut()
            raise
        self._set_link(link)
        self._task = asyncio.create_task(self._stay(link), name=f"mqtt-{self.client_id}")

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, deadline_s: float = PUBLISH_DEADLINE_S
    ) -> None:
        check_message(topic, payload)
        self._check_open()
        if deadline_s <= 0:
            raise BusUnavailable(f"publish on {topic!r}: the deadline was over before the call began")
        if retain:
            self._remember(topic, payload)
        link = self._link
        if link is None:
            raise self._away(f"publish on {topic!r}")
        try:
            await link.publish(topic, payload, retain=retain, timeout_s=deadline_s)
        except LinkFailed as failed:
            self._check_open()
            raise BusUnavailable(
                f"publish on {topic!r} at broker {self._bus.endpoint}: {failed}: try again"
            ) from None

    async def subscribe(self, filter: str) -> MqttSubscription:  # noqa: A002 - MQTT's word for it
        check_filter(filter)
        self._check_open()
        subscription = MqttSubscription(self.drop, filter)
        try:
            async with asyncio.timeout(SUBSCRIBE_DEADLINE_S), self._subscribing:
                await self._subscribe(subscription)
        except (TimeoutError, LinkFailed) as error:
            self._routes.remove(subscription)
            self._check_open()
            raise self._away(f"subscribe to {filter!r}", str(error)) from None
        except BaseException:
            self._routes.remove(subscription)
            raise
        return subscription

    async def close(self) -> None:
        link = self._end("the connection was closed", told=None)
        await self._stop()
        if link is not None:
            await link.close()

    async def abort(self) -> None:
        link = self._end("the connection was aborted", told=None)
        await self._stop()
        if link is not None:
            await link.cut()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def deliver(self, message: BusMessage, identifiers: tuple[int, ...]) -> None:
        """From the broker, in its order."""
        if IDENTIFIER_OF_HOLDER in identifiers:
            self._answer(message.payload)
        self._routes.deliver(message, identifiers)

    async def drop(self, subscription: MqttSubscription) -> None:
        """Its reader is gone; if it was the last of its filter, the broker is told."""
        self._routes.remove(subscription)
        async with self._subscribing:
            if self._routes.forget(subscription.filter) and self._link is not None:
                try:
                    await self._link.unsubscribe(subscription.filter, timeout_s=SUBSCRIBE_DEADLINE_S)
                except LinkFailed as failed:
                    # A message that comes all the same finds nobody; the next connection does not ask for it.
                    log.info("bus_unsubscribe_failed", extra={"filter": subscription.filter, "cause": str(failed)})

    async def _subscribe(self, subscription: MqttSubscription) -> None:
        """Ask the broker, again if the connection breaks. Raises LinkFailed if it does not allow it."""
        self._routes.add(subscription)
        while True:
            await self._linked.wait()
            self._check_open()
            link = self._link
            if link is None:
                continue
            try:
                await self._ask_for(link, subscription.filter, (subscription,))
                return
            except LinkFailed:
                if not link.over.done():
                    raise
                self._linked.clear()

    async def _ask_for(self, link: MqttLink, filter_: str, newcomers: tuple[MqttSubscription, ...]) -> None:
        identifier = self._routes.greet(filter_, newcomers)
        await link.subscribe(filter_, identifier, timeout_s=SUBSCRIBE_DEADLINE_S)

    # ------------------------------------------------------------------------------------ staying connected

    async def _stay(self, link: MqttLink) -> None:
        """A bug in what keeps the connection must not leave its users waiting for ever."""
        try:
            await self._keep(link)
        except Exception as error:
            log.exception("bus_keeper_failed", extra={"client": self.client_id})
            told = f"client {self.client_id!r} failed ({type(error).__name__}: {error})"
            self._end(told, told=told)

    async def _keep(self, link: MqttLink) -> None:
        """Replace the link whenever it ends, until this connection is over."""
        while True:
            over = await link.over
            self._set_link(None)
            await link.cut()
            log.info("bus_lost", extra={"client": self.client_id, "cause": over.cause})
            found = None if over.taken_over else await self._reconnect()
            if found is None:
                told = f"client id {self.client_id!r} has connected again: only one connection may use it"
                self._end(told, told=told)
                return
            link = found
            log.info("bus_back", extra={"client": self.client_id})

    async def _reconnect(self) -> MqttLink | None:
        """A link with everything that the last one had; None if another client holds our id."""
        while True:
            await asyncio.sleep(self._backoff.delay_s())
            try:
                if await self._bus.is_held(self.client_id):
                    return None
                link = await self._bus.link(self)
            except LinkFailed as failed:
                log.info("bus_unreachable", extra={"client": self.client_id, "cause": str(failed)})
                continue
            try:
                await self._restore(link)
            except BaseException as error:
                await link.cut()
                if not isinstance(error, LinkFailed):
                    raise
                log.info("bus_unreachable", extra={"client": self.client_id, "cause": str(error)})
                continue
            self._backoff.reset()
            self._set_link(link)
            return link

    async def _hold(self, link: MqttLink) -> None:
        """Listen for those who ask who holds our id."""
        try:
            topic = holder_topic(self.client_id)
            await link.subscribe(topic, IDENTIFIER_OF_HOLDER, timeout_s=SUBSCRIBE_DEADLINE_S)
        except LinkFailed as failed:
            # Where the access list forbids it, two clients of one id take it from each other; nothing else is lost.
            log.warning("bus_holder_unheard", extra={"client": self.client_id, "cause": str(failed)})

    def _answer(self, asks: bytes) -> None:
        """Tell who asks, one at a time."""
        if self._link is not None and (self._answering is None or self._answering.done()):
            self._answering = asyncio.create_task(
                self._tell(self._link, asks.decode(errors="replace")), name="holder"
            )

    async def _tell(self, link: MqttLink, asks: str) -> None:
        try:
            topic = f"{holder_topic(self.client_id)}/{asks}"
            check_message(topic, b"")
            await link.publish(topic, b"", retain=False, timeout_s=PUBLISH_DEADLINE_S)
        except (BusLimit, LinkFailed) as error:
            log.info("bus_holder_untold", extra={"client": self.client_id, "cause": str(error)})

    async def _restore(self, link: MqttLink) -> None:
        """Raises LinkFailed."""
        await self._hold(link)
        for filter_, subscriptions in self._routes.begin_again():
            await self._ask_for(link, filter_, subscriptions)
        for topic in tuple(self._retained):
            await link.publish(topic, self._retained[topic], retain=True, timeout_s=PUBLISH_DEADLINE_S)

    def _set_link(self, link: MqttLink | None) -> None:
        self._link = link
        if link is None:
            self._linked.clear()
        else:
            self._linked.set()

    def _remember(self, topic: str, payload: bytes) -> None:
        self._retained[topic] = payload
        self._retained.move_to_end(topic)
        if len(self._retained) > REPEATED_TOPICS_MAX:
            self._retained.popitem(last=False)

    # --------------------------------------------------------------------------------------------- the end

    def _end(self, because: str, *, told: str | None) -> MqttLink | None:
        """Nothing works from now on; the link that is left to be ended, if there is one."""
        if self._over is not None:
            return None
        self._over = because
        self._routes.end(told)
        link = self._link
        self._link = None
        self._linked.set()
        return link

    async def _stop(self) -> None:
        await cancelled([task for task in (self._task, self._answering) if task is not None])

    def _check_open(self) -> None:
        if self._over is not None:
            raise BusClosed(f"{self._over}: connect anew")

    def _away(self, what: str, why: str = "") -> BusUnavailable:
        told = why or "not connected at present"
        return BusUnavailable(f"{what} at broker {self._bus.endpoint}: {told}: try again, it reconnects by itself")
