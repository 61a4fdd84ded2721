"""The face of the embedded store on the event loop: deadlines, leases, watches, and what needs no file to be read.

A transaction is handed to the writer and waited for. If its deadline ends (or its caller is cancelled)
while it still waits in the queue, it is withdrawn and nothing was done; if the writer has begun it, the
outcome is unknown to the caller, although the store itself goes on to a definite end.
"""

import asyncio
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from hanse.kit.clock import Clock
from hanse.store import limits
from hanse.store.contract import (
    RANGE_ITEMS_MAX,
    READ_DEADLINE_S,
    WRITE_DEADLINE_S,
    Committed,
    Conflict,
    LeaseGone,
    Outcome,
    RangeResult,
    ReadResult,
    StoreUnavailable,
    Txn,
    Unknown,
    Watch,
    WatchBatch,
)
from hanse.store.feed import WatchHub
from hanse.store.leases import LeaseKeeper
from hanse.store.sqlite import file
from hanse.store.sqlite.faults import unavailable
from hanse.store.sqlite.lock import FileLock
from hanse.store.sqlite.readers import Readers
from hanse.store.sqlite.recent import Recent
from hanse.store.sqlite.writer import Answer, Compact, Done, Grant, Job, Jumped, Request, Revoke, Writer

_CLOSED: Final = "the store is closed"

SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread that wants the interpreter waits before it asks for it, for the whole process, if it was longer.

The default of 5 ms starves the store's threads behind an event loop that is busy in turns of a few milliseconds: a
commit took 1.7 s at the 99th percentile where it takes 12 ms like this. The loop loses nothing measurable."""

EXPIRY_RETRY_S: Final = 1.0
"""A lease whose keys could not be deleted (disk full) is tried again after so long."""


class SqliteStore:
    """A ``Store``; see ``contract.Store`` for what the calls promise. Made by ``open``."""

    def __init__(self, path: Path, clock: Clock, lock: FileLock) -> None:
        self._path = path
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._readers = Readers(path)
        self._writer = Writer(path, self._deliver_from_thread)
        self._hub = WatchHub(self, revision=self._writer.revision)
        self._recent = Recent()
        self._leases = LeaseKeeper(clock, self._expire)
        for lease, ttl_s in self._writer.leases.items():
            self._leases.grant(lease, ttl_s)

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> Self:
        """Open or create the file; ``StoreUnavailable`` at once if another process has it, or it is not
        ours."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        lock = await asyncio.get_running_loop().run_in_executor(None, _claim, path)
        try:
            return cls(path, clock, lock)
        except sqlite3.Error as error:
            lock.release()
            raise unavailable(error, path) from error

    async def read(self, keys: Sequence[str], *, deadline_s: float = READ_DEADLINE_S) -> ReadResult:
        limits.check_read(keys)
        await asyncio.sleep(0)  # a caller that asks again and again must not hold up what it waits for
        self._enter(deadline_s)
        told = self._hub.revision
        recent = self._recent.find(keys, told=told)
        if recent is not None:
            return ReadResult(recent, told)
        items, stamp = await self._readers.run(lambda conn: file.read_keys(conn, keys), deadline_s=deadline_s)
        found = {kv.key: kv for kv in items}
        self._recent.learn(keys, found, revision=stamp.revision, told=self._hub.revision)
        return ReadResult({key: found[key] for key in keys if key in found}, stamp.revision)

    async def range(
        self,
        start: str,
        end: str,
        *,
        limit: int = RANGE_ITEMS_MAX,
        at_revision: int = 0,
        keys_only: bool = False,
        deadline_s: float = READ_DEADLINE_S,
    ) -> RangeResult:
        limits.check_range(start, end, limit=limit, at_revision=at_revision)
        self._enter(deadline_s)
        page = await self._readers.run(
            lambda conn: file.read_page(conn, start, end, limit=limit, at_revision=at_revision, keys_only=keys_only),
            deadline_s=deadline_s,
        )
        self._recent.see(page.stamp.revision)
        limits.check_at_revision(at_revision, current=page.stamp.revision)
        return RangeResult(tuple(page.items), page.stamp.revision, page.more)

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Outcome:
        outcome = await self._ask(txn, deadline_s, size_bytes=limits.check_txn(txn))
        assert isinstance(outcome, Committed | Conflict | Unknown)
        return outcome

    def watch(self, start: str, end: str, *, from_revision: int) -> Watch:
        limits.check_watch(start, end, from_revision=from_revision)
        return self._hub.open(start, end, from_revision=from_revision)

    async def history(self, start: str, end: str, *, first: int, last: int) -> WatchBatch:
        """For the hub (``feed.History``)."""
        return await self._readers.run(
            lambda conn: file.read_events(conn, start, end, first=first, last=last), deadline_s=READ_DEADLINE_S
        )

    async def lease_grant(self, ttl_s: float) -> int:
        limits.check_ttl(ttl_s)
        lease = await self._ask(Grant(ttl_s), WRITE_DEADLINE_S)
        assert isinstance(lease, int)
        return lease

    async def lease_keep_alive(self, lease: int) -> float:
        self._enter(WRITE_DEADLINE_S)
        return self._leases.renew(lease)

    async def lease_revoke(self, lease: int) -> None:
        self._enter(WRITE_DEADLINE_S)
        self._leases.drop(lease)
        try:
            await self._ask(Revoke(lease), WRITE_DEADLINE_S)
        except BaseException:
            self._expire(lease)
            raise

    async def compact(self, revision: int) -> None:
        await self._ask(Compact(revision), WRITE_DEADLINE_S)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._leases.close()
        self._hub.close(_CLOSED)
        await self._loop.run_in_executor(None, self._stop)

    # --------------------------------------------------------------------------------------------- inside

    def _enter(self, deadline_s: float) -> None:
        if self._closed:
            raise StoreUnavailable(_CLOSED)
        if deadline_s <= 0:
            raise StoreUnavailable("the deadline was over before the call began; nothing was done")
        self._leases.look()

    async def _ask(self, request: Request, deadline_s: float, *, size_bytes: int = 0) -> Answer:
        """Hand a request to the writer and wait for its answer."""
        self._enter(deadline_s)
        job = Job(request, self._loop.create_future(), size_bytes=size_bytes)
        self._writer.submit(job)
        try:
            async with asyncio.timeout(deadline_s):
                return await job.answer
        except TimeoutError:
            return self._late(job, deadline_s)
        except asyncio.CancelledError:
            self._writer.withdraw(job)
            raise

    def _late(self, job: Job, deadline_s: float) -> Answer:
        """The deadline is over: what can be said about the request."""
        if job.answer.done() and not job.answer.cancelled():
            return job.answer.result()
        if self._writer.withdraw(job):
            raise StoreUnavailable(f"store {self._path}: busy for {deadline_s} s; nothing was done: try again later")
        cause = f"store {self._path}: the deadline of {deadline_s} s ended while the write was under way"
        if isinstance(job.request, Txn):
            return Unknown(cause)
        raise StoreUnavailable(cause)

    def _deliver_from_thread(self, news: Done | Jumped) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver, news)
        except RuntimeError:
            # The loop was closed without closing the store: nobody is left to be told, and the thread must
            # live on to finish what was handed to it.
            return

    def _deliver(self, news: Done | Jumped) -> None:
        if isinstance(news, Jumped):
            self._recent.forget()
            self._hub.jump(news.revision)
            return
        self._recent.tell(news.events)
        self._answer(news)  # before the watches: who wrote something need not be told what it was
        self._hub.publish(news.revision, news.events)

    def _answer(self, news: Done) -> None:
        for job, answer in news.answers:
            if isinstance(answer, Unknown | Exception):
                self._recent.forget()
            if isinstance(job.request, Grant) and isinstance(answer, int) and not self._closed:
                self._leases.grant(answer, job.request.ttl_s)
            if job.answer.done():
                continue
            if isinstance(answer, Exception):
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)

    def _expire(self, lease: int) -> None:
        """Have the keys of a lease that the keeper has dropped deleted, however often it takes."""
        if self._closed:
            return
        job = Job(Revoke(lease), self._loop.create_future())
        job.answer.add_done_callback(lambda answer: self._expired(lease, answer))
        try:
            self._writer.submit(job)
        except StoreUnavailable as error:
            job.answer.set_exception(error)

    def _expired(self, lease: int, answer: "asyncio.Future[Answer]") -> None:
        error = answer.exception()
        if error is not None and not isinstance(error, LeaseGone):
            self._loop.call_later(EXPIRY_RETRY_S, self._expire, lease)

    def _stop(self) -> None:
        self._writer.close()
        self._readers.close()
        self._lock.release()


def _claim(path: Path) -> FileLock:
    """The lock on a file that is ours, made if there was none."""
    lock = FileLock(path)
    try:
        file.create_or_check(path)
    except StoreUnavailable:
        lock.release()
        raise
    return lock
