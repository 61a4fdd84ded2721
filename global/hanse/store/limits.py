"""Pure checks of requests against the contract's limits, the same for every adapter.

A request that breaks a limit is the caller's fault and never succeeds, so it is refused before anything
is sent, with a message that names the limit and the amount. Sizes are counted generously (each guarded
key twice, since an adapter may want to compare it and read it back, and a fixed overhead per entry), so
that a transaction that passes here is below etcd's request limit once it is encoded.
"""

import math
from collections.abc import Sequence
from typing import Final

from hanse.store.contract import (
    KEY_BYTES_MAX,
    KEYS_END,
    LEASE_TTL_MAX_S,
    RANGE_ITEMS_MAX,
    READ_KEYS_MAX,
    TXN_BYTES_MAX,
    TXN_OPS_MAX,
    Put,
    StoreLimit,
    Txn,
)

ENTRY_OVERHEAD_BYTES: Final = 32
"""What the encoding adds to one operation or to one mention of a guarded key: tags, lengths, revision,
lease."""


def txn_bytes(txn: Txn) -> int:
    """Size of a transaction in bytes, as ``TXN_BYTES_MAX`` counts it."""
    guards = sum(2 * (_utf8_len(guard.key) + ENTRY_OVERHEAD_BYTES) for guard in txn.guards)
    return guards + sum(
        _utf8_len(op.key) + ENTRY_OVERHEAD_BYTES + (len(op.value) if isinstance(op, Put) else 0) for op in txn.ops
    )


def check_txn(txn: Txn) -> int:
    """Its ``txn_bytes``, counted on the way. Raises ``StoreLimit`` if the transaction breaks a limit."""
    for what, count in (("guards", len(txn.guards)), ("operations", len(txn.ops))):
        if count > TXN_OPS_MAX:
            raise StoreLimit(f"transaction has {count} {what}, the limit is {TXN_OPS_MAX}: split it")
    size = 0
    for guard in txn.guards:
        size += 2 * (check_key(guard.key) + ENTRY_OVERHEAD_BYTES)
        if guard.revision < 0:
            raise StoreLimit(f"guard on {guard.key!r} compares revision {guard.revision}: it must be 0 or more")
    seen: set[str] = set()
    for op in txn.ops:
        size += check_key(op.key) + ENTRY_OVERHEAD_BYTES
        if isinstance(op, Put):
            size += len(op.value)
        if op.key in seen:
            raise StoreLimit(f"transaction has two operations on key {op.key!r}: keep the last one")
        seen.add(op.key)
    if size > TXN_BYTES_MAX:
        raise StoreLimit(f"transaction has {size} bytes, the limit is {TXN_BYTES_MAX}: split it")
    return size


def check_key(key: str) -> int:
    """Its length in UTF-8. Raises ``StoreLimit`` unless that is 1 to ``KEY_BYTES_MAX`` bytes, without NUL, below
    KEYS_END."""
    size = len(key) if key.isascii() else _utf8_len(key)
    if 0 < size <= KEY_BYTES_MAX and "\0" not in key and key < KEYS_END:
        return size
    if not size:
        raise StoreLimit("key is empty: give it at least one character")
    if size > KEY_BYTES_MAX:
        raise StoreLimit(f"key {key[:40]!r}… has {size} bytes, the limit is {KEY_BYTES_MAX}")
    raise StoreLimit(f"key {key[:40]!r} holds a NUL or starts with the last code point: leave it out")


def check_read(keys: Sequence[str]) -> None:
    if len(keys) > READ_KEYS_MAX:
        raise StoreLimit(f"read of {len(keys)} keys, the limit is {READ_KEYS_MAX}: split it")
    for key in keys:
        check_key(key)


def check_range(start: str, end: str, *, limit: int, at_revision: int) -> None:
    _utf8_len(start), _utf8_len(end)
    if not 1 <= limit <= RANGE_ITEMS_MAX:
        raise StoreLimit(f"range limit is {limit}: it must be 1 to {RANGE_ITEMS_MAX}")
    if at_revision < 0:
        raise StoreLimit(f"range at revision {at_revision}: it must be 0 (now) or more")


def check_at_revision(at_revision: int, *, current: int) -> None:
    """Refuses a read of the future."""
    if at_revision > current:
        raise StoreLimit(f"range at revision {at_revision}: the store is at {current} only")


def check_compact(revision: int, *, current: int) -> None:
    if not 0 <= revision <= current:
        raise StoreLimit(f"compaction to revision {revision}: it must be 0 to {current}, where the store is")


def check_watch(start: str, end: str, *, from_revision: int) -> None:
    _utf8_len(start), _utf8_len(end)
    if start >= end:
        raise StoreLimit(f"watch of [{start!r}, {end!r}): the range is empty")
    if from_revision < 1:
        raise StoreLimit(f"watch from revision {from_revision}: it must be 1 or more (a listing's revision + 1)")


def check_ttl(ttl_s: float) -> None:
    if not (math.isfinite(ttl_s) and 0 < ttl_s <= LEASE_TTL_MAX_S):
        raise StoreLimit(f"lease of {ttl_s} s: it must be above 0 and at most {LEASE_TTL_MAX_S:.0f} s")


def _utf8_len(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise StoreLimit(f"key {text[:40]!r} is not valid Unicode (lone surrogate): keys are UTF-8") from None
