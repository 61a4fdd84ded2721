"""The writer when things go wrong around it: a file locked by others, a sync that fails, a bug, a full queue."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from hanse.kit.clock import SystemClock
from hanse.store.contract import Committed, Outcome, Put, StoreUnavailable, Txn, Unknown
from hanse.store.sqlite import SqliteStore, file
from hanse.store.sqlite.writer import QUEUE_JOBS_MAX


class FaultyConnection(sqlite3.Connection):
    """SQLite as it behaves on a bad disk: what ``fault`` raises comes out of the INSERT that commits, before it or
    (as when only the sync failed) after it took effect."""

    fault: Callable[[], Exception] | None = None
    takes_effect = False

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        fault = FaultyConnection.fault
        if fault is None or not sql.startswith("INSERT INTO versions"):
            return super().execute(sql, *parameters)
        FaultyConnection.fault = None
        if FaultyConnection.takes_effect:
            super().execute(sql, *parameters)
        raise fault()


def sync_failed() -> Exception:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    return error


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hanse.db"


@pytest_asyncio.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(path, SystemClock())
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def faulty(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    original = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: original(*a, factory=FaultyConnection, **k))
    opened = await SqliteStore.open(path, SystemClock())
    yield opened
    FaultyConnection.fault, FaultyConnection.takes_effect = None, False
    await opened.close()


async def taken_up(store: SqliteStore) -> None:
    """The writer has begun everything that was handed to it."""
    async with asyncio.timeout(30):
        while store._writer._queue:
            await store.read([])


def put(key: str) -> Txn:
    return Txn(ops=(Put(key, b"v"),))


async def test_a_failed_sync_is_unknown_and_the_store_goes_on(faulty: SqliteStore) -> None:
    await faulty.transact(put("before"))
    FaultyConnection.fault = sync_failed
    outcome = await faulty.transact(put("lost"))
    assert isinstance(outcome, Unknown)
    assert "SQLITE_IOERR_FSYNC" in outcome.cause
    assert isinstance(await faulty.transact(put("after")), Committed)
    assert list((await faulty.read(["before", "lost", "after"])).items) == ["before", "after"]


async def test_a_failed_sync_that_took_effect_reaches_the_watches(faulty: SqliteStore) -> None:
    first = await faulty.transact(put("before"))
    assert isinstance(first, Committed)
    async with faulty.watch("a", "z", from_revision=first.revision) as watch:
        live = await anext(aiter(watch))
        seen = [(event.kv.key, event.kv.mod_revision) for event in live.events]
        FaultyConnection.fault, FaultyConnection.takes_effect = sync_failed, True
        assert isinstance(await faulty.transact(put("kept")), Unknown)
        last = await faulty.transact(put("more"))
        assert isinstance(last, Committed)
        async with asyncio.timeout(30):
            while len(seen) < 3:
                batch = await anext(aiter(watch))
                seen += [(event.kv.key, event.kv.mod_revision) for event in batch.events]
    assert [key for key, _ in seen] == ["before", "kept", "more"]
    assert seen[0][1] < seen[1][1] < seen[2][1] == last.revision


async def test_a_bug_is_its_callers_problem_only(faulty: SqliteStore) -> None:
    FaultyConnection.fault = lambda: ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError):
        await faulty.transact(put("a"))
    assert isinstance(await faulty.transact(put("b")), Committed)
    assert list((await faulty.read(["a", "b"])).items) == ["b"]


async def test_a_file_locked_by_another_program(path: Path, store: SqliteStore) -> None:
    """What was begun when its deadline ends is unknown; what still waits then never happens; then all goes on."""
    intruder = sqlite3.connect(path, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    begun = asyncio.create_task(store.transact(put("begun"), deadline_s=0.3), name="begun")
    await asyncio.sleep(0)
    await taken_up(store)
    with pytest.raises(StoreUnavailable, match="nothing was done"):
        await store.transact(put("waiting"), deadline_s=0.1)
    assert isinstance(await begun, Unknown)
    with pytest.raises(StoreUnavailable, match="another program"):
        await store.transact(put("refused"))
    intruder.close()
    assert isinstance(await store.transact(put("after")), Committed)
    found = (await store.read(["begun", "waiting", "refused", "after"])).items
    assert "waiting" not in found
    assert "refused" not in found
    assert "after" in found


async def test_a_queue_that_is_full_refuses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.store.sqlite.file.BUSY_TIMEOUT_S", 60.0)  # the first one waits as long as it takes
    store = await SqliteStore.open(path, SystemClock())
    intruder = sqlite3.connect(path, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    first = asyncio.create_task(store.transact(put("first"), deadline_s=60.0), name="first")
    await asyncio.sleep(0)
    await taken_up(store)
    writes = [store.transact(put(f"k{n}"), deadline_s=60.0) for n in range(QUEUE_JOBS_MAX + 10)]
    many = [asyncio.create_task(write, name="write") for write in writes]
    await store.read(["first"])
    intruder.close()
    answers: list[Outcome | BaseException] = await asyncio.gather(first, *many, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, StoreUnavailable)]
    assert len(refused) == 10
    assert all("wait for the disk" in str(answer) for answer in refused)
    assert sum(isinstance(answer, Committed) for answer in answers) == len(answers) - len(refused)
    await store.close()


async def test_closing_finishes_what_waits(path: Path) -> None:
    store = await SqliteStore.open(path, SystemClock())
    writes = [asyncio.create_task(store.transact(put(f"k{n}")), name=f"k{n}") for n in range(500)]
    await store.read(["k0"])
    await store.close()
    assert all(isinstance(outcome, Committed) for outcome in await asyncio.gather(*writes))
    again = await SqliteStore.open(path, SystemClock())
    assert len((await again.range("k", "l")).items) == 500
    await again.close()


async def test_compaction_frees_what_nobody_can_read(path: Path, store: SqliteStore) -> None:
    for n in range(50):
        outcome = await store.transact(Txn(ops=tuple(Put(f"k{k:03}", b"%d" % n) for k in range(100))))
    assert isinstance(outcome, Committed)
    conn = file.connect(path)

    def versions() -> int:
        return int(conn.execute("SELECT count(*) FROM versions").fetchone()[0])

    assert versions() == 5000
    await store.compact(outcome.revision)
    async with asyncio.timeout(30):
        while versions() != 100:
            await store.read(["k000"])
    assert {kv.value for kv in (await store.range("k", "l")).items} == {b"49"}
    conn.close()
