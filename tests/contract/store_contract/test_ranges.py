"""Order, pages, the past, compaction; and odd keys and values."""

import pytest

from hanse.store.contract import (
    KEY_BYTES_MAX,
    RANGE_BYTES_MAX,
    Compacted,
    KeyValue,
    Put,
    Store,
    StoreLimit,
    key_after,
    prefix_end,
)
from tests.contract.store_contract.acts import (
    collect_events,
    delete,
    get,
    list_all,
    put,
    revisions,
    txn,
    watch_prefix,
)
from tests.contract.store_contract.homes import StoreHome


async def pages(store: Store, prefix: str, *, limit: int, at_revision: int = 0) -> list[tuple[KeyValue, ...]]:
    found: list[tuple[KeyValue, ...]] = []
    start = prefix
    while True:
        page = await store.range(start, prefix_end(prefix), limit=limit, at_revision=at_revision)
        found.append(page.items)
        if not page.more:
            return found
        at_revision = at_revision or page.revision
        start = key_after(page.items[-1].key)


async def test_a_range_is_ordered_and_half_open(store: Store, prefix: str) -> None:
    for name in ("c", "a", "d", "b", "aa"):
        await put(store, prefix + name)
    result = await store.range(prefix + "a", prefix + "d")
    assert [kv.key[len(prefix) :] for kv in result.items] == ["a", "aa", "b", "c"]
    assert not result.more


async def test_an_empty_range_is_empty(store: Store, prefix: str) -> None:
    await put(store, prefix + "a")
    for start, end in (("b", "c"), ("a", "a"), ("z", "a")):
        result = await store.range(prefix + start, prefix + end)
        assert (result.items, result.more) == ((), False)


async def test_a_single_key_is_a_range(store: Store, prefix: str) -> None:
    await put(store, prefix + "a")
    await put(store, prefix + "aa")
    result = await store.range(prefix + "a", key_after(prefix + "a"))
    assert [kv.key for kv in result.items] == [prefix + "a"]


async def test_pages_join_to_the_whole(store: Store, prefix: str) -> None:
    keys = [f"{prefix}{n:03}" for n in range(100)]
    await store.transact(txn(*(Put(key, b"v") for key in keys)))
    for limit in (1, 7, 100, 101):
        found = await pages(store, prefix, limit=limit)
        assert [kv.key for page in found for kv in page] == keys
        assert all(len(page) <= limit for page in found)


async def test_more_says_whether_keys_are_left(store: Store, prefix: str) -> None:
    await store.transact(txn(*(Put(f"{prefix}{n}", b"v") for n in range(4))))
    assert (await store.range(prefix, prefix_end(prefix), limit=3)).more
    assert not (await store.range(prefix, prefix_end(prefix), limit=4)).more


async def test_keys_only_leaves_values_out(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a", b"value")
    result = await store.range(prefix, prefix_end(prefix), keys_only=True)
    assert result.items == (KeyValue(prefix + "a", b"", revision, revision),)


async def test_pages_at_a_revision_show_the_past(store: Store, prefix: str) -> None:
    await store.transact(txn(*(Put(f"{prefix}{n}", b"old") for n in range(6))))
    await delete(store, prefix + "0")
    past = await put(store, prefix + "1", b"mid")
    before = await list_all(store, prefix)
    await put(store, prefix + "0", b"back")
    await put(store, prefix + "2", b"new")
    await put(store, prefix + "2", b"newer")
    await delete(store, prefix + "3")
    await put(store, prefix + "9", b"later")
    found = await pages(store, prefix, limit=2, at_revision=past)
    assert tuple(kv for page in found for kv in page) == before


async def test_a_page_names_the_revision_to_go_on_at(store: Store, prefix: str) -> None:
    await put(store, prefix + "a", b"1")
    await put(store, prefix + "b", b"1")
    first = await store.range(prefix, prefix_end(prefix), limit=1)
    await put(store, prefix + "b", b"2")
    await put(store, prefix + "c", b"1")
    rest = await store.range(key_after(first.items[-1].key), prefix_end(prefix), at_revision=first.revision, limit=10)
    assert [(kv.key, kv.value) for kv in rest.items] == [(prefix + "b", b"1")]
    assert rest.revision > first.revision


async def test_the_future_is_refused(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a")
    with pytest.raises(StoreLimit):
        await store.range(prefix, prefix_end(prefix), at_revision=revision + 1000)


async def test_compaction_keeps_what_a_read_at_it_sees(store: Store, prefix: str) -> None:
    await put(store, prefix + "changed", b"1")
    await put(store, prefix + "kept", b"1")
    await put(store, prefix + "gone", b"1")
    await delete(store, prefix + "gone")
    older = await put(store, prefix + "changed", b"2")
    edge = await put(store, prefix + "other", b"1")
    before = await list_all(store, prefix)
    await put(store, prefix + "changed", b"3")
    await delete(store, prefix + "other")
    now = await list_all(store, prefix)
    await store.compact(edge)
    with pytest.raises(Compacted) as caught:
        await store.range(prefix, prefix_end(prefix), at_revision=older)
    assert caught.value.compact_revision >= edge
    assert (await store.range(prefix, prefix_end(prefix), at_revision=edge)).items == before
    assert await list_all(store, prefix) == now


async def test_compaction_to_the_present_and_again(store: Store, prefix: str) -> None:
    await put(store, prefix + "a", b"1")
    await put(store, prefix + "b", b"1")
    revision = await delete(store, prefix + "b")
    for _ in range(2):
        await store.compact(revision)
    assert [kv.key for kv in await list_all(store, prefix)] == [prefix + "a"]
    assert (await store.read([])).revision >= revision
    assert await put(store, prefix + "b", b"2") > revision
    await store.compact(revision - 1)
    kv = await get(store, prefix + "b")
    assert kv is not None
    assert kv.value == b"2"


async def test_repeated_compactions_drop_only_the_old(store: Store, prefix: str) -> None:
    for n in range(30):
        revision = await put(store, f"{prefix}{n % 3}", b"%d" % n)
        if n % 4 == 0:
            await store.compact(revision)
        expected = {f"{prefix}{(n - back) % 3}": b"%d" % (n - back) for back in range(min(n + 1, 3))}
        assert {kv.key: kv.value for kv in await list_all(store, prefix)} == expected


async def test_compaction_survives_reopening(home: StoreHome, prefix: str) -> None:
    store = await home.open()
    old = await put(store, prefix + "a", b"1")
    await put(store, prefix + "a", b"2")
    last = await delete(store, prefix + "a")
    await store.compact(last)
    store = await home.reopen(store)
    with pytest.raises(Compacted):
        await store.range(prefix, prefix_end(prefix), at_revision=old)
    assert await put(store, prefix + "a", b"3") > last
    await store.close()


async def test_compaction_of_the_future_is_refused(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a")
    with pytest.raises(StoreLimit):
        await store.compact(revision + 1000)


@pytest.mark.parametrize(
    "name",
    ["ß", "日本/語", "🚀", "e\u0301", " ", "a b\tc\nd", "\"\\'%_", "\x01", "\ud7ff", "\ue000", "\U0010fffe"],
)
async def test_odd_keys(store: Store, prefix: str, name: str) -> None:
    key = prefix + name
    revision = await put(store, key, b"1")
    assert [kv.key for kv in await list_all(store, key)] == [key]
    assert [kv.key for kv in (await store.range(key, key_after(key))).items] == [key]
    assert (await store.read([key])).items[key].mod_revision == revision
    await delete(store, key)
    assert await get(store, key) is None


async def test_keys_order_by_code_point(store: Store, prefix: str) -> None:
    names = ["A", "a", "z", "~", "é", "一", "\uffff", "😀"]
    await store.transact(txn(*(Put(prefix + name, b"v") for name in reversed(names))))
    assert [kv.key[len(prefix) :] for kv in await list_all(store, prefix)] == names


async def test_the_longest_key(store: Store, prefix: str) -> None:
    key = prefix + "x" * (KEY_BYTES_MAX - len(prefix.encode()))
    await put(store, key, b"1")
    assert [kv.key for kv in await list_all(store, prefix)] == [key]


async def test_odd_values(store: Store, prefix: str) -> None:
    values = {f"{prefix}{n}": value for n, value in enumerate([b"", b"\0", b"\xff\xfe", b"", bytes(range(256))])}
    await store.transact(txn(*(Put(key, value) for key, value in values.items())))
    assert {kv.key: kv.value for kv in await list_all(store, prefix)} == values
    assert {k: kv.value for k, kv in (await store.read(list(values))).items.items()} == values


async def test_big_values(store: Store, prefix: str) -> None:
    """A page ends early rather than growing without bound; over a network it may overshoot."""
    values = {f"{prefix}{n:02}": bytes([n]) * 1_000_000 for n in range(40)}
    for key, value in values.items():
        await put(store, key, value)
    found = await pages(store, prefix, limit=1000)
    assert {kv.key: kv.value for page in found for kv in page} == values
    assert all(sum(len(kv.value) for kv in page) < 2 * RANGE_BYTES_MAX for page in found)


async def test_a_watch_over_big_values(store: Store, prefix: str) -> None:
    written = [await put(store, f"{prefix}{n % 3}", bytes([n]) * 1_000_000) for n in range(40)]
    async with watch_prefix(store, prefix, written[0]) as watch:
        events = await collect_events(watch, 40)
    assert revisions(events) == written
    assert [event.kv.value for event in events] == [bytes([n]) * 1_000_000 for n in range(40)]
