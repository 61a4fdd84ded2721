"""The one thread that writes: group commit.

Whatever waits when the thread comes back from the disk is one group: the heads of all keys that the group
names are read at once, each transaction is judged in turn over what its predecessors in the group did,
and all events of the group go to the file in one INSERT, which is one commit and one sync. Each
transaction keeps its own guards, revision and outcome. If the group's commit fails, none of it happened,
and each caller is told so (or that it is unknown, see ``faults``); the next group starts from what the
file then says. So a full disk needs no restart.

The alternative, one SQLite transaction per transaction, costs a sync each: 2,000 a second on a good disk,
100 on a laptop's.

Jobs cross threads in both directions: ``submit`` and ``withdraw`` are called on the event loop, outcomes
go back with ``loop.call_soon_threadsafe``, in the order of commits.
"""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hanse.store.contract import (
    Committed,
    Conflict,
    Event,
    EventKind,
    LeaseGone,
    Outcome,
    StoreError,
    StoreUnavailable,
    Txn,
    Unknown,
)
from hanse.store.judge import deletion, judge
from hanse.store.limits import check_compact
from hanse.store.sqlite import file
from hanse.store.sqlite.faults import is_ambiguous, unavailable

QUEUE_JOBS_MAX: Final = 10_000
QUEUE_BYTES_MAX: Final = 256 * 1_024 * 1_024
"""What may wait for the disk; beyond it ``submit`` refuses."""

GROUP_ENTRIES_MAX: Final = 4_000
GROUP_BYTES_MAX: Final = 16 * 1_024 * 1_024
"""A group takes no further transaction once it has so many operations and guards, or bytes."""

LEASE_KEYS_STEP: Final = 10_000
"""Keys of a lease that are deleted at one revision."""

PURGE_EVERY_GROUPS: Final = 4
"""While there is work, a compaction advances one step after so many groups."""


@dataclass(frozen=True, slots=True)
class Grant:
    ttl_s: float


@dataclass(frozen=True, slots=True)
class Revoke:
    lease: int


@dataclass(frozen=True, slots=True)
class Compact:
    revision: int


Request = Txn | Grant | Revoke | Compact


Answer = Outcome | int | None
"""Of a ``Txn``, of a ``Grant`` (the lease), of the others."""


class Job:
    """A request on its way through the writer; ``answer`` belongs to the loop, ``size_bytes`` is a transaction's."""

    __slots__ = ("answer", "begun", "request", "size_bytes", "withdrawn")

    def __init__(self, request: Request, answer: "asyncio.Future[Answer]", *, size_bytes: int = 0) -> None:
        self.request = request
        self.answer = answer
        self.size_bytes = size_bytes
        self.begun = False
        self.withdrawn = False


@dataclass(frozen=True, slots=True)
class Done:
    """What one group did: ``revision`` is the store's after it; ``events`` lead there from the last
    ``Done``."""

    revision: int
    events: Sequence[Event]
    answers: Sequence[tuple[Job, Answer | Exception]]


@dataclass(frozen=True, slots=True)
class Jumped:
    """A commit whose sync failed has happened after all: its events are in the file only."""

    revision: int


class Writer:
    """Owns the writing connection and the thread. ``deliver`` is called in that thread."""

    def __init__(self, path: Path, deliver: Callable[[Done | Jumped], None]) -> None:
        self._path = path
        self._deliver = deliver
        self._conn: sqlite3.Connection | None = file.connect(path)
        self.revision = file.stamp(self._conn).revision
        self.leases = file.leases(self._conn)
        self._purging = True
        self._queue: deque[Job] = deque()
        self._queue_bytes = 0
        self._closing = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="hanse-store-writer", daemon=True)
        self._thread.start()

    # ---------------------------------------------------------------------------------------- on the loop

    def submit(self, job: Job) -> None:
        with self._change:
            if self._closing:
                raise StoreUnavailable("the store is closed")
            if len(self._queue) >= QUEUE_JOBS_MAX or self._queue_bytes + job.size_bytes > QUEUE_BYTES_MAX:
                raise StoreUnavailable(
                    f"store {self._path}: {len(self._queue)} transactions wait for the disk already: try again later"
                )
            self._queue.append(job)
            self._queue_bytes += job.size_bytes
            self._change.notify()

    def withdraw(self, job: Job) -> bool:
        """True if the job was not begun and never will be."""
        with self._change:
            job.withdrawn = not job.begun
            return job.withdrawn

    def close(self) -> None:
        """Finish what waits, then stop; blocks until the thread has ended."""
        with self._change:
            self._closing = True
            self._change.notify()
        self._thread.join()

    # -------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        groups = 0
        while True:
            group = self._next_group()
            if group:
                self._work(group)
                groups += 1
            elif self._closing:
                break
            if self._purging and (not group or groups % PURGE_EVERY_GROUPS == 0):
                self._purge()
        if self._conn is not None:
            self._conn.close()

    def _next_group(self) -> list[Job]:
        """Transactions up to a group's limits, or one other request; empty if a purge or the end is due."""
        group: list[Job] = []
        entries = size_bytes = 0
        with self._change:
            while not (self._queue or self._closing or self._purging):
                self._change.wait()
            while self._queue and entries < GROUP_ENTRIES_MAX and size_bytes < GROUP_BYTES_MAX:
                request = self._queue[0].request
                if group and not isinstance(request, Txn):
                    break
                job = self._queue.popleft()
                self._queue_bytes -= job.size_bytes
                if job.withdrawn:
                    continue
                job.begun = True
                group.append(job)
                if not isinstance(request, Txn):
                    break
                entries += len(request.guards) + len(request.ops)
                size_bytes += job.size_bytes
        return group

    def _work(self, group: list[Job]) -> None:
        """Never raises: whatever happens is somebody's answer."""
        try:
            if self._conn is None:
                self._recover()
            done = self._perform(group)
        except sqlite3.Error as error:
            done = self._failed(group, error)
        except StoreError as error:
            done = self._refused(group, error)
        except Exception as error:  # a bug: its callers get it, everybody else's store goes on
            self._reset()
            done = self._refused(group, error)
        self._deliver(done)

    def _perform(self, group: list[Job]) -> Done:
        match group[0].request:
            case Txn():
                return self._transact(group)
            case Grant(ttl_s):
                lease = file.add_lease(self._open, ttl_s)
                self.leases[lease] = ttl_s
                return Done(self.revision, (), [(group[0], lease)])
            case Revoke(lease):
                return self._revoke(group[0], lease)
            case Compact(revision):
                check_compact(revision, current=self.revision)
                file.compact(self._open, revision)
                self._purging = True
                return Done(self.revision, (), [(group[0], None)])

    def _transact(self, group: list[Job]) -> Done:
        txns = [job.request for job in group if isinstance(job.request, Txn)]
        keys = dict.fromkeys(entry.key for txn in txns for entry in (*txn.guards, *txn.ops))
        heads = file.heads_of(self._open, keys) if keys else {}
        revision = self.revision
        events: list[Event] = []
        answers: list[tuple[Job, Answer | Exception]] = []
        for job, txn in zip(group, txns, strict=True):
            verdict = judge(txn, revision=revision, head_of=heads.get, lease_lives=self.leases.__contains__)
            if isinstance(verdict, Conflict | LeaseGone):
                answers.append((job, verdict))
                continue
            if verdict:
                revision += 1
                events.extend(verdict)
            for event in verdict:
                if event.kind is EventKind.PUT:
                    heads[event.kv.key] = (event.kv.create_revision, revision)
                else:
                    heads.pop(event.kv.key, None)
            answers.append((job, Committed(revision)))
        if events:
            file.append(self._open, events)
        self.revision = revision
        return Done(revision, events, answers)

    def _revoke(self, job: Job, lease: int) -> Done:
        """Delete some keys of the lease; when none are left, the lease: until then the job goes back to
        the queue."""
        if lease not in self.leases:
            return Done(self.revision, (), [(job, LeaseGone(lease))])
        keys = file.keys_of_lease(self._open, lease, limit=LEASE_KEYS_STEP)
        events = [deletion(key, self.revision + 1) for key in keys]
        last = len(keys) < LEASE_KEYS_STEP
        self._open.execute("BEGIN IMMEDIATE")
        if events:
            file.append(self._open, events)
        if last:
            file.remove_lease(self._open, lease)
        self._open.execute("COMMIT")
        self.revision += bool(events)
        if last:
            del self.leases[lease]
            return Done(self.revision, events, [(job, None)])
        with self._change:
            self._queue.appendleft(job)
        return Done(self.revision, events, ())

    def _purge(self) -> None:
        """One step of a compaction. If it fails, the space is reclaimed after the next compaction."""
        try:
            self._purging = self._conn is not None and file.purge(self._conn)
        except sqlite3.Error:
            self._purging = False
            self._reset()

    # -------------------------------------------------------------------------------------- when it fails

    @property
    def _open(self) -> sqlite3.Connection:
        if self._conn is None:
            raise StoreUnavailable(f"store {self._path}: the file is closed after an error: try again")
        return self._conn

    def _failed(self, group: list[Job], error: sqlite3.Error) -> Done:
        """The group's commit failed: its transactions are undone, or unknown."""
        self._reset()
        refusal = unavailable(error, self._path)
        if not is_ambiguous(error):
            return self._refused(group, refusal)
        unknown = Unknown(str(refusal))
        answers = [(job, unknown if isinstance(job.request, Txn) else refusal) for job in group]
        return Done(self.revision, (), answers)

    def _refused(self, group: list[Job], error: Exception) -> Done:
        return Done(self.revision, (), [(job, error) for job in group])

    def _reset(self) -> None:
        """Forget the connection and what was half done on it; the next group opens a new one."""
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    def _recover(self) -> None:
        """Open the file again and go on from what it says, which may be more than was known, never less."""
        conn = file.connect(self._path)
        try:
            revision, leases = file.stamp(conn).revision, file.leases(conn)
        except sqlite3.Error:
            conn.close()
            raise
        if revision < self.revision:
            conn.close()
            raise StoreUnavailable(
                f"store {self._path}: the file was replaced by an older one (revision {revision}, was "
                f"{self.revision}): stop, put the right file back, start again"
            )
        self._conn, self.leases = conn, leases
        if revision > self.revision:
            self.revision = revision
            self._deliver(Jumped(revision))
