"""What the embedded store answers from memory: exactly what it holds at the revision that its watches were told."""

from pathlib import Path
from random import Random

import pytest

from hanse.kit.clock import SystemClock
from hanse.store.contract import Committed, Delete, Event, EventKind, KeyValue, ModRevisionIs, Put, Txn
from hanse.store.sqlite import SqliteStore
from hanse.store.sqlite.readers import Readers
from hanse.store.sqlite.recent import VALUE_BYTES_MAX, Recent


def put(key: str, value: str, revision: int) -> Event:
    return Event(EventKind.PUT, KeyValue(key, value.encode(), 1, revision))


def gone(key: str, revision: int) -> Event:
    return Event(EventKind.DELETE, KeyValue(key, b"", 0, revision))


def values(found: dict[str, KeyValue] | None) -> dict[str, bytes] | None:
    return None if found is None else {key: kv.value for key, kv in found.items()}


def test_what_was_told_is_found_and_what_was_not_is_left_to_the_file() -> None:
    recent = Recent()
    recent.tell([put("a", "1", 5), put("b", "1", 5)])
    assert values(recent.find(["b", "a"], told=5)) == {"b": b"1", "a": b"1"}
    assert recent.find(["a", "c"], told=5) is None


def test_a_deleted_key_is_known_to_be_absent() -> None:
    recent = Recent()
    recent.tell([put("a", "1", 5)])
    recent.tell([gone("a", 6)])
    assert recent.find(["a"], told=6) == {}


def test_what_a_read_found_is_kept_also_that_a_key_is_absent() -> None:
    recent = Recent()
    recent.learn(["a", "b"], {"a": KeyValue("a", b"1", 1, 3)}, revision=5, told=5)
    assert values(recent.find(["a", "b"], told=5)) == {"a": b"1"}


def test_what_a_read_found_is_not_kept_if_it_began_before_the_newest_change_was_told() -> None:
    recent = Recent()
    recent.tell([put("a", "2", 6)])
    recent.learn(["a", "b"], {"a": KeyValue("a", b"1", 1, 5)}, revision=5, told=6)
    assert values(recent.find(["a"], told=6)) == {"a": b"2"}
    assert recent.find(["b"], told=6) is None


def test_nothing_is_found_until_all_that_a_reader_has_seen_is_told() -> None:
    recent = Recent()
    recent.tell([put("a", "1", 5), put("b", "1", 5)])
    recent.learn(["b"], {"b": KeyValue("b", b"2", 5, 6)}, revision=6, told=5)
    assert recent.find(["a"], told=5) is None
    recent.tell([put("b", "2", 6)])
    assert values(recent.find(["a", "b"], told=6)) == {"a": b"1", "b": b"2"}


def test_a_page_read_from_the_file_counts_as_seen_too() -> None:
    recent = Recent()
    recent.tell([put("a", "1", 5)])
    recent.see(6)
    assert recent.find(["a"], told=5) is None


def test_what_was_written_last_is_kept_within_a_bound() -> None:
    recent = Recent(keys_max=20)
    for n in range(30):
        recent.tell([put(str(n), "x", 5)])
    known = [n for n in range(30) if recent.find([str(n)], told=5) is not None]
    assert known == list(range(known[0], 30))
    assert 10 <= len(known) <= 20


def test_a_large_value_is_not_kept_nor_what_it_replaced() -> None:
    recent = Recent()
    recent.tell([put("a", "1", 5)])
    recent.tell([put("a", "x" * (VALUE_BYTES_MAX + 1), 6)])
    assert recent.find(["a"], told=6) is None


@pytest.mark.parametrize("seed", range(20))
async def test_every_answer_is_what_the_file_holds(tmp_path: Path, seed: int) -> None:
    """Random writes and reads; whatever was answered from memory is read from the file as well."""
    rng = Random(seed)
    store = await SqliteStore.open(tmp_path / "hanse.db", SystemClock())
    names = [f"k{n}" for n in range(6)]
    for _ in range(60):
        some = rng.sample(names, rng.randint(1, 4))
        if rng.random() < 0.5:
            ops = [Put(key, rng.randbytes(3)) if rng.random() < 0.7 else Delete(key) for key in some]
            guards = (ModRevisionIs(some[0], 0),) if rng.random() < 0.3 else ()
            await store.transact(Txn(guards, tuple(ops)))
        found = await store.read(some)
        page = {kv.key: kv for kv in (await store.range("", "z")).items}
        assert found.items == {key: page[key] for key in some if key in page}
        assert list(found.items) == [key for key in some if key in page]
    await store.close()


async def test_what_this_store_wrote_is_read_without_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await SqliteStore.open(tmp_path / "hanse.db", SystemClock())
    written = await store.transact(Txn((), (Put("a", b"1"),)))
    assert isinstance(written, Committed)

    async def no_file(*_: object, **__: object) -> None:
        raise AssertionError("the file was read")

    with monkeypatch.context() as patched:
        patched.setattr(Readers, "run", no_file)
        found = await store.read(["a"])
    assert found.revision == written.revision
    assert found.items["a"].value == b"1"
    await store.close()
