"""Drops jobs that ended long ago, once they are in an archive.

The replica that holds the grant of a queue's root sees to its jobs; those of queues that are gone are seen to by the
rendezvous winner among the replicas. Who does it is never a question of safety: a job is deleted under the guard that
its state is as it was read, so two replicas that both mean to do it archive it twice and drop it once.

A job is dropped when

* its state is terminal, which nothing changes any more (S8);
* no binding of it is left (P12): a part that was told to stop and has not been released is still known by it;
* the record of its submission says *done*, or has run out. While a batch is not stored completely its repetition, or
  a transaction that is still on its way, stores every job whose state key is absent: a job that ran, ended and was
  dropped meanwhile would run again. A record that is done answers for at least a day, whether its jobs are still
  there or not, so a request id means the same job for as long as promised, however early the job is dropped;
* the archive holds it: its line is on the disk before the transaction is sent. A crash between the two leaves the job
  in the store, and a second line in the archive later.

All is found by walking through the states, from time to time: at a pace of its own, and once more when more jobs have
ended than are to be kept. So a replica that was away for a week finds on its return what it would have found then.

Rejected: an index of ended jobs by time. It would make the walk needless, for one more key written, and deleted, in
the life of every job.
"""

import asyncio
import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
from google.protobuf.message import DecodeError

from hanse.api.v1 import job_spec_pb2
from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.ids import JobId, QueueUid
from hanse.model.lifecycle import JobState, decode_state
from hanse.scheduler.core.retention import Ended, Retention
from hanse.scheduler.core.world import World, winner
from hanse.scheduler.shell.states import States
from hanse.store import keys
from hanse.store.contract import (
    TXN_OPS_MAX,
    Committed,
    Conflict,
    Delete,
    KeyValue,
    ModRevisionIs,
    Op,
    ReadResult,
    Store,
    StoreUnavailable,
    Txn,
    key_after,
    prefix_end,
)
from hanse.store.moves import JobView, read_jobs
from hanse.store.schema import PastValue, RequestValue, SpecEnvelope, decode, decode_spec

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

KEYS_PER_JOB: Final = 4
JOBS_PER_TXN: Final = TXN_OPS_MAX // KEYS_PER_JOB
DROP_TRIES_MAX: Final = 3
RETRY_S: Final = 30.0
"""Pause after the archive, or the store, could not be used."""

UNREADABLE_KEPT_MS: Final = 2 * 86_400_000
"""A job whose spec is damaged does not say which request made it; after this time no record of it is left."""


@dataclass(frozen=True, slots=True)
class EndedJob:
    """All that the store holds of a job that has ended; `spec` is None if it is damaged."""

    job: JobId
    state: JobState
    state_revision: int
    envelope: SpecEnvelope | None
    spec: job_spec_pb2.JobSpec | None
    past: PastValue | None


class Archive(Protocol):
    """Where jobs go before they are dropped."""

    async def keep(self, jobs: Sequence[EndedJob]) -> None:
        """Returns when they are safe; the same job may come more than once. Raises ArchiveFailed."""
        ...


class ArchiveFailed(Exception):
    """The archive could not take the jobs; one line for people that says what to do. They stay in the store."""


class NoArchive:
    """For those who have said that they want none."""

    async def keep(self, jobs: Sequence[EndedJob]) -> None:
        return None


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
        ready = await self._ready(jobs)
        if ready:
            await self._archive.keep(ready)
            self._tell_success(len(ready))
            some = [ready[at : at + JOBS_PER_TXN] for at in range(0, len(ready), JOBS_PER_TXN)]
            dropped = sum(await asyncio.gather(*(self._drop(one) for one in some)))
            metrics.JOBS_DROPPED.add(dropped)
            self._kept -= dropped
        spent_s = self._clock.monotonic() - begun_s
        await asyncio.sleep(max(0.0, len(jobs) / self._retention.drop_per_s - spent_s))
        return set(jobs).difference(one.job for one in ready)

    async def _ready(self, jobs: Sequence[JobId]) -> list[EndedJob]:
        """Those of the jobs that may be dropped, read whole."""
        views = [
            view
            for view in (await read_jobs(self._store, jobs)).values()
            if view.state.state.terminal and not view.parts
        ]
        wanted = [key for view in views for key in (keys.spec(view.job), keys.past(view.job))]
        read = await self._store.read(wanted)
        ended = [_ended_job(view, read) for view in views]
        unfinished = await self._unfinished([one.envelope for one in ended if one.envelope is not None])
        return [one for one in ended if self._may_go(one, unfinished)]

    def _may_go(self, one: EndedJob, unfinished: set[str]) -> bool:
        if one.envelope is None:
            return self._clock.now_ms() - one.state.submit_ms > UNREADABLE_KEPT_MS
        return keys.request(one.envelope.principal, one.envelope.request_id) not in unfinished

    async def _unfinished(self, envelopes: Sequence[SpecEnvelope]) -> set[str]:
        """Keys of the records of those submissions that are not stored completely."""
        wanted = dict.fromkeys(keys.request(one.principal, one.request_id) for one in envelopes)
        items = (await self._store.read(list(wanted))).items
        return {key for key, kv in items.items() if not decode(kv.value, RequestValue).done}

    async def _drop(self, ended: Sequence[EndedJob]) -> int:
        """Delete them by one transaction; those that somebody else has touched are left out. How many went.

        An unknown outcome is not settled: the transaction does no harm whenever it arrives, and the next walk sees.
        """
        left = list(ended)
        for _ in range(DROP_TRIES_MAX):
            outcome = await self._store.transact(_drop_txn(left)) if left else None
            match outcome:
                case Committed():
                    return len(left)
                case Conflict(current=current):
                    left = [one for one in left if current.get(keys.state(one.job)) == one.state_revision]
                case _:
                    return 0
        return 0

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


def _ended_job(view: JobView, read: ReadResult) -> EndedJob:
    spec, past = read.items.get(keys.spec(view.job)), read.items.get(keys.past(view.job))
    envelope, message = _read_spec(spec)
    history = decode(past.value, PastValue) if past is not None else None
    return EndedJob(view.job, view.state, view.state_revision, envelope, message, history)


def _read_spec(kv: KeyValue | None) -> tuple[SpecEnvelope | None, job_spec_pb2.JobSpec | None]:
    if kv is None:
        return None, None
    try:
        envelope = decode_spec(kv.value)
        return envelope, job_spec_pb2.JobSpec.FromString(envelope.spec)
    except (zlib.error, msgspec.DecodeError, DecodeError):
        return None, None


def _drop_txn(ended: Sequence[EndedJob]) -> Txn:
    ops: list[Op] = []
    for one in ended:
        job_keys = [keys.spec(one.job), keys.state(one.job), keys.past(one.job)]
        if one.spec is not None:
            job_keys.append(keys.name(one.spec.name, one.job))
        ops.extend(Delete(key) for key in job_keys)
    return Txn(tuple(ModRevisionIs(keys.state(one.job), one.state_revision) for one in ended), tuple(ops))
