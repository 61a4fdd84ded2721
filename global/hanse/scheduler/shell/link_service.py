"""hanse.link.v1 over gRPC, the replica's side: one bidirectional stream for each agent.

Where certificates are asked for, an agent speaks for the pool that its own names, and for no other.
"""

from collections.abc import AsyncIterator
from typing import Final, Protocol

import grpc

from hanse.kit.stream import StreamClosed
from hanse.kit.tls import Identity, Kind, identity_of
from hanse.link.v1 import link_pb2 as pb
from hanse.link.v1 import link_pb2_grpc
from hanse.scheduler.shell.session import AgentStream

NOT_YOUR_POOL: Final = "NOT_YOUR_POOL"
POOL_CHARS_SHOWN: Final = 64


class ServesLinks(Protocol):
    """A replica."""

    async def serve_link(self, stream: AgentStream) -> None:
        """Serve one agent's stream until it ends."""
        ...


class _ServerEnd:
    """The replica's end of a stream; the call ends when its handler returns."""

    def __init__(
        self, context: "grpc.aio.ServicerContext[pb.AttachRequest, pb.AttachResponse]", pool: str | None
    ) -> None:
        self._context = context
        self._pool = pool
        self._closed = False

    async def send(self, message: pb.AttachResponse) -> None:
        if self._closed:
            raise StreamClosed("the stream is closed")
        try:
            await self._context.write(message)
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            raise StreamClosed(f"the agent has gone: {error}") from None

    async def receive(self) -> pb.AttachRequest:
        if self._closed:
            raise StreamClosed("the stream is closed")
        try:
            message = await self._context.read()
        except (grpc.RpcError, grpc.aio.UsageError, grpc.aio.InternalError) as error:
            raise StreamClosed(f"the agent has gone: {error}") from None
        if not isinstance(message, pb.AttachRequest):
            raise StreamClosed("the agent has ended the stream")
        if self._pool is not None and message.HasField("hello") and message.hello.pool != self._pool:
            asked = message.hello.pool[:POOL_CHARS_SHOWN]
            said = f"the certificate is of the agent of {self._pool}, not of {asked!r}"
            await self.send(pb.AttachResponse(refusal=pb.Refusal(reason=NOT_YOUR_POOL, message=said, retry=False)))
            raise StreamClosed(said)
        return message

    def close(self) -> None:
        self._closed = True


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
        shown = identity_of(context.auth_context()) if self._certificates else None
        if self._certificates and (shown is None or shown.kind is not Kind.AGENT):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, _no_agent(shown))
        await self._replica.serve_link(_ServerEnd(context, shown.name if shown is not None else None))


def _no_agent(shown: Identity | None) -> str:
    what = "names nobody" if shown is None else f"is of {shown}"
    return f"the certificate {what}; an agent attaches with one of hanse://agent/POOL"
