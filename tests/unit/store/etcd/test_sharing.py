"""Watches that are fed by another one: each gets what lies in its range, and nothing twice."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from hanse.store.contract import Event, EventKind, KeyValue, WatchBatch
from hanse.store.etcd.sharing import Sharing
from hanse.store.etcd.watch import WATCH_BUFFER_EVENTS_MAX, EtcdWatch

KEYS = "abcdefgh"


class Desk:
    """What `Watches` does for a guest: one that is not served any more has left."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self.unserved: list[EtcdWatch] = []

    def serve(self, watch: EtcdWatch) -> None:
        pass

    def unserve(self, watch: EtcdWatch) -> None:
        self._sharing.leave(watch)
        self.unserved.append(watch)

    def forget(self, watch: EtcdWatch) -> None:
        self._sharing.leave(watch)


def event(key: str, revision: int) -> Event:
    return Event(EventKind.PUT, KeyValue(key, b"", revision, revision))


def read(watch: EtcdWatch) -> list[WatchBatch]:
    """What waits in its buffer."""

    async def run() -> list[WatchBatch]:
        return [await anext(watch) for _ in range(1) if watch._buffer]

    found: list[WatchBatch] = []
    while watch._buffer:
        found += asyncio.run(run())
    return found


def told(watch: EtcdWatch) -> list[tuple[str, int]]:
    return [(event.kv.key, event.kv.mod_revision) for batch in read(watch) for event in batch.events]


def party(*ranges: tuple[str, str], begin: int = 1) -> tuple[Sharing, Desk, EtcdWatch, list[EtcdWatch]]:
    """A host of everything and its guests."""
    sharing = Sharing()
    desk = Desk(sharing)
    host = EtcdWatch(desk, "a", "z", from_revision=begin)
    guests = [EtcdWatch(desk, start, end, from_revision=begin) for start, end in ranges]
    for guest in guests:
        sharing.join(guest, host)
    return sharing, desk, host, guests


def feed(sharing: Sharing, host: EtcdWatch, events: Sequence[Event], *, fragment: bool = False) -> None:
    sharing.feed(host, host.offer(events, fragment=fragment))


def test_a_guest_gets_what_lies_in_its_range_and_follows_the_cursor() -> None:
    sharing, _, host, (first, second) = party(("b", "d"), ("e", "f"))
    feed(sharing, host, [event("a", 3), event("b", 3), event("c", 4), event("d", 5)])
    assert told(first) == [("b", 3), ("c", 4)]
    assert told(second) == []
    assert [watch.next_revision for watch in (host, first, second)] == [6, 6, 6]


def test_a_guest_that_is_ahead_gets_nothing_twice() -> None:
    sharing, desk, host, _ = party()
    ahead = EtcdWatch(desk, "b", "c", from_revision=5)
    sharing.join(ahead, host)
    feed(sharing, host, [event("b", 3), event("b", 4), event("b", 5)])
    assert told(ahead) == [("b", 5)]


def test_a_guest_never_sees_a_part_of_a_revision() -> None:
    sharing, _, host, (guest,) = party(("b", "d"))
    feed(sharing, host, [event("b", 3), event("b", 4)], fragment=True)
    assert told(guest) == [("b", 3)]
    feed(sharing, host, [event("c", 4)])
    (batch,) = read(guest)
    assert [found.kv.key for found in batch.events] == ["b", "c"]


def test_a_guest_whose_buffer_is_full_leaves_with_its_cursor_and_the_others_stay() -> None:
    sharing, desk, host, (slow, quick) = party(("b", "c"), ("c", "d"))
    revision = 0
    while not desk.unserved:
        revision += 1
        feed(sharing, host, [event("b", revision)] * 1_000 + [event("c", revision)])
        read(host), read(quick)
    assert desk.unserved == [slow]
    assert sharing.guests(host) == (quick,)
    assert slow.next_revision == revision
    assert WATCH_BUFFER_EVENTS_MAX // 1_000 <= revision <= WATCH_BUFFER_EVENTS_MAX // 1_000 + 1


def test_progress_is_told_to_guests() -> None:
    sharing, _, host, (guest,) = party(("b", "c"))
    sharing.progress(host, 9)
    assert read(guest) == [WatchBatch(9, ())]


def test_a_host_that_leaves_names_its_guests_and_feeds_nobody() -> None:
    sharing, _, host, (guest,) = party(("b", "c"))
    assert sharing.disband(host) == (guest,)
    assert not sharing.has_host(guest)
    feed(sharing, host, [event("b", 3)])
    assert told(guest) == []


ranges = st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)).map(
    lambda ends: (min(ends), chr(ord(max(ends)) + 1))
)


@given(
    bounds=st.lists(ranges, max_size=8),
    keys=st.lists(st.lists(st.sampled_from(KEYS), max_size=6, unique=True), max_size=12),
    cuts=st.sets(st.integers(0, 72)),
)
def test_however_ranges_overlap_each_guest_gets_every_event_of_its_range_once(
    bounds: list[tuple[str, str]], keys: list[list[str]], cuts: set[int]
) -> None:
    sharing, _, host, guests = party(*bounds)
    events = [event(key, revision) for revision, some in enumerate(keys, start=1) for key in some]
    ends = [*sorted(cut for cut in cuts if 0 < cut < len(events)), len(events)]
    begin = 0
    for end in ends:
        feed(sharing, host, events[begin:end], fragment=end != len(events))
        begin = end
    for guest, (start, stop) in zip(guests, bounds, strict=True):
        assert told(guest) == [(e.kv.key, e.kv.mod_revision) for e in events if start <= e.kv.key < stop]
