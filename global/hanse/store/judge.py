"""Pure: what a transaction does to a store, given the heads of the keys that it names.

The one place where guards are compared and operations become events; memory and SQLite differ only in
where the heads come from and where the events go. (etcd decides for itself; the contract suite holds it
to the same answers.)
"""

from collections.abc import Callable
from typing import Final

from hanse.store.contract import Conflict, Event, EventKind, KeyValue, LeaseGone, Op, Put, Txn

EMPTY_REVISION: Final = 1
"""Of a store that was never written, as in etcd: 0 stays free to mean "now" and "absent"."""

Head = tuple[int, int]
"""Creation and modification revision of a key that exists."""

HeadOf = Callable[[str], Head | None]


def judge(
    txn: Txn, *, revision: int, head_of: HeadOf, lease_lives: Callable[[int], bool]
) -> tuple[Event, ...] | Conflict | LeaseGone:
    """Events at ``revision + 1`` (none if nothing changes), or why not. Guards are compared before leases."""
    current = {guard.key: _mod_revision(head_of(guard.key)) for guard in txn.guards}
    if any(current[guard.key] != guard.revision for guard in txn.guards):
        return Conflict(revision, current)
    for op in txn.ops:
        if isinstance(op, Put) and op.lease and not lease_lives(op.lease):
            return LeaseGone(op.lease)
    made = (_event(op, revision + 1, head_of(op.key)) for op in txn.ops)
    return tuple(event for event in made if event is not None)


def deletion(key: str, revision: int) -> Event:
    return Event(EventKind.DELETE, KeyValue(key, b"", 0, revision))


def _event(op: Op, revision: int, head: Head | None) -> Event | None:
    if isinstance(op, Put):
        created = revision if head is None else head[0]
        return Event(EventKind.PUT, KeyValue(op.key, op.value, created, revision, op.lease))
    return None if head is None else deletion(op.key, revision)


def _mod_revision(head: Head | None) -> int:
    return 0 if head is None else head[1]
