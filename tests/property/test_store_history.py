"""History, three ways: the memory store's index, the SQLite file's statements and an obvious slow one agree on every
page at every revision, and on every watch from every revision, through compactions."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.store.contract import KEYS_END, Compacted, Event, EventKind, KeyValue, Put, Txn
from hanse.store.contract import Delete as DeleteOp
from hanse.store.judge import judge
from hanse.store.mvcc import Mvcc
from hanse.store.sorted_keys import PIECE_KEYS_MAX, SortedKeys
from hanse.store.sqlite import file

KEYS: Final = ["a", "a/1", "b", "ß", "日", "😀"]

ops = st.one_of(
    st.builds(Put, st.sampled_from(KEYS), st.binary(max_size=4)), st.builds(DeleteOp, st.sampled_from(KEYS))
)
txns = st.lists(ops, min_size=1, max_size=4, unique_by=lambda op: op.key).map(lambda some: Txn(ops=tuple(some)))
compactions = st.integers(0, 10)
steps = st.lists(st.one_of(txns, compactions), max_size=30)
bounds = st.sampled_from(["", *KEYS, KEYS_END])


class Obvious:
    """Every state at every revision, whole."""

    def __init__(self) -> None:
        self.states: list[dict[str, KeyValue]] = [{}, {}]
        self.events: list[Event] = []
        self.compact_revision = 0

    def append(self, events: tuple[Event, ...]) -> None:
        state = dict(self.states[-1])
        for event in events:
            if event.kind is EventKind.PUT:
                state[event.kv.key] = event.kv
            else:
                del state[event.kv.key]
        self.states.append(state)
        self.events += events

    def page(self, start: str, end: str, revision: int) -> list[KeyValue]:
        return [kv for key, kv in sorted(self.states[revision].items()) if start <= key < end]

    def seen(self, start: str, end: str, first: int) -> list[Event]:
        return [e for e in self.events if e.kv.mod_revision >= first and start <= e.kv.key < end]


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.db"
        file.create_or_check(path)
        conn = file.connect(path)
        conn.execute("PRAGMA synchronous = OFF")
        yield conn
        conn.close()


@settings(max_examples=200, deadline=None)
@given(steps=steps, start=bounds, end=bounds, limit=st.integers(1, 4))
def test_memory_and_sqlite_remember_what_happened(steps: list[Txn | int], start: str, end: str, limit: int) -> None:
    obvious, mvcc = Obvious(), Mvcc()
    with database() as conn:
        for step in steps:
            if isinstance(step, Txn):
                events = judge(step, revision=mvcc.revision, head_of=mvcc.head, lease_lives=bool)
                assert isinstance(events, tuple)
                if events:
                    obvious.append(events)
                    mvcc.append(events, revision=mvcc.revision + 1)
                    file.append(conn, events)
            else:
                revision = max(0, mvcc.revision - step)
                obvious.compact_revision = max(obvious.compact_revision, revision)
                mvcc.compact(revision)
                file.compact(conn, revision)
                while file.purge(conn):
                    pass
        assert file.stamp(conn) == (mvcc.revision, mvcc.compact_revision)
        assert (mvcc.revision, mvcc.compact_revision) == (len(obvious.states) - 1, obvious.compact_revision)
        check_pages(obvious, mvcc, conn, start, end, limit)
        check_events(obvious, mvcc, conn, start, end)
        heads = {key: head for key in KEYS if (head := mvcc.head(key)) is not None}
        assert file.heads_of(conn, KEYS) == heads
        assert {kv.key: kv for kv in file.read_keys(conn, KEYS)[0]} == obvious.states[-1]


def check_pages(obvious: Obvious, mvcc: Mvcc, conn: sqlite3.Connection, start: str, end: str, limit: int) -> None:
    for revision in range(1, mvcc.revision + 1):
        if revision < obvious.compact_revision:
            with pytest.raises(Compacted):
                mvcc.page(start, end, limit=limit, at_revision=revision)
            with pytest.raises(Compacted):
                file.read_page(conn, start, end, limit=limit, at_revision=revision, keys_only=False)
            continue
        whole = obvious.page(start, end, revision)
        expected = (whole[:limit], len(whole) > limit)
        assert mvcc.page(start, end, limit=limit, at_revision=revision) == expected
        page = file.read_page(conn, start, end, limit=limit, at_revision=revision, keys_only=False)
        assert (page.items, page.more) == expected
    now = file.read_page(conn, start, end, limit=limit, at_revision=0, keys_only=False)
    whole = obvious.page(start, end, -1)
    assert (now.items, now.more) == (whole[:limit], len(whole) > limit)
    assert now.stamp == (mvcc.revision, mvcc.compact_revision)


def check_events(obvious: Obvious, mvcc: Mvcc, conn: sqlite3.Connection, start: str, end: str) -> None:
    last = mvcc.revision
    for first in range(1, last + 1):
        if first <= obvious.compact_revision:
            with pytest.raises(Compacted):
                mvcc.events(start, end, first=first, last=last)
            with pytest.raises(Compacted):
                file.read_events(conn, start, end, first=first, last=last)
            continue
        expected = obvious.seen(start, end, first)
        for batch in (
            mvcc.events(start, end, first=first, last=last),
            file.read_events(conn, start, end, first=first, last=last),
        ):
            assert batch.revision == last
            assert sorted(batch.events, key=place) == sorted(expected, key=place)
            assert [e.kv.mod_revision for e in batch.events] == [e.kv.mod_revision for e in expected]


def place(event: Event) -> tuple[int, str]:
    return event.kv.mod_revision, event.kv.key


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(0, 3 * PIECE_KEYS_MAX))
def test_sorted_keys_is_a_sorted_set(seed: int, size: int) -> None:
    rng = random.Random(seed)
    keys, expected = SortedKeys(), set[str]()
    for _ in range(size * 2):
        key = f"{rng.randrange(size + 1):05}"
        if key in expected and rng.random() < 0.6:
            keys.remove(key)
            expected.discard(key)
        elif key not in expected:
            keys.add(key)
            expected.add(key)
    assert len(keys) == len(expected)
    low, high = sorted(f"{rng.randrange(size + 1):05}" for _ in range(2))
    assert list(keys.between(low, high)) == sorted(key for key in expected if low <= key < high)
    assert list(keys.between("", KEYS_END)) == sorted(expected)
    assert all(key in keys for key in expected)
