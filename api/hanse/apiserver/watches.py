"""Following jobs: a cursor over the store's history, turned into messages. Nothing is queued for a slow reader.

A watch belongs to its caller alone: it holds no place in memory while its caller does not read, and goes on where it
was. What it can lose is history itself: when the store has compacted what comes next, the watch ends with
OUT_OF_RANGE and its caller lists again.

A response never promises more than it holds: only the last one of a batch of changes carries the batch's revision;
those before it repeat the revision before. So a caller who resumes may see a change twice, and never misses one.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hanse.api.v1 import job_service_pb2
from hanse.apiserver.access.rights import Access
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.context import CallContext
from hanse.apiserver.job_messages import fill_job
from hanse.apiserver.lookup import found_of
from hanse.apiserver.rows import JobReader
from hanse.apiserver.sight import SeenUids, Sight
from hanse.kit.clock import Clock
from hanse.model.errors import InvalidArgument, OutOfRange
from hanse.model.ids import JobId, QueueUid, is_job_id, read_queue_of
from hanse.model.names import quoted
from hanse.store import keys
from hanse.store.contract import Event, EventKind, Store, WatchBatch, key_after, prefix_end
from hanse.wire.limits import WATCHED_JOBS_MAX

EVENTS_PER_RESPONSE_MAX: Final = 200
PROGRESS_S: Final = 5.0
"""A batch that only says how far the store is, is passed on after this time without news."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is followed: the keys in [start, end), of these only `jobs`, if it is not None, and only those in queues
    that are `seen`, if that is not None. `spans`: the ranges of keys in which they all lie now, in order."""

    start: str
    end: str
    jobs: frozenset[JobId] | None = None
    seen: SeenUids | None = None
    spans: tuple[tuple[str, str], ...] = ()

    def holds(self, key: str) -> bool:
        if self.seen is not None and not self.seen.known.get(read_queue_of(keys.job_of(key)), False):
            return False
        return self.jobs is None or keys.job_of(key) in self.jobs

    async def look(self, found: Iterable[str]) -> None:
        """Learn of the queues of these keys."""
        if self.seen is not None:
            await self.seen.look({read_queue_of(keys.job_of(key)) for key in found})


class JobWatcher:
    """Answers WatchJobs."""

    def __init__(self, store: Store, reader: JobReader, sight: Sight, clock: Clock) -> None:
        self._store = store
        self._reader = reader
        self._sight = sight
        self._clock = clock

    async def watch(
        self, ctx: CallContext, request: job_service_pb2.WatchJobsRequest
    ) -> AsyncIterator[job_service_pb2.WatchJobsResponse]:
        """Responses for as long as the caller iterates.

        Raises:
            InvalidArgument, NotFound: what is asked for is wrong.
            OutOfRange, Compacted: the revision is not kept (any more): list again.
        """
        scope = await self._scope(ctx.access, request)
        full = request.view == job_service_pb2.JOB_VIEW_FULL
        current = (await self._store.read([keys.INCARNATION])).revision
        revision = _resumed(request, current)
        if not revision and request.snapshot:
            async for response in self._snapshot(scope, full=full):
                revision = response.revision
                yield response
        elif not revision:
            revision = current
            yield job_service_pb2.WatchJobsResponse(revision=revision, synced=True)
        async for response in self._changes(scope, revision, full=full):
            yield response

    async def _scope(self, access: Access, request: job_service_pb2.WatchJobsRequest) -> Scope:
        start, end = keys.STATES, prefix_end(keys.STATES)
        if request.queue:
            uid = QueueUid((await self._sight.queue(access, request.queue)).value.uid)
            start, end = keys.states(uid), prefix_end(keys.states(uid))
        elif not access.everywhere(Verb.VIEW):
            return await self._seen(access, request)
        if not request.job_ids:
            return Scope(start, end, spans=((start, end),))
        jobs = _jobs(request.job_ids)
        named = [key for job in jobs if start <= (key := keys.state(job)) < end]
        if not named:
            raise InvalidArgument("none of the jobs is in that queue", reason="JOB_ID_INVALID", path="job_ids")
        start, end = min(named), key_after(max(named))
        return Scope(start, end, jobs, spans=((start, end),))

    async def _seen(self, access: Access, request: job_service_pb2.WatchJobsRequest) -> Scope:
        """The queues that are seen now, and, if the policy has patterns, those that come. Jobs of others are none."""
        uids = sorted(QueueUid(stored.value.uid) for stored in (await self._sight.queues(access)).values())
        seen = SeenUids(self._store, access, dict.fromkeys(uids, True))
        spans = tuple((keys.states(uid), prefix_end(keys.states(uid))) for uid in uids)
        jobs = _jobs(request.job_ids) if request.job_ids else None
        if access.names(Verb.VIEW) is None or not uids:
            return Scope(keys.STATES, prefix_end(keys.STATES), jobs, seen, spans)
        return Scope(spans[0][0], spans[-1][1], jobs, seen, spans)

    async def _snapshot(self, scope: Scope, *, full: bool) -> AsyncIterator[job_service_pb2.WatchJobsResponse]:
        """Every job as it is at one revision; the last response says that it is complete."""
        revision = 0
        for start, end in scope.spans:
            at, more = start, True
            while more and at < end:
                page = await self._store.range(at, end, limit=EVENTS_PER_RESPONSE_MAX, at_revision=revision)
                revision, more = revision or page.revision, page.more
                at = key_after(page.items[-1].key) if page.items else end
                response = job_service_pb2.WatchJobsResponse(revision=revision)
                rows = await self._reader.rows([found_of(kv) for kv in page.items if scope.holds(kv.key)], specs=full)
                for row in rows:
                    event = response.events.add(kind=job_service_pb2.JOB_EVENT_KIND_SNAPSHOT)
                    fill_job(event.job, row, full=full)
                response.synced = (start, end) == scope.spans[-1] and not (more and at < end)
                yield response
        if not scope.spans:
            revision = (await self._store.read([keys.INCARNATION])).revision
            yield job_service_pb2.WatchJobsResponse(revision=revision, synced=True)

    async def _changes(
        self, scope: Scope, revision: int, *, full: bool
    ) -> AsyncIterator[job_service_pb2.WatchJobsResponse]:
        """Every change after a revision."""
        told_s = self._clock.monotonic()
        async with self._store.watch(scope.start, scope.end, from_revision=revision + 1) as watch:
            async for batch in watch:
                await scope.look(event.kv.key for event in batch.events)
                changes = _newest(batch, scope)
                if not changes and self._clock.monotonic() - told_s < PROGRESS_S:
                    continue
                async for response in self._told(changes, revision, batch.revision, full=full):
                    yield response
                revision, told_s = batch.revision, self._clock.monotonic()

    async def _told(
        self, changes: Sequence[Event], before: int, after: int, *, full: bool
    ) -> AsyncIterator[job_service_pb2.WatchJobsResponse]:
        """The changes of one batch in responses of bounded size; at least one."""
        for start in range(0, max(1, len(changes)), EVENTS_PER_RESPONSE_MAX):
            some = changes[start : start + EVENTS_PER_RESPONSE_MAX]
            last = start + EVENTS_PER_RESPONSE_MAX >= len(changes)
            response = job_service_pb2.WatchJobsResponse(revision=after if last else before)
            await self._tell(response, some, full=full)
            yield response

    async def _tell(
        self, response: job_service_pb2.WatchJobsResponse, changes: Sequence[Event], *, full: bool
    ) -> None:
        """Add an event for each change; in place, since putting one message into another copies it."""
        found = [found_of(event.kv) for event in changes if event.kind is EventKind.PUT]
        rows = iter(await self._reader.rows(found, specs=full))
        for change in changes:
            if change.kind is EventKind.PUT:
                event = response.events.add(kind=job_service_pb2.JOB_EVENT_KIND_CHANGED)
                fill_job(event.job, next(rows), full=full)
            else:
                event = response.events.add(kind=job_service_pb2.JOB_EVENT_KIND_REMOVED)
                event.job.id, event.job.revision = keys.job_of(change.kv.key), change.kv.mod_revision


def _resumed(request: job_service_pb2.WatchJobsRequest, current: int) -> int:
    """The revision to go on after, 0 to begin."""
    revision = request.after_revision
    if revision < 0:
        raise InvalidArgument(
            f"{revision} is not a revision; use 0 to begin now", reason="REVISION_INVALID", path="after_revision"
        )
    if revision > current:
        raise OutOfRange(
            f"revision {revision} lies in the future, the store is at {current}: list again and go on from there",
            reason="REVISION_UNKNOWN",
            path="after_revision",
        )
    return revision


def _jobs(ids: Sequence[str]) -> frozenset[JobId]:
    if len(ids) > WATCHED_JOBS_MAX:
        raise InvalidArgument(
            f"{len(ids)} jobs; watch at most {WATCHED_JOBS_MAX} by id, or a queue", reason="TOO_MANY", path="job_ids"
        )
    for index, text in enumerate(ids):
        if not is_job_id(text) or "/" in text:
            raise InvalidArgument(
                f"{quoted(text)} is not a job id; look it up by its name first",
                reason="JOB_ID_INVALID",
                path=f"job_ids[{index}]",
            )
    return frozenset(JobId(text) for text in ids)


def _newest(batch: WatchBatch, scope: Scope) -> list[Event]:
    """The last change of each job that is followed, in the order of their revisions."""
    newest = {event.kv.key: event for event in batch.events if scope.holds(event.kv.key)}
    return sorted(newest.values(), key=lambda event: (event.kv.mod_revision, event.kv.key))
