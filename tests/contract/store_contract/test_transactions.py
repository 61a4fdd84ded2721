"""Guards, outcomes and revisions."""

import asyncio

import pytest

from hanse.store.contract import Committed, Conflict, Delete, LeaseGone, ModRevisionIs, Put, Store, Txn
from tests.contract.store_contract.acts import committed, conflict, delete, get, list_all, put, txn
from tests.contract.store_contract.homes import StoreHome


async def test_a_put_is_read_back_with_its_revisions(store: Store, prefix: str) -> None:
    first = await put(store, prefix + "a", b"1")
    second = await put(store, prefix + "a", b"2")
    kv = await get(store, prefix + "a")
    assert second > first
    assert kv is not None
    assert (kv.value, kv.create_revision, kv.mod_revision, kv.lease) == (b"2", first, second, 0)


async def test_all_operations_of_a_transaction_share_one_revision(store: Store, prefix: str) -> None:
    await put(store, prefix + "gone")
    revision = committed(
        await store.transact(txn(Put(prefix + "a", b"1"), Delete(prefix + "gone"), Put(prefix + "b", b"2")))
    )
    assert [(kv.key, kv.mod_revision) for kv in await list_all(store, prefix)] == [
        (prefix + "a", revision),
        (prefix + "b", revision),
    ]


async def test_absent_keys_are_left_out_of_a_read(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a")
    result = await store.read([prefix + "a", prefix + "b"])
    assert list(result.items) == [prefix + "a"]
    assert result.revision >= revision


async def test_a_read_of_many_keys_comes_from_one_revision(store: Store, prefix: str) -> None:
    keys = [f"{prefix}{n:04}" for n in range(300)]
    for at in range(0, 300, 100):
        await store.transact(txn(*(Put(key, b"v") for key in keys[at : at + 100])))
    assert list((await store.read(keys)).items) == keys


async def test_a_true_guard_lets_pass(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a", b"1")
    committed(await store.transact(txn(Put(prefix + "a", b"2"), when={prefix + "a": revision})))


async def test_a_false_guard_stops_everything_and_says_what_is_so(store: Store, prefix: str) -> None:
    a, b = prefix + "a", prefix + "b"
    old = await put(store, a, b"1")
    new = await put(store, a, b"2")
    other = await put(store, b)
    outcome = conflict(
        await store.transact(txn(Put(prefix + "c", b"x"), Delete(b), when={a: old, b: other, prefix + "none": 0}))
    )
    assert outcome.current == {a: new, b: other, prefix + "none": 0}
    assert outcome.revision >= other
    assert [kv.key for kv in await list_all(store, prefix)] == [a, b]


async def test_the_revision_of_a_conflict_is_where_its_current_is_true(store: Store, prefix: str) -> None:
    await put(store, prefix + "a")
    outcome = conflict(await store.transact(txn(Put(prefix + "a", b"x"), when={prefix + "a": 0})))
    page = await store.range(prefix, prefix + "z", at_revision=outcome.revision)
    assert {kv.key: kv.mod_revision for kv in page.items} == outcome.current


async def test_guard_zero_means_absent(store: Store, prefix: str) -> None:
    key = prefix + "a"
    create = txn(Put(key, b"1"), when={key: 0})
    committed(await store.transact(create))
    conflict(await store.transact(create))
    await delete(store, key)
    committed(await store.transact(create))


async def test_a_key_created_again_does_not_look_unchanged(store: Store, prefix: str) -> None:
    key = prefix + "a"
    old = await put(store, key, b"same")
    await delete(store, key)
    created = await put(store, key, b"same")
    outcome = conflict(await store.transact(txn(Put(key, b"2"), when={key: old})))
    assert outcome.current == {key: created}
    kv = await get(store, key)
    assert kv is not None
    assert kv.create_revision == kv.mod_revision == created


async def test_a_guard_may_be_on_a_key_that_is_not_written_and_twice(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "grant")
    guard = ModRevisionIs(prefix + "grant", revision)
    committed(await store.transact(Txn((guard, guard), (Put(prefix + "a", b"1"),))))
    kv = await get(store, prefix + "grant")
    assert kv is not None
    assert kv.mod_revision == revision


async def test_contradicting_guards_conflict(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a")
    guards = (ModRevisionIs(prefix + "a", revision), ModRevisionIs(prefix + "a", 0))
    conflict(await store.transact(Txn(guards, (Put(prefix + "b", b"1"),))))


async def test_a_transaction_without_operations_only_compares(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a")
    assert committed(await store.transact(Txn())) == revision
    assert committed(await store.transact(txn(when={prefix + "a": revision}))) == revision
    conflict(await store.transact(txn(when={prefix + "a": 0})))


async def test_what_changes_nothing_takes_no_revision(store: Store, prefix: str) -> None:
    revision = await put(store, prefix + "a")
    assert await delete(store, prefix + "none") == revision
    assert (await store.read([])).revision == revision


async def test_the_same_value_again_is_a_change(store: Store, prefix: str) -> None:
    first = await put(store, prefix + "a", b"same")
    assert await put(store, prefix + "a", b"same") > first


async def test_a_deleted_key_is_gone(store: Store, prefix: str) -> None:
    await put(store, prefix + "a")
    await delete(store, prefix + "a")
    assert await get(store, prefix + "a") is None
    assert await list_all(store, prefix) == ()


async def test_one_writer_wins_each_round(store: Store, prefix: str) -> None:
    key, rounds, writers = prefix + "hot", 20, 16
    revision = 0
    for _ in range(rounds):
        outcomes = await asyncio.gather(
            *(store.transact(txn(Put(key, b"%d" % n), when={key: revision})) for n in range(writers))
        )
        won = [outcome for outcome in outcomes if isinstance(outcome, Committed)]
        lost = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        assert (len(won), len(lost)) == (1, writers - 1)
        assert all(outcome.current == {key: won[0].revision} for outcome in lost)
        winner = outcomes.index(won[0])
        kv = await get(store, key)
        assert kv is not None
        assert (kv.value, kv.mod_revision) == (b"%d" % winner, won[0].revision)
        revision = won[0].revision


async def test_counting_with_guards_loses_no_increment(store: Store, prefix: str) -> None:
    key, writers, each = prefix + "count", 8, 10

    async def increment() -> None:
        while True:
            kv = await get(store, key)
            value, revision = (int(kv.value), kv.mod_revision) if kv else (0, 0)
            outcome = await store.transact(txn(Put(key, b"%d" % (value + 1)), when={key: revision}))
            if isinstance(outcome, Committed):
                return

    async def work() -> None:
        for _ in range(each):
            await increment()

    await asyncio.gather(*(work() for _ in range(writers)))
    kv = await get(store, key)
    assert kv is not None
    assert kv.value == b"%d" % (writers * each)


async def test_concurrent_transactions_get_revisions_of_their_own(store: Store, prefix: str) -> None:
    found = await asyncio.gather(*(put(store, f"{prefix}{n}") for n in range(200)))
    assert len(set(found)) == 200


async def test_a_reader_sees_what_was_committed_before(store: Store, prefix: str) -> None:
    for n in range(50):
        revision = await put(store, prefix + "a", b"%d" % n)
        result = await store.read([prefix + "a"])
        assert result.items[prefix + "a"].value == b"%d" % n
        assert result.revision >= revision


async def test_a_put_with_a_lease_that_is_gone_does_nothing(store: Store, prefix: str) -> None:
    lease = await store.lease_grant(60.0)
    await store.lease_revoke(lease)
    with pytest.raises(LeaseGone):
        await store.transact(txn(Put(prefix + "a", b"1"), Put(prefix + "b", b"1", lease)))
    assert await list_all(store, prefix) == ()


async def test_guards_are_compared_before_leases(store: Store, prefix: str) -> None:
    await put(store, prefix + "a")
    lease = await store.lease_grant(60.0)
    await store.lease_revoke(lease)
    conflict(await store.transact(txn(Put(prefix + "b", b"1", lease), when={prefix + "a": 0})))


async def test_what_was_committed_is_there_after_reopening(home: StoreHome, prefix: str) -> None:
    store = await home.open()
    kept = await put(store, prefix + "kept", b"\x00\xff")
    await put(store, prefix + "gone")
    gone = await delete(store, prefix + "gone")
    store = await home.reopen(store)
    assert [(kv.key, kv.value, kv.mod_revision) for kv in await list_all(store, prefix)] == [
        (prefix + "kept", b"\x00\xff", kept)
    ]
    assert await put(store, prefix + "new") > gone
    await store.close()
