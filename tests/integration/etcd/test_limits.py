"""What is bounded: history, the database, the buffer of a slow reader."""

import asyncio
from collections.abc import Iterator

import pytest

from hanse.store.contract import (
    KEYS_END,
    RANGE_BYTES_MAX,
    Committed,
    Compacted,
    Conflict,
    Delete,
    ModRevisionIs,
    Put,
    StoreUnavailable,
    Txn,
    key_after,
)
from hanse.store.etcd import EtcdStore, cluster
from hanse.store.etcd.watch import WATCH_BUFFER_EVENTS_MAX
from tests.contract.store_contract.acts import collect_events, committed, delete, get, list_all, put, revisions, txn
from tests.integration.etcd.ledger import first, until
from tests.services.etcd import EtcdServers, etcd_servers
from tests.services.etcd_admin import Operator

QUOTA_BYTES = 16 * 1024 * 1024


@pytest.fixture
def small() -> Iterator[EtcdServers]:
    """With room for 16 MiB."""
    with etcd_servers(flags=["--quota-backend-bytes", str(QUOTA_BYTES)]) as servers:
        yield servers


async def fill(store: EtcdStore) -> dict[str, bool]:
    """Write until there is no space; which keys are known to be there, and which not."""
    known: dict[str, bool] = {}
    at = await put(store, "head")
    while True:
        key = f"big/{len(known):03}"
        txn_ = Txn((ModRevisionIs(key, 0), ModRevisionIs("head", at)), (Put(key, bytes(1_000_000)), Put("head", b"")))
        try:
            outcome = await store.transact(txn_)
        except StoreUnavailable:
            known[key] = False
        else:
            if isinstance(outcome, Committed):
                known[key], at = True, outcome.revision
                continue
        await until(lambda: store._cluster.full)
        return known


async def test_a_full_database_is_unavailable_says_what_to_do_and_comes_back(small: EtcdServers) -> None:
    store = await EtcdStore.open(small.options())
    first = await put(store, "kept", b"1")
    known = await fill(store)
    with pytest.raises(StoreUnavailable, match=r"NOSPACE.*defrag") as caught:
        await put(store, "more")
    assert "\n" not in str(caught.value)
    present = {kv.key for kv in (await store.range("big/", "big0", keys_only=True)).items}
    assert {key: key in present for key in known} == known
    kv = await get(store, "kept")
    assert kv is not None
    assert kv.mod_revision == first
    for key in present:
        await delete(store, key)
    await store.compact((await store.read([])).revision)
    operator = Operator(small)

    def has_room() -> bool:
        """Compaction goes on after its answer."""
        operator.defragment()
        return small.status(0).db_size < QUOTA_BYTES // 2

    await until(has_room)
    operator.disarm()
    await until(lambda: not store._cluster.full)
    await put(store, "more")
    await store.close()


async def test_crossing_the_quota_under_load_contradicts_nothing(small: EtcdServers) -> None:
    """Many at once: etcd applies some of those that it says it has no room for."""
    store = await EtcdStore.open(small.options())
    fates: dict[str, str] = {}

    async def fill(writer: int) -> None:
        head = f"head/{writer:02}"
        at = await put(store, head)
        for n in range(40):
            key = f"big/{writer:02}/{n:02}"
            guards = (ModRevisionIs(key, 0), ModRevisionIs(head, at))
            try:
                outcome = await store.transact(Txn(guards, (Put(key, bytes(100_000)), Put(head, b""))))
            except StoreUnavailable:
                fates[key] = "refused"
                return
            fates[key] = "committed" if isinstance(outcome, Committed) else "unknown"
            if not isinstance(outcome, Committed):
                return
            at = outcome.revision

    await asyncio.gather(*(fill(n) for n in range(16)))
    present = {kv.key for kv in (await store.range("big/", "big0", keys_only=True)).items}
    assert {"refused", "unknown"} & set(fates.values())
    assert all(fate == "unknown" or (key in present) == (fate == "committed") for key, fate in fates.items())
    await store.close()


async def test_deletes_pass_while_the_database_is_full(small: EtcdServers) -> None:
    store = await EtcdStore.open(small.options())
    await put(store, "old")
    await fill(store)
    with pytest.raises(StoreUnavailable, match="NOSPACE"):
        await put(store, "new")
    assert isinstance(await store.transact(Txn((), (Delete("old"),))), Committed)
    await store.close()


async def test_a_reader_that_sleeps_costs_one_buffer_and_misses_nothing(one: EtcdServers) -> None:
    store = await EtcdStore.open(one.options())
    start = (await store.read([])).revision + 1
    slow, quick = (store.watch("", KEYS_END, from_revision=start) for _ in range(2))
    written = [committed(await store.transact(txn(Put("first", b""))))]
    assert len(await collect_events(slow, 1)) == 1
    rounds = WATCH_BUFFER_EVENTS_MAX // 100 * 2
    for n in range(rounds):
        written.append(committed(await store.transact(txn(*(Put(f"k{k:03}", b"%d" % n) for k in range(100))))))
    expected = written[:1] + [revision for revision in written[1:] for _ in range(100)]
    assert revisions(await collect_events(quick, len(expected))) == expected
    assert slow._events <= WATCH_BUFFER_EVENTS_MAX  # type: ignore[attr-defined]
    assert revisions(await collect_events(slow, len(expected) - 1)) == expected[1:]
    live = await put(store, "live")
    assert revisions(await collect_events(slow, 1)) == [live]
    await store.close()


async def test_a_reader_that_sleeps_past_a_compaction_is_told_after_what_it_had(one: EtcdServers) -> None:
    store = await EtcdStore.open(one.options())
    start = (await store.read([])).revision + 1
    slow = store.watch("", KEYS_END, from_revision=start)
    written: list[int] = []
    for n in range(WATCH_BUFFER_EVENTS_MAX // 100 * 2):
        written.append(committed(await store.transact(txn(*(Put(f"k{k:03}", b"%d" % n) for k in range(100))))))
    await until(lambda: slow._waits_for_room)  # type: ignore[attr-defined]
    await store.compact(written[-1])
    expected = [revision for revision in written for _ in range(100)]
    found: list[int] = []
    told = 0
    try:
        async for batch in slow:
            found += revisions(list(batch.events))
    except Compacted as error:
        told = error.compact_revision
    assert told == written[-1]
    assert 0 < len(found) < len(expected)
    assert found == expected[: len(found)]
    await store.close()


async def test_what_compaction_drops_is_never_missed_silently(one: EtcdServers) -> None:
    """A tombstone at the very revision of a compaction is gone: a watch that begins there must say so."""
    store = await EtcdStore.open(one.options())
    await put(store, "a")
    edge = await delete(store, "a")
    await put(store, "b")
    await store.compact(edge)
    async with store.watch("", KEYS_END, from_revision=edge) as watch:
        with pytest.raises(Compacted):
            await first(watch)
    async with store.watch("", KEYS_END, from_revision=edge + 1) as watch:
        assert len(await collect_events(watch, 1)) == 1
    await store.close()


async def test_an_idle_watch_moves_forward_and_survives_a_compaction() -> None:
    """etcd says from time to time how far a watch has got; so it can go on after a compaction and a restart."""
    with etcd_servers(flags=["--experimental-watch-progress-notify-interval", "100ms"]) as servers:
        store = await EtcdStore.open(servers.options())
        start = (await store.read([])).revision + 1
        async with store.watch("idle/", "idle0", from_revision=start) as watch:
            last = [await put(store, "busy") for _ in range(10)][-1]
            batch = await first(watch)
            while batch.revision < last:
                batch = await first(watch)
            assert batch.events == ()
            await store.compact(last)
            servers.members[0].kill()
            servers.start()
            revision = await put(store, "idle/a")
            assert revisions(await collect_events(watch, 1)) == [revision]
        await store.close()


async def test_a_store_that_went_back_is_not_used(one: EtcdServers) -> None:
    """Restored from an older backup: what it acknowledged is gone, so every replica has to begin anew."""
    store = await EtcdStore.open(one.options())
    for _ in range(5):
        await put(store, "a")
    store._cluster.see(10_000, floor=0)
    with pytest.raises(StoreUnavailable, match="has gone back from revision 10000"):
        await store.read(["a"])
    with pytest.raises(StoreUnavailable, match="start them again"):
        await put(store, "a")
    await store.close()


async def test_long_listings_come_in_pages_of_one_revision(one: EtcdServers) -> None:
    """Small and large values mixed: no page is much above its bytes, and all are from the first one's revision."""
    store = await EtcdStore.open(one.options())
    for at in range(0, 3000, 100):
        await store.transact(txn(*(Put(f"state/{n:05}", bytes(64)) for n in range(at, at + 100))))
    for n in range(20):
        await put(store, f"state/zz{n:02}", bytes(1_400_000))
    written = [kv.key for kv in await list_all(store, "state/0")]
    assert len(written) == 3000
    assert await _keys_by_pages(store) == [*written, *(f"state/zz{n:02}" for n in range(20))]
    await store.close()


async def _keys_by_pages(store: EtcdStore) -> list[str]:
    """Keys that come up while it is read are not in it."""
    found: list[str] = []
    start, revision, more = "state/", 0, True
    while more:
        page = await store.range(start, "state0", at_revision=revision)
        assert sum(len(kv.value) for kv in page.items) < 2 * RANGE_BYTES_MAX
        revision = revision or page.revision
        found += [kv.key for kv in page.items]
        more = page.more
        start = key_after(found[-1])
        await put(store, f"{found[-1]}-new")
    return found


async def test_a_conflict_that_was_compacted_meanwhile_tells_what_is_so_now(one: EtcdServers) -> None:
    store = await EtcdStore.open(one.options())
    old = await put(store, "head", b"1")
    new = await put(store, "head", b"2")
    await store.compact(new)
    guarded = txn(Put("head", b"3"), when={"head": old})
    until_s = asyncio.get_running_loop().time() + 5.0
    assert await store._conflict(guarded, old, until_s) == Conflict(new, {"head": new})
    await store.close()


async def test_a_lease_is_kept_whatever_else_is_under_way(one: EtcdServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """J2: a replica that has as many requests under way as it may have stays a member."""
    store = await EtcdStore.open(one.options())
    lease = await store.lease_grant(60.0)
    monkeypatch.setattr(cluster, "CALLS_MAX", 4)
    busy = [asyncio.create_task(put(store, f"busy/{n}")) for n in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="under way"):
        await store.read(["busy/0"])
    assert await store.lease_keep_alive(lease) == 60.0
    await asyncio.gather(*busy)
    await store.close()
