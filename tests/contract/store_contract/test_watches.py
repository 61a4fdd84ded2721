"""Every event exactly once, in revision order, whole revisions, from any point that history still has."""

import asyncio
from itertools import pairwise

import pytest

from hanse.store.contract import (
    Compacted,
    Delete,
    Event,
    EventKind,
    KeyValue,
    Put,
    Store,
    StoreLimit,
    StoreUnavailable,
    Watch,
    key_after,
    prefix_end,
)
from tests.contract.store_contract.acts import (
    PATIENCE_S,
    collect,
    collect_events,
    committed,
    delete,
    list_all,
    put,
    revisions,
    txn,
    watch_prefix,
)
from tests.contract.store_contract.homes import StoreHome


async def now(store: Store) -> int:
    return (await store.read([])).revision


async def test_a_watch_tells_puts_and_deletes(store: Store, prefix: str) -> None:
    async with watch_prefix(store, prefix, await now(store) + 1) as watch:
        created = await put(store, prefix + "a", b"1")
        changed = await put(store, prefix + "a", b"2")
        deleted = await delete(store, prefix + "a")
        assert await collect_events(watch, 3) == [
            Event(EventKind.PUT, KeyValue(prefix + "a", b"1", created, created)),
            Event(EventKind.PUT, KeyValue(prefix + "a", b"2", created, changed)),
            Event(EventKind.DELETE, KeyValue(prefix + "a", b"", 0, deleted)),
        ]


async def test_a_watch_from_the_past_tells_the_same(store: Store, prefix: str) -> None:
    start = await now(store) + 1
    created = await put(store, prefix + "a", b"1")
    changed = await put(store, prefix + "a", b"2")
    deleted = await delete(store, prefix + "a")
    async with watch_prefix(store, prefix, start) as watch:
        assert await collect_events(watch, 3) == [
            Event(EventKind.PUT, KeyValue(prefix + "a", b"1", created, created)),
            Event(EventKind.PUT, KeyValue(prefix + "a", b"2", created, changed)),
            Event(EventKind.DELETE, KeyValue(prefix + "a", b"", 0, deleted)),
        ]


async def test_a_watch_starts_exactly_at_its_revision(store: Store, prefix: str) -> None:
    await put(store, prefix + "a", b"1")
    second = await put(store, prefix + "a", b"2")
    third = await put(store, prefix + "a", b"3")
    async with watch_prefix(store, prefix, second) as watch:
        assert revisions(await collect_events(watch, 2)) == [second, third]


async def test_a_watch_from_the_future_waits_for_it(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a", b"1")
    async with watch_prefix(store, prefix, revision + 3) as watch:
        found = [await put(store, prefix + "a", b"%d" % n) for n in range(6)]
        wanted = [r for r in found if r >= revision + 3]
        assert revisions(await collect_events(watch, len(wanted))) == wanted


async def test_a_watch_tells_its_range_only(store: Store, prefix: str) -> None:
    start = await now(store) + 1
    for name in ("a", "b", "c", "d", "bb"):
        await put(store, prefix + name)
    single = store.watch(prefix + "b", key_after(prefix + "b"), from_revision=start)
    half_open = store.watch(prefix + "b", prefix + "d", from_revision=start)
    last = await put(store, prefix + "b", b"last")
    async with single, half_open:
        assert [e.kv.key for e in await collect_events(single, 2)] == [prefix + "b"] * 2
        events = await collect_events(half_open, 4)
        assert [e.kv.key[len(prefix) :] for e in events] == ["b", "c", "bb", "b"]
        assert events[-1].kv.mod_revision == last


async def test_many_watches_of_nested_and_disjoint_ranges(store: Store, prefix: str) -> None:
    start = await now(store) + 1
    whole = watch_prefix(store, prefix, start)
    parts = [watch_prefix(store, f"{prefix}{n:02}/", start) for n in range(20)]
    for round_ in range(5):
        await store.transact(txn(*(Put(f"{prefix}{n:02}/{round_}", b"v") for n in range(20))))
    for n, part in enumerate(parts):
        assert [e.kv.key for e in await collect_events(part, 5)] == [f"{prefix}{n:02}/{r}" for r in range(5)]
    assert len(await collect_events(whole, 100)) == 100
    for watch in (whole, *parts):
        await watch.close()


async def test_a_listing_and_a_watch_from_it_join_without_gap(store: Store, prefix: str) -> None:
    async def write() -> None:
        for n in range(300):
            await put(store, f"{prefix}{n % 7}", b"%d" % n)

    writer = asyncio.create_task(write(), name="writer")
    await put(store, prefix + "x", b"")
    listing = await store.range(prefix, prefix_end(prefix))
    state = {kv.key: kv.value for kv in listing.items}
    async with watch_prefix(store, prefix, listing.revision + 1) as watch:
        await writer
        end = await put(store, prefix + "end", b"")
        for batch in await collect(watch, lambda events: bool(events) and events[-1].kv.mod_revision == end):
            state.update({event.kv.key: event.kv.value for event in batch.events})
    assert state == {kv.key: kv.value for kv in await list_all(store, prefix)}


async def test_a_revision_is_never_split(store: Store, prefix: str) -> None:
    """Seventy events each: no round number of events ends with a revision."""
    start = await now(store) + 1
    async with watch_prefix(store, prefix, start) as live, watch_prefix(store, prefix, start) as slow:
        for n in range(50):
            await store.transact(txn(*(Put(f"{prefix}{k}", b"%d" % n) for k in range(70))))
        late = watch_prefix(store, prefix, start)
        for watch in (live, slow, late):
            batches = await collect(watch, lambda events: len(events) >= 3500)
            seen: list[int] = []
            for batch in batches:
                own = revisions(list(batch.events))
                assert own == sorted(own)
                assert all(own.count(revision) == 70 for revision in set(own))
                assert not own or batch.revision >= own[-1]
                seen.extend(own)
            assert len(seen) == 3500
            assert seen == sorted(seen)
        await late.close()


async def test_a_slow_watcher_misses_nothing(store: Store, prefix: str) -> None:
    """It reads one batch, then nothing while far more is written than anybody would buffer."""
    start = await now(store) + 1
    async with watch_prefix(store, prefix, start) as watch:
        await put(store, prefix + "first")
        events = await collect_events(watch, 1)
        written = []
        for n in range(120):
            ops = (Put(f"{prefix}{k:03}", b"%d" % n) for k in range(100))
            written.append(committed(await store.transact(txn(*ops))))
        end = await put(store, prefix + "last")
        events += await collect_events(watch, 12_001)
        assert len(events) == 12_002
        assert revisions(events)[1:-1] == [revision for revision in written for _ in range(100)]
        live = await put(store, prefix + "live")
        assert revisions(await collect_events(watch, 1)) == [live]
        assert events[-1].kv.mod_revision == end


async def test_a_watcher_reading_while_writers_write_sees_each_event_once(store: Store, prefix: str) -> None:
    start = await now(store) + 1

    async def write(writer: int) -> list[int]:
        return [await put(store, f"{prefix}{writer}/{n}") for n in range(100)]

    async with watch_prefix(store, prefix, start) as watch:
        reading = asyncio.create_task(collect_events(watch, 800), name="reader")
        written = await asyncio.gather(*(write(n) for n in range(8)))
        found = revisions(await reading)
    assert found == sorted(revision for own in written for revision in own)


async def test_a_watch_resumed_again_and_again_is_exactly_once(store: Store, prefix: str) -> None:
    """Closed after every batch, reopened at the batch's revision + 1, while writers write."""
    start = await now(store) + 1
    total = 300

    async def write() -> list[int]:
        return [await put(store, f"{prefix}{n % 11}", b"%d" % n) for n in range(total)]

    writer = asyncio.create_task(write(), name="writer")
    found: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < total:
            async with watch_prefix(store, prefix, start) as watch:
                batch = await anext(aiter(watch))
            found.extend(revisions(list(batch.events)))
            start = batch.revision + 1
    assert found == await writer


async def test_a_cancelled_read_loses_nothing(store: Store, prefix: str) -> None:
    start = await now(store) + 1
    async with watch_prefix(store, prefix, start) as watch:
        for n in range(50):
            waiting = asyncio.create_task(anext_of(watch), name="reader")
            if n % 2:
                await store.read([])
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        written = [await put(store, prefix + "a") for _ in range(5)]
        assert revisions(await collect_events(watch, 5)) == written


async def anext_of(watch: Watch) -> None:
    await anext(aiter(watch))


async def test_a_watch_resumes_across_reopening_of_the_store(home: StoreHome, prefix: str) -> None:
    store = await home.open()
    start = await now(store) + 1
    written = [await put(store, prefix + "a", b"%d" % n) for n in range(10)]
    async with watch_prefix(store, prefix, start) as watch:
        batches = await collect(watch, lambda events: len(events) >= 10)
        written.append(await delete(store, prefix + "a"))
    store = await home.reopen(store)
    written.append(await put(store, prefix + "a", b"after"))
    async with watch_prefix(store, prefix, batches[-1].revision + 1) as watch:
        events = [event for batch in batches for event in batch.events] + await collect_events(watch, 2)
    assert revisions(events) == written
    await store.close()


async def test_a_watch_into_compacted_history_is_refused(store: Store, prefix: str) -> None:
    old = await put(store, prefix + "a", b"1")
    await put(store, prefix + "a", b"2")
    edge = await put(store, prefix + "a", b"3")
    after = await put(store, prefix + "a", b"4")
    await store.compact(edge)
    async with watch_prefix(store, prefix, old) as watch, asyncio.timeout(PATIENCE_S):
        with pytest.raises(Compacted) as caught:
            await anext(aiter(watch))
    assert caught.value.compact_revision >= edge
    async with watch_prefix(store, prefix, edge + 1) as watch:
        assert revisions(await collect_events(watch, 1)) == [after]


async def test_a_slow_watcher_whose_history_is_gone_is_told(store: Store, prefix: str) -> None:
    """Either it still gets every event (they were buffered), or ``Compacted``: never a gap."""
    start = await now(store) + 1
    async with watch_prefix(store, prefix, start) as watch:
        written = []
        for n in range(120):
            ops = (Put(f"{prefix}{k:03}", b"%d" % n) for k in range(100))
            written.append(committed(await store.transact(txn(*ops))))
        await store.compact(written[-1])
        expected = [revision for revision in written for _ in range(100)]
        found: list[int] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                while len(found) < len(expected):
                    found.extend(revisions(list((await anext(aiter(watch))).events)))
        except Compacted:
            pass
        assert found == expected[: len(found)]


async def test_a_live_watch_survives_a_compaction_of_what_it_has_read(store: Store, prefix: str) -> None:
    async with watch_prefix(store, prefix, await now(store) + 1) as watch:
        for _ in range(3):
            revision = await put(store, prefix + "a")
            assert revisions(await collect_events(watch, 1)) == [revision]
            await store.compact(revision)


async def test_batches_only_move_forward(store: Store, prefix: str) -> None:
    start = await now(store) + 1
    async with watch_prefix(store, prefix, start) as watch:
        for n in range(40):
            await store.transact(txn(Put(f"{prefix}{n}", b"v"), Delete(f"{prefix}{n - 2}")))
        batches = await collect(watch, lambda events: len(events) >= 78)
        assert all(a.revision < b.revision for a, b in pairwise(batches))


async def test_a_closed_watch_stops(store: Store, prefix: str) -> None:
    watch = watch_prefix(store, prefix, await now(store) + 1)
    reading = asyncio.create_task(read_out(watch), name="reader")
    await store.read([])
    await watch.close()
    async with asyncio.timeout(PATIENCE_S):
        assert await reading == 0
        with pytest.raises(StopAsyncIteration):
            await anext(aiter(watch))
    await watch.close()


async def read_out(watch: Watch) -> int:
    return sum([len(batch.events) async for batch in watch])


async def test_closing_the_store_ends_its_watches_and_calls(home: StoreHome, prefix: str) -> None:
    store = await home.open()
    reading = asyncio.create_task(read_out(watch_prefix(store, prefix, await now(store) + 1)), name="reader")
    await store.read([])
    await store.close()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(StoreUnavailable):
            await reading
        with pytest.raises(StoreUnavailable):
            await store.read([])
        with pytest.raises(StoreUnavailable):
            await put(store, prefix + "a")
        await store.close()


@pytest.mark.parametrize(("start", "end", "revision"), [("a", "a", 1), ("b", "a", 1), ("a", "b", 0)])
async def test_a_senseless_watch_is_refused(store: Store, start: str, end: str, revision: int) -> None:
    with pytest.raises(StoreLimit):
        store.watch(start, end, from_revision=revision)
