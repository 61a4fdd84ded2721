"""Limits are refused before anything is done; deadlines and cancellations leave the store consistent."""

import asyncio

import pytest

from hanse.store.contract import (
    KEY_BYTES_MAX,
    KEYS_END,
    RANGE_ITEMS_MAX,
    READ_KEYS_MAX,
    TXN_BYTES_MAX,
    TXN_OPS_MAX,
    Committed,
    Delete,
    ModRevisionIs,
    Put,
    Store,
    StoreLimit,
    StoreUnavailable,
    Txn,
    Unknown,
)
from hanse.store.limits import txn_bytes
from tests.contract.store_contract.acts import committed, get, list_all, put, txn

BAD_TXNS = {
    "two puts of one key": txn(Put("k", b"1"), Put("k", b"2")),
    "put and delete of one key": txn(Put("k", b"1"), Delete("k")),
    "too many operations": txn(*(Put(f"k{n}", b"") for n in range(TXN_OPS_MAX + 1))),
    "too many guards": Txn(tuple(ModRevisionIs(f"k{n}", 0) for n in range(TXN_OPS_MAX + 1)), ()),
    "too many bytes": txn(Put("k", bytes(TXN_BYTES_MAX))),
    "an empty key": txn(Put("", b"")),
    "a key too long": txn(Put("k" * (KEY_BYTES_MAX + 1), b"")),
    "a key too long in UTF-8": txn(Delete("ß" * (KEY_BYTES_MAX // 2 + 1))),
    "a key with NUL": txn(Put("a\0b", b"")),
    "a lone surrogate": txn(Put("\ud800", b"")),
    "a key behind the end": txn(Put(KEYS_END, b"")),
    "a guard on an empty key": txn(when={"": 0}),
    "a negative revision": txn(when={"k": -1}),
}


@pytest.mark.parametrize("bad", BAD_TXNS.values(), ids=BAD_TXNS.keys())
async def test_a_transaction_beyond_a_limit_is_refused_whole(store: Store, bad: Txn) -> None:
    before = (await store.read([])).revision
    with pytest.raises(StoreLimit) as caught:
        await store.transact(bad)
    assert "\n" not in str(caught.value)
    assert (await store.read([])).revision == before


async def test_a_transaction_at_the_limits_passes(store: Store, prefix: str) -> None:
    absent = tuple(ModRevisionIs(f"{prefix}{n:03}", 0) for n in range(TXN_OPS_MAX))
    ops = [Put(f"{prefix}{n:03}", bytes(1000)) for n in range(TXN_OPS_MAX)]
    room = TXN_BYTES_MAX - txn_bytes(Txn(absent, tuple(ops)))
    ops[0] = Put(ops[0].key, bytes(1000 + room))
    full = Txn(absent, tuple(ops))
    assert txn_bytes(full) == TXN_BYTES_MAX
    committed(await store.transact(full))
    assert len(await list_all(store, prefix)) == TXN_OPS_MAX
    assert not isinstance(await store.transact(full), Committed)


async def test_reads_and_ranges_beyond_a_limit_are_refused(store: Store, prefix: str) -> None:
    with pytest.raises(StoreLimit):
        await store.read([f"{prefix}{n}" for n in range(READ_KEYS_MAX + 1)])
    with pytest.raises(StoreLimit):
        await store.read([""])
    for limit in (0, -1, RANGE_ITEMS_MAX + 1):
        with pytest.raises(StoreLimit):
            await store.range(prefix, KEYS_END, limit=limit)
    with pytest.raises(StoreLimit):
        await store.range(prefix, KEYS_END, at_revision=-1)


async def test_a_read_whose_deadline_is_over_is_unavailable(store: Store, prefix: str) -> None:
    with pytest.raises(StoreUnavailable):
        await store.read([prefix + "a"], deadline_s=0.0)
    with pytest.raises(StoreUnavailable):
        await store.range(prefix, KEYS_END, deadline_s=0.0)


async def test_unavailable_means_nothing_was_done(store: Store, prefix: str) -> None:
    """However short the deadline: committed is there, unavailable is not, unknown may be either."""
    fates: dict[str, str] = {}
    for n, deadline_s in enumerate([0.0, 1e-9, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2] * 5):
        key = f"{prefix}{n}"
        try:
            outcome = await store.transact(txn(Put(key, b"v")), deadline_s=deadline_s)
        except StoreUnavailable:
            fates[key] = "nothing"
        else:
            fates[key] = "committed" if isinstance(outcome, Committed) else "unknown"
            assert isinstance(outcome, Committed | Unknown)
    await put(store, prefix + "barrier")
    present = {kv.key for kv in await list_all(store, prefix)}
    for key, fate in fates.items():
        assert fate == "unknown" or (key in present) == (fate == "committed")


async def test_cancelled_writers_leave_whole_transactions(store: Store, prefix: str) -> None:
    """Each transaction writes two keys; whatever was cancelled when, they are equal, and the store goes
    on."""

    async def write(n: int) -> None:
        await store.transact(txn(Put(prefix + "a", b"%d" % n), Put(prefix + "b", b"%d" % n)))

    for n in range(60):
        task = asyncio.create_task(write(n), name="writer")
        for _ in range(n % 6):
            await store.read([])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        result = await store.read([prefix + "a", prefix + "b"])
        assert len({(kv.value, kv.mod_revision) for kv in result.items.values()}) <= 1
        assert len(result.items) in (0, 2)
    await put(store, prefix + "after")
    assert await get(store, prefix + "after") is not None
