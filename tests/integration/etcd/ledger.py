"""Writers that write down what they were told, a watcher that writes down what it saw, and the comparison.

Every transaction makes one key of its own, whose value is unique, and rewrites its writer's head, whose revision it
compares. So an unknown outcome can be settled as the protocol says (P3): by changing the key that it compares. After
that it is there, or never will be.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from hanse.store.contract import (
    KEYS_END,
    Committed,
    Compacted,
    Event,
    EventKind,
    ModRevisionIs,
    Outcome,
    Put,
    Store,
    StoreUnavailable,
    Txn,
    Unknown,
    Watch,
    WatchBatch,
)

T = TypeVar("T")

PATIENCE_S: Final = 60.0
LOOK_EVERY_S: Final = 0.02
WRITE_DEADLINE_S: Final = 2.0


async def until(holds: Callable[[], bool | Awaitable[bool]], *, patience_s: float = PATIENCE_S) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(patience_s):
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(LOOK_EVERY_S)


@dataclass
class Ledger:
    """What writers were told, by key.

    Attributes:
        committed: the revision that was acknowledged.
        refused: keys of transactions of which nothing was or will be done.
        absent: keys of unknown transactions that were settled: not there.
        unknown: how many outcomes were unknown.
        counts: acknowledgements by writer.
        outages: how often a writer was told that the store cannot be had.
    """

    committed: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    unknown: int = 0
    outages: int = 0
    _stopped: bool = False
    _wrong: AssertionError | None = None

    def stop(self) -> None:
        """Writers end after what they are at."""
        self._stopped = True

    async def more(self, commits: int) -> None:
        """Wait until every writer has so many further acknowledgements."""
        enough = {writer: count + commits for writer, count in self.counts.items()}
        await until(lambda: self._sound() and all(self.counts[one] >= count for one, count in enough.items()))

    def _sound(self) -> bool:
        """Raises what a writer has found wrong, instead of letting others wait for it."""
        if self._wrong is not None:
            raise self._wrong
        return True

    async def write(self, store: Store, writer: str) -> None:
        """Commit one transaction after the other until `stop`."""
        head, at, n = f"head/{writer}", 0, 0
        self.counts[writer] = 0
        while not self._stopped:
            n += 1
            key = f"item/{writer}/{n:06}"
            txn = Txn(
                (ModRevisionIs(key, 0), ModRevisionIs(head, at)), (Put(key, key.encode()), Put(head, key.encode()))
            )
            try:
                outcome = await store.transact(txn, deadline_s=WRITE_DEADLINE_S)
            except StoreUnavailable:
                self.refused.add(key)
                self.outages += 1
                await asyncio.sleep(LOOK_EVERY_S)
                continue
            try:
                at = await self._note(store, key, head, outcome)
            except AssertionError as error:
                self._wrong = error
                raise
            self.counts[writer] += key in self.committed

    async def _note(self, store: Store, key: str, head: str, outcome: Outcome) -> int:
        """The head's revision."""
        if isinstance(outcome, Committed):
            self.committed[key] = outcome.revision
            return outcome.revision
        assert isinstance(outcome, Unknown), f"{key}: nobody else writes these keys, yet {outcome}"
        self.unknown += 1
        at = await self._settle(store, head)
        found = (await again(lambda: store.read([key]))).items.get(key)
        if found is None:
            self.absent.add(key)
        else:
            self.committed[key] = found.mod_revision
        return at

    async def _settle(self, store: Store, head: str) -> int:
        """Change the key that unknown transactions compare; its new revision.

        Compared itself, since a change that is unknown too may come late, and must then find that it is.
        """
        while True:
            kv = (await again(lambda: store.read([head]))).items.get(head)
            guard = ModRevisionIs(head, 0 if kv is None else kv.mod_revision)
            try:
                outcome = await store.transact(Txn((guard,), (Put(head, b"settled"),)), deadline_s=WRITE_DEADLINE_S)
            except StoreUnavailable:
                self.outages += 1
                await asyncio.sleep(LOOK_EVERY_S)
                continue
            if isinstance(outcome, Committed):
                return outcome.revision


async def again(call: Callable[[], Awaitable[T]]) -> T:
    """Until it is available."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(LOOK_EVERY_S)


async def first(watch: Watch) -> WatchBatch:
    """The next batch, or what is raised instead of one."""
    async with asyncio.timeout(PATIENCE_S):
        return await anext(aiter(watch))


class Watcher:
    """Reads one watch over everything, and goes on whatever happens."""

    def __init__(self, store: Store, *, from_revision: int) -> None:
        self.events: list[Event] = []
        self.outages = 0
        self._watch = store.watch("", KEYS_END, from_revision=from_revision)
        self._task = asyncio.create_task(self._read(), name="watcher")

    @property
    def revision(self) -> int:
        """Of the last event."""
        return self.events[-1].kv.mod_revision if self.events else 0

    async def reached(self, revision: int) -> None:
        await until(lambda: self.revision >= revision or self._task.done())
        assert self.revision >= revision, self._task

    async def close(self) -> None:
        await self._watch.close()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        last = 0
        while True:
            try:
                async for batch in self._watch:
                    assert batch.revision > last, "batches go forward"
                    last = batch.revision
                    self.events.extend(batch.events)
                return
            except Compacted:
                raise
            except StoreUnavailable:
                self.outages += 1
                await asyncio.sleep(LOOK_EVERY_S)


async def replay(store: Store, *, from_revision: int, to_revision: int) -> list[Event]:
    """All events of that span, read from history."""
    watcher = Watcher(store, from_revision=from_revision)
    await watcher.reached(to_revision)
    await watcher.close()
    return watcher.events


def check(ledger: Ledger, events: list[Event]) -> None:
    """No acknowledged write lost, none twice, nothing that was refused or settled as absent; revisions in order."""
    revisions = [event.kv.mod_revision for event in events]
    assert revisions == sorted(revisions)
    seen = [(event.kv.key, event.kv.mod_revision) for event in events]
    assert len(seen) == len(set(seen)), "an event came twice"
    made = {event.kv.key: event.kv for event in events if event.kind is EventKind.PUT and event.kv.key[:5] == "item/"}
    assert sum(event.kv.key[:5] == "item/" for event in events) == len(made), "an item was made twice"
    assert {key: kv.mod_revision for key, kv in made.items()} == ledger.committed
    assert all(kv.value == key.encode() for key, kv in made.items())
    assert not made.keys() & (ledger.refused | ledger.absent)
