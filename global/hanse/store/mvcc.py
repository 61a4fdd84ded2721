"""Pure: every version of every key since the last compaction, in memory.

Two views of the same events: ``_log`` in revision order (what watches read) and one chain per key in
revision order (what reads at a revision need). A key whose newest event is a deletion keeps its chain
until compaction, so the key index holds dead keys too, and reads skip them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from hanse.store.contract import (
    RANGE_BYTES_MAX,
    WATCH_BATCH_EVENTS_MAX,
    Compacted,
    Event,
    EventKind,
    KeyValue,
    WatchBatch,
)
from hanse.store.judge import EMPTY_REVISION, Head
from hanse.store.sorted_keys import SortedKeys


class Mvcc:
    """Keys and their history. Only ``append`` and ``compact`` change it."""

    def __init__(self) -> None:
        self.revision = EMPTY_REVISION
        self.compact_revision = 0
        self._log: list[Event] = []
        self._chains: dict[str, list[Event]] = {}
        self._keys = SortedKeys()

    def get(self, key: str) -> KeyValue | None:
        chain = self._chains.get(key)
        return chain[-1].kv if chain and chain[-1].kind is EventKind.PUT else None

    def head(self, key: str) -> Head | None:
        kv = self.get(key)
        return None if kv is None else (kv.create_revision, kv.mod_revision)

    def page(self, start: str, end: str, *, limit: int, at_revision: int) -> tuple[list[KeyValue], bool]:
        """Items at a revision, and whether more lie behind them; raises ``Compacted``."""
        if at_revision < self.compact_revision:
            raise Compacted(self.compact_revision)
        items: list[KeyValue] = []
        size_bytes = 0
        for key in self._keys.between(start, end):
            kv = self._version(key, at_revision)
            if kv is None:
                continue
            if len(items) >= limit or size_bytes >= RANGE_BYTES_MAX:
                return items, True
            items.append(kv)
            size_bytes += len(kv.value)
        return items, False

    def append(self, events: Iterable[Event], *, revision: int) -> None:
        """Events of exactly the next revision."""
        for event in events:
            self._log.append(event)
            chain = self._chains.get(event.kv.key)
            if chain is None:
                self._chains[event.kv.key] = [event]
                self._keys.add(event.kv.key)
            else:
                chain.append(event)
        self.revision = revision

    def events(self, start: str, end: str, *, first: int, last: int) -> WatchBatch:
        """See ``feed.History``; looks at ``WATCH_BATCH_EVENTS_MAX`` events at a time, matching or not."""
        if first <= self.compact_revision:
            raise Compacted(self.compact_revision)
        at = bisect_left(self._log, first, key=_revision_of)
        until = bisect_right(self._log, last, lo=at, key=_revision_of)
        if until - at > WATCH_BATCH_EVENTS_MAX:
            last = self._log[at + WATCH_BATCH_EVENTS_MAX].kv.mod_revision
            until = bisect_right(self._log, last, lo=at, key=_revision_of)
        return WatchBatch(last, tuple(e for e in self._log[at:until] if start <= e.kv.key < end))

    def compact(self, revision: int) -> None:
        if revision <= self.compact_revision:
            return
        self.compact_revision = revision
        until = bisect_right(self._log, revision, key=_revision_of)
        for key in dict.fromkeys(event.kv.key for event in self._log[:until]):
            self._prune(key, revision)
        del self._log[:until]

    def _prune(self, key: str, revision: int) -> None:
        """Keep the version that a read at ``revision`` sees, and all newer ones."""
        chain = self._chains[key]
        keep = max(0, bisect_right(chain, revision, key=_revision_of) - 1)
        if chain[keep].kind is EventKind.DELETE and chain[keep].kv.mod_revision <= revision:
            keep += 1
        del chain[:keep]
        if not chain:
            del self._chains[key]
            self._keys.remove(key)

    def _version(self, key: str, revision: int) -> KeyValue | None:
        chain = self._chains[key]
        event = chain[-1]
        if event.kv.mod_revision > revision:
            at = bisect_right(chain, revision, key=_revision_of) - 1
            if at < 0:
                return None
            event = chain[at]
        return event.kv if event.kind is EventKind.PUT else None


def _revision_of(event: Event) -> int:
    return event.kv.mod_revision
