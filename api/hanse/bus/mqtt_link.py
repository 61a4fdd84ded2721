"""One TCP connection to the broker, from its beginning to its end. All that knows the client library is here.

`aiomqtt` wraps `paho-mqtt` for asyncio. What it leaves to us, or does otherwise than we need:

* It queues messages for an iterator. We hand it a "queue" that passes each message on as it comes, so nothing piles
  up, and iterate only to hear of the end.
* A publish that is under way when the connection ends waits for its whole deadline. We watch for the end beside it.
* A publish that the broker's access list forbids returns like any other. We log it; the message is lost, which the
  contract allows, and the operator sees why.
* It connects in a thread, and a wait for it that is given up leaves that thread to connect all the same, under our
  id. So a client that was given up closes what it still opens.
* A broker that closes the connection instead of accepting it is waited for. We hear that, and fail at once.
* It asks the loop to watch a socket for writing a moment later, when the socket may be closed and its number
  another's. We look again before we do.
* uvloop lets go of a socket on which the system reports an error, without a word if the library finds nothing wrong
  with it. The connection is deaf then; we hear of it when we want to write, and give it up.
* Its connection cannot be cut. A crash is played by closing the socket, by the way that it closes it itself.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar, cast

import aiomqtt
import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from hanse.bus.contract import CONNECT_DEADLINE_S, BusMessage, Will
from hanse.bus.mqtt_options import MqttOptions

log = logging.getLogger(__name__)

T = TypeVar("T")

OUTGOING_MESSAGES_MAX: Final = 1_000
"""Published and not yet acknowledged; beyond it a publish fails at once."""

SESSION_TAKEN_OVER: Final = 142
QOS: Final = 1

OnMessage = Callable[[BusMessage, tuple[int, ...]], None]
"""A message, and the identifiers of the subscriptions that it came for."""


class LinkFailed(Exception):
    """It did not work; one line. The connection may be over, see ``MqttLink.over``."""


@dataclass(frozen=True, slots=True)
class Over:
    """How a connection ended. A broker may say that another client has taken the id; many just close."""

    cause: str
    taken_over: bool = False


class _Inlet(asyncio.Queue[aiomqtt.Message]):
    """A queue that holds nothing."""

    def __init__(self, on_message: OnMessage) -> None:
        super().__init__()
        self._on_message = on_message

    def put_nowait(self, item: aiomqtt.Message) -> None:
        identifiers = tuple(getattr(item.properties, "SubscriptionIdentifier", None) or ())
        self._on_message(BusMessage(str(item.topic), bytes(item.payload), bool(item.retain)), identifiers)


class _Client(aiomqtt.Client):
    """The library's, mended as the module says."""

    _abandoned = False

    def cut(self) -> None:
        """Close the socket, without a word, also one that is still to come."""
        self._abandoned = True
        self._client._sock_close()

    def _client_connect(self) -> None:
        super()._client_connect()
        if self._abandoned:
            self._loop.call_soon_threadsafe(self._client._sock_close)

    def _on_disconnect(
        self,
        client: paho.Client,
        userdata: Any,
        flags: paho.DisconnectFlags,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        if not self._connected.done():
            self._connected.set_exception(aiomqtt.MqttCodeError(reason_code, "closed before it was accepted"))
        super()._on_disconnect(client, userdata, flags, reason_code, properties)

    def _on_publish(
        self, client: paho.Client, userdata: Any, mid: int, reason_code: ReasonCode, properties: Properties
    ) -> None:
        if reason_code.is_failure:
            log.warning("bus_publish_refused", extra={"client": self.identifier, "cause": str(reason_code)})
        super()._on_publish(client, userdata, mid, reason_code, properties)

    def _on_socket_register_write(self, client: paho.Client, userdata: Any, sock: Any) -> None:
        self._loop.call_soon_threadsafe(self._watch_for_room, sock)

    def _watch_for_room(self, sock: Any) -> None:
        current = self._client.socket()
        if current is None or current is not sock:
            return
        try:
            self._loop.add_writer(current.fileno(), self._write)
        except RuntimeError as error:
            self._broken(ConnectionError(f"the event loop has given the socket up ({error})"))

    def _write(self) -> None:
        try:
            self._client.loop_write()
        except OSError as error:
            self._broken(error)

    def _broken(self, error: OSError) -> None:
        if not self._disconnected.done():
            self._disconnected.set_exception(error)


class MqttLink:
    """See the module. Made by ``open``."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self.over: asyncio.Future[Over] = asyncio.get_running_loop().create_future()
        self._watching = asyncio.create_task(self._watch(), name="mqtt-link")

    @classmethod
    async def open(
        cls,
        options: MqttOptions,
        context: ssl.SSLContext | None,
        client_id: str,
        will: Will | None,
        on_message: OnMessage,
    ) -> Self:
        """Raises LinkFailed, within ``CONNECT_DEADLINE_S``."""
        client = _Client(
            options.host,
            options.port,
            username=options.user or None,
            password=options.password or None,
            identifier=client_id,
            queue_type=cast(type[asyncio.Queue[aiomqtt.Message]], lambda maxsize: _Inlet(on_message)),
            protocol=aiomqtt.ProtocolVersion.V5,
            will=None if will is None else aiomqtt.Will(will.topic, will.payload, qos=QOS, retain=will.retain),
            clean_start=True,
            timeout=CONNECT_DEADLINE_S,
            keepalive=options.keepalive_s,
            max_queued_outgoing_messages=OUTGOING_MESSAGES_MAX,
            tls_context=context,
        )
        client.pending_calls_threshold = OUTGOING_MESSAGES_MAX
        try:
            async with asyncio.timeout(CONNECT_DEADLINE_S):
                await client.__aenter__()
        except TimeoutError:
            client.cut()
            raise LinkFailed(f"no answer within {CONNECT_DEADLINE_S} s") from None
        except (aiomqtt.MqttError, ValueError) as error:
            client.cut()
            raise LinkFailed(_words(error)) from None
        except asyncio.CancelledError:
            client.cut()
            raise
        return cls(client)

    async def publish(self, topic: str, payload: bytes, *, retain: bool, timeout_s: float) -> None:
        """Until the broker has it. Raises LinkFailed."""
        await self._unless_over(
            self._client.publish(topic, payload, qos=QOS, retain=retain, timeout=timeout_s), timeout_s
        )

    async def subscribe(self, filter_: str, identifier: int, *, timeout_s: float) -> None:
        """Until the broker has it. Raises LinkFailed, also if the broker does not allow it."""
        properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
        properties.SubscriptionIdentifier = identifier
        codes = await self._unless_over(
            self._client.subscribe(filter_, qos=QOS, properties=properties, timeout=timeout_s), timeout_s
        )
        refused = [code for code in codes if isinstance(code, ReasonCode) and code.is_failure]
        if refused:
            raise LinkFailed(f"the broker does not allow it ({refused[0]})")

    async def unsubscribe(self, filter_: str, *, timeout_s: float) -> None:
        """Raises LinkFailed."""
        await self._unless_over(self._client.unsubscribe(filter_, timeout=timeout_s), timeout_s)

    async def close(self) -> None:
        """End gracefully; if the broker does not answer, cut."""
        self._end(Over("closed"))
        try:
            async with asyncio.timeout(CONNECT_DEADLINE_S):
                await self._client.__aexit__(None, None, None)
        except (aiomqtt.MqttError, TimeoutError):
            log.info("bus_close_unanswered", extra={"client": self._client.identifier})
        finally:
            self._client.cut()
            await self._stop_watching()

    async def cut(self) -> None:
        """End as a crash does."""
        self._end(Over("cut"))
        self._client.cut()
        await self._stop_watching()

    # --------------------------------------------------------------------------------------------- inside

    async def _watch(self) -> None:
        """Wait for the end."""
        try:
            await anext(self._client.messages)
        except aiomqtt.MqttError as error:
            cause = error.__cause__ or error
            code = cause.rc if isinstance(cause, aiomqtt.MqttCodeError) else None
            self._end(Over(_words(cause), isinstance(code, ReasonCode) and code.value == SESSION_TAKEN_OVER))

    def _end(self, over: Over) -> None:
        if not self.over.done():
            self.over.set_result(over)

    async def _stop_watching(self) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)

    async def _unless_over(self, call: Awaitable[T], timeout_s: float) -> T:
        """The call's result. Raises LinkFailed when the connection ends first, or the call fails."""
        task = asyncio.ensure_future(call)
        ends: list[asyncio.Future[Any]] = [task, self.over]
        try:
            await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        except (aiomqtt.MqttError, ValueError) as error:
            raise LinkFailed(_words(error)) from None
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        raise LinkFailed(self.over.result().cause if self.over.done() else f"no answer within {timeout_s} s")


def _words(error: BaseException) -> str:
    """One line for people."""
    if isinstance(error, aiomqtt.MqttCodeError) and isinstance(error.rc, ReasonCode):
        return str(error.rc)
    return " ".join(str(error).split()) or type(error).__name__
