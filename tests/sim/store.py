"""The store as its clients meet it: slow, away, cut off, and above all unsure of what it did.

`ObservedStore` is the memory store, told on by a hook: the checkers see every revision at the moment it is made,
with the transaction that made it. `FaultyStore` is one client's way to it. What the contract promises stays true
(`StoreUnavailable` means that nothing was or will be done); everything that it leaves open, happens:

* `Unknown` after the transaction was applied; `Unknown` after it was not; and, the worst, `Unknown` and applied
  *later*, when the caller has long since read that it is absent (P3);
* a transaction that goes on after its caller was killed;
* reads that answer late, watches that lag, break, and find their history compacted;
* leases that end although they were kept alive.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from hanse.kit.clock import Clock
from hanse.model.ids import queue_of
from hanse.store import keys
from hanse.store.contract import (
    KEYS_END,
    RANGE_ITEMS_MAX,
    READ_DEADLINE_S,
    WRITE_DEADLINE_S,
    Committed,
    Compacted,
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
    Unknown,
    Watch,
    WatchBatch,
)
from hanse.store.feed import WatchHub
from hanse.store.leases import LeaseKeeper
from hanse.store.memory import MemoryStore
from hanse.store.mvcc import Mvcc
from tests.sim.loop import Actor, Life
from tests.sim.story import Story
from tests.sim.telling import told_txn
from tests.sim.weather import Answer, Weather, send_call

T = TypeVar("T")

PROVOKED_P: Final = 0.7
SESSION_TTL_MAX_S: Final = 60.0
AWAY_ANSWER_S: Final = 0.2
"""A store that is down refuses a connection after this time."""


class StoreObserver(Protocol):
    """Who looks on. Both are called at once, before anybody else can act."""

    def changed(self, revision: int, events: tuple[Event, ...]) -> None:
        """A revision was made, by whatever cause."""
        ...

    def committed(self, revision: int, txn: Txn, author: Actor, *, late: bool) -> None:
        """The transaction that made the last revision; called after `changed`, not for leases that ended."""
        ...


class ObservedStore(MemoryStore):
    """The truth of a run."""

    def __init__(self, clock: Clock, observer: StoreObserver) -> None:
        super().__init__(clock)
        self._observer = observer

        self.era = 0  # how often it was restored

    @property
    def revision(self) -> int:
        return self._mvcc.revision

    def backup(self) -> "Backup":
        """Everything as it is now."""
        items, _ = self._mvcc.page("", KEYS_END, limit=10**9, at_revision=self.revision)
        return Backup(self.revision, tuple(items), {lease: self._leases._ttl_s[lease] for lease in self._lease_keys})

    def restore(self, backup: "Backup") -> None:
        """Set everything back: revisions and attempts are given anew, leases run anew, nobody's history is left.

        Who was connected before is so no more; what is still on its way does not arrive.
        """
        self.era += 1
        self._hub.close("the store was restored")
        self._leases.close()
        self._mvcc = Mvcc()
        for kv in sorted(backup.items, key=lambda kv: kv.mod_revision):
            self._mvcc.append([Event(EventKind.PUT, kv)], revision=kv.mod_revision)
        self._mvcc.revision = backup.revision
        self._mvcc.compact(backup.revision)
        self._hub = WatchHub(self, revision=backup.revision)
        self._leases = LeaseKeeper(self._leases._clock, self._expire)
        self._lease_keys = {lease: {} for lease in backup.leases}
        for lease, ttl_s in backup.leases.items():
            self._leases.grant(lease, ttl_s)
        for kv in backup.items:
            if kv.lease:
                self._lease_keys[kv.lease][kv.key] = None

    @property
    def sessions(self) -> tuple[int, ...]:
        """Leases that somebody has to keep alive, oldest first; the others run for a day and end of themselves."""
        return tuple(lease for lease in self._lease_keys if self._leases._ttl_s[lease] <= SESSION_TTL_MAX_S)

    def _apply(self, events: tuple[Event, ...]) -> None:
        super()._apply(events)
        if events:
            self._observer.changed(self._mvcc.revision, events)

    async def apply(self, txn: Txn, author: Actor, *, late: bool = False) -> Outcome:
        """`transact`, with its author."""
        outcome = await super().transact(txn)
        if isinstance(outcome, Committed):
            self._observer.committed(outcome.revision, txn, author, late=late)
        return outcome


@dataclass(frozen=True, slots=True)
class Backup:
    """What a store held at one revision; `leases`: their times to live, in seconds."""

    revision: int
    items: tuple[KeyValue, ...]
    leases: dict[int, float]


class StoreWeather:
    """Which clients reach the store at present; `lost` is told of each request that does not arrive in time."""

    def __init__(self, weather: Weather, lost: Callable[[str, Txn], None]) -> None:
        self.common = weather
        self.lost = lost
        self._late: dict[asyncio.Event, Txn] = {}
        self._down_until_s = 0.0
        self._cut_until_s: dict[str, float] = {}

    async def delay(self, txn: Txn, delay_s: float) -> None:
        """Keep a transaction on its way for so long, or until `provoke`: a message is late by chance, or just now."""
        provoked = asyncio.Event()
        self._late[provoked] = txn
        try:
            async with asyncio.timeout(delay_s):
                await provoked.wait()
        except TimeoutError:
            return
        finally:
            del self._late[provoked]

    def provoke(self, queues: frozenset[str]) -> None:
        """Something of these queues was bound: the worst moment for a late commit of theirs to arrive."""
        for provoked, txn in self._late.items():
            bound = {queue_of(keys.parse_binding(op.key).job) for op in txn.ops if op.key.startswith(keys.BINDINGS)}
            if bound & queues and self.common.hits(PROVOKED_P):
                provoked.set()

    def take_down(self, span_s: float) -> None:
        """Nobody reaches it."""
        self._down_until_s = self.common.loop.time() + span_s

    def cut(self, client: str, span_s: float) -> None:
        """One client does not."""
        self._cut_until_s[client] = self.common.loop.time() + span_s

    def heal(self) -> None:
        self._down_until_s = 0.0
        self._cut_until_s.clear()

    def reaches(self, client: str) -> bool:
        now_s = self.common.loop.time()
        return now_s >= self._down_until_s and now_s >= self._cut_until_s.get(client, 0.0)


class FaultyStore:
    """A `Store` for one process."""

    def __init__(self, core: ObservedStore, actor: Actor, weather: StoreWeather, story: Story) -> None:
        self._core = core
        self._era = core.era
        self._actor = actor
        self._weather = weather
        self._common = weather.common
        self._story = story

    async def read(self, keys: Sequence[str], *, deadline_s: float = READ_DEADLINE_S) -> ReadResult:
        wanted = tuple(keys)
        return await self._ask(lambda: self._core.read(wanted), deadline_s)

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
        return await self._ask(
            lambda: self._core.range(start, end, limit=limit, at_revision=at_revision, keys_only=keys_only),
            deadline_s,
        )

    async def transact(self, txn: Txn, *, deadline_s: float = WRITE_DEADLINE_S) -> Outcome:
        await self._reach(deadline_s)
        swarm = self._common.swarm
        if txn.ops and self._common.hits(swarm.store_request_lost_p):
            return await self._lose_request(txn, deadline_s)
        reply_lost = bool(txn.ops) and self._common.hits(swarm.store_reply_lost_p)
        answer = self._send(lambda: self._core.apply(txn, self._actor), "store-transact")
        try:
            outcome = await answer.get(deadline_s)
        except TimeoutError:
            return Unknown("no answer within the deadline")
        if reply_lost:
            self._story.note(f"never hears that its transaction {_told(txn, outcome)}")
            return Unknown("the connection broke before the answer came")
        return outcome

    def watch(self, start: str, end: str, *, from_revision: int) -> Watch:
        return FaultyWatch(self._core.watch(start, end, from_revision=from_revision), self._actor, self._weather)

    async def lease_grant(self, ttl_s: float) -> int:
        return await self._ask(lambda: self._core.lease_grant(ttl_s), WRITE_DEADLINE_S)

    async def lease_keep_alive(self, lease: int) -> float:
        return await self._ask(lambda: self._core.lease_keep_alive(lease), WRITE_DEADLINE_S)

    async def lease_revoke(self, lease: int) -> None:
        await self._ask(lambda: self._core.lease_revoke(lease), WRITE_DEADLINE_S)

    async def compact(self, revision: int) -> None:
        await self._ask(lambda: self._core.compact(revision), WRITE_DEADLINE_S)

    async def close(self) -> None:
        """The store outlives its clients."""

    def _send(self, call: Callable[[], Awaitable[T]], name: str) -> Answer[T]:
        return send_call(self._common, self._common.swarm.store_lag_s, lambda: self._reached(call), name)

    async def _reached(self, call: Callable[[], Awaitable[T]]) -> T:
        """The call arrives, unless the store that it was for is gone."""
        if self._era != self._core.era:
            raise StoreUnavailable("the store was restored; nothing was done")
        return await call()

    async def _ask(self, call: Callable[[], Awaitable[T]], deadline_s: float) -> T:
        """A call that may be repeated, so its loss is harmless."""
        await self._reach(deadline_s)
        try:
            return await self._send(call, "store-call").get(deadline_s)
        except TimeoutError:
            raise StoreUnavailable("the store did not answer within the deadline") from None

    async def _reach(self, deadline_s: float) -> None:
        if deadline_s <= 0:
            raise StoreUnavailable("the deadline was over before the call began; nothing was done")
        if not self._weather.reaches(self._actor.name):
            await asyncio.sleep(min(deadline_s, AWAY_ANSWER_S))
            raise StoreUnavailable("the store cannot be reached; nothing was done")

    async def _lose_request(self, txn: Txn, deadline_s: float) -> Outcome:
        """The transaction does not arrive in time; perhaps it does later."""
        common = self._common
        self._weather.lost(self._actor.name, txn)
        late = common.hits(common.swarm.store_late_p)
        self._story.note(f"sends a transaction that {'will be late' if late else 'is lost'}: {told_txn(txn)}")
        if late:
            delay_s = common.rng.uniform(0.0, common.swarm.late_max_s)
            common.loop.world_task(self._arrive_late(txn, delay_s), name="store-late")
        await asyncio.sleep(common.rng.uniform(0.0, deadline_s))
        return Unknown("the connection broke while the request was on its way")

    async def _arrive_late(self, txn: Txn, delay_s: float) -> None:
        began_s = self._common.loop.time()
        await self._weather.delay(txn, delay_s)
        try:
            outcome = await self._reached(lambda: self._core.apply(txn, self._actor, late=True))
        except (LeaseGone, StoreUnavailable):
            return
        late_s = self._common.loop.time() - began_s
        self._story.note(f"a transaction of {self._actor.name}, {late_s:.1f}s late, {_told(txn, outcome)}")


def _told(txn: Txn, outcome: Outcome) -> str:
    if isinstance(outcome, Committed):
        return f"took effect at revision {outcome.revision}"
    current = outcome.current if isinstance(outcome, Conflict) else {}
    moved = [guard.key for guard in txn.guards if current.get(guard.key) != guard.revision]
    return f"failed its guards: {' '.join(moved)}"


class FaultyWatch:
    """A watch over a lossy way: batches come late; then it breaks, and the reader has to open another one."""

    def __init__(self, inner: Watch, actor: Actor, weather: StoreWeather) -> None:
        self._inner = inner
        self._actor = actor
        self._weather = weather
        self._under_way: deque[WatchBatch] = deque()  # timers that are due at once run in any order; this keeps it
        self._batches: deque[WatchBatch] = deque()
        self._error: Exception | None = None
        self._closed = False
        self._arrived_s = 0.0
        self._waiter: asyncio.Future[None] | None = None
        common = weather.common
        self._pumping = common.loop.world_task(self._pump(), name="store-watch")
        every_s = common.swarm.watch_cut_every_s
        if every_s:
            common.loop.world_later(common.rng.expovariate(1.0 / every_s), self._end, "the watch broke")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        while not self._batches:
            if self._closed:
                raise StopAsyncIteration
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._batches.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        self._batches.clear()
        self._pumping.cancel()
        await self._inner.close()
        self._wake()

    async def _pump(self) -> None:
        common = self._weather.common
        try:
            async for batch in self._inner:
                if self._actor.life is Life.DEAD:
                    await self._inner.close()
                    return
                self._arrived_s = max(self._arrived_s, common.loop.time() + common.lag(common.swarm.watch_lag_s))
                self._under_way.append(batch)
                common.loop.world_later(self._arrived_s - common.loop.time(), self._arrive)
        except (Compacted, StoreUnavailable) as error:
            self._fail(error)

    def _arrive(self) -> None:
        batch = self._under_way.popleft()
        if self._closed or self._error is not None:
            return
        if not self._weather.reaches(self._actor.name):
            self._end("the store went away")
            return
        self._batches.append(batch)
        self._wake()

    def _end(self, why: str) -> None:
        self._fail(StoreUnavailable(f"{why}: open it again after the last revision seen"))

    def _fail(self, error: Exception) -> None:
        if self._closed or self._error is not None:
            return
        self._error = error
        self._pumping.cancel()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
