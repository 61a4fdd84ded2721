"""What the stores can do: keys per second, milliseconds per transaction, microseconds of CPU per key; SQLite alone
and beside a busy loop, etcd (one member on the disk of this folder; MEMBERS=3 for three) for some sizes of
transactions.

Every transaction is shaped like a commit of the scheduler: KEYS keys, all new but one (a pool's head), every one of
them guarded, one watch reading everything. WRITERS of them are under way at once. "Busy" means that the event loop
also runs BUSY_MS of Python in every turn, as a replica that schedules does. etcd is measured with KEYS_ETCD keys a
transaction (a list) and as many writers as keep about ETCD_KEYS keys under way; the CPU of making the transactions is
left out of the client's, the watch that reads them back is not.
"""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.contract import BenchArgs, BenchResult, JsonValue
from hanse.kit.clock import SystemClock
from hanse.kit.process import run as run_on_uvloop
from hanse.store.contract import KEYS_END, Committed, ModRevisionIs, Put, Store, Txn, key_after
from hanse.store.etcd import EtcdStore
from hanse.store.memory import MemoryStore
from hanse.store.sqlite import SqliteStore
from tests.services.binaries import find
from tests.services.etcd import EtcdServers

ETCD_FIGURES = ("keys_per_s", "txn_ms_p50", "txn_ms_p99", "client_us_per_key", "server_us_per_key")
ETCD_WRITERS_MAX = 64


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
    txns: int = 0


def run(args: Mapping[str, str]) -> BenchResult:
    read = BenchArgs(args)
    load = Load(
        writers=read.whole("WRITERS", 8),
        keys=read.whole("KEYS", 40, least=2),
        value_bytes=read.whole("VALUE_BYTES", 64, least=0),
        seconds=read.number("SECONDS", 5.0),
    )
    busy = Load(load.writers, load.keys, load.value_bytes, load.seconds, read.number("BUSY_MS", 2.0))
    sizes = [int(part) for part in read.text("KEYS_ETCD", "1,16,40,120").split(",")]
    under_way, members = read.whole("ETCD_KEYS", 1_000), read.whole("MEMBERS", 1)
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
    etcd, why = _etcd(load, sizes, under_way, members)
    return BenchResult({**figures, **etcd}, raw={"args": given, "etcd": why})


def _etcd(
    load: Load, sizes: Sequence[int], under_way: int, members: int
) -> tuple[dict[str, float | None], JsonValue]:
    """Figures for each size, and what they were made of; without a server, None for each and the reason."""
    names = [f"etcd_{keys}_{what}" for keys in sizes for what in ETCD_FIGURES]
    if find("etcd") is None:
        return dict.fromkeys(names), "etcd is not installed: `make services`"
    figures: dict[str, float | None] = {}
    raw: dict[str, JsonValue] = {}
    with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-store-") as folder:
        servers = EtcdServers(Path(folder), members=members)
        try:
            servers.start()
            for keys in sizes:
                writers = max(1, min(ETCD_WRITERS_MAX, under_way // keys))
                own = Load(writers, keys, load.value_bytes, load.seconds)
                before_s = sum(member.cpu_s() for member in servers.members)
                measured = run_on_uvloop(_measure_etcd(servers, own))
                server_s = sum(member.cpu_s() for member in servers.members) - before_s
                figures[f"etcd_{keys}_keys_per_s"] = measured.keys_per_s
                figures[f"etcd_{keys}_txn_ms_p50"] = measured.txn_ms_p50
                figures[f"etcd_{keys}_txn_ms_p99"] = measured.txn_ms_p99
                figures[f"etcd_{keys}_client_us_per_key"] = measured.cpu_us_per_key
                figures[f"etcd_{keys}_server_us_per_key"] = server_s / (measured.txns * keys) * 1e6
                raw[str(keys)] = {"writers": writers, "txns": measured.txns}
        finally:
            servers.stop()
    return figures, raw


async def _measure_etcd(servers: EtcdServers, load: Load) -> Measured:
    store = await EtcdStore.open(servers.options())
    measured = await _measure(store, load)
    await store.close()
    return measured


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
    making = Stopwatch()
    each = await asyncio.gather(*(_write(store, load, n, end, making) for n in range(load.writers)))
    seconds, cpu = time.perf_counter() - before, time.process_time() - cpu_before - making.cpu_s
    watcher.cancel()
    await asyncio.gather(watcher, busy, return_exceptions=True)
    txn_ms = sorted(ms for own in each for ms in own)
    keys = len(txn_ms) * load.keys
    return Measured(
        keys_per_s=keys / seconds,
        txn_ms_p50=txn_ms[len(txn_ms) // 2],
        txn_ms_p99=txn_ms[int(len(txn_ms) * 0.99)],
        cpu_us_per_key=cpu / keys * 1e6,
        txns=len(txn_ms),
    )


async def _write(store: Store, load: Load, writer: int, end: float, making: "Stopwatch") -> list[float]:
    """Milliseconds of each transaction."""
    rng, value, txn_ms = random.Random(), bytes(load.value_bytes), list[float]()
    head, at = f"pools/{rng.getrandbits(64):016x}/head/any", 0
    while time.perf_counter() < end:
        with making:
            keys = [f"state/{writer:04}/{rng.getrandbits(64):016x}" for _ in range(load.keys - 1)]
            guards = (*(ModRevisionIs(key, 0) for key in keys), ModRevisionIs(head, at))
            txn = Txn(guards, (*(Put(key, value) for key in keys), Put(head, b"")))
        before = time.perf_counter()
        outcome = await store.transact(txn)
        txn_ms.append((time.perf_counter() - before) * 1e3)
        if not isinstance(outcome, Committed):
            raise RuntimeError(f"a transaction of a writer's own keys ended as {outcome}")
        at = outcome.revision
    return txn_ms


class Stopwatch:
    """CPU of this thread while it is entered, in seconds."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self._since_s = 0.0

    def __enter__(self) -> None:
        self._since_s = time.thread_time()

    def __exit__(self, *exc: object) -> None:
        self.cpu_s += time.thread_time() - self._since_s


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
