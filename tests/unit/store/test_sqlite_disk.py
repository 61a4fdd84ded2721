"""A disk that is full: one clear line, nothing half done, reads go on, and so do writes once there is room."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanse.kit.clock import SystemClock
from hanse.store.contract import Committed, ModRevisionIs, Outcome, Put, Store, StoreUnavailable, Txn, prefix_end
from hanse.store.sqlite import SqliteStore

LIMITED = Path(__file__).with_name("limited_writer.py")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "hanse-test", str(tmp_path)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def txn(n: int) -> Txn:
    return Txn((ModRevisionIs(f"a/{n:05}", 0),), (Put(f"a/{n:05}", bytes(20_000)), Put(f"b/{n:05}", b"%d" % n)))


async def fill(store: Store, start: int) -> tuple[int, StoreUnavailable]:
    """Write until it is refused: the first number refused, and the refusal."""
    for n in range(start, start + 10_000):
        try:
            assert isinstance(await store.transact(txn(n)), Committed)
        except StoreUnavailable as error:
            return n, error
    raise AssertionError("the disk never became full")


async def numbers(store: Store, prefix: str) -> list[int]:
    page = await store.range(prefix, prefix_end(prefix), keys_only=True)
    return [int(kv.key[2:]) for kv in page.items]


async def test_a_full_disk(small_disk: Path) -> None:
    path, ballast = small_disk / "hanse.db", small_disk / "ballast"
    ballast.write_bytes(bytes(2_000_000))
    store = await SqliteStore.open(path, SystemClock())
    refused, error = await fill(store, 0)
    assert str(path) in str(error)
    assert "free" in str(error)
    assert "\n" not in str(error)

    assert await numbers(store, "a/") == await numbers(store, "b/") == list(range(refused))
    again: list[Outcome | BaseException] = await asyncio.gather(
        *(store.transact(txn(refused + n)) for n in range(20)), return_exceptions=True
    )
    assert all(isinstance(answer, StoreUnavailable) for answer in again)

    ballast.unlink()
    outcomes = await asyncio.gather(*(store.transact(txn(refused + n)) for n in range(20)))
    assert all(isinstance(outcome, Committed) for outcome in outcomes)
    assert await numbers(store, "a/") == await numbers(store, "b/") == list(range(refused + 20))

    full, _ = await fill(store, refused + 20)
    await store.close()
    (small_disk / "hanse.db.lock").write_bytes(b"")
    store = await SqliteStore.open(path, SystemClock())
    assert await numbers(store, "a/") == await numbers(store, "b/") == list(range(full))
    await store.close()


async def test_a_watch_sees_nothing_of_what_a_full_disk_refused(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2_000_000))
    store = await SqliteStore.open(small_disk / "hanse.db", SystemClock())
    async with store.watch("b/", "b0", from_revision=1) as watch:
        refused, _ = await fill(store, 0)
        ballast.unlink()
        await store.transact(txn(refused + 1))
        seen: list[int] = []
        async with asyncio.timeout(30):
            while len(seen) < refused + 1:
                seen += [int(event.kv.value) for event in (await anext(aiter(watch))).events]
    assert seen == [*range(refused), refused + 1]
    await store.close()


async def test_a_lease_that_runs_out_on_a_full_disk_ends_once_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2_000_000))
    store = await SqliteStore.open(small_disk / "hanse.db", SystemClock())
    lease = await store.lease_grant(0.3)
    outcome = await store.transact(Txn(ops=(Put("leased", b"", lease),)))
    assert isinstance(outcome, Committed)
    await fill(store, 0)
    ballast.unlink()
    async with asyncio.timeout(30), store.watch("leased", "leasee", from_revision=outcome.revision + 1) as watch:
        await anext(aiter(watch))
    assert "leased" not in (await store.read(["leased"])).items
    await store.close()


def test_a_file_size_limit_that_is_lifted(tmp_path: Path) -> None:
    """The same without a mount: RLIMIT_FSIZE makes the kernel refuse writes beyond a size."""
    done = subprocess.run(
        [sys.executable, str(LIMITED), str(tmp_path / "hanse.db")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    refused, message, after = done.stdout.splitlines()
    assert int(refused) > 0
    assert "free some space" in message
    assert int(after) == int(refused) + 1
