"""What the suite does again and again, in words: put, delete, collect events. Everything is bounded by a
deadline."""

import asyncio
from collections.abc import Callable
from typing import Final

from hanse.store.contract import (
    Committed,
    Conflict,
    Delete,
    Event,
    KeyValue,
    ModRevisionIs,
    Op,
    Outcome,
    Put,
    Store,
    Txn,
    Watch,
    WatchBatch,
    prefix_end,
)

PATIENCE_S: Final = 30.0
"""No condition of a healthy store takes as long."""


def txn(*ops: Op, when: dict[str, int] | None = None) -> Txn:
    """Operations, guarded by key → modification revision."""
    return Txn(tuple(ModRevisionIs(key, revision) for key, revision in (when or {}).items()), ops)


def committed(outcome: Outcome) -> int:
    assert isinstance(outcome, Committed), outcome
    return outcome.revision


def conflict(outcome: Outcome) -> Conflict:
    assert isinstance(outcome, Conflict), outcome
    return outcome


async def put(store: Store, key: str, value: bytes = b"v", lease: int = 0) -> int:
    return committed(await store.transact(txn(Put(key, value, lease))))


async def delete(store: Store, key: str) -> int:
    return committed(await store.transact(txn(Delete(key))))


async def get(store: Store, key: str) -> KeyValue | None:
    return (await store.read([key])).items.get(key)


async def list_all(store: Store, prefix: str) -> tuple[KeyValue, ...]:
    result = await store.range(prefix, prefix_end(prefix))
    assert not result.more
    return result.items


def watch_prefix(store: Store, prefix: str, from_revision: int) -> Watch:
    return store.watch(prefix, prefix_end(prefix), from_revision=from_revision)


async def collect(watch: Watch, enough: Callable[[list[Event]], bool]) -> list[WatchBatch]:
    """Batches until their events are enough."""
    batches: list[WatchBatch] = []
    events: list[Event] = []
    async with asyncio.timeout(PATIENCE_S):
        while not enough(events):
            batch = await anext(aiter(watch))
            batches.append(batch)
            events.extend(batch.events)
    return batches


async def collect_events(watch: Watch, count: int) -> list[Event]:
    batches = await collect(watch, lambda events: len(events) >= count)
    return [event for batch in batches for event in batch.events]


def revisions(events: list[Event]) -> list[int]:
    return [event.kv.mod_revision for event in events]
