"""A watch's cursor and buffer, fed by hand: whole revisions, bounded, exactly once."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.store.contract import WATCH_BATCH_EVENTS_MAX, Compacted, StoreUnavailable, WatchBatch
from hanse.store.etcd import codec
from hanse.store.etcd.watch import WATCH_BUFFER_BYTES_MAX, WATCH_BUFFER_EVENTS_MAX, EtcdWatch


class Desk:
    """Notes what a watch asks of the stream."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def serve(self, watch: EtcdWatch) -> None:
        self.asked.append(f"serve from {watch.next_revision}")

    def unserve(self, watch: EtcdWatch) -> None:
        self.asked.append("unserve")

    def forget(self, watch: EtcdWatch) -> None:
        self.asked.append("forget")


def message(*revisions: int, fragment: bool = False, header: int = 0, value: bytes = b"") -> pb.WatchResponse:
    events = [
        pb.Event(kv=pb.KeyValue(key=b"%d" % at, value=value, mod_revision=revision))
        for at, revision in enumerate(revisions)
    ]
    return pb.WatchResponse(header=pb.ResponseHeader(revision=header), events=events, fragment=fragment)


def take(watch: EtcdWatch, response: pb.WatchResponse) -> None:
    """What the stream does with a message for a watch."""
    if response.events:
        watch.offer(codec.events(response.events, from_revision=1), fragment=response.fragment)
    else:
        watch.progress(response.header.revision)


def opened(from_revision: int = 1) -> tuple[EtcdWatch, Desk]:
    desk = Desk()
    return EtcdWatch(desk, "a", "b", from_revision=from_revision), desk


def fill(watch: EtcdWatch, desk: Desk, *, events: int = 1, value: bytes = b"") -> int:
    """Offer one revision after the other until the watch has had enough; the revision at which it had."""
    for revision in range(1, 1_000):
        take(watch, message(*[revision] * events, value=value))
        if desk.asked:
            return revision
    raise AssertionError("it takes everything")


async def next_batch(watch: EtcdWatch) -> WatchBatch:
    async with asyncio.timeout(1.0):
        return await anext(watch)


def told(batch: WatchBatch) -> list[int]:
    return [event.kv.mod_revision for event in batch.events]


async def test_events_of_one_message_are_a_batch() -> None:
    watch, _ = opened()
    take(watch, message(3, 3, 4))
    batch = await next_batch(watch)
    assert (told(batch), batch.revision, watch.next_revision) == ([3, 3, 4], 4, 5)


async def test_messages_that_wait_are_read_together() -> None:
    watch, _ = opened()
    for revision in (3, 4, 5):
        take(watch, message(revision))
    assert told(await next_batch(watch)) == [3, 4, 5]


async def test_a_fragment_holds_its_last_revision_back() -> None:
    watch, _ = opened()
    take(watch, message(3, 4, 4, fragment=True))
    assert told(await next_batch(watch)) == [3]
    take(watch, message(4, 4, fragment=True))
    assert watch.next_revision == 4
    take(watch, message(4, 5))
    assert told(await next_batch(watch)) == [4, 4, 4, 4, 4, 5]


async def test_a_stream_that_breaks_between_fragments_gives_the_revision_whole_again() -> None:
    watch, _ = opened()
    take(watch, message(3, 4, 4, fragment=True))
    watch.begin()
    take(watch, message(4, 4, 4))
    assert told(await next_batch(watch)) == [3, 4, 4, 4]


async def test_what_comes_again_is_left_out() -> None:
    watch, _ = opened(from_revision=4)
    take(watch, message(3, 4))
    take(watch, message(3, 4, 5))
    assert told(await next_batch(watch)) == [4, 5]


async def test_a_large_message_is_cut_at_a_revision() -> None:
    watch, _ = opened()
    take(watch, message(*(revision for revision in range(1, 101) for _ in range(70))))
    batches = [await next_batch(watch) for _ in range(7)]
    assert sum(len(batch.events) for batch in batches) == 7_000
    assert all(len(batch.events) < WATCH_BATCH_EVENTS_MAX + 70 for batch in batches)
    assert all(set(told(a)).isdisjoint(told(b)) for a, b in pairwise(batches))


async def test_a_full_buffer_gives_its_place_back_and_asks_again_when_it_is_read() -> None:
    watch, desk = opened()
    revision = fill(watch, desk, events=100)
    assert desk.asked == ["unserve"]
    assert revision == WATCH_BUFFER_EVENTS_MAX // 100 + 1
    assert not watch.wants_serving
    found: list[int] = []
    while desk.asked == ["unserve"]:
        found += told(await next_batch(watch))
    assert found == [at for at in range(1, revision) for _ in range(100)]
    assert desk.asked == ["unserve", f"serve from {revision}"]
    assert watch.wants_serving


async def test_bytes_fill_the_buffer_too() -> None:
    watch, desk = opened()
    revision = fill(watch, desk, value=bytes(1_000_000))
    assert revision == WATCH_BUFFER_BYTES_MAX // 1_000_000 + 1


async def test_one_message_is_taken_whatever_its_size() -> None:
    watch, desk = opened()
    take(watch, message(*[3] * (WATCH_BUFFER_EVENTS_MAX + 1)))
    assert desk.asked == []
    assert len((await next_batch(watch)).events) == WATCH_BUFFER_EVENTS_MAX + 1


async def test_progress_moves_the_cursor_and_is_told() -> None:
    watch, _ = opened()
    take(watch, message(header=9))
    assert await next_batch(watch) == WatchBatch(9, ())
    assert watch.next_revision == 10
    take(watch, message(header=9))
    take(watch, message(12))
    take(watch, message(header=20))
    batch = await next_batch(watch)
    assert (told(batch), batch.revision) == ([12], 20)


async def test_progress_of_the_past_or_within_a_fragment_says_nothing() -> None:
    watch, _ = opened(from_revision=10)
    take(watch, message(header=5))
    take(watch, message(11, 12, fragment=True))
    take(watch, message(header=30))
    assert watch.next_revision == 12


async def test_compaction_is_told_after_what_was_read_and_for_good() -> None:
    watch, _ = opened()
    take(watch, message(3))
    watch.compacted(Compacted(9))
    assert told(await next_batch(watch)) == [3]
    for _ in range(2):
        with pytest.raises(Compacted):
            await next_batch(watch)
    assert not watch.wants_serving


async def test_trouble_is_told_once_and_the_reader_goes_on() -> None:
    watch, desk = opened()
    take(watch, message(3))
    watch.tell(StoreUnavailable("away"))
    assert told(await next_batch(watch)) == [3]
    with pytest.raises(StoreUnavailable, match="away"):
        await next_batch(watch)
    assert desk.asked == ["serve from 4"]
    take(watch, message(4))
    assert told(await next_batch(watch)) == [4]


async def test_closing_the_store_drops_what_was_not_read() -> None:
    watch, _ = opened()
    take(watch, message(3))
    watch.end(StoreUnavailable("closed"))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="closed"):
            await next_batch(watch)


async def test_a_closed_watch_stops_and_is_forgotten_once() -> None:
    watch, desk = opened()
    take(watch, message(3))
    for _ in range(2):
        await watch.close()
    with pytest.raises(StopAsyncIteration):
        await next_batch(watch)
    assert desk.asked == ["forget"]


@given(
    sizes=st.lists(st.integers(1, 130), min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 400), max_size=20),
    reads=st.lists(st.booleans(), max_size=60),
)
def test_however_it_is_cut_and_read_every_event_comes_once_in_whole_revisions(
    sizes: list[int], cuts: list[int], reads: list[bool]
) -> None:
    async def run() -> None:
        watch, _ = opened()
        events = [revision for revision, size in enumerate(sizes, start=1) for _ in range(size)]
        ends = [*sorted({cut for cut in cuts if 0 < cut < len(events)}), len(events)]
        batches: list[WatchBatch] = []
        begin = 0
        for at, end in enumerate(ends):
            take(watch, message(*events[begin:end], fragment=end != len(events)))
            begin = end
            if at < len(reads) and reads[at] and watch._buffer:
                batches.append(await next_batch(watch))
        while watch._buffer:
            batches.append(await next_batch(watch))
        assert [revision for batch in batches for revision in told(batch)] == events
        assert all(set(told(a)).isdisjoint(told(b)) and a.revision < b.revision for a, b in pairwise(batches))
        assert watch.next_revision == len(sizes) + 1

    asyncio.run(run())
