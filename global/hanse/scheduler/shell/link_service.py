"""hanse.link.v1 over gRPC, the replica's side: one bidirectional stream for each agent, or for those of a process.

Where certificates are asked for, an agent speaks for the pool that its own names, and for no other; also where its
stream is carried with others.
"""

import itertools
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import grpc

from hanse.kit.bundle import STREAMS_MAX, Bundle, Coding, Frame
from hanse.kit.stream import StreamClosed
from hanse.kit.tasks import TaskPool
from hanse.kit.tls import Identity, Kind, identity_of
from hanse.link.v1 import link_pb2 as pb
from hanse.link.v1 import link_pb2_grpc
from hanse.model.errors import ResourceExhausted
from hanse.scheduler.shell.session import AgentStream

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


class _Checked:
    """An agent's stream, on which nobody says hello for another pool than that of the certificate; None for any."""

    def __init__(self, stream: AgentStream, shown: Identity | None) -> None:
        self._stream = stream
        self._pool = shown.name if shown is not None else None

    async def send(self, message: pb.AttachResponse) -> None:
        await self._stream.send(message)

    async def receive(self) -> pb.AttachRequest:
        message = await self._stream.receive()
        if self._pool is not None and message.HasField("hello") and message.hello.pool != self._pool:
            asked = message.hello.pool[:POOL_CHARS_SHOWN]
            said = f"the certificate is of the agent of {self._pool}, not of {asked!r}"
            await self.send(pb.AttachResponse(refusal=pb.Refusal(reason=NOT_YOUR_POOL, message=said, retry=False)))
            raise StreamClosed(said)
        return message

    def close(self) -> None:
        self._stream.close()


class _Line:
    """What carries the streams of the agents of one process."""

    def __init__(self, end: _ServerEnd[pb.CarryResponse, pb.CarryRequest]) -> None:
        self._end = end

    async def send(self, frames: Sequence[Frame]) -> None:
        await self._end.send(pb.CarryResponse(frames=[pb.Frame(**frame._asdict()) for frame in frames]))

    async def receive(self) -> Sequence[Frame]:
        carried = await self._end.receive()
        return [Frame(f.stream, f.message if f.HasField("message") else None, f.taken, f.end) for f in carried.frames]

    def close(self) -> None:
        self._end.close()


class LinkService(link_pb2_grpc.LinkServiceServicer):
    """Hands every stream to the replica.

    Args:
        certificates: every agent shows one, and it names the agent's pool.
    """

    def __init__(self, replica: ServesLinks, *, certificates: bool = False) -> None:
        self._replica = replica
        self._certificates = certificates

    async def Attach(  # type: ignore[override]  # noqa: N802 - the name is the proto's
        self,
        request_iterator: AsyncIterator[pb.AttachRequest],
        context: "grpc.aio.ServicerContext[pb.AttachRequest, pb.AttachResponse]",
    ) -> None:
        """See hanse.link.v1.LinkService."""
        shown = await self._shown(context)
        await self._replica.serve_link(_Checked(_ServerEnd(context, pb.AttachRequest), shown))

    async def Carry(  # type: ignore[override]  # noqa: N802 - the name is the proto's
        self,
        request_iterator: AsyncIterator[pb.CarryRequest],
        context: "grpc.aio.ServicerContext[pb.CarryRequest, pb.CarryResponse]",
    ) -> None:
        """See hanse.link.v1.LinkService."""
        shown = await self._shown(context)
        serving, numbers = TaskPool(STREAMS_MAX), itertools.count(1)

        def accept(stream: AgentStream) -> None:
            try:
                serving.start(f"link-{next(numbers)}", self._replica.serve_link(_Checked(stream, shown)))
            except ResourceExhausted:  # those that have ended at the other side have not here
                stream.close()

        try:
            await Bundle(_Line(_ServerEnd(context, pb.CarryRequest)), _CODING, accept).run()
        finally:
            await serving.close()

    async def _shown(self, context: "grpc.aio.ServicerContext[Any, Any]") -> Identity | None:
        """Whom the certificate of a call names; None where none is asked for. Ends a call without a right one."""
        shown = identity_of(context.auth_context()) if self._certificates else None
        if self._certificates and (shown is None or shown.kind is not Kind.AGENT):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, _no_agent(shown))
        return shown


def _no_agent(shown: Identity | None) -> str:
    what = "names nobody" if shown is None else f"is of {shown}"
    return f"the certificate {what}; an agent attaches with one of hanse://agent/POOL"
