"""EventService as coroutines on messages: what happened, and with `follow` what happens.

Replicas remember, this only asks: all of them for a page, and while a reader follows, again for what lies beyond it.
Nothing is queued for a slow reader; what the rings forget meanwhile it misses, and `remembered_since_ms` says so.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from hanse.api.v1 import event_service_pb2
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.context import CallContext
from hanse.apiserver.lookup import read_found
from hanse.apiserver.past_events import completed, from_record
from hanse.apiserver.ports import EventMemory, EventPage, FleetView
from hanse.apiserver.rows import JobReader, JobRow
from hanse.apiserver.seen import sees_all
from hanse.apiserver.sight import Sight
from hanse.apiserver.suggest import did_you_mean
from hanse.model.errors import InvalidArgument, NotFound, OutOfRange, Unavailable
from hanse.model.ids import JobId, PoolName, QueueUid
from hanse.model.names import quoted
from hanse.model.occurrence import EVENTS_PER_FETCH_MAX, Occurrence, OccurrenceKind, OccurrenceQuery
from hanse.store.contract import Store
from hanse.wire.event import event_to_wire
from hanse.wire.limits import TAIL_EVENTS_DEFAULT, TAIL_EVENTS_MAX

PEERS_DEADLINE_S: Final = 1.0
"""How long an answer waits for other replicas."""

TOLD_KEPT_MAX: Final = 10 * EVENTS_PER_FETCH_MAX
"""Identities of events that a reader was told: another replica may tell them again, a little later."""


class EventService:
    """The methods of hanse.api.v1.EventService."""

    def __init__(
        self, store: Store, reader: JobReader, sight: Sight, memory: EventMemory | None, fleet: FleetView
    ) -> None:
        self._store = store
        self._reader = reader
        self._sight = sight
        self._memory = memory
        self._fleet = fleet

    async def tail_events(
        self, ctx: CallContext, request: event_service_pb2.TailEventsRequest
    ) -> AsyncIterator[event_service_pb2.TailEventsResponse]:
        """The past in one response, then, if that is asked for, the news.

        Raises:
            InvalidArgument, NotFound, FailedPrecondition: what is asked for is wrong.
            OutOfRange: reason EVENTS_GONE.
            Unavailable: reason NO_EVENTS; no scheduler runs beside this server.
        """
        if self._memory is None:
            raise Unavailable("this server remembers no events; ask another replica", reason="NO_EVENTS")
        limit = _limit(request)
        row = await self._row(ctx, request)
        if request.pool:
            ctx.access.require(Verb.VIEW_FEDERATION)
        seen = None if row is not None or sees_all(ctx.access) else await self._seen(ctx)
        job, pool = row.found.job if row else JobId(""), PoolName(request.pool)
        query = OccurrenceQuery(job, pool, request.since_ms, seen)
        page = await self._memory.events(query, {}, deadline_s=PEERS_DEADLINE_S)
        self._check(request, page)
        kept = [event for event in page.events if query.holds(event)]
        events = completed(row, kept, request.since_ms) if row is not None else kept
        left_out = page.more or len(events) > limit
        yield await self._response(events[-limit:], page, older_left_out=left_out)
        if request.follow and not (row is not None and _end(events)):
            async for response in self._followed(self._memory, query, page):
                yield response

    async def _followed(
        self, memory: EventMemory, query: OccurrenceQuery, page: EventPage
    ) -> AsyncIterator[event_service_pb2.TailEventsResponse]:
        """What happens after a page; of one job, until it has ended."""
        told, over = _Told(page.events), False
        while True:
            if not page.more:
                await memory.news()
            row = await self._ended(query.job)
            before, page = page, await memory.events(query, page.cursors, deadline_s=PEERS_DEADLINE_S)
            events = told.news(event for event in page.events if query.holds(event))
            if over and row is not None and not _end(events):
                # The replica that saw the end is gone, or late: the record tells it.
                events = [*events, *(e for e in from_record(row) if e.kind is OccurrenceKind.ENDED)]
            if events or (page.silent, page.since_ms) != (before.silent, before.since_ms):
                yield await self._response(events, page)
            if query.job and _end(events):
                return
            over = row is not None

    async def _response(
        self, events: Sequence[Occurrence], page: EventPage, *, older_left_out: bool = False
    ) -> event_service_pb2.TailEventsResponse:
        heads = await self._reader.heads(list(dict.fromkeys(event.job for event in events if event.job)))
        return event_service_pb2.TailEventsResponse(
            events=[event_to_wire(e, name=heads[e.job].name if e.job else "") for e in events],
            remembered_since_ms=page.since_ms,
            replicas_silent=page.silent,
            older_left_out=older_left_out,
        )

    # ---- what is asked for ----------------------------------------------------------------------------------

    async def _row(self, ctx: CallContext, request: event_service_pb2.TailEventsRequest) -> JobRow | None:
        """The job that is asked for, with its history; None if none is."""
        if request.job and request.pool:
            raise InvalidArgument("events of a job, or of a pool; not of both", reason="TOO_MANY", path="pool")
        if not request.job:
            return None
        found = await self._sight.job(ctx.access, request.job, queue=request.queue)
        return (await self._reader.rows([found], past=True))[0]

    async def _seen(self, ctx: CallContext) -> frozenset[QueueUid]:
        """The queues of which a tenant is told; one that is made later is told of when they ask again."""
        queues = await self._sight.queues(ctx.access)
        return frozenset(QueueUid(stored.value.uid) for stored in queues.values())

    async def _ended(self, job: JobId) -> JobRow | None:
        """A job that has ended; None for one that has not, or for none."""
        found = [f for f in (await read_found(self._store, [job]) if job else []) if f.state.state.terminal]
        return (await self._reader.rows(found, past=True))[0] if found else None

    def _check(self, request: event_service_pb2.TailEventsRequest, page: EventPage) -> None:
        """Whether what is asked for exists, and is still remembered; a job's record remembers for itself."""
        known = [str(view.name) for view in self._fleet.pools()]
        if request.pool and not page.events and request.pool not in known:
            hint = did_you_mean(request.pool, known)
            raise NotFound(
                f"pool {quoted(request.pool)} does not exist{hint} (`hanse pools` lists them)",
                reason="POOL_NOT_FOUND",
                path="pool",
            )
        if not request.job and 0 < request.since_ms < page.since_ms:
            raise OutOfRange(
                f"what happened before {utc(page.since_ms)} is not remembered any more; ask for what came after",
                reason="EVENTS_GONE",
                path="since_ms",
            )


class _Told:
    """What a reader was told already, as far as it may come again."""

    def __init__(self, events: Iterable[Occurrence]) -> None:
        self._identities: OrderedDict[object, None] = OrderedDict()
        self.news(events)

    def news(self, events: Iterable[Occurrence]) -> list[Occurrence]:
        """Those that are new."""
        fresh = [event for event in events if not event.revision or event.identity not in self._identities]
        self._identities.update((event.identity, None) for event in fresh if event.revision)
        while len(self._identities) > TOLD_KEPT_MAX:
            self._identities.popitem(last=False)
        return fresh


def _limit(request: event_service_pb2.TailEventsRequest) -> int:
    if not 0 <= request.tail_events <= TAIL_EVENTS_MAX:
        raise InvalidArgument(
            f"{request.tail_events} events; ask for 1 to {TAIL_EVENTS_MAX}, or 0 for {TAIL_EVENTS_DEFAULT}",
            reason="TAIL_EVENTS_INVALID",
            path="tail_events",
        )
    if request.since_ms < 0:
        raise InvalidArgument(
            f"{request.since_ms} is not a time; use 0 for as far back as is remembered",
            reason="SINCE_INVALID",
            path="since_ms",
        )
    return request.tail_events or TAIL_EVENTS_DEFAULT


def _end(events: Iterable[Occurrence]) -> bool:
    """Whether the job that these are of has ended."""
    return any(event.kind is OccurrenceKind.ENDED for event in events)


def utc(at_ms: int) -> str:
    """`2026-11-30T14:02:07.250Z`."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
