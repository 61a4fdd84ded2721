"""Watches that lie in another one's range: etcd does not have them, and nothing is missed when that changes."""

from collections.abc import AsyncIterator

import pytest

from hanse.store.contract import KEYS_END, Put, Watch, prefix_end
from hanse.store.etcd import EtcdStore
from hanse.store.etcd.watch import WATCH_BUFFER_EVENTS_MAX
from tests.contract.store_contract.acts import collect_events, committed, put, txn
from tests.integration.etcd.ledger import until
from tests.services.etcd import EtcdServers

POOLS = 20


@pytest.fixture
async def store(one: EtcdServers) -> AsyncIterator[EtcdStore]:
    opened = await EtcdStore.open(one.options())
    yield opened
    await opened.close()


async def here(store: EtcdStore) -> int:
    """The first revision that is still to come."""
    return (await store.read([])).revision + 1


def watch_pool(store: EtcdStore, pool: int, begin: int) -> Watch:
    prefix = f"shared/{pool:02}/"
    return store.watch(prefix, prefix_end(prefix), from_revision=begin)


async def write_all(store: EtcdStore, name: str) -> int:
    """One key in each pool, in one transaction."""
    return committed(await store.transact(txn(*(Put(f"shared/{pool:02}/{name}", b"") for pool in range(POOLS)))))


async def keys_of(watch: Watch, count: int) -> list[str]:
    return [event.kv.key for event in await collect_events(watch, count)]


def served(store: EtcdStore) -> int:
    """Watches that etcd has."""
    return len(store._watches._by_id)


async def test_etcd_has_one_watch_for_all_that_lie_in_it(store: EtcdStore) -> None:
    begin = await here(store)
    whole = store.watch("shared/", "shared0", from_revision=begin)
    pools = [watch_pool(store, pool, begin) for pool in range(POOLS)]
    await write_all(store, "a")
    assert len(await keys_of(whole, POOLS)) == POOLS
    for pool, watch in enumerate(pools):
        assert await keys_of(watch, 1) == [f"shared/{pool:02}/a"]
    assert served(store) == 1


async def test_watches_that_were_there_before_join_when_they_have_come_as_far(store: EtcdStore) -> None:
    begin = await here(store)
    pools = [watch_pool(store, pool, begin) for pool in range(POOLS)]
    await write_all(store, "a")
    whole = store.watch("", KEYS_END, from_revision=begin)
    for name in ("b", "c", "d"):
        await write_all(store, name)
        await keys_of(whole, POOLS)
    for pool, watch in enumerate(pools):
        assert await keys_of(watch, 4) == [f"shared/{pool:02}/{name}" for name in "abcd"]
    await write_all(store, "e")
    await keys_of(whole, POOLS)
    await until(lambda: served(store) == 1)
    assert await keys_of(pools[0], 1) == ["shared/00/e"]


async def test_guests_go_on_when_their_host_is_closed(store: EtcdStore) -> None:
    begin = await here(store)
    whole = store.watch("shared/", "shared0", from_revision=begin)
    pools = [watch_pool(store, pool, begin) for pool in range(POOLS)]
    await write_all(store, "a")
    await keys_of(whole, POOLS)
    await whole.close()
    await write_all(store, "b")
    for pool, watch in enumerate(pools):
        assert await keys_of(watch, 2) == [f"shared/{pool:02}/{name}" for name in "ab"]
    assert served(store) == POOLS


async def test_a_host_that_is_not_read_holds_nobody_up(store: EtcdStore) -> None:
    begin = await here(store)
    store.watch("shared/", "shared0", from_revision=begin)
    pool = watch_pool(store, 7, begin)
    many = [Put(f"shared/07/{n:03}", b"") for n in range(100)]
    found = 0
    for _ in range(WATCH_BUFFER_EVENTS_MAX // 100 + 20):
        committed(await store.transact(txn(*many)))
        found += len(await keys_of(pool, 100))
    assert found == (WATCH_BUFFER_EVENTS_MAX // 100 + 20) * 100


async def test_a_guest_in_the_past_is_served_what_it_missed(store: EtcdStore) -> None:
    begin = await here(store)
    whole = store.watch("shared/", "shared0", from_revision=begin)
    await write_all(store, "a")
    await keys_of(whole, POOLS)
    late = watch_pool(store, 3, begin)
    assert await keys_of(late, 1) == ["shared/03/a"]
    await put(store, "shared/03/b")
    assert await keys_of(late, 1) == ["shared/03/b"]
    await until(lambda: served(store) == 1)
