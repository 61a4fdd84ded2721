"""hanse.link.v1 over gRPC, the agent's side: dials the replicas of a federation in turn.

A port at which nobody listens is left at once; one that takes the connection and says nothing (its process is
stopped, or its machine has gone) when the deadline is over. So one dead replica costs a try, not the wait of a
channel that hopes for its return.
"""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Final

import grpc

from hanse.kit.stream import Stream, StreamClosed
from hanse.kit.tls import TlsFiles
from hanse.kit.tls import channel as opened
from hanse.link.v1 import link_pb2 as pb
from hanse.link.v1 import link_pb2_grpc
from hanse.model.errors import InvalidArgument

DIAL_DEADLINE_S: Final = 3.0
MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # Channels to one address share what they know of it: without these a new one waits where an older one failed.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

LinkStream = Stream[pb.AttachRequest, pb.AttachResponse]


class _ClientEnd:
    """The agent's end of a stream over a channel of its own."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        call: "grpc.aio.StreamStreamCall[pb.AttachRequest, pb.AttachResponse]",
    ) -> None:
        self._channel = channel
        self._call = call
        self._closing: asyncio.Task[None] | None = None

    async def send(self, message: pb.AttachRequest) -> None:
        try:
            await self._call.write(message)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise StreamClosed(_cause(error)) from None

    async def receive(self) -> pb.AttachResponse:
        try:
            message = await self._call.read()
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise StreamClosed(_cause(error)) from None
        if not isinstance(message, pb.AttachResponse):
            raise StreamClosed("the replica has ended the stream")
        return message

    def close(self) -> None:
        if self._closing is None:
            self._call.cancel()
            self._closing = asyncio.get_running_loop().create_task(self._channel.close(None), name="link-close")


def _cause(error: Exception) -> str:
    details = error.details() if isinstance(error, grpc.aio.AioRpcError) else None
    return f"the replica has gone: {details or error}"


class Dialer:
    """Dials one replica after the other, beginning with `first`.

    Args:
        addresses: HOST:PORT of every replica.
        token: shown to them; "" for none.
        tls: this end's files, read at every dial; None dials in clear.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        first: int = 0,
        deadline_s: float = DIAL_DEADLINE_S,
        token: str = "",
        tls: TlsFiles | None = None,
    ) -> None:
        if not addresses:
            raise ValueError("an agent needs the address of at least one replica")
        self._deadline_s = deadline_s
        self._tls = tls
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._next = itertools.cycle([*addresses[first % len(addresses) :], *addresses[: first % len(addresses)]])

    async def __call__(self) -> LinkStream:
        """A stream to the next replica in turn.

        Raises:
            StreamClosed: it cannot be reached.
        """
        address = next(self._next)
        try:
            channel = opened(address, self._tls, _OPTIONS)
        except InvalidArgument as error:
            raise StreamClosed(f"{address} is not dialled: {error}") from None
        try:
            async with asyncio.timeout(self._deadline_s):
                await _connected(channel)
        except (TimeoutError, StreamClosed):
            await channel.close(None)
            raise StreamClosed(f"no replica answers at {address}") from None
        except BaseException:
            await channel.close(None)
            raise
        return _ClientEnd(channel, link_pb2_grpc.LinkServiceStub(channel).Attach(metadata=self._metadata))


async def _connected(channel: grpc.aio.Channel) -> None:
    """Wait until the channel is connected. Raises StreamClosed when a try to connect has failed."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            raise StreamClosed("nobody listens there")
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)
