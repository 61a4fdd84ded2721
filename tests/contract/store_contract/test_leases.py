"""Leases run out, are renewed, are revoked; their keys go with them, with events."""

import asyncio

import pytest

from hanse.store.contract import EventKind, LeaseGone, Put, Store, StoreLimit
from tests.contract.store_contract.acts import (
    PATIENCE_S,
    collect_events,
    committed,
    delete,
    get,
    list_all,
    put,
    txn,
    watch_prefix,
)
from tests.contract.store_contract.homes import StoreHome

LONG_S = 600.0


async def test_leases_are_numbered_and_never_zero(store: Store) -> None:
    leases = [await store.lease_grant(LONG_S) for _ in range(3)]
    assert len({*leases, 0}) == 4


async def test_a_lease_that_runs_out_takes_its_keys(store: Store, home: StoreHome, prefix: str) -> None:
    lease = await store.lease_grant(home.lease_ttl_s)
    await store.transact(txn(Put(prefix + "a", b"1", lease), Put(prefix + "b", b"1", lease)))
    last = await put(store, prefix + "kept")
    async with watch_prefix(store, prefix, last + 1) as watch:
        events = await collect_events(watch, 2)
    assert {(event.kind, event.kv.key) for event in events} == {
        (EventKind.DELETE, prefix + "a"),
        (EventKind.DELETE, prefix + "b"),
    }
    assert all(event.kv.mod_revision > last for event in events)
    assert [kv.key for kv in await list_all(store, prefix)] == [prefix + "kept"]
    with pytest.raises(LeaseGone):
        await store.lease_keep_alive(lease)


async def test_a_renewed_lease_outlives_one_that_is_not(store: Store, home: StoreHome, prefix: str) -> None:
    """The other lease is granted later and for as long: once it is over, the first would be too."""
    renewed = await store.lease_grant(home.lease_ttl_s)
    await put(store, prefix + "renewed", lease=renewed)
    for n in range(3):
        other = await store.lease_grant(home.lease_ttl_s)
        await put(store, f"{prefix}other{n}", lease=other)
        async with asyncio.timeout(PATIENCE_S):
            while await get(store, f"{prefix}other{n}") is not None:
                assert await store.lease_keep_alive(renewed) >= home.lease_ttl_s
    assert await get(store, prefix + "renewed") is not None


async def test_a_lease_does_not_end_early(store: Store, home: StoreHome, prefix: str) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    lease = await store.lease_grant(home.lease_ttl_s)
    revision = await put(store, prefix + "a", lease=lease)
    async with watch_prefix(store, prefix, revision + 1) as watch:
        await collect_events(watch, 1)
    assert loop.time() - before >= home.lease_ttl_s * 0.9


async def test_revoking_takes_the_keys_at_once(store: Store, prefix: str) -> None:
    lease = await store.lease_grant(LONG_S)
    last = await put(store, prefix + "a", lease=lease)
    async with watch_prefix(store, prefix, last + 1) as watch:
        await store.lease_revoke(lease)
        assert await list_all(store, prefix) == ()
        (event,) = await collect_events(watch, 1)
    assert (event.kind, event.kv.key) == (EventKind.DELETE, prefix + "a")
    for gone in (store.lease_revoke(lease), store.lease_keep_alive(lease)):
        with pytest.raises(LeaseGone):
            await gone


async def test_a_lease_without_keys_is_revoked_without_a_revision(store: Store) -> None:
    lease = await store.lease_grant(LONG_S)
    before = (await store.read([])).revision
    await store.lease_revoke(lease)
    assert (await store.read([])).revision == before


async def test_a_key_shows_its_lease(store: Store, prefix: str) -> None:
    lease = await store.lease_grant(LONG_S)
    await put(store, prefix + "a", lease=lease)
    kv = await get(store, prefix + "a")
    assert kv is not None
    assert kv.lease == lease
    assert (await list_all(store, prefix))[0].lease == lease


async def test_a_put_moves_a_key_to_another_lease_or_none(store: Store, prefix: str) -> None:
    first, second = await store.lease_grant(LONG_S), await store.lease_grant(LONG_S)
    await put(store, prefix + "moved", lease=first)
    await put(store, prefix + "freed", lease=first)
    await put(store, prefix + "moved", lease=second)
    await put(store, prefix + "freed")
    await store.lease_revoke(first)
    assert [kv.key for kv in await list_all(store, prefix)] == [prefix + "freed", prefix + "moved"]
    await store.lease_revoke(second)
    assert [kv.key for kv in await list_all(store, prefix)] == [prefix + "freed"]


async def test_a_deleted_and_recreated_key_is_free_of_its_lease(store: Store, prefix: str) -> None:
    lease = await store.lease_grant(LONG_S)
    await put(store, prefix + "a", lease=lease)
    await delete(store, prefix + "a")
    await put(store, prefix + "a")
    await store.lease_revoke(lease)
    assert await get(store, prefix + "a") is not None


async def test_a_lease_with_many_keys(store: Store, prefix: str) -> None:
    lease = await store.lease_grant(LONG_S)
    for at in range(0, 1000, 100):
        ops = (Put(f"{prefix}{n:04}", b"v", lease) for n in range(at, at + 100))
        last = committed(await store.transact(txn(*ops)))
    async with watch_prefix(store, prefix, last + 1) as watch:
        await store.lease_revoke(lease)
        events = await collect_events(watch, 1000)
    assert {event.kv.key for event in events} == {f"{prefix}{n:04}" for n in range(1000)}
    assert await list_all(store, prefix) == ()


async def test_a_lease_and_its_keys_survive_reopening(home: StoreHome, prefix: str) -> None:
    store = await home.open()
    lease = await store.lease_grant(LONG_S)
    await put(store, prefix + "a", lease=lease)
    store = await home.reopen(store)
    assert await store.lease_keep_alive(lease) > 0
    await store.lease_revoke(lease)
    assert await get(store, prefix + "a") is None
    await store.close()


async def test_a_lease_runs_out_after_reopening(home: StoreHome, prefix: str) -> None:
    store = await home.open()
    lease = await store.lease_grant(home.lease_ttl_s)
    revision = await put(store, prefix + "a", lease=lease)
    store = await home.reopen(store)
    async with watch_prefix(store, prefix, revision + 1) as watch:
        (event,) = await collect_events(watch, 1)
    assert event.kind is EventKind.DELETE
    await store.close()


async def test_an_unknown_lease_is_gone(store: Store) -> None:
    with pytest.raises(LeaseGone):
        await store.lease_keep_alive(123_456_789)


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, float("nan"), float("inf")])
async def test_a_senseless_ttl_is_refused(store: Store, ttl_s: float) -> None:
    with pytest.raises(StoreLimit):
        await store.lease_grant(ttl_s)
