"""hanse.link.v1.PeerService over gRPC: what this replica answers to replicas of other processes.

Only pools whose agent is attached to this very process are spoken for. A question is never handed on a second time,
so two replicas that believe of each other that they have an agent cannot send it round and round.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, TypeAlias

import grpc

from hanse.apiserver.ports import AuditLog
from hanse.kit.stream import StreamClosed
from hanse.kit.tasks import cancelled
from hanse.kit.telemetry import metrics
from hanse.kit.tls import Kind
from hanse.kit.trust.shown import Barred, nobody_is_barred, shown_by
from hanse.link.v1 import peer_pb2 as pb
from hanse.link.v1 import peer_pb2_grpc
from hanse.model.audit import AuditPage
from hanse.model.detail import ExecInput
from hanse.model.errors import InvalidArgument
from hanse.model.ids import PoolName
from hanse.scheduler.core.chronicle import Chronicle
from hanse.scheduler.shell.peers import Asked, Pieces
from hanse.scheduler.shell.summaries import Summaries
from hanse.scheduler.shell.vitals import VitalsKeeper
from hanse.wire.audit import audit_page_to_wire, audit_query_from_wire
from hanse.wire.peer import (
    ask_from_wire,
    events_from_wire,
    fetch_from_wire,
    piece_to_wire,
    ring_page_to_wire,
    summaries_to_wire,
    vitals_to_wire,
)

log = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[pb.AskPoolRequest, pb.AskPoolResponse]"


class Answering(Protocol):
    """A replica."""

    @property
    def federation(self) -> str:
        """Name of its federation."""
        ...

    @property
    def summaries(self) -> Summaries:
        """What its pools say."""
        ...

    @property
    def ring(self) -> Chronicle:
        """What it remembers."""
        ...

    @property
    def vitals(self) -> VitalsKeeper:
        """How it is."""
        ...

    @property
    def audit(self) -> AuditLog | None:
        """Where its process writes down who did what."""
        ...

    def session(self, pool: PoolName) -> Asked | None:
        """The pool's stream in this process, None if there is none."""
        ...


class PeerService(peer_pb2_grpc.PeerServiceServicer):
    """Answers for the replica that sits here at the moment.

    Args:
        certificates: only those are answered whose certificate names a replica.
        barred: which of them are revoked.
    """

    def __init__(
        self, replica: Callable[[], Answering], *, certificates: bool = False, barred: Barred = nobody_is_barred
    ) -> None:
        self._replica = replica
        self._certificates = certificates
        self._barred = barred

    async def _asked(self, context: "grpc.aio.ServicerContext[Any, Any]", federation: str) -> Answering:
        """The replica, if the call is of one of its federation; else the call is refused."""
        if self._certificates:
            shown = shown_by(context.auth_context())
            asker = shown.identity if shown is not None else None
            if shown is None or asker is None or asker.kind is not Kind.REPLICA:
                await _refuse(context, "certificate", f"only a replica may ask this, not {asker}")
            elif self._barred(shown):
                await _refuse(context, "revoked", f"the certificate of {asker}, serial {shown.serial}, is revoked")
        replica = self._replica()
        if federation != replica.federation:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, _another(federation, replica.federation))
        return replica

    async def AskPool(  # noqa: N802 - the name is the proto's
        self,
        request: pb.AskPoolRequest,
        context: Context,
    ) -> AsyncIterator[pb.AskPoolResponse]:
        """See hanse.link.v1.PeerService."""
        async for piece in self._pieces(request, context, None):
            yield piece

    async def TalkPool(  # noqa: N802 - the name is the proto's
        self, requests: AsyncIterator[pb.AskPoolRequest], context: Context
    ) -> AsyncIterator[pb.AskPoolResponse]:
        """See hanse.link.v1.PeerService."""
        async for piece in self._pieces(await anext(requests, pb.AskPoolRequest()), context, requests):
            yield piece

    async def _pieces(
        self, request: pb.AskPoolRequest, context: Context, inputs: AsyncIterator[pb.AskPoolRequest] | None
    ) -> AsyncIterator[pb.AskPoolResponse]:
        """What the agent answers; its inputs, if it takes any, are handed on meanwhile."""
        replica = await self._asked(context, request.federation)
        try:
            pool, question = ask_from_wire(request)
        except InvalidArgument as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        agent = replica.session(pool)
        if agent is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the agent of {pool} is not attached here")
        answers = None
        feeding: list[asyncio.Task[object]] = []
        try:
            answers = agent.ask(question)
            if inputs is not None:
                feeding.append(asyncio.create_task(_feed(inputs, answers), name=f"inputs-{pool}"))
            while (reply := await answers.next()) is not None:
                yield piece_to_wire(reply)
        except StreamClosed as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        finally:
            await cancelled(feeding)
            if answers is not None:
                answers.close()

    async def FetchSummaries(  # noqa: N802 - the name is the proto's
        self,
        request: pb.FetchSummariesRequest,
        context: "grpc.aio.ServicerContext[pb.FetchSummariesRequest, pb.FetchSummariesResponse]",
    ) -> pb.FetchSummariesResponse:
        """See hanse.link.v1.PeerService."""
        replica = await self._asked(context, request.federation)
        try:
            known = fetch_from_wire(request)
        except InvalidArgument as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return summaries_to_wire(replica.summaries.newer_than(known))

    async def FetchEvents(  # noqa: N802 - the name is the proto's
        self,
        request: pb.FetchEventsRequest,
        context: "grpc.aio.ServicerContext[pb.FetchEventsRequest, pb.FetchEventsResponse]",
    ) -> pb.FetchEventsResponse:
        """See hanse.link.v1.PeerService."""
        replica = await self._asked(context, request.federation)
        try:
            query, cursor, limit = events_from_wire(request)
        except InvalidArgument as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return ring_page_to_wire(replica.ring.page(query, cursor, limit))

    async def FetchVitals(  # noqa: N802 - the name is the proto's
        self,
        request: pb.FetchVitalsRequest,
        context: "grpc.aio.ServicerContext[pb.FetchVitalsRequest, pb.FetchVitalsResponse]",
    ) -> pb.FetchVitalsResponse:
        """See hanse.link.v1.PeerService."""
        replica = await self._asked(context, request.federation)
        return vitals_to_wire(replica.vitals.tell())

    async def FetchAudit(  # noqa: N802 - the name is the proto's
        self,
        request: pb.FetchAuditRequest,
        context: "grpc.aio.ServicerContext[pb.FetchAuditRequest, pb.FetchAuditResponse]",
    ) -> pb.FetchAuditResponse:
        """See hanse.link.v1.PeerService."""
        replica = await self._asked(context, request.federation)
        try:
            query = audit_query_from_wire(request)
        except InvalidArgument as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return audit_page_to_wire(await replica.audit.find(query) if replica.audit is not None else AuditPage(()))


async def _refuse(context: "grpc.aio.ServicerContext[Any, Any]", forgery: str, said: str) -> None:
    metrics.FORGERIES.add(1, forgery)
    log.warning("peer_refused", extra={"forgery": forgery, "cause": said})
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, said)


def _another(asked: str, own: str) -> str:
    return f"this replica belongs to federation {own!r}, not {asked[:64]!r}"


async def _feed(inputs: AsyncIterator[pb.AskPoolRequest], answers: Pieces) -> None:
    """Hand inputs on, as fast as the command reads them."""
    try:
        async for request in inputs:
            _, value = ask_from_wire(request)
            if isinstance(value, ExecInput):
                await answers.tell(value)
    except (InvalidArgument, StreamClosed):
        return  # whoever waits for the answer is told
