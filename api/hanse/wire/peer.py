"""hanse.link.v1.PeerService ⇄ model: what replicas ask each other."""

from collections.abc import Iterable
from typing import Final

from hanse.link.v1 import peer_pb2 as pb
from hanse.model.detail import DetailReply, DetailRequest, Question
from hanse.model.errors import InvalidArgument
from hanse.model.ids import PoolName
from hanse.model.summary import KnownSummary, PoolSummary
from hanse.wire.detail import reply_from_wire, reply_to_wire, request_from_wire, request_to_wire
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
