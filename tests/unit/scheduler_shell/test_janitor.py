"""History is compacted after the promised time, by whoever runs, however often they are started again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from hanse.scheduler.shell.janitor import MARKS_MAX, ROUNDS, keep_history, known_until, marked
from hanse.store import keys
from hanse.store.contract import Compacted, Outcome, Put, Store, StoreFull, Txn
from hanse.store.memory import MemoryStore
from hanse.store.schema import HistoryMark, HistoryValue, decode, encode
from tests.unit.scheduler_shell.puppet import CLOCK

HISTORY_S = 0.5
DAY_MS = 86_400_000


def marks(*times_ms: int) -> list[HistoryMark]:
    """At each time a hundredth of it was the revision."""
    return [HistoryMark(at_ms, at_ms // 100) for at_ms in times_ms]


@pytest.mark.parametrize(
    ("known", "time_ms", "revision"),
    [
        (marks(), 5_000, 0),
        (marks(6_000), 5_000, 0),
        (marks(3_000, 5_000, 6_000), 5_000, 50),
        (marks(6_000, 3_000), 5_000, 30),
    ],
)
def test_what_is_known_to_be_so_old(known: list[HistoryMark], time_ms: int, revision: int) -> None:
    assert known_until(known, time_ms) == revision


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("the first", marks(), marks(9_000)),
        ("a young one is enough", marks(8_501), None),
        ("the next is due", marks(8_500), marks(8_500, 9_000)),
        ("one of a wrong clock goes", marks(8_900, 70_000), marks(8_900, 9_000)),
        ("old ones go", marks(*range(1_000, 1_000 + MARKS_MAX)), marks(*range(1_001, 1_000 + MARKS_MAX), 9_000)),
    ],
)
def test_when_a_mark_is_added(what: str, before: list[HistoryMark], after: list[HistoryMark] | None) -> None:
    assert marked(before, HistoryMark(9_000, 90), every_ms=1_000) == after, what


@asynccontextmanager
async def kept(store: Store, *, history_s: float = HISTORY_S) -> AsyncIterator[None]:
    task = asyncio.create_task(keep_history(store, CLOCK, history_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def put(store: Store, text: bytes = b"") -> int:
    await store.transact(Txn((), (Put("a", text),)))
    return (await store.read([])).revision


async def is_gone(store: Store, revision: int) -> bool:
    try:
        await store.range("a", "b", at_revision=revision)
    except Compacted:
        return True
    return False


async def gone(store: Store, revision: int) -> None:
    async with asyncio.timeout(10):
        while not await is_gone(store, revision):  # noqa: ASYNC110 - it is the store's to say
            await asyncio.sleep(0.01)


async def test_history_goes_after_its_time_and_not_before() -> None:
    store = MemoryStore(CLOCK)
    first = await put(store)
    await put(store)
    begun_s = CLOCK.monotonic()
    async with kept(store):
        await gone(store, first)
    assert CLOCK.monotonic() - begun_s >= HISTORY_S


async def test_history_goes_although_nobody_runs_for_as_long() -> None:
    """Started again and again, each for a fraction of the time."""
    store = MemoryStore(CLOCK)
    first = await put(store)
    async with asyncio.timeout(10):
        while not await is_gone(store, first):
            await put(store)
            async with kept(store):
                await asyncio.sleep(1.5 * HISTORY_S / ROUNDS)


async def test_several_replicas_write_one_mark_together() -> None:
    store = MemoryStore(CLOCK)
    async with kept(store), kept(store), kept(store):
        await gone(store, await put(store))
    found = (await store.read([keys.HISTORY])).items[keys.HISTORY]
    times_ms = [mark.at_ms for mark in decode(found.value, HistoryValue).marks]
    apart = [later - earlier for earlier, later in pairwise(times_ms)]
    assert apart
    assert min(apart) >= HISTORY_S * 1000 / ROUNDS / 2 - 1


async def test_a_full_store_is_compacted_all_the_same() -> None:
    """No mark can be written, and what the replica knows itself is enough."""

    class Full(MemoryStore):
        async def transact(self, txn: Txn, **terms: float) -> Outcome:
            if any(op.key == keys.HISTORY for op in txn.ops):
                raise StoreFull("no room")
            return await super().transact(txn, **terms)

    store = Full(CLOCK)
    first = await put(store)
    await put(store)
    async with kept(store):
        await gone(store, first)
    assert not (await store.read([keys.HISTORY])).items


async def test_marks_of_another_are_believed_at_once() -> None:
    store = MemoryStore(CLOCK)
    first = await put(store)
    second = await put(store)
    old = HistoryValue([HistoryMark(CLOCK.now_ms() - 2 * DAY_MS, second)])
    await store.transact(Txn((), (Put(keys.HISTORY, encode(old)),)))
    async with kept(store, history_s=86_400):
        await gone(store, first)
        assert not await is_gone(store, second)
