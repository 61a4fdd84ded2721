"""hanse.link.v1.PeerService ⇄ model: what replicas ask each other."""

from collections.abc import Iterable
from typing import Final

from hanse.link.v1 import peer_pb2 as pb
from hanse.model.detail import DetailReply, DetailRequest, Question
from hanse.model.errors import InvalidArgument
from hanse.model.ids import Attempt, JobId, PoolName, QueueUid, ReplicaId
from hanse.model.occurrence import (
    EVENTS_PER_FETCH_MAX,
    Occurrence,
    OccurrenceKind,
    OccurrenceQuery,
    RingCursor,
    RingPage,
)
from hanse.model.reasons import Reason
from hanse.model.summary import KnownSummary, PoolSummary
from hanse.model.vitals import Vitals
from hanse.wire.detail import reply_from_wire, reply_to_wire, request_from_wire, request_to_wire
from hanse.wire.enums import enum_from_wire
from hanse.wire.parts import epoch_from_wire, epoch_to_wire
from hanse.wire.summary import summary_from_wire, summary_to_wire

SUMMARIES_PER_FETCH_MAX: Final = 256
"""Pools named in one request: even with both shapes of each, the answer is within what a message may have."""


def ask_to_wire(federation: str, pool: PoolName, question: Question) -> pb.AskPoolRequest:
    return pb.AskPoolRequest(federation=federation, pool=pool, question=request_to_wire(DetailRequest(0, question)))


def ask_from_wire(request: pb.AskPoolRequest) -> tuple[PoolName, Question]:
    """InvalidArgument if it asks nothing, or nobody."""
    if not request.pool:
        raise InvalidArgument("a question names the pool whose agent it is for", path="pool")
    return PoolName(request.pool), request_from_wire(request.question).question


def piece_to_wire(reply: DetailReply) -> pb.AskPoolResponse:
    return pb.AskPoolResponse(reply=reply_to_wire(reply))


def piece_from_wire(response: pb.AskPoolResponse) -> DetailReply:
    return reply_from_wire(response.reply)


def fetch_to_wire(federation: str, known: Iterable[KnownSummary]) -> pb.FetchSummariesRequest:
    return pb.FetchSummariesRequest(
        federation=federation,
        known=[
            pb.KnownSummary(pool=one.pool, epoch=epoch_to_wire(one.epoch), sequence=one.sequence) for one in known
        ],
    )


def fetch_from_wire(request: pb.FetchSummariesRequest) -> tuple[KnownSummary, ...]:
    """InvalidArgument if it names more pools than one answer may have."""
    if len(request.known) > SUMMARIES_PER_FETCH_MAX:
        what = f"{len(request.known)} pools; name at most {SUMMARIES_PER_FETCH_MAX} in a call"
        raise InvalidArgument(what, path="known")
    return tuple(KnownSummary(PoolName(one.pool), epoch_from_wire(one.epoch), one.sequence) for one in request.known)


def summaries_to_wire(found: Iterable[PoolSummary]) -> pb.FetchSummariesResponse:
    return pb.FetchSummariesResponse(summaries=[summary_to_wire(summary) for summary in found])


def summaries_from_wire(response: pb.FetchSummariesResponse) -> tuple[PoolSummary, ...]:
    return tuple(summary_from_wire(one) for one in response.summaries)


def events_to_wire(federation: str, query: OccurrenceQuery, cursor: RingCursor) -> pb.FetchEventsRequest:
    return pb.FetchEventsRequest(
        federation=federation,
        job=query.job,
        pool=query.pool,
        since_ms=query.since_ms,
        nonce=cursor.nonce,
        number=cursor.number,
        events_max=EVENTS_PER_FETCH_MAX,
        queues=sorted(query.queues or ()),
        only_queues=query.queues is not None,
    )


def events_from_wire(request: pb.FetchEventsRequest) -> tuple[OccurrenceQuery, RingCursor, int]:
    """What is asked for, from where on, and how many at most; InvalidArgument if that is none, or too many."""
    if not 1 <= request.events_max <= EVENTS_PER_FETCH_MAX:
        what = f"{request.events_max} events; ask for 1 to {EVENTS_PER_FETCH_MAX}"
        raise InvalidArgument(what, path="events_max")
    queues = frozenset(QueueUid(uid) for uid in request.queues) if request.only_queues else None
    query = OccurrenceQuery(JobId(request.job), PoolName(request.pool), request.since_ms, queues)
    return query, RingCursor(request.nonce, request.number), request.events_max


def ring_page_to_wire(page: RingPage) -> pb.FetchEventsResponse:
    return pb.FetchEventsResponse(
        nonce=page.cursor.nonce,
        number=page.cursor.number,
        since_ms=page.since_ms,
        more=page.more,
        events=[_occurrence_to_wire(event) for event in page.events],
    )


def ring_page_from_wire(response: pb.FetchEventsResponse) -> RingPage:
    """InvalidArgument for what a newer replica knows and this one does not."""
    events = tuple(_occurrence_from_wire(event) for event in response.events)
    return RingPage(events, RingCursor(response.nonce, response.number), response.since_ms, response.more)


def _occurrence_to_wire(event: Occurrence) -> pb.Occurrence:
    return pb.Occurrence(
        at_ms=event.at_ms,
        kind=event.kind,
        job=event.job,
        pool=event.pool,
        attempt=event.attempt,
        reason=event.reason,
        message=event.message,
        revision=event.revision,
    )


def _occurrence_from_wire(message: pb.Occurrence) -> Occurrence:
    return Occurrence(
        at_ms=message.at_ms,
        kind=enum_from_wire(OccurrenceKind, message.kind, "kind"),
        job=JobId(message.job),
        pool=PoolName(message.pool),
        attempt=Attempt(message.attempt),
        reason=enum_from_wire(Reason, message.reason, "reason"),
        message=message.message,
        revision=message.revision,
    )


def vitals_to_wire(vitals: Vitals) -> pb.FetchVitalsResponse:
    return pb.FetchVitalsResponse(
        replica=vitals.replica,
        ready=vitals.ready,
        uptime_s=vitals.uptime_s,
        agents=vitals.agents,
        roots=vitals.roots,
        pending_jobs=vitals.pending_jobs,
        unsettled=vitals.unsettled,
        counts=vitals.counts,
        window_s=vitals.window_s,
        lately=vitals.lately,
        facts=vitals.facts,
        version=vitals.version,
        time_ms=vitals.time_ms,
    )


def vitals_from_wire(message: pb.FetchVitalsResponse) -> Vitals:
    return Vitals(
        replica=ReplicaId(message.replica),
        ready=message.ready,
        uptime_s=message.uptime_s,
        agents=message.agents,
        roots=message.roots,
        pending_jobs=message.pending_jobs,
        unsettled=message.unsettled,
        counts=dict(sorted(message.counts.items())),
        window_s=message.window_s,
        lately=dict(sorted(message.lately.items())),
        facts=dict(sorted(message.facts.items())),
        version=message.version,
        time_ms=message.time_ms,
    )
