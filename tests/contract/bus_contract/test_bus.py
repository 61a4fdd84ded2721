"""Topics, filters, retained messages, wills, takeover. At-least-once: the suite tolerates repeats, never
gaps at the end: the newest message of a topic always arrives."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest

from hanse.bus.contract import (
    BUS_PAYLOAD_MAX_BYTES,
    BUS_TOPIC_MAX_BYTES,
    Bus,
    BusClosed,
    BusConnection,
    BusLimit,
    BusMessage,
    BusUnavailable,
    Subscription,
    Will,
)

PATIENCE_S: Final = 30.0


@asynccontextmanager
async def client(bus: Bus, name: str, will: Will | None = None) -> AsyncIterator[BusConnection]:
    async with asyncio.timeout(PATIENCE_S):
        connection = await bus.connect(name, will=will)
    async with connection:
        yield connection


async def until(subscription: Subscription, wanted: Callable[[BusMessage], bool]) -> list[BusMessage]:
    """Everything up to the first message that is wanted."""
    found: list[BusMessage] = []
    async with asyncio.timeout(PATIENCE_S):
        async for message in subscription:
            found.append(message)
            if wanted(message):
                return found
    raise AssertionError(f"the subscription ended after {found}")


async def one(subscription: Subscription) -> BusMessage:
    return (await until(subscription, lambda _: True))[0]


def ends(payload: bytes) -> Callable[[BusMessage], bool]:
    return lambda message: message.payload == payload


async def test_a_message_reaches_every_subscriber(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a, client(bus, f"{prefix}-b") as b:
        subscriptions = [await c.subscribe(f"{prefix}/t") for c in (a, b)]
        await a.publish(f"{prefix}/t", b"\x00\xff")
        for subscription in subscriptions:
            assert await one(subscription) == BusMessage(f"{prefix}/t", b"\x00\xff", retained=False)


async def test_messages_of_a_topic_keep_their_order(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a, client(bus, f"{prefix}-b") as b:
        subscription = await b.subscribe(f"{prefix}/#")
        for n in range(200):
            await a.publish(f"{prefix}/{n % 3}", b"%d" % n)
        await a.publish(f"{prefix}/end", b"end")
        found = await until(subscription, ends(b"end"))
        for topic in range(3):
            numbers = [int(m.payload) for m in found if m.topic == f"{prefix}/{topic}"]
            distinct = list(dict.fromkeys(numbers))
            assert distinct == sorted(distinct)
            assert distinct[-1] == max(n for n in range(200) if n % 3 == topic)


async def test_a_reader_that_keeps_up_gets_every_message(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a, client(bus, f"{prefix}-b") as b:
        subscription = await b.subscribe(f"{prefix}/t")
        for n in range(50):
            await a.publish(f"{prefix}/t", b"%d" % n)
            assert (await until(subscription, ends(b"%d" % n)))[-1].payload == b"%d" % n
        assert subscription.dropped == 0


async def test_a_slow_reader_gets_the_newest_of_each_topic_and_a_count(bus: Bus, prefix: str) -> None:
    total, topics = 3000, 5
    async with client(bus, f"{prefix}-a") as a, client(bus, f"{prefix}-b") as b:
        slow, quick = await b.subscribe(f"{prefix}/t/+"), await a.subscribe(f"{prefix}/seen")
        for n in range(total):
            await a.publish(f"{prefix}/t/{n % topics}", b"%d" % n)
        await a.publish(f"{prefix}/seen", b"")
        await one(quick)
        await a.publish(f"{prefix}/t/end", b"end")
        found = await until(slow, ends(b"end"))
        for topic in range(topics):
            newest = [m.payload for m in found if m.topic == f"{prefix}/t/{topic}"][-1]
            assert int(newest) == total - topics + topic
        assert slow.dropped + len(found) >= total + 1


@pytest.mark.parametrize(
    ("filter_", "matching", "others"),
    [
        ("a/b", ["a/b"], ["a", "a/b/c", "a/B", "b"]),
        ("a/+", ["a/b", "a/", "a/c"], ["a", "a/b/c", "b/b"]),
        ("+/b", ["a/b", "/b"], ["b", "a/c"]),
        ("a/+/c", ["a/b/c", "a//c"], ["a/c", "a/b/b/c"]),
        ("a/#", ["a", "a/b", "a/b/c", "a/"], ["b", "ab"]),
        ("#", ["a", "a/b", "/"], []),
        ("+/+", ["a/b", "/"], ["a", "a/b/c"]),
        ("pools/+/summary", ["pools/p1/summary", "pools/日本/summary"], ["pools/p1/capacity"]),
    ],
)
async def test_filters(bus: Bus, prefix: str, filter_: str, matching: list[str], others: list[str]) -> None:
    base = f"filters/{prefix}"
    async with client(bus, f"{prefix}-a") as a:
        subscription = await a.subscribe(f"{base}/{filter_}")
        fence = await a.subscribe(f"{base}-fence")
        for topic in (*matching, *others):
            await a.publish(f"{base}/{topic}", topic.encode())
        await a.publish(f"{base}-fence", b"")
        await one(fence)
        if matching:
            last = matching[-1].encode()
            found = {m.topic for m in await until(subscription, ends(last))}
            assert found == {f"{base}/{topic}" for topic in matching}
        late = await a.subscribe(f"{base}/{filter_}")
        await a.publish(f"{base}/{matching[0]}", b"again")
        assert (await one(late)).payload == b"again"


async def test_a_retained_message_greets_a_new_subscriber(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a, client(bus, f"{prefix}-b") as b:
        await a.publish(f"{prefix}/s/1", b"old", retain=True)
        await a.publish(f"{prefix}/s/1", b"new", retain=True)
        await a.publish(f"{prefix}/s/2", b"two", retain=True)
        await a.publish(f"{prefix}/s/3", b"not retained")
        subscription = await b.subscribe(f"{prefix}/s/+")
        await a.publish(f"{prefix}/s/end", b"end")
        found = set(await until(subscription, ends(b"end")))
        assert found == {
            BusMessage(f"{prefix}/s/1", b"new", retained=True),
            BusMessage(f"{prefix}/s/2", b"two", retained=True),
            BusMessage(f"{prefix}/s/end", b"end", retained=False),
        }


async def test_a_retained_message_is_live_to_who_is_there(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a, client(bus, f"{prefix}-b") as b:
        subscription = await b.subscribe(f"{prefix}/t")
        await a.publish(f"{prefix}/t", b"x", retain=True)
        assert await one(subscription) == BusMessage(f"{prefix}/t", b"x", retained=False)


async def test_an_empty_retained_message_clears_the_topic(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a, client(bus, f"{prefix}-b") as b:
        live = await b.subscribe(f"{prefix}/t")
        await a.publish(f"{prefix}/t", b"x", retain=True)
        assert (await one(live)).payload == b"x"
        await a.publish(f"{prefix}/t", b"", retain=True)
        assert (await one(live)).payload == b""
        late = await b.subscribe(f"{prefix}/+")
        await a.publish(f"{prefix}/end", b"end")
        assert [m.payload for m in await until(late, ends(b"end"))] == [b"end"]


async def test_retained_messages_outlive_their_publisher(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a:
        await a.publish(f"{prefix}/t", b"x", retain=True)
    async with client(bus, f"{prefix}-b") as b:
        assert await one(await b.subscribe(f"{prefix}/t")) == BusMessage(f"{prefix}/t", b"x", retained=True)


async def test_an_abort_publishes_the_will(bus: Bus, prefix: str) -> None:
    will = Will(f"{prefix}/presence", b"gone", retain=True)
    async with client(bus, f"{prefix}-watcher") as watcher:
        subscription = await watcher.subscribe(f"{prefix}/presence")
        agent = await bus.connect(f"{prefix}-agent", will=will)
        await agent.publish(f"{prefix}/presence", b"here", retain=True)
        assert (await one(subscription)).payload == b"here"
        await agent.abort()
        assert (await one(subscription)).payload == b"gone"
        late = await watcher.subscribe(f"{prefix}/+")
        assert await one(late) == BusMessage(f"{prefix}/presence", b"gone", retained=True)


async def test_a_graceful_end_publishes_no_will(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-watcher") as watcher:
        subscription = await watcher.subscribe(f"{prefix}/#")
        agent = await bus.connect(f"{prefix}-agent", will=Will(f"{prefix}/presence", b"gone"))
        await agent.close()
        await agent.close()
        await watcher.publish(f"{prefix}/end", b"end")
        assert [m.payload for m in await until(subscription, ends(b"end"))] == [b"end"]


async def test_a_second_client_of_the_same_id_takes_over(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-watcher") as watcher:
        presence = await watcher.subscribe(f"{prefix}/presence")
        first = await bus.connect(f"{prefix}-agent", will=Will(f"{prefix}/presence", b"first gone"))
        inbox = await first.subscribe(f"{prefix}/hints")
        second = await bus.connect(f"{prefix}-agent", will=Will(f"{prefix}/presence", b"second gone"))
        assert (await one(presence)).payload == b"first gone"
        with pytest.raises(BusClosed):
            await one(inbox)
        with pytest.raises(BusClosed):
            await publish_until_refused(first, f"{prefix}/x")
        await second.publish(f"{prefix}/presence", b"second here")
        assert (await until(presence, ends(b"second here")))[-1].payload == b"second here"
        await first.close()
        await second.publish(f"{prefix}/presence", b"still here")
        assert (await until(presence, ends(b"still here")))[-1].payload == b"still here"
        await second.abort()
        assert (await until(presence, ends(b"second gone")))[-1].payload == b"second gone"


async def publish_until_refused(connection: BusConnection, topic: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await connection.publish(topic, b"from beyond")


async def test_a_will_set_before_a_subscription_is_heard_once(bus: Bus, prefix: str) -> None:
    agent = await bus.connect(f"{prefix}-agent", will=Will(f"{prefix}/presence", b"gone"))
    async with client(bus, f"{prefix}-watcher") as watcher:
        subscription = await watcher.subscribe(f"{prefix}/#")
        await agent.abort()
        await agent.abort()
        await agent.close()
        assert (await one(subscription)).payload == b"gone"
        await watcher.publish(f"{prefix}/end", b"end")
        assert [m.payload for m in await until(subscription, ends(b"end"))] == [b"end"]


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_after_its_end_a_connection_does_nothing(bus: Bus, prefix: str, how: str) -> None:
    connection = await bus.connect(f"{prefix}-a")
    subscription = await connection.subscribe(f"{prefix}/t")
    waiting = asyncio.create_task(drain(subscription), name="reader")
    await asyncio.sleep(0)
    await (connection.close() if how == "close" else connection.abort())
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting == []
        with pytest.raises(BusClosed):
            await connection.publish(f"{prefix}/t", b"")
        with pytest.raises(BusClosed):
            await connection.subscribe(f"{prefix}/t")


async def drain(subscription: Subscription) -> list[BusMessage]:
    return [message async for message in subscription]


async def test_a_closed_subscription_stops_and_others_go_on(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a:
        first, second = await a.subscribe(f"{prefix}/t"), await a.subscribe(f"{prefix}/t")
        waiting = asyncio.create_task(drain(first), name="reader")
        await asyncio.sleep(0)
        await first.close()
        async with asyncio.timeout(PATIENCE_S):
            assert await waiting == []
        await a.publish(f"{prefix}/t", b"x")
        assert (await one(second)).payload == b"x"
        await first.close()


async def test_a_cancelled_reader_loses_nothing(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a:
        subscription = await a.subscribe(f"{prefix}/t")
        for n in range(20):
            reading = asyncio.create_task(one(subscription), name="reader")
            for _ in range(n % 4):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        await a.publish(f"{prefix}/t", b"x")
        assert (await one(subscription)).payload == b"x"


async def test_the_largest_payload_passes_and_a_larger_one_does_not(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a:
        subscription = await a.subscribe(f"{prefix}/t")
        with pytest.raises(BusLimit, match="16385 bytes, the limit is 16384"):
            await a.publish(f"{prefix}/t", bytes(BUS_PAYLOAD_MAX_BYTES + 1))
        await a.publish(f"{prefix}/t", b"\xee" * BUS_PAYLOAD_MAX_BYTES)
        assert (await one(subscription)).payload == b"\xee" * BUS_PAYLOAD_MAX_BYTES


@pytest.mark.parametrize("topic", ["", "a/+", "#", "a\0b", "\ud800", "t" * (BUS_TOPIC_MAX_BYTES + 1)])
async def test_bad_topics_are_refused(bus: Bus, prefix: str, topic: str) -> None:
    async with client(bus, f"{prefix}-a") as a:
        with pytest.raises(BusLimit):
            await a.publish(topic, b"")
    with pytest.raises(BusLimit):
        await bus.connect(f"{prefix}-b", will=Will(topic, b""))


@pytest.mark.parametrize("filter_", ["", "a/#/b", "a#", "a+/b", "a\0", "\ud800"])
async def test_bad_filters_are_refused(bus: Bus, prefix: str, filter_: str) -> None:
    async with client(bus, f"{prefix}-a") as a:
        with pytest.raises(BusLimit):
            await a.subscribe(filter_)


async def test_a_client_without_id_is_refused(bus: Bus) -> None:
    with pytest.raises(BusLimit):
        await bus.connect("")


async def test_a_deadline_that_is_over(bus: Bus, prefix: str) -> None:
    async with client(bus, f"{prefix}-a") as a:
        with pytest.raises(BusUnavailable):
            await a.publish(f"{prefix}/t", b"", deadline_s=0.0)
