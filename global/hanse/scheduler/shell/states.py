"""Follows the states of the queues whose roots this replica holds, and keeps its pending jobs.

Only pending jobs are kept as objects, and split gangs that are about to start (their skew is watched). Everything
else about a job stays in the store. A job on hold is not among the pending ones, so no planner ever meets it; its
release brings it back, at the place that its age and priority give it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from hanse.model.ids import JobId, QueueUid, queue_of
from hanse.model.lifecycle import JobState, State
from hanse.scheduler.core.pending import PendingSet, pending_job
from hanse.scheduler.core.waiting_rows import WaitingRows
from hanse.scheduler.shell.feed import RETRY_S
from hanse.scheduler.shell.state_loading import Loaded, load_columns
from hanse.store import keys
from hanse.store.contract import Compacted, Event, EventKind, KeyValue, Store, StoreUnavailable, prefix_end
from hanse.store.schema import decode_state

log = logging.getLogger(__name__)

QUEUES_FOLLOWED_MAX: Final = 10_000
"""Queues that one replica follows at once."""

QUEUES_READ_MAX: Final = 4
"""Queues that are read as a whole at the same time: enough to keep the store busy, few enough to be small."""


class States:
    """The pending jobs of the queues that are followed.

    Attributes:
        pending: in order of service, without those on hold.
        on_move: told of every state that is seen, also of the same one twice; when a queue is read as a whole, only
            of those that are awaited.
        awaited: jobs of which somebody waits for news.
        on_news: told of every state that is written, with what was known of the job if it waited.
        on_gap: told that states may have been written which nobody here has seen.
        held: jobs that wait and are on hold.
        starting: split gangs that were told to start and do not all run yet, with the time of that decision.
        ended: how many terminal states were seen, some more than once: it grows when jobs end.
    """

    def __init__(
        self,
        store: Store,
        on_change: Callable[[], None],
        on_move: Callable[[JobId, JobState], None] = lambda job, state: None,
    ) -> None:
        self._store = store
        self._on_change = on_change
        self.on_move = on_move
        self.on_news: Callable[[JobId, JobState | None, JobState, KeyValue], None] = lambda job, before, now, kv: None
        self.on_gap: Callable[[], None] = lambda: None
        self.awaited: Callable[[], Collection[JobId]] = tuple
        self.held: dict[JobId, JobState] = {}
        self._reading = asyncio.Semaphore(QUEUES_READ_MAX)
        self._tasks: dict[QueueUid, asyncio.Task[None]] = {}
        self._loaded: set[QueueUid] = set()
        self._taken: dict[JobId, int] = {}
        self.pending = PendingSet()
        self.starting: dict[JobId, JobState] = {}
        self.ended = 0

    def follow(self, queues: Mapping[QueueUid, str]) -> None:
        """Follow exactly these queues; new ones are read from the start, others are forgotten."""
        for uid in sorted(self._tasks):
            if uid not in queues:
                self._tasks.pop(uid).cancel()
                self._forget(uid)
        for uid in sorted(queues)[:QUEUES_FOLLOWED_MAX]:
            if uid not in self._tasks or self._tasks[uid].done():
                task = asyncio.create_task(self._run(uid), name=f"states-{uid}")
                task.add_done_callback(_log_end)
                self._tasks[uid] = task

    def loaded(self, uid: QueueUid) -> bool:
        """Whether every state of the queue has been seen once."""
        return uid in self._loaded

    def took(self, job: JobId, revision: int) -> None:
        """This replica bound the job at that revision: it is not pending, whatever older events still come.

        It may be pending again already: the feed can be quicker than the answer to our own commit.
        """
        known = self.pending.get(job)
        if known is None or known.state_revision < revision:
            self._taken[job] = revision
            self.pending.remove(job)

    async def refresh(self, jobs: Sequence[JobId]) -> None:
        """Read these jobs' states now: a guard on them did not hold, or an outcome was not known."""
        if not jobs:
            return
        read = await self._store.read([keys.state(job) for job in jobs])
        for key in sorted(read.items):
            uid = queue_of(keys.job_of(key))
            if uid in self._loaded:
                self._put(uid, read.items[key])
        self._on_change()

    async def close(self) -> None:
        """Stop following."""
        tasks = [self._tasks[uid] for uid in sorted(self._tasks)]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, uid: QueueUid) -> None:
        self._loaded.discard(uid)
        self.pending.remove_queue(uid)
        for jobs in (self.starting, self.held):
            for job in [j for j in jobs if queue_of(j) == uid]:
                del jobs[job]

    async def _run(self, uid: QueueUid) -> None:
        while True:
            try:
                await self._load_and_follow(uid)
            except Compacted:
                log.info("states_reload", extra={"queue": uid})
            except StoreUnavailable as error:
                log.warning("states_unavailable", extra={"queue": uid, "cause": str(error)})
                await asyncio.sleep(RETRY_S)

    async def _load_and_follow(self, uid: QueueUid) -> None:
        prefix = keys.states(uid)
        async with self._reading:
            loaded = await load_columns(self._store, prefix, {*self._taken, *self.awaited()})
        revision = loaded.revision
        if uid in self._loaded:
            self.on_gap()
        self._forget(uid)
        self._take_in(uid, loaded)
        self._loaded.add(uid)
        self._on_change()
        watch = self._store.watch(prefix, prefix_end(prefix), from_revision=revision + 1)
        async with watch:
            async for batch in watch:
                for event in batch.events:
                    self._apply(uid, event)
                self._on_change()

    def _take_in(self, uid: QueueUid, loaded: Loaded) -> None:
        """What was read of a queue: most of it stays in columns, some of it is looked at one by one."""
        self.ended += loaded.ended
        self.pending.load(WaitingRows(uid, loaded.jobs, loaded.records, loaded.revisions))
        for kv in loaded.others:
            self._put(uid, kv)

    def _apply(self, uid: QueueUid, event: Event) -> None:
        if event.kind is EventKind.PUT:
            self._put(uid, event.kv, news=True)
        else:
            job = keys.job_of(event.kv.key)
            self.pending.remove(job)
            for known in (self.starting, self.held, self._taken):
                known.pop(job, None)

    def _waiting(self, job: JobId) -> JobState | None:
        """What is known of a job that waits."""
        known = self.pending.get(job)
        return known.state if known is not None else self.held.get(job)

    def _put(self, uid: QueueUid, kv: KeyValue, *, news: bool = False) -> None:
        job = keys.job_of(kv.key)
        try:
            state = decode_state(kv.value)
        except ValueError as error:
            log.error("state_bad_value", extra={"job": job, "cause": str(error)})
            return
        self.on_move(job, state)
        if news:
            self.on_news(job, self._waiting(job), state, kv)
        self.ended += state.state.terminal
        taken = self._taken.pop(job, 0)
        if state.state is State.PENDING and kv.mod_revision < taken:
            self._taken[job] = taken
            return
        if state.state is State.PENDING and not state.held:
            known = self.pending.get(job)
            if known is None or known.state_revision < kv.mod_revision:
                self.pending.put(pending_job(job, uid, state, kv.mod_revision))
        else:
            self.pending.remove(job)
        if state.held:
            self.held[job] = state
        else:
            self.held.pop(job, None)
        if state.state is State.STARTING and len(state.pools) > 1:
            self.starting[job] = state
        else:
            self.starting.pop(job, None)


def _log_end(task: asyncio.Task[None]) -> None:
    """A queue that is no longer followed because of a bug must not go unseen; the next cycle follows it anew."""
    if not task.cancelled() and task.exception() is not None:
        log.error("states_failed", extra={"task": task.get_name()}, exc_info=task.exception())
