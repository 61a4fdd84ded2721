"""Pure: the contract's values as etcd's messages, and back.

A transaction's guards are compared in its condition. What they are compared with is read only when they do not hold,
keys only, at the revision of the answer, where nothing can have changed since. Rejected: the failure branch of the
transaction, which is made, sent and logged with every transaction, for the few that do not pass.

Messages are filled field by field instead of by constructors with arguments: a third of the time, and a batch of
forty keys is made of 120 messages.
"""

from collections.abc import Iterable
from typing import Final

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.store.contract import (
    Conflict,
    Event,
    EventKind,
    Guard,
    KeyValue,
    Put,
    StoreUnavailable,
    Txn,
)

LEAST_KEY: Final = b"\0"
"""etcd has no empty key: where a range from "" begins."""

ANY_KEY: Final = b"meta/"
"""Of a read that only wants a revision: inside the keys that the federation's user may read."""


def txn_request(txn: Txn) -> pb.TxnRequest:
    """The transaction; when it does not pass, ``conflict_request`` asks why."""
    request = pb.TxnRequest()
    compare, success = request.compare, request.success
    for guard in txn.guards:
        compare.add(target=pb.Compare.MOD, key=guard.key.encode(), mod_revision=guard.revision)
    for op in txn.ops:
        if isinstance(op, Put):
            put = success.add().request_put
            put.key = op.key.encode()
            put.value = op.value
            if op.lease:
                put.lease = op.lease
        else:
            success.add().request_delete_range.key = op.key.encode()
    return request


def conflict_request(guards: Iterable[Guard], *, revision: int) -> pb.TxnRequest:
    """Reads what the guards of a transaction are compared with, at the revision of its answer."""
    return read_request({guard.key: None for guard in guards}, revision=revision, keys_only=True)


def conflict(guards: Iterable[Guard], response: pb.TxnResponse, *, revision: int) -> Conflict:
    """Why a transaction did not pass, from the answer to ``conflict_request``."""
    current = dict.fromkeys((guard.key for guard in guards), 0)
    for answer in response.responses:
        for kv in answer.response_range.kvs:
            current[kv.key.decode()] = kv.mod_revision
    return Conflict(revision, current)


def read_request(keys: Iterable[str], *, revision: int, keys_only: bool = False) -> pb.TxnRequest:
    """Reads some keys at one revision (0: now)."""
    request = pb.TxnRequest()
    for key in keys:
        read = request.success.add().request_range
        read.key = key.encode()
        read.revision = revision
        read.keys_only = keys_only
    return request


def range_request(start: str, end: str, *, limit: int, revision: int, keys_only: bool) -> pb.RangeRequest:
    return pb.RangeRequest(
        key=start.encode() or LEAST_KEY, range_end=end.encode(), limit=limit, revision=revision, keys_only=keys_only
    )


def revision_request(*, revision: int = 0) -> pb.RangeRequest:
    """Reads nothing but the store's revision. Not a transaction: an empty one etcd answers from the past."""
    return pb.RangeRequest(key=ANY_KEY, revision=revision, count_only=True)


def watch_request(start: str, end: str, *, from_revision: int, watch_id: int) -> pb.WatchRequest:
    """A watch that begins one revision early, whose events are to be left out.

    A compaction drops tombstones *at* its revision too, so a watch that begins exactly there would miss them without
    a word. One revision earlier etcd says that history is gone.
    """
    return pb.WatchRequest(
        create_request=pb.WatchCreateRequest(
            key=start.encode() or LEAST_KEY,
            range_end=end.encode(),
            start_revision=max(1, from_revision - 1),
            progress_notify=True,
            watch_id=watch_id,
            fragment=True,
        )
    )


def key_values(kvs: Iterable[pb.KeyValue]) -> list[KeyValue]:
    """Raises StoreUnavailable if a key is not text."""
    try:
        return [KeyValue(kv.key.decode(), kv.value, kv.create_revision, kv.mod_revision, kv.lease) for kv in kvs]
    except UnicodeDecodeError as error:
        raise _foreign(error) from error


def events(found: Iterable[pb.Event], *, from_revision: int) -> list[Event]:
    """Those of revision ``from_revision`` or later. Raises StoreUnavailable if a key is not text."""
    wanted: list[Event] = []
    try:
        for event in found:
            kv = event.kv
            revision = kv.mod_revision
            if revision < from_revision:
                continue
            if event.type == pb.Event.PUT:
                made = KeyValue(kv.key.decode(), kv.value, kv.create_revision, revision, kv.lease)
                wanted.append(Event(EventKind.PUT, made))
            else:
                wanted.append(Event(EventKind.DELETE, KeyValue(kv.key.decode(), b"", 0, revision)))
    except UnicodeDecodeError as error:
        raise _foreign(error) from error
    return wanted


def _foreign(error: UnicodeDecodeError) -> StoreUnavailable:
    return StoreUnavailable(
        f"etcd holds the key {bytes(error.object)[:40]!r}, which is not text: give the federation an etcd of its own"
    )
