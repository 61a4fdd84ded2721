"""hanse.link.v1 over gRPC, the replica's side: one bidirectional stream for each agent."""

from collections.abc import AsyncIterator
from typing import Protocol

import grpc

from hanse.kit.stream import StreamClosed
from hanse.link.v1 import link_pb2 as pb
from hanse.link.v1 import link_pb2_grpc
from hanse.scheduler.shell.session import AgentStream


class ServesLinks(Protocol):
    """A replica."""

    async def serve_link(self, stream: AgentStream) -> None:
        """Serve one agent's stream until it ends."""
        ...


class _ServerEnd:
    """The replica's end of a stream; the call ends when its handler returns."""

    def __init__(self, context: "grpc.aio.ServicerContext[pb.AttachRequest, pb.AttachResponse]") -> None:
        self._context = context
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
        return message

    def close(self) -> None:
        self._closed = True


class LinkService(link_pb2_grpc.LinkServiceServicer):
    """Hands every stream to the replica."""

    def __init__(self, replica: ServesLinks) -> None:
        self._replica = replica

    async def Attach(  # type: ignore[override]  # noqa: N802 - the name is the proto's
        self,
        request_iterator: AsyncIterator[pb.AttachRequest],
        context: "grpc.aio.ServicerContext[pb.AttachRequest, pb.AttachResponse]",
    ) -> None:
        """See hanse.link.v1.LinkService."""
        await self._replica.serve_link(_ServerEnd(context))
