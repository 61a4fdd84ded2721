"""A broker that dies, hangs, or comes back without its memory; clients that die or hang."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from hanse.bus.contract import BusClosed, BusConnection, BusUnavailable, Will
from hanse.bus.mqtt import REPEATED_TOPICS_MAX, MqttBus
from hanse.bus.mqtt_link import LinkFailed, MqttLink
from hanse.kit.process import run as run_on_uvloop
from tests.contract.bus_contract.test_bus import PATIENCE_S, client, ends, one, until
from tests.services.mosquitto import Broker

CRASHING_CLIENT: Final = Path(__file__).with_name("crashing_client.py")
RETRY_S: Final = 0.02
SO_ZEROCOPY: Final = 60
MSG_ZEROCOPY: Final = 0x4000000
PINGREQ: Final = b"\xc0\x00"


@pytest.fixture
def bus(broker: Broker) -> MqttBus:
    """Notices within seconds that the broker hangs."""
    return MqttBus(replace(broker.options, keepalive_s=1))


async def publish_when_back(connection: BusConnection, topic: str, payload: bytes) -> None:
    """As a publisher does: again, until the bus has it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await connection.publish(topic, payload, deadline_s=1.0)
                return
            except BusUnavailable:
                await asyncio.sleep(RETRY_S)


async def publish_on(link: MqttLink) -> None:
    """Until it fails. Raises LinkFailed."""
    while True:
        await link.publish("topic", b"x", retain=False, timeout_s=PATIENCE_S)


@contextmanager
def other_process(broker: Broker, client_id: str, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, str(CRASHING_CLIENT), str(broker.port), client_id, topic])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_a_broker_that_restarts_without_memory_is_brought_back_to_where_it_was(
    broker: Broker, bus: MqttBus
) -> None:
    async with (
        client(bus, "agent", Will("presence", b"gone", retain=True)) as agent,
        client(bus, "replica") as replica,
    ):
        subscription = await replica.subscribe("pools/+/summary")
        await agent.publish("presence", b"here", retain=True)
        await agent.publish("pools/p/summary", b"1", retain=True)
        await agent.publish("pools/p/summary", b"2", retain=True)
        await agent.publish("not-retained", b"x")
        await until(subscription, ends(b"2"))
        broker.process.kill()
        with pytest.raises(BusUnavailable) as caught:
            await agent.publish("pools/p/summary", b"lost", retain=True, deadline_s=0.5)
        assert "\n" not in str(caught.value)
        broker.process.start()
        assert (await until(subscription, ends(b"lost")))[-1].topic == "pools/p/summary"
        async with client(bus, "late") as late:
            everything = await late.subscribe("#")
            await publish_when_back(agent, "end", b"end")
            found = {message.topic: message.payload for message in await until(everything, ends(b"end"))}
            assert found["presence"] == b"here"
            assert found["pools/p/summary"] == b"lost"
            assert "not-retained" not in found


async def test_subscribers_and_publishers_go_on_after_every_restart(broker: Broker, bus: MqttBus) -> None:
    async with client(bus, "a") as a, client(bus, "b") as b:
        first, second = await b.subscribe("t/+"), await b.subscribe("t/+")
        for n in range(3):
            broker.process.kill()
            broker.process.start()
            third = await b.subscribe("t/#")
            await publish_when_back(a, "t/x", b"%d" % n)
            for subscription in (first, second, third):
                await until(subscription, ends(b"%d" % n))
            await third.close()


async def test_only_the_newest_retained_topics_are_repeated(broker: Broker, bus: MqttBus) -> None:
    async with client(bus, "a") as a:
        for n in range(REPEATED_TOPICS_MAX + 10):
            await a.publish(f"many/{n:03}", b"x", retain=True)
        broker.process.kill()
        broker.process.start()
        await publish_when_back(a, "end", b"end")
        async with client(bus, "b") as b:
            subscription = await b.subscribe("many/#")
            await publish_when_back(a, "many/end", b"end")
            found = {message.topic for message in await until(subscription, ends(b"end"))}
            assert found == {f"many/{n:03}" for n in range(10, REPEATED_TOPICS_MAX + 10)} | {"many/end"}


async def test_a_broker_that_hangs_for_a_moment_costs_a_moment(broker: Broker, bus: MqttBus) -> None:
    async with client(bus, "a") as a, client(bus, "b") as b:
        subscription = await b.subscribe("t")
        broker.process.freeze()
        with pytest.raises(BusUnavailable, match="no answer within"):
            await a.publish("t", b"1", deadline_s=0.3)
        broker.process.thaw()
        await publish_when_back(a, "t", b"2")
        await until(subscription, ends(b"2"))


async def test_a_broker_that_hangs_is_given_up_and_found_again(broker: Broker, bus: MqttBus) -> None:
    """Connecting fails meanwhile within its deadline; afterwards everything is as it was."""
    async with client(bus, "a") as a, client(bus, "b") as b:
        subscription = await b.subscribe("t")
        await a.publish("t", b"0", retain=True)
        await until(subscription, ends(b"0"))
        broker.process.freeze()
        with pytest.raises(BusUnavailable):
            await bus.connect("c")
        with pytest.raises(BusUnavailable, match=r"not connected|Keep alive timeout"):
            await publish_until_given_up(a)
        broker.process.thaw()
        back = await one(subscription)  # retained, or as `a` repeats it, whichever of the two is back first
        assert (back.topic, back.payload) == ("t", b"0")
        await publish_when_back(a, "t", b"1")
        await until(subscription, ends(b"1"))


async def publish_until_given_up(connection: BusConnection) -> None:
    """At first there is just no answer."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await connection.publish("void", b"", deadline_s=0.1)
            except BusUnavailable as error:
                if "no answer" not in str(error):
                    raise


async def test_the_will_of_a_killed_process_is_published(broker: Broker, bus: MqttBus) -> None:
    async with client(bus, "watcher") as watcher:
        presence = await watcher.subscribe("presence")
        with other_process(broker, "agent", "presence") as process:
            await until(presence, ends(b"here"))
            process.kill()
            await until(presence, ends(b"gone"))


async def test_a_process_that_hangs_is_given_up_and_says_so_when_it_wakes(broker: Broker, bus: MqttBus) -> None:
    """Its will is published meanwhile; its presence is back when it is."""
    async with client(bus, "watcher") as watcher:
        presence = await watcher.subscribe("presence")
        with other_process(broker, "agent", "presence") as process:
            await until(presence, ends(b"here"))
            process.send_signal(signal.SIGSTOP)
            await until(presence, ends(b"gone"))
            process.send_signal(signal.SIGCONT)
            await until(presence, ends(b"here"))


async def test_who_was_replaced_while_it_hung_does_not_take_its_id_back(broker: Broker, bus: MqttBus) -> None:
    async with client(bus, "watcher") as watcher:
        presence = await watcher.subscribe("presence")
        with other_process(broker, "agent", "presence") as process:
            await until(presence, ends(b"here"))
            process.send_signal(signal.SIGSTOP)
            await until(presence, ends(b"gone"))
            async with client(bus, "agent") as agent:
                process.send_signal(signal.SIGCONT)
                asked = await watcher.subscribe("hanse/v1/bus/holders/+/+")
                await one(asked)
                for n in range(20):
                    await agent.publish("presence", b"%d" % n)
                    await until(presence, ends(b"%d" % n))


async def test_closing_works_while_the_broker_is_away(broker: Broker, bus: MqttBus) -> None:
    connections = [await bus.connect(f"c{n}") for n in range(3)]
    broker.process.kill()
    with pytest.raises(BusUnavailable):
        await publish_until_unavailable(connections[0])
    await connections[0].close()
    await connections[1].abort()
    async with connections[2]:
        pass
    for connection in connections:
        with pytest.raises(BusClosed):
            await connection.publish("t", b"")


async def publish_until_unavailable(connection: BusConnection) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await connection.publish("t", b"", deadline_s=0.5)


async def test_a_burst_to_many_topics_and_a_reader_that_sleeps(broker: Broker, bus: MqttBus) -> None:
    """More than a broker holds back by default; the reader then has the newest of each topic."""
    async with client(bus, "a") as a, client(bus, "b") as b:
        asleep, fence = await b.subscribe("burst/+"), await b.subscribe("fence")
        for n in range(4):
            await asyncio.gather(*(a.publish(f"burst/{k:03}", b"%d" % n) for k in range(500)))
        await a.publish("fence", b"")
        await one(fence)
        await a.publish("burst/end", b"end")
        found = {message.topic: message.payload for message in await until(asleep, ends(b"end"))}
        assert found == {**{f"burst/{k:03}": b"3" for k in range(500)}, "burst/end": b"end"}
        assert asleep.dropped == 1500


@pytest.mark.skipif(sys.platform != "linux", reason="the way to make the system report an error is Linux's")
def test_a_socket_that_the_event_loop_has_given_up_is_a_broken_connection(broker: Broker) -> None:
    """A notice in the socket's error queue is an error to uvloop, and nothing to the library."""

    async def scene() -> None:
        link = await MqttLink.open(broker.options, None, "agent", None, lambda message, identifiers: None)
        sock = link._client._client.socket()
        assert isinstance(sock, socket.socket)
        sock.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
        sock.send(PINGREQ, MSG_ZEROCOPY)
        with pytest.raises(LinkFailed, match="given the socket up"):
            await publish_on(link)
        assert "given the socket up" in (await link.over).cause
        await link.cut()

    run_on_uvloop(scene())
