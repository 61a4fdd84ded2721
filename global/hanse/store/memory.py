"""The store in memory: for tests, and for the simulator, which wraps it with faults.

Pure asyncio, one loop, no threads, no randomness: equal calls in equal order give equal revisions, leases
and batches. Every call first yields to the loop once, so that callers interleave as they do over a real
store; after that nothing awaits, so a transaction is atomic and a cancelled caller either did nothing or
everything. It never answers ``Unknown``.
"""

import asyncio
from collections.abc import Sequence

from hanse.kit.clock import Clock
from hanse.store import limits
from hanse.store.contract import (
    RANGE_ITEMS_MAX,
    READ_DEADLINE_S,
    WRITE_DEADLINE_S,
    Committed,
    Conflict,
    Event,
    EventKind,
    KeyValue,
    LeaseGone,
    Outcome,
    RangeResult,
    ReadResult,
    StoreUnavailable,
    Txn,
    Watch,
    WatchBatch,
)
from hanse.store.feed import WatchHub
from hanse.store.judge import deletion, judge
from hanse.store.leases import LeaseKeeper
from hanse.store.mvcc import Mvcc


class MemoryStore:
    """A ``Store``; see ``contract.Store`` for what the calls promise."""

    def __init__(self, clock: Clock) -> None:
        self._mvcc = Mvcc()
        self._hub = WatchHub(self, revision=self._mvcc.revision)
        self._leases = LeaseKeeper(clock, self._expire)
        self._lease_keys: dict[int, dict[str, None]] = {}
        self._last_lease = 0
        self._closed = False

    async def read(self, keys: Sequence[str], *, deadline_s: float = READ_DEADLINE_S) -> ReadResult:
        limits.check_read(keys)
        await self._enter(deadline_s)
        found = ((key, self._mvcc.get(key)) for key in keys)
        return ReadResult({key: kv for key, kv in found if kv is not None}, self._mvcc.revision)

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
        await self._enter(deadline_s)
        now = self._mvcc.revision
        limits.check_at_revision(at_revision, current=now)
        items, more = self._mvcc.page(start, end, limit=limit, at_revision=at_revision or now)
        return RangeResult(tuple(map(_bare, items) if keys_only else items), now, more)

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Outcome:
        limits.check_txn(txn)
        await self._enter(deadline_s)
        mvcc = self._mvcc
        verdict = judge(txn, revision=mvcc.revision, head_of=mvcc.head, lease_lives=self._leases.__contains__)
        match verdict:
            case Conflict():
                return verdict
            case LeaseGone():
                raise verdict
            case events:
                self._apply(events)
                return Committed(mvcc.revision)

    def watch(self, start: str, end: str, *, from_revision: int) -> Watch:
        limits.check_watch(start, end, from_revision=from_revision)
        return self._hub.open(start, end, from_revision=from_revision)

    async def history(self, start: str, end: str, *, first: int, last: int) -> WatchBatch:
        """For the hub (``feed.History``)."""
        await asyncio.sleep(0)
        return self._mvcc.events(start, end, first=first, last=last)

    async def lease_grant(self, ttl_s: float) -> int:
        limits.check_ttl(ttl_s)
        await self._enter()
        self._last_lease += 1
        self._leases.grant(self._last_lease, ttl_s)
        self._lease_keys[self._last_lease] = {}
        return self._last_lease

    async def lease_keep_alive(self, lease: int) -> float:
        await self._enter()
        return self._leases.renew(lease)

    async def lease_revoke(self, lease: int) -> None:
        await self._enter()
        self._leases.drop(lease)
        self._expire(lease)

    async def compact(self, revision: int) -> None:
        await self._enter()
        limits.check_compact(revision, current=self._mvcc.revision)
        self._mvcc.compact(revision)

    async def close(self) -> None:
        self._closed = True
        self._leases.close()
        self._hub.close("the store is closed")

    async def _enter(self, deadline_s: float = WRITE_DEADLINE_S) -> None:
        """The one await of every call, and what must hold after it."""
        await asyncio.sleep(0)
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if deadline_s <= 0:
            raise StoreUnavailable("the deadline was over before the call began; nothing was done")
        self._leases.look()

    def _expire(self, lease: int) -> None:
        """Delete the keys of a lease that the keeper has dropped."""
        keys = self._lease_keys.pop(lease)
        revision = self._mvcc.revision + 1
        self._apply(tuple(deletion(key, revision) for key in keys))

    def _apply(self, events: tuple[Event, ...]) -> None:
        if not events:
            return
        for event in events:
            self._bind(event)
        revision = self._mvcc.revision + 1
        self._mvcc.append(events, revision=revision)
        self._hub.publish(revision, events)

    def _bind(self, event: Event) -> None:
        """Keep the lists of leased keys right; call before the event is appended."""
        before = self._mvcc.get(event.kv.key)
        if before is not None and before.lease in self._lease_keys:
            self._lease_keys[before.lease].pop(event.kv.key, None)
        if event.kind is EventKind.PUT and event.kv.lease:
            self._lease_keys[event.kv.lease][event.kv.key] = None


def _bare(kv: KeyValue) -> KeyValue:
    return KeyValue(kv.key, b"", kv.create_revision, kv.mod_revision, kv.lease)
