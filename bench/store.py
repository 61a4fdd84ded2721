"""What the stores of one process can do: keys per second, milliseconds per transaction, alone and beside
a busy loop.

Every transaction is shaped like a commit of the scheduler: KEYS keys, all new but one (a pool's head),
all new ones guarded to be absent, one watch reading everything. WRITERS of them are under way at once.
"Busy" means that the event loop also runs BUSY_MS of Python in every turn, as a replica that schedules
does.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.contract import BenchArgs, BenchResult
from hanse.kit.clock import SystemClock
from hanse.store.contract import KEYS_END, Committed, ModRevisionIs, Put, Store, Txn, key_after
from hanse.store.memory import MemoryStore
from hanse.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class Load:
    writers: int
    keys: int
    value_bytes: int
    seconds: float
    busy_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    keys_per_s: float
    txn_ms_p50: float
    txn_ms_p99: float
    cpu_us_per_key: float


def run(args: Mapping[str, str]) -> BenchResult:
    read = BenchArgs(args)
    load = Load(
        writers=read.whole("WRITERS", 8),
        keys=read.whole("KEYS", 40, least=2),
        value_bytes=read.whole("VALUE_BYTES", 64, least=0),
        seconds=read.number("SECONDS", 5.0),
    )
    busy = Load(load.writers, load.keys, load.value_bytes, load.seconds, read.number("BUSY_MS", 2.0))
    given = read.done()
    memory = asyncio.run(_memory(load))
    sqlite, listing_keys_per_s = asyncio.run(_sqlite(load))
    sqlite_busy, _ = asyncio.run(_sqlite(busy))
    figures = {
        "memory_keys_per_s": memory.keys_per_s,
        "sqlite_keys_per_s": sqlite.keys_per_s,
        "sqlite_txn_ms_p50": sqlite.txn_ms_p50,
        "sqlite_txn_ms_p99": sqlite.txn_ms_p99,
        "sqlite_cpu_us_per_key": sqlite.cpu_us_per_key,
        "sqlite_busy_keys_per_s": sqlite_busy.keys_per_s,
        "sqlite_busy_txn_ms_p99": sqlite_busy.txn_ms_p99,
        "sqlite_listing_keys_per_s": listing_keys_per_s,
    }
    return BenchResult(figures, raw={"args": given})


async def _memory(load: Load) -> Measured:
    store = MemoryStore(SystemClock())
    measured = await _measure(store, load)
    await store.close()
    return measured


async def _sqlite(load: Load) -> tuple[Measured, float]:
    """And how many keys a second a listing of everything reads."""
    with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-store-") as folder:
        store = await SqliteStore.open(Path(folder) / "hanse.db", SystemClock())
        measured = await _measure(store, load)
        before = time.perf_counter()
        listed = await _list(store)
        listing = listed / (time.perf_counter() - before)
        await store.close()
    return measured, listing


async def _measure(store: Store, load: Load) -> Measured:
    end = time.perf_counter() + load.seconds
    watcher = asyncio.create_task(_watch(store), name="watcher")
    busy = asyncio.create_task(_be_busy(load.busy_ms, end), name="busy")
    before, cpu_before = time.perf_counter(), time.process_time()
    each = await asyncio.gather(*(_write(store, load, n, end) for n in range(load.writers)))
    seconds, cpu = time.perf_counter() - before, time.process_time() - cpu_before
    watcher.cancel()
    await asyncio.gather(watcher, busy, return_exceptions=True)
    txn_ms = sorted(ms for own in each for ms in own)
    keys = len(txn_ms) * load.keys
    return Measured(
        keys_per_s=keys / seconds,
        txn_ms_p50=txn_ms[len(txn_ms) // 2],
        txn_ms_p99=txn_ms[int(len(txn_ms) * 0.99)],
        cpu_us_per_key=cpu / keys * 1e6,
    )


async def _write(store: Store, load: Load, writer: int, end: float) -> list[float]:
    """Milliseconds of each transaction."""
    rng, value, txn_ms = random.Random(writer), bytes(load.value_bytes), list[float]()
    while time.perf_counter() < end:
        keys = [f"state/{writer:04}/{rng.getrandbits(64):016x}" for _ in range(load.keys - 1)]
        guards = tuple(ModRevisionIs(key, 0) for key in keys)
        txn = Txn(guards, (*(Put(key, value) for key in keys), Put(f"pools/{writer}/head/any", b"")))
        before = time.perf_counter()
        outcome = await store.transact(txn)
        txn_ms.append((time.perf_counter() - before) * 1e3)
        if not isinstance(outcome, Committed):
            raise RuntimeError(f"a transaction of a writer's own keys ended as {outcome}")
    return txn_ms


async def _watch(store: Store) -> None:
    revision = (await store.read([])).revision
    async with store.watch("", KEYS_END, from_revision=revision + 1) as watch:
        async for _ in watch:
            pass


async def _be_busy(busy_ms: float, end: float) -> None:
    while busy_ms and time.perf_counter() < end:
        turn_ends = time.perf_counter() + busy_ms / 1e3
        while time.perf_counter() < turn_ends:
            pass
        await asyncio.sleep(0)


async def _list(store: Store) -> int:
    count, start, more = 0, "", True
    while more:
        page = await store.range(start, KEYS_END)
        count, more = count + len(page.items), page.more
        start = key_after(page.items[-1].key) if page.items else start
    return count
