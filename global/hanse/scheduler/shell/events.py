"""What one replica remembers of what happened, and what all replicas remember together.

A replica hears of everything through the watches that it follows anyway: of every pool (`Feed`), and of the jobs of
the roots that it holds (`States`). What is read to begin with, or again after a gap, is no news and leaves no event;
a gap moves the time from which the ring can be trusted, and so does the end of another replica, whose ring ends too.

A reader asks one replica, which asks the others: those of its process directly, those of other processes over
`hanse.link.v1.PeerService`. Who does not answer in time is named, and the answer is partial. What several saw is told
once, by its revision. Nothing here is awaited by anybody who decides.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from hanse.apiserver.ports import AuditLog, EventPage
from hanse.kit.clock import Clock
from hanse.model.ids import JobId, PoolName, ReplicaId, queue_of
from hanse.model.lifecycle import JobState
from hanse.model.occurrence import (
    EVENTS_PER_FETCH_MAX,
    Occurrence,
    OccurrenceKind,
    OccurrenceQuery,
    RingCursor,
    RingPage,
)
from hanse.model.reasons import Reason
from hanse.scheduler.core.auditing import audited, gap
from hanse.scheduler.core.chronicle import Chronicle
from hanse.scheduler.core.facts import LeaveFacts
from hanse.scheduler.core.occurrences import job_occurrence
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.peers import Elsewhere
from hanse.store import keys
from hanse.store.contract import Event, EventKind, KeyValue
from hanse.store.schema import AttachedValue, LeaveValue, PoolAgentValue, PoolConfigValue, ReplicaValue, decode

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0
"""How often summaries are looked at that may have become too old."""

NEWS_EVERY_S: Final = 1.0
"""A reader who follows is served at least so often: other replicas do not say that they have news."""

NEWS_PAUSE_S: Final = 0.1
"""And not more often than so: each time costs a call to every other replica."""


class Recorder:
    """Fills the ring of one replica, and its audit log; hears of changes before the world does.

    Attributes:
        ring: what is remembered.
    """

    def __init__(
        self,
        world: World,
        clock: Clock,
        *,
        replica: ReplicaId,
        nonce: str,
        summary_age_max_s: float,
        audit: AuditLog | None = None,
    ) -> None:
        self._audit = audit
        self._world = world
        self._clock = clock
        self._replica = replica
        self._summary_age_max_s = summary_age_max_s
        self._looked_s = float("-inf")
        self._fresh: dict[PoolName, bool] = {}
        self._news = asyncio.Event()
        self.ring = Chronicle(nonce=nonce, now_ms=clock.now_ms())

    async def news(self) -> None:
        """Wait until something may have happened somewhere."""
        await asyncio.sleep(NEWS_PAUSE_S)
        self._news.clear()
        try:
            async with asyncio.timeout(NEWS_EVERY_S):
                await self._news.wait()
        except TimeoutError:
            self.look()

    def gap(self) -> None:
        """Something may have happened that nobody here has seen."""
        self.ring.lost(now_ms=self._clock.now_ms())
        if self._audit is not None:
            self._audit.note(gap())

    def _add(self, occurrence: Occurrence, state: JobState | None = None) -> None:
        self.ring.add(occurrence, now_ms=self._clock.now_ms(), state=state)
        self._news.set()
        record = audited(occurrence, self._queue(occurrence.job)) if self._audit is not None else None
        if self._audit is not None and record is not None:
            self._audit.note(record)

    def _queue(self, job: JobId) -> str:
        """The queue of a job, by name; "" for none, or one that is gone."""
        facts = self._world.queues.get(queue_of(job)) if job else None
        return facts.queue.name if facts is not None else ""

    # ---- jobs ------------------------------------------------------------------------------------------------

    def job_moved(self, job: JobId, pending: JobState | None, now: JobState, kv: KeyValue) -> None:
        """A state was written; `pending`: the one that this replica knew, if the job waited."""
        found = job_occurrence(
            job,
            self.ring.state(job) or pending,
            now,
            created=kv.create_revision == kv.mod_revision,
            revision=kv.mod_revision,
            now_ms=self._clock.now_ms(),
            slots=self._world.slots,
        )
        if found is not None:
            self._add(found, now)

    def retried(self, old: JobId, new: JobId, revision: int) -> None:
        """A job was submitted once more."""
        now_ms, message = self._clock.now_ms(), f"submitted once more, as {new}"
        self._add(Occurrence(now_ms, OccurrenceKind.RETRIED, old, message=message, revision=revision))

    # ---- pools -----------------------------------------------------------------------------------------------

    def key_changed(self, event: Event) -> None:
        """A followed key changes; the world still has what was before."""
        key = event.kv.key
        if key.startswith(keys.BINDINGS):
            return
        try:
            if key.startswith(keys.ATTACHED):
                self._attached(keys.pool_of(key), event)
            elif key.startswith(keys.POOLS) and keys.head_flavor(key) is None:
                self._pool(keys.pool_of(key), event)
            elif key.startswith(keys.REPLICAS):
                self._replica_changed(ReplicaId(key.removeprefix(keys.REPLICAS)), event)
        except (msgspec.DecodeError, ValueError):
            return  # the feed names it

    def _attached(self, pool: PoolName, event: Event) -> None:
        before = self._world.attached_to(pool)
        if event.kind is EventKind.DELETE:
            told = f"its agent has no stream to {before or 'a replica'} any more; what runs there runs on"
            if before:
                self._pool_event(pool, OccurrenceKind.DETACHED, told, event, Reason.DETACHED)
            return
        replica = decode(event.kv.value, AttachedValue).replica
        if replica != before:
            self._pool_event(pool, OccurrenceKind.ATTACHED, f"its agent is attached to {replica}", event)

    def _pool(self, pool: PoolName, event: Event) -> None:
        gone = event.kind is EventKind.DELETE
        if event.kv.key == keys.pool_config(pool):
            self._config(pool, None if gone else decode(event.kv.value, PoolConfigValue), event)
        elif event.kv.key == keys.pool_agent(pool) and not gone:
            agent = decode(event.kv.value, PoolAgentValue)
            epoch = f"{agent.incarnation}.{event.kv.mod_revision}"
            told = f"agent {agent.instance} has epoch {epoch}; what an older one says counts no more"
            self._pool_event(pool, OccurrenceKind.EPOCH_CHANGED, told, event)

    def _config(self, pool: PoolName, now: PoolConfigValue | None, event: Event) -> None:
        before = self._world.pool_facts(pool)
        if now is None:
            self._fresh.pop(pool, None)
            self._pool_event(pool, OccurrenceKind.REMOVED, "left the federation", event)
        elif before is None:
            self._pool_event(pool, OccurrenceKind.JOINED, "joined the federation", event)
        elif now.leave is not None and _order(now) != before.leave:
            why = f": {now.cordon_reason}" if now.cordon_reason else ""
            self._pool_event(pool, OccurrenceKind.CORDONED, f"{_leave_words(now.leave)}{why}", event, Reason.CORDONED)
        elif now.drain is not None and before.drain is None:
            why = f": {now.cordon_reason}" if now.cordon_reason else ""
            told = f"drained, its jobs are moved to other pools{why}"
            self._pool_event(pool, OccurrenceKind.CORDONED, told, event, Reason.DRAINED)
        elif now.cordoned and not before.cordoned:
            why = f": {now.cordon_reason}" if now.cordon_reason else ""
            told = f"cordoned, takes no new work{why}"
            self._pool_event(pool, OccurrenceKind.CORDONED, told, event, Reason.CORDONED)
        elif before.cordoned and not now.cordoned:
            self._pool_event(pool, OccurrenceKind.UNCORDONED, "takes new work again", event)

    def _replica_changed(self, replica: ReplicaId, event: Event) -> None:
        """Whoever goes, or starts anew, has forgotten what it had seen."""
        known = self._world.replicas.get(replica)
        if replica == self._replica or known is None:
            return
        if event.kind is EventKind.DELETE or decode(event.kv.value, ReplicaValue).nonce != known.nonce:
            self.gap()

    def _pool_event(
        self, pool: PoolName, kind: OccurrenceKind, told: str, event: Event, reason: Reason = Reason.UNSPECIFIED
    ) -> None:
        at_ms, revision = self._clock.now_ms(), event.kv.mod_revision
        self._add(Occurrence(at_ms, kind, pool=pool, reason=reason, message=told, revision=revision))

    # ---- what no key says ------------------------------------------------------------------------------------

    def look(self) -> None:
        """See whose summaries are too old by now; cheap to call often."""
        now_s = self._clock.monotonic()
        if now_s < self._looked_s + LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for pool in self._world.pool_names():
            summary = self._world.ledger(pool).summary
            if summary is not None and self._world.attached_to(pool):
                self._aged(pool, now_s - summary.received_s)

    def _aged(self, pool: PoolName, age_s: float) -> None:
        fresh = age_s <= self._summary_age_max_s
        if self._fresh.get(pool, True) == fresh:
            return
        self._fresh[pool] = fresh
        if fresh:
            kind, reason, told = OccurrenceKind.SUMMARY_FRESH, Reason.UNSPECIFIED, "its summaries come again"
        else:
            kind, reason = OccurrenceKind.SUMMARY_OLD, Reason.STALE
            told = f"its last summary is {age_s:.0f} s old; it gets no new work"
        self._add(Occurrence(self._clock.now_ms(), kind, pool=pool, reason=reason, message=told))


def _order(value: PoolConfigValue) -> LeaveFacts | None:
    leave = value.leave
    return LeaveFacts(leave.since_ms, leave.force, leave.vouched, leave.incarnation) if leave is not None else None


def _leave_words(leave: LeaveValue) -> str:
    if leave.vouched:
        return "leaves, its machines are vouched to be dead: its jobs start again elsewhere"
    return "leaves by force: its jobs are LOST" if leave.force else "leaves: drained first, then gone"


class Gatherer:
    """What all replicas remember.

    Args:
        beside: the rings of other replicas of this process.
        elsewhere: replicas of other processes; None if there are none.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        replica: ReplicaId,
        beside: Callable[[], Mapping[ReplicaId, Chronicle]],
        elsewhere: Elsewhere | None,
    ) -> None:
        self._recorder = recorder
        self._replica = replica
        self._beside = beside
        self._elsewhere = elsewhere

    async def events(
        self, query: OccurrenceQuery, cursors: Mapping[str, RingCursor], *, deadline_s: float
    ) -> EventPage:
        """What lies beyond the cursors, in order; see `ports.EventMemory`."""
        self._recorder.look()
        rings = {self._replica: self._recorder.ring, **self._beside()}
        pages = {str(name): ring_page(ring, query, cursors.get(name)) for name, ring in rings.items()}
        silent: tuple[ReplicaId, ...] = ()
        if self._elsewhere is not None:
            others, silent = await self._elsewhere.events(query, cursors, deadline_s=deadline_s)
            pages.update(others)
        mine = pages[self._replica]
        seen = [event for name, page in pages.items() if page is not mine for event in page.events if event.revision]
        return EventPage(
            events=in_order([*mine.events, *seen]),
            cursors={**cursors, **{name: page.cursor for name, page in pages.items()}},
            since_ms=max(page.since_ms for page in pages.values()),
            silent=tuple(sorted(silent)),
            more=any(page.more for page in pages.values()),
        )


def ring_page(ring: Chronicle, query: OccurrenceQuery, cursor: RingCursor | None) -> RingPage:
    """One page of a ring."""
    return ring.page(query, cursor or RingCursor(), EVENTS_PER_FETCH_MAX)


def in_order(events: Iterable[Occurrence]) -> tuple[Occurrence, ...]:
    """By revision, each once; what has none stands where its time says."""
    by_time = sorted((e for e in events if not e.revision), key=lambda e: e.at_ms)
    once = {event.identity: event for event in events if event.revision}
    ordered: list[Occurrence] = []
    for event in sorted(once.values(), key=lambda e: e.identity):
        while by_time and by_time[0].at_ms < event.at_ms:
            ordered.append(by_time.pop(0))
        ordered.append(event)
    return (*ordered, *by_time)
