"""What every store promises: ordered keys with revisions, guarded transactions, watches, leases.

The contract is the part of etcd that the federation needs, and no more, so that etcd, SQLite and memory are
interchangeable and one suite (``tests/contract/store_contract``) holds them to it.

Rules:

* **One counter.** Every transaction that changes a key raises the store's revision by one and stamps
  every key that it changes with it. Revisions only grow; they may have gaps (etcd members, rolled back
  transactions). A transaction that changes nothing (no operations, or only deletes of absent keys)
  consumes no revision and causes no event.
* **Guards compare modification revisions, never values** (P1). Revision 0 means "the key is absent", so
  absence and replacement are guarded alike, and a key that was deleted and created again never looks
  unchanged.
* **Three outcomes.** ``Committed`` and ``Conflict`` are facts. ``Unknown`` means that the request may
  have been applied, or may *still* be applied later (P3): nobody resolves it by guessing, or by one read
  that finds nothing. ``StoreUnavailable`` is an exception and not an outcome, because it promises that
  nothing was or will be done.
* **Reads see everything committed before they were called** and come from one revision.
* **A watch is a cursor over history**, not a queue: a slow reader holds nothing in memory, is never cut
  off, and goes on until history itself is compacted away beneath it. Each event is delivered exactly
  once, in revision order; a revision is never split over two batches.
* **Everything has a limit.** The limits are etcd's defaults (128 operations, 1.5 MiB a request), minus
  room for the encoding, so that what passes over memory passes over etcd.

Not taken: compare-by-value guards (ABA), range deletes and conditional branches in a transaction (nobody
needs them, and every adapter would have to get them right), callbacks instead of an iterator (they hide
who is slow).
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import ClassVar, Final, Protocol, Self

import msgspec

TXN_OPS_MAX: Final = 128
"""Operations of one transaction, and also its guards: etcd's ``--max-txn-ops`` counts each list for
itself."""

TXN_BYTES_MAX: Final = 1_500_000
"""Size of one transaction as ``limits.txn_bytes`` counts it; etcd takes 1.5 MiB (1,572,864) encoded."""

KEY_BYTES_MAX: Final = 1_024
"""Length of one key in UTF-8; a key is never empty and holds no NUL."""

READ_KEYS_MAX: Final = 4_096
"""Keys of one read (over etcd: several transactions pinned to the first one's revision)."""

RANGE_ITEMS_MAX: Final = 20_000
"""Items of one page; the size at which parallel pages over etcd were measured fastest."""

RANGE_BYTES_MAX: Final = 16 * 1_024 * 1_024
"""A page of about this many bytes of values may end early, with ``more`` set."""

WATCH_BATCH_EVENTS_MAX: Final = 1_000
"""A batch takes no further revision once it holds this many events."""

READ_DEADLINE_S: Final = 5.0
WRITE_DEADLINE_S: Final = 5.0

LEASE_TTL_MAX_S: Final = 9_000_000_000.0
"""etcd's limit."""

KEYS_END: Final = "\U0010ffff"
"""Above every key: ``range("", KEYS_END)`` is the whole store. No key may start with it."""


# ------------------------------------------------------------------------------------------------- values


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One key at one revision. In a DELETE event ``mod_revision`` is that of the delete, ``value`` is empty
    and the rest is 0.

    A ``msgspec.Struct`` because a replica loads them by the million: a fifth of a dataclass's cost, and
    invisible to the garbage collector.
    """

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0


class ModRevisionIs(msgspec.Struct, frozen=True, gc=False):
    """Guard: the key's modification revision is exactly this; 0 means that the key is absent."""

    key: str
    revision: int


Guard = ModRevisionIs


class Put(msgspec.Struct, frozen=True, gc=False):
    """Write a key; ``lease`` 0 binds it to none (and unbinds it from the one it had)."""

    key: str
    value: bytes
    lease: int = 0


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Remove a key; removing an absent one is no change and no error."""

    key: str


Op = Put | Delete


class Txn(msgspec.Struct, frozen=True):
    """If all guards hold, do all operations at one revision; else do nothing. At most one operation per
    key."""

    guards: tuple[Guard, ...] = ()
    ops: tuple[Op, ...] = ()


class Committed(msgspec.Struct, frozen=True, gc=False):
    """All operations took effect at ``revision`` (if they changed nothing: the store's revision at that
    moment)."""

    revision: int


class Conflict(msgspec.Struct, frozen=True):
    """A guard failed, nothing was done. ``current``: modification revision (0: absent) of every guarded
    key at ``revision``, the revision to become as fresh as before trying again."""

    revision: int
    current: Mapping[str, int]


class Unknown(msgspec.Struct, frozen=True):
    """The transaction may have been applied, or may still be applied later. ``cause``: one line for
    people."""

    cause: str


Outcome = Committed | Conflict | Unknown


class ReadResult(msgspec.Struct, frozen=True):
    """The keys that exist (absent ones are left out), all as of ``revision``."""

    items: dict[str, KeyValue]
    revision: int


class RangeResult(msgspec.Struct, frozen=True):
    """One page in key order. ``revision``: the store's revision when it was read (at least
    ``at_revision``); ``more``: keys of the range lie behind the last item; go on from
    ``key_after(items[-1].key)``."""

    items: tuple[KeyValue, ...]
    revision: int
    more: bool


class EventKind(Enum):
    PUT = 1
    DELETE = 2


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change of one key; see ``KeyValue`` for what a DELETE carries."""

    kind: EventKind
    kv: KeyValue


class WatchBatch(msgspec.Struct, frozen=True):
    """Events in revision order, whole revisions only. ``revision``: everything up to here has been
    delivered, so a watch is resumed at ``revision + 1``. A batch *without* events only says that
    progress."""

    revision: int
    events: tuple[Event, ...]


# ------------------------------------------------------------------------------------------------- errors


class StoreError(Exception):
    """Root of everything a store raises; one line for people, ``reason`` for machines.

    ::

        StoreError
        ├── StoreUnavailable   UNAVAILABLE          nothing was or will be done; try again later
        │   └── StoreFull      RESOURCE_EXHAUSTED   there is no room; somebody has to make some
        ├── Compacted          OUT_OF_RANGE         the history asked for is gone; list again
        ├── LeaseGone          FAILED_PRECONDITION  the lease is gone or never was; nothing was done
        └── StoreLimit         INVALID_ARGUMENT     the caller's fault; the same call never succeeds
    """

    reason: ClassVar[str] = "STORE_ERROR"


class StoreUnavailable(StoreError):
    """The store cannot serve now (disk full, locked, no quorum, deadline) and nothing was done."""

    reason = "STORE_UNAVAILABLE"


class StoreFull(StoreUnavailable):
    """There is no room for a write (disk, quota), and nothing was done; deletes may pass, and writes do again by
    themselves once there is room."""

    reason = "STORE_FULL"


class Compacted(StoreError):
    """History before ``compact_revision`` is gone: reads at it still work, watches start above it."""

    reason = "COMPACTED"

    def __init__(self, compact_revision: int) -> None:
        super().__init__(f"history before revision {compact_revision} is compacted: list again and watch from there")
        self.compact_revision = compact_revision


class LeaseGone(StoreError):
    """The lease does not exist (any more)."""

    reason = "LEASE_GONE"

    def __init__(self, lease: int) -> None:
        super().__init__(f"lease {lease} has expired, was revoked or never existed: grant a new one")
        self.lease = lease


class StoreLimit(StoreError, ValueError):
    """The request breaks a limit or a rule of the contract; the message names which and by how much."""

    reason = "STORE_LIMIT"


# ---------------------------------------------------------------------------------------------- protocols


class Watch(Protocol):
    """An open watch: iterate it (one reader), close it or leave its ``async with``.

    Iteration waits for news and stops once the watch is closed. It raises ``Compacted`` if history is gone
    from under it (list again), and ``StoreUnavailable`` if the store is closed or cannot be read now; the
    watch stays where it was, so in the latter case the reader may go on.
    """

    def __aiter__(self) -> AsyncIterator[WatchBatch]: ...

    async def __anext__(self) -> WatchBatch: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def close(self) -> None: ...


class Store(Protocol):
    """See the module. Every call may raise ``StoreUnavailable``; a call that breaks a limit raises
    ``StoreLimit``. (Lease calls and ``compact`` may have taken effect all the same: repeating them is
    harmless.)

    A caller may be cancelled at any await; the store stays consistent, and a cancelled ``transact`` is as
    unknown as an ``Unknown``. Deadlines are in seconds from the call.
    """

    async def read(self, keys: Sequence[str], *, deadline_s: float = READ_DEADLINE_S) -> ReadResult:
        """Up to ``READ_KEYS_MAX`` keys, all at one revision."""
        ...

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
        """One page of the keys in [start, end); a page may be short of ``limit`` and still have ``more``.

        ``at_revision`` 0 means now; pages of one listing pass the first page's ``revision``. Raises
        ``Compacted`` if it is older than the compaction, ``StoreLimit`` if it lies in the future.
        ``keys_only`` leaves values empty.
        """
        ...

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Outcome:
        """Raises ``LeaseGone`` (nothing done) if the guards hold but a ``Put`` names a lease that is gone."""
        ...

    def watch(self, start: str, end: str, *, from_revision: int) -> Watch:
        """Every change of keys in [start, end) with modification revision >= ``from_revision`` (>= 1).

        To follow a listing: ``from_revision = listing.revision + 1``. A revision in the future waits for
        it. The first iteration raises ``Compacted`` if ``from_revision`` is below the compact revision
        (at it: may or may not).
        """
        ...

    async def lease_grant(self, ttl_s: float) -> int:
        """A new lease (never 0, never reused). The store may round the time up (etcd: whole seconds, at
        least 2)."""
        ...

    async def lease_keep_alive(self, lease: int) -> float:
        """Renew to the full time, returned in seconds; ``LeaseGone`` if it is too late."""
        ...

    async def lease_revoke(self, lease: int) -> None:
        """End the lease and delete its keys, with events (of many keys: at several revisions);
        ``LeaseGone`` if it is gone already. Running out does the same."""
        ...

    async def compact(self, revision: int) -> None:
        """Drop history before ``revision`` (<= the current one, else ``StoreLimit``); to an older one: no
        effect."""
        ...

    async def close(self) -> None:
        """Stop serving; afterwards every call and every open watch raises ``StoreUnavailable``."""
        ...


# ---------------------------------------------------------------------------------------------- key order


def key_after(key: str) -> str:
    """The least string above ``key``: ``range(key, key_after(key))`` is that one key."""
    return key + "\0"


def prefix_end(prefix: str) -> str:
    """The least string above every key that starts with ``prefix``: ``range(prefix, prefix_end(prefix))``.

    Keys order by code point, which is also the order of their UTF-8 bytes.
    """
    head = prefix.rstrip(KEYS_END)
    if not head:
        return KEYS_END
    last = ord(head[-1]) + 1
    return head[:-1] + chr(0xE000 if last == 0xD800 else last)
