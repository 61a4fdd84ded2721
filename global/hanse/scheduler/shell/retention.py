"""Drops jobs that ended long ago, once they are in an archive.

The replica that holds the grant of a queue's root sees to its jobs; those of queues that are gone are seen to by the
rendezvous winner among the replicas. Who does it is never a question of safety; what a job has to have behind it
before it may go is told in `departures`.

All is found by walking through the states, from time to time: at a pace of its own, and once more when more jobs have
ended than are to be kept. So a replica that was away for a week finds on its return what it would have found then.

Rejected: an index of ended jobs by time. It would make the walk needless, for one more key written, and deleted, in
the life of every job.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.ids import JobId, QueueUid
from hanse.model.lifecycle import JobState, decode_state
from hanse.scheduler.core.retention import Ended, Retention
from hanse.scheduler.core.world import World, winner
from hanse.scheduler.shell.departures import Archive, ArchiveFailed, batches, drop, ready_to_go
from hanse.scheduler.shell.states import States
from hanse.store import keys
from hanse.store.contract import KeyValue, Store, StoreUnavailable, key_after, prefix_end

log = logging.getLogger(__name__)

WALK_EVERY_MAX_S: Final = 600.0
WALK_EVERY_MIN_S: Final = 1.0
WALKS_PER_AGE: Final = 144
"""A job stays at most this part of its time longer; ten minutes of a day."""

LOOK_EVERY_S: Final = 1.0
PAGE_KEYS: Final = 1_000
PAGE_PAUSE_S: Final = 0.05
"""A walk reads at most 20,000 states in a second: 2 MB."""

CANDIDATES_MAX: Final = 32_768
"""Jobs that one walk can mark for dropping; 5 MB of memory."""

JOBS_PER_ROUND: Final = 128
"""Jobs that are read, archived with one sync of the disk, and dropped; their specs have up to 64 KiB each."""

RETRY_S: Final = 30.0
"""Pause after the archive, or the store, could not be used."""


class Retainer:
    """Sees to the ended jobs of one replica's roots."""

    def __init__(
        self,
        store: Store,
        world: World,
        states: States,
        clock: Clock,
        archive: Archive,
        *,
        nonce: str,
        retention: Retention,
    ) -> None:
        self._store = store
        self._world = world
        self._states = states
        self._clock = clock
        self._archive = archive
        self._nonce = nonce
        self._retention = retention
        self._walked_s = float("-inf")
        self._kept = 0
        self._ended_before = 0
        self._failing = False
        self._waiting: set[JobId] = set()
        self._missing: set[str] = set()

    async def run(self) -> None:
        """Walk, and drop, until cancelled."""
        while True:
            await self._until_due()
            try:
                await self.walk()
            except StoreUnavailable as error:
                log.warning("retention_unavailable", extra={"cause": str(error)})
                await asyncio.sleep(RETRY_S)
            except ArchiveFailed as error:
                self._tell_failure(error)
                await asyncio.sleep(RETRY_S)

    async def walk(self) -> int:
        """Look at every ended job once, and drop what is not to stay; how many were dropped.

        Raises:
            StoreUnavailable, ArchiveFailed: what was not dropped is met by the next walk.
        """
        self._walked_s, self._ended_before = self._clock.monotonic(), self._states.ended
        ended = Ended(CANDIDATES_MAX)
        for start, end in self._spans():
            await self._look_through(start, end, ended)
        self._kept = ended.total
        surplus = ended.surplus(age_s=self._retention.age_s, jobs_max=self._share(), now_ms=self._clock.now_ms())
        waiting: set[JobId] = set()
        for at in range(0, len(surplus), JOBS_PER_ROUND):
            waiting.update(await self._round(surplus[at : at + JOBS_PER_ROUND]))
        full = len(surplus) == CANDIDATES_MAX
        self._waiting = waiting if full else set()  # left out by the next walk, lest they hide the rest
        dropped = ended.total - self._kept
        if dropped:
            log.info("jobs_dropped", extra={"jobs": dropped, "kept": self._kept})
        if dropped and full:
            self._walked_s = float("-inf")
        return dropped

    @property
    def kept(self) -> int:
        """Ended jobs in the store, of those that this replica sees to, as of its last walk."""
        return self._kept

    # ---- when, and which ---------------------------------------------------------------------------------------

    async def _until_due(self) -> None:
        every_s = min(WALK_EVERY_MAX_S, max(WALK_EVERY_MIN_S, self._retention.age_s / WALKS_PER_AGE))
        while self._clock.monotonic() - self._walked_s < every_s:
            await asyncio.sleep(LOOK_EVERY_S)
            if self._kept + self._states.ended - self._ended_before > self._share():
                return

    def _mine(self) -> list[QueueUid]:
        held = self._world.held_roots(self._nonce)
        return sorted(uid for uid, facts in self._world.queues.items() if facts.root in held)

    def _share(self) -> int:
        return self._retention.share(len(self._mine()), len(self._world.queues), orphans=self._has_orphans())

    def _has_orphans(self) -> bool:
        """Whether the jobs of queues that are gone are this replica's to see to."""
        members = [self._world.replicas[one] for one in sorted(self._world.replicas)]
        return winner("", members) == self._world.replica

    def _spans(self) -> Iterator[tuple[str, str]]:
        """Ranges of states to walk through: my queues, and what belongs to no queue if that is mine to see to."""
        mine = self._mine()
        if not self._has_orphans():
            for uid in mine:
                yield keys.states(uid), prefix_end(keys.states(uid))
            return
        start = keys.STATES
        for uid in sorted(set(self._world.queues).difference(mine)):
            yield start, keys.states(uid)
            start = prefix_end(keys.states(uid))
        yield start, prefix_end(keys.STATES)

    async def _look_through(self, start: str, end: str, ended: Ended) -> None:
        while start < end:
            page = await self._store.range(start, end, limit=PAGE_KEYS)
            for kv in page.items:
                state, job = _state(kv), keys.job_of(kv.key)
                if state is not None and state.state.terminal:
                    ended.add(job, state.changed_ms, candidate=job not in self._waiting)
            if not page.more or not page.items:
                return
            start = key_after(page.items[-1].key)
            await asyncio.sleep(PAGE_PAUSE_S)

    # ---- dropping ----------------------------------------------------------------------------------------------

    async def _round(self, jobs: Sequence[JobId]) -> set[JobId]:
        """Archive some jobs and drop them, no faster than allowed; those that may not go yet."""
        begun_s = self._clock.monotonic()
        ready = await ready_to_go(self._store, jobs, now_ms=self._clock.now_ms())
        if ready:
            await self._archive.keep(ready)
            self._tell_success(len(ready))
            for batch in batches(ready):  # one after the other: they add to the same sums
                dropped = await drop(self._store, batch, self._missing, now_ms=self._clock.now_ms())
                metrics.JOBS_DROPPED.add(dropped)
                self._kept -= dropped
        spent_s = self._clock.monotonic() - begun_s
        await asyncio.sleep(max(0.0, len(jobs) / self._retention.drop_per_s - spent_s))
        return set(jobs).difference(one.job for one in ready)

    # ---- telling -----------------------------------------------------------------------------------------------

    def _tell_success(self, jobs: int) -> None:
        metrics.JOBS_ARCHIVED.add(jobs)
        if self._failing:
            log.warning("archive_works_again")
        self._failing = False

    def _tell_failure(self, error: ArchiveFailed) -> None:
        """Once for each time that it begins to fail; the metric counts every try."""
        metrics.ARCHIVE_FAILURES.add(1)
        if not self._failing:
            log.error("archive_failed", extra={"cause": str(error)})
        self._failing = True


def _state(kv: KeyValue) -> JobState | None:
    try:
        return decode_state(kv.value)
    except ValueError:
        return None  # whoever follows its queue has told of it
