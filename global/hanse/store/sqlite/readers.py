"""The threads that read: each with a connection of its own, never waiting for the writer (WAL)."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from hanse.store.contract import StoreUnavailable
from hanse.store.sqlite import file
from hanse.store.sqlite.faults import unavailable

READER_THREADS: Final = 2
READS_PENDING_MAX: Final = 10_000

T = TypeVar("T")


class Readers:
    """``run`` and ``close`` are called on the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="hanse-store-reader")
        self._mine = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._pending = 0

    async def run(self, query: Callable[[sqlite3.Connection], T], *, deadline_s: float) -> T:
        """The query's result; ``StoreUnavailable`` after the deadline or an error of SQLite."""
        if self._pending >= READS_PENDING_MAX:
            raise StoreUnavailable(f"store {self._path}: {self._pending} reads are waiting already: try again later")
        loop = asyncio.get_running_loop()
        self._pending += 1
        try:
            async with asyncio.timeout(deadline_s):
                return await loop.run_in_executor(self._executor, self._query, query)
        except TimeoutError:
            raise StoreUnavailable(f"store {self._path}: a read took longer than its deadline") from None
        finally:
            self._pending -= 1

    def close(self) -> None:
        """Blocks until the running queries have ended."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        for conn in self._all:
            conn.close()

    def _query(self, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            conn = getattr(self._mine, "conn", None)
            if conn is None:
                conn = self._mine.conn = file.connect(self._path)
                self._all.append(conn)
            return query(conn)
        except sqlite3.Error as error:
            self._forget()
            raise unavailable(error, self._path) from error

    def _forget(self) -> None:
        conn = getattr(self._mine, "conn", None)
        self._mine.conn = None
        if conn is not None:
            self._all.remove(conn)
            conn.close()
