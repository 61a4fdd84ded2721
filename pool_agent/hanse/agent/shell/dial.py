"""hanse.link.v1 over gRPC, the agent's side: dials the replicas of a federation in turn.

A port at which nobody listens is left at once; one that takes the connection and says nothing (its process is
stopped, or its machine has gone) when the deadline is over. So one dead replica costs a try, not the wait of a
channel that hopes for its return.

The agents of one process share a line to each replica, on which their streams are carried together (`Lines`).
"""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import grpc

from hanse.kit.bundle import Bundle, Coding, Frame
from hanse.kit.stream import Stream, StreamClosed
from hanse.kit.tasks import cancelled
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
    # How long a connection may take to be made, handshake and all: between continents that is half a second.
    ("grpc.min_reconnect_backoff_ms", int(DIAL_DEADLINE_S * 1_000)),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

LinkStream = Stream[pb.AttachRequest, pb.AttachResponse]
Metadata = tuple[tuple[str, str], ...]

Out = TypeVar("Out")
In = TypeVar("In")

_CODING: Final[Coding[pb.AttachRequest, pb.AttachResponse]] = Coding(
    pb.AttachRequest.SerializeToString, pb.AttachResponse.FromString
)


class _ClientEnd(Generic[Out, In]):
    """Our end of a call over a channel of its own."""

    def __init__(self, channel: grpc.aio.Channel, call: "grpc.aio.StreamStreamCall[Out, In]", kind: type[In]) -> None:
        self._channel = channel
        self._call = call
        self._kind = kind
        self._closing: asyncio.Task[None] | None = None

    async def send(self, message: Out) -> None:
        try:
            await self._call.write(message)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise StreamClosed(_cause(error)) from None

    async def receive(self) -> In:
        try:
            message = await self._call.read()
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            raise StreamClosed(_cause(error)) from None
        if not isinstance(message, self._kind):
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
        lines: those of the process, shared by its agents; without them every stream is a call of its own.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        first: int = 0,
        deadline_s: float = DIAL_DEADLINE_S,
        token: str = "",
        tls: TlsFiles | None = None,
        lines: "Lines | None" = None,
    ) -> None:
        if not addresses:
            raise ValueError("an agent needs the address of at least one replica")
        self._deadline_s = deadline_s
        self._tls = tls
        self._metadata = _metadata(token)
        self._lines = lines
        self._next = itertools.cycle([*addresses[first % len(addresses) :], *addresses[: first % len(addresses)]])

    async def __call__(self) -> LinkStream:
        """A stream to the next replica in turn.

        Raises:
            StreamClosed: it cannot be reached.
        """
        address = next(self._next)
        if self._lines is not None:
            return await self._lines.stream(address)
        channel = await _reached(address, self._deadline_s, self._tls)
        call = link_pb2_grpc.LinkServiceStub(channel).Attach(metadata=self._metadata)
        return _ClientEnd(channel, call, pb.AttachResponse)


class _Line:
    """What carries the streams to one replica."""

    def __init__(self, end: _ClientEnd[pb.CarryRequest, pb.CarryResponse]) -> None:
        self._end = end

    async def send(self, frames: Sequence[Frame]) -> None:
        await self._end.send(pb.CarryRequest(frames=[pb.Frame(**frame._asdict()) for frame in frames]))

    async def receive(self) -> Sequence[Frame]:
        carried = await self._end.receive()
        return [Frame(f.stream, f.message if f.HasField("message") else None, f.taken, f.end) for f in carried.frames]

    def close(self) -> None:
        self._end.close()


class Lines:
    """One line to each replica, for the agents of a process.

    Args:
        token: shown to the replicas; "" for none.
        tls: this end's files, read at every dial; None dials in clear.
    """

    def __init__(self, *, deadline_s: float = DIAL_DEADLINE_S, token: str = "", tls: TlsFiles | None = None) -> None:
        self._deadline_s = deadline_s
        self._tls = tls
        self._metadata = _metadata(token)
        self._turns: dict[str, asyncio.Lock] = {}
        self._lines: dict[str, Bundle[pb.AttachRequest, pb.AttachResponse]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def stream(self, address: str) -> LinkStream:
        """A new stream to the replica there. Raises StreamClosed if it cannot be reached."""
        async with self._turns.setdefault(address, asyncio.Lock()):
            line = self._lines.get(address)
            if line is None or line.ended:
                line = self._lines[address] = await self._dialled(address)
        return line.open()

    async def close(self) -> None:
        """End all lines, and with them their streams."""
        await cancelled([*self._tasks])

    async def _dialled(self, address: str) -> Bundle[pb.AttachRequest, pb.AttachResponse]:
        channel = await _reached(address, self._deadline_s, self._tls)
        call = link_pb2_grpc.LinkServiceStub(channel).Carry(metadata=self._metadata)
        line = Bundle(_Line(_ClientEnd(channel, call, pb.CarryResponse)), _CODING)
        task = asyncio.create_task(line.run(), name=f"line-{address}")
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return line


def _metadata(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),) if token else ()


async def _reached(address: str, deadline_s: float, tls: TlsFiles | None) -> grpc.aio.Channel:
    """A channel that is connected. Raises StreamClosed if it does not become so."""
    try:
        channel = opened(address, tls, _OPTIONS)
    except InvalidArgument as error:
        raise StreamClosed(f"{address} is not dialled: {error}") from None
    try:
        async with asyncio.timeout(deadline_s):
            await _connected(channel)
    except (TimeoutError, StreamClosed):
        await channel.close(None)
        raise StreamClosed(f"no replica answers at {address}") from None
    except BaseException:
        await channel.close(None)
        raise
    return channel


async def _connected(channel: grpc.aio.Channel) -> None:
    """Wait until the channel is connected. Raises StreamClosed when a try to connect has failed."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
            raise StreamClosed("nobody listens there")
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)
