"""The hub with a history that is a list: who is live, who reads history, and that nothing is lost in between."""

import asyncio
import random

import pytest

from hanse.store.contract import Compacted, Event, EventKind, KeyValue, WatchBatch
from hanse.store.feed import WATCH_BUFFER_EVENTS_MAX, WATCH_PROGRESS_REVISIONS, CursorWatch, WatchHub


class ListHistory:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.reads = 0
        self.compacted = 0

    async def history(self, start: str, end: str, *, first: int, last: int) -> WatchBatch:
        self.reads += 1
        await asyncio.sleep(0)
        if first <= self.compacted:
            raise Compacted(self.compacted)
        until = min(last, first + 99)
        found = (e for e in self.events if first <= e.kv.mod_revision <= until and start <= e.kv.key < end)
        return WatchBatch(until, tuple(found))


class World:
    """A hub and its history, written to together."""

    def __init__(self) -> None:
        self.history = ListHistory()
        self.hub = WatchHub(self.history, revision=1)

    def write(self, *keys: str) -> int:
        revision = self.hub.revision + 1
        events = [Event(EventKind.PUT, KeyValue(key, b"", revision, revision)) for key in keys]
        self.history.events += events
        self.hub.publish(revision, events)
        return revision


async def read(watch: CursorWatch, until: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    async with asyncio.timeout(30):
        while True:
            batch = await anext(watch)
            found += [(event.kv.mod_revision, event.kv.key) for event in batch.events]
            if batch.revision >= until:
                return found


async def test_a_live_watch_never_reads_history() -> None:
    world = World()
    watch = world.hub.open("a", "b", from_revision=2)
    for _ in range(10):
        revision = world.write("a", "x")
        assert await read(watch, revision) == [(revision, "a")]
    assert world.history.reads == 0


async def test_a_watch_that_falls_behind_reads_history_and_becomes_live_again() -> None:
    world = World()
    watch = world.hub.open("a", "b", from_revision=2)
    for _ in range(WATCH_BUFFER_EVENTS_MAX + 500):
        last = world.write("a")
    assert await read(watch, last) == [(n, "a") for n in range(2, last + 1)]
    reads = world.history.reads
    assert reads > 0
    last = world.write("a")
    assert await read(watch, last) == [(last, "a")]
    assert world.history.reads == reads


async def test_what_is_written_while_history_is_read_is_seen_once() -> None:
    world, rng = World(), random.Random(3)
    for _ in range(300):
        world.write("a")
    watch = world.hub.open("a", "b", from_revision=2)

    async def write() -> int:
        for _ in range(300):
            last = world.write(*rng.sample(["a", "aa", "c"], rng.randrange(1, 4)))
            if rng.random() < 0.3:
                await asyncio.sleep(0)
        return world.write("a") or last

    writer = asyncio.create_task(write(), name="writer")
    found: list[tuple[int, str]] = []
    async with asyncio.timeout(30):
        while not writer.done() or not found or found[-1][0] < writer.result():
            batch = await anext(watch)
            found += [(event.kv.mod_revision, event.kv.key) for event in batch.events]
    wanted = [(e.kv.mod_revision, e.kv.key) for e in world.history.events if e.kv.key < "b"]
    assert found == wanted


async def test_a_jump_sends_live_watches_to_history() -> None:
    world = World()
    watch = world.hub.open("a", "b", from_revision=2)
    first = world.write("a")
    for revision in (first + 1, first + 2):
        world.history.events.append(Event(EventKind.PUT, KeyValue("a", b"", revision, revision)))
    world.hub.jump(first + 2)
    last = world.write("a")
    assert [revision for revision, _ in await read(watch, last)] == [first, first + 1, first + 2, last]


async def test_an_idle_watch_reports_progress() -> None:
    world = World()
    watch = world.hub.open("a", "b", from_revision=2)
    for _ in range(WATCH_PROGRESS_REVISIONS):
        last = world.write("x")
    batch = await anext(watch)
    assert (batch.events, batch.revision) == ((), last)


async def test_a_watch_behind_a_compaction_is_told_and_a_live_one_is_not() -> None:
    world = World()
    for _ in range(5):
        world.write("a")
    world.history.compacted = 4
    behind = world.hub.open("a", "b", from_revision=3)
    with pytest.raises(Compacted):
        await anext(behind)
    live = world.hub.open("a", "b", from_revision=7)
    last = world.write("a")
    assert await read(live, last) == [(last, "a")]


async def test_events_find_exactly_the_watches_of_their_key() -> None:
    world, rng = World(), random.Random(5)
    names = [chr(ord("a") + n) for n in range(12)]
    ranges = [tuple(sorted(rng.sample(names, 2))) for _ in range(40)]
    watches = [world.hub.open(start, end, from_revision=2) for start, end in ranges]
    for watch in watches[::5]:
        await watch.close()
    last = world.write(*names)
    for n, ((start, end), watch) in enumerate(zip(ranges, watches, strict=True)):
        if n % 5:
            assert [key for _, key in await read(watch, last)] == [k for k in names if start <= k < end]
