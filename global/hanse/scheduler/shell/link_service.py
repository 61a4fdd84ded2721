"""hanse.link.v1 over gRPC, the replica's side: one bidirectional stream for each agent, or for those of a process.

Where certificates are asked for, an agent speaks for the pool that its own names, and for no other; also where its
stream is carried with others. A certificate that is revoked while its stream is open ends that with the next message
in either direction; heartbeats see to it that one comes within seconds.
"""

import itertools
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import grpc

from hanse.kit.bundle import STREAMS_MAX, Bundle, Coding, Frame
from hanse.kit.stream import StreamClosed
from hanse.kit.tasks import TaskPool
from hanse.kit.telemetry import metrics
from hanse.kit.tls import Kind
from hanse.kit.trust.shown import Barred, Shown, nobody_is_barred, shown_by
from hanse.link.v1 import link_pb2 as pb
from hanse.link.v1 import link_pb2_grpc
from hanse.model.errors import ResourceExhausted
from hanse.scheduler.shell.session import AgentStream

log = logging.getLogger(__name__)

NOT_YOUR_POOL: Final = "NOT_YOUR_POOL"
POOL_CHARS_SHOWN: Final = 64

Out = TypeVar("Out")
In = TypeVar("In")

_CODING: Final[Coding[pb.AttachResponse, pb.AttachRequest]] = Coding(
    pb.AttachResponse.SerializeToString, pb.AttachRequest.FromString
)


class ServesLinks(Protocol):
    """A replica."""

    async def serve_link(self, stream: AgentStream) -> None:
        """Serve one agent's stream until it ends."""
        ...


class _ServerEnd(Generic[Out, In]):
    """The replica's end of a call, which ends when its handler returns."""

    def __init__(self, context: "grpc.aio.ServicerContext[In, Out]", kind: type[In]) -> None:
        self._context = context
        self._kind = kind
        self._closed = False

    async def send(self, message: Out) -> None:
        if self._closed:
            raise StreamClosed("the stream is closed")
        try:
            await self._context.write(message)
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            raise StreamClosed(f"the agent has gone: {error}") from None

    async def receive(self) -> In:
        if self._closed:
            raise StreamClosed("the stream is closed")
        try:
            message = await self._context.read()
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            raise StreamClosed(f"the agent has gone: {error}") from None
        if not isinstance(message, self._kind):
            raise StreamClosed("the agent has ended the stream")
        return message

    def close(self) -> None:
        self._closed = True


class _Badge:
    """The certificate of a call, looked at with every message; None where none is asked for."""

    def __init__(self, shown: Shown | None, barred: Barred) -> None:
        self._shown = shown
        self._barred = barred

    @property
    def pool(self) -> str | None:
        """The pool whose agent it is; None for any."""
        return self._shown.identity.name if self._shown is not None and self._shown.identity is not None else None

    def check(self) -> None:
        """Raises StreamClosed if it is revoked."""
        if self._shown is not None and self._barred(self._shown):
            said = _revoked(self._shown)
            _refused("revoked", said)
            raise StreamClosed(said)


class _Checked:
    """An agent's stream, on which nobody says hello for another pool than that of the certificate."""

    def __init__(self, stream: AgentStream, badge: _Badge) -> None:
        self._stream = stream
        self._badge = badge

    async def send(self, message: pb.AttachResponse) -> None:
        self._badge.check()
        await self._stream.send(message)

    async def receive(self) -> pb.AttachRequest:
        message = await self._stream.receive()
        self._badge.check()
        pool = self._badge.pool
        if pool is not None and message.HasField("hello") and message.hello.pool != pool:
            asked = message.hello.pool[:POOL_CHARS_SHOWN]
            said = f"the certificate is of the agent of {pool}, not of {asked!r}"
            _refused("hello", said)
            await self.send(pb.AttachResponse(refusal=pb.Refusal(reason=NOT_YOUR_POOL, message=said, retry=False)))
            raise StreamClosed(said)
        return message

    def close(self) -> None:
        self._stream.close()


class _Line:
    """What carries the streams of the agents of one process."""

    def __init__(self, end: _ServerEnd[pb.CarryResponse, pb.CarryRequest], badge: _Badge) -> None:
        self._end = end
        self._badge = badge

    async def send(self, frames: Sequence[Frame]) -> None:
        self._badge.check()
        await self._end.send(pb.CarryResponse(frames=[pb.Frame(**frame._asdict()) for frame in frames]))

    async def receive(self) -> Sequence[Frame]:
        carried = await self._end.receive()
        self._badge.check()
        return [Frame(f.stream, f.message if f.HasField("message") else None, f.taken, f.end) for f in carried.frames]

    def close(self) -> None:
        self._end.close()


class LinkService(link_pb2_grpc.LinkServiceServicer):
    """Hands every stream to the replica.

    Args:
        certificates: every agent shows one, and it names the agent's pool.
        barred: which of them are revoked.
    """

    def __init__(
        self, replica: ServesLinks, *, certificates: bool = False, barred: Barred = nobody_is_barred
    ) -> None:
        self._replica = replica
        self._certificates = certificates
        self._barred = barred

    async def Attach(  # type: ignore[override]  # noqa: N802 - the name is the proto's
        self,
        request_iterator: AsyncIterator[pb.AttachRequest],
        context: "grpc.aio.ServicerContext[pb.AttachRequest, pb.AttachResponse]",
    ) -> None:
        """See hanse.link.v1.LinkService."""
        badge = await self._badge(context)
        await self._replica.serve_link(_Checked(_ServerEnd(context, pb.AttachRequest), badge))

    async def Carry(  # type: ignore[override]  # noqa: N802 - the name is the proto's
        self,
        request_iterator: AsyncIterator[pb.CarryRequest],
        context: "grpc.aio.ServicerContext[pb.CarryRequest, pb.CarryResponse]",
    ) -> None:
        """See hanse.link.v1.LinkService."""
        badge = await self._badge(context)
        serving, numbers = TaskPool(STREAMS_MAX), itertools.count(1)

        def accept(stream: AgentStream) -> None:
            try:
                serving.start(f"link-{next(numbers)}", self._replica.serve_link(_Checked(stream, badge)))
            except ResourceExhausted:  # those that have ended at the other side have not here
                stream.close()

        try:
            await Bundle(_Line(_ServerEnd(context, pb.CarryRequest), badge), _CODING, accept).run()
        finally:
            await serving.close()

    async def _badge(self, context: "grpc.aio.ServicerContext[Any, Any]") -> _Badge:
        """The certificate of a call. Ends a call without a right one."""
        shown = shown_by(context.auth_context()) if self._certificates else None
        if self._certificates and (shown is None or shown.identity is None or shown.identity.kind is not Kind.AGENT):
            said = _no_agent(shown)
            _refused("certificate", said)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, said)
        if shown is not None and self._barred(shown):
            said = _revoked(shown)
            _refused("revoked", said)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, said)
        return _Badge(shown, self._barred)


def _refused(forgery: str, said: str) -> None:
    metrics.FORGERIES.add(1, forgery)
    log.warning("link_refused", extra={"forgery": forgery, "cause": said})


def _no_agent(shown: Shown | None) -> str:
    what = "names nobody" if shown is None or shown.identity is None else f"is of {shown.identity}"
    return f"the certificate {what}; an agent attaches with one of hanse://agent/POOL"


def _revoked(shown: Shown) -> str:
    return f"the certificate of {shown.identity} with serial {shown.serial} is revoked; `hanse join` gets a new one"
