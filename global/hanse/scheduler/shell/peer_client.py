"""hanse.link.v1.PeerService over gRPC, the asker's side: one channel to each replica of another process.

A question has no deadline of its own: whoever asks closes the answer when it has waited long enough.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import grpc

from hanse.kit.stream import StreamClosed
from hanse.kit.tls import TlsFiles
from hanse.kit.tls import channel as opened
from hanse.link.v1 import peer_pb2 as pb
from hanse.link.v1 import peer_pb2_grpc
from hanse.model.audit import AuditPage, AuditQuery
from hanse.model.detail import DetailReply, ExecInput, ExecQuestion, Question
from hanse.model.errors import InvalidArgument
from hanse.model.ids import PoolName
from hanse.model.occurrence import OccurrenceQuery, RingCursor, RingPage
from hanse.model.summary import KnownSummary, PoolSummary
from hanse.model.vitals import Vitals
from hanse.scheduler.shell.peers import FETCH_DEADLINE_S, Asked, Peer, Peers, Pieces
from hanse.wire.audit import audit_page_from_wire, audit_query_to_wire
from hanse.wire.limits import MESSAGE_BYTES_MAX
from hanse.wire.peer import (
    ask_to_wire,
    events_to_wire,
    fetch_to_wire,
    piece_from_wire,
    ring_page_from_wire,
    summaries_from_wire,
    vitals_from_wire,
)

CONNECT_MS: Final = 3_000

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),  # how long a connection may take to be made, handshake and all
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
AUDIT_DEADLINE_S: Final = 10.0
_AskCall: TypeAlias = "grpc.aio.UnaryStreamCall[pb.AskPoolRequest, pb.AskPoolResponse]"
_TalkCall: TypeAlias = "grpc.aio.StreamStreamCall[pb.AskPoolRequest, pb.AskPoolResponse]"
_Metadata = tuple[tuple[str, str], ...]


class GrpcPeers:
    """See `peers.Peers`.

    Args:
        token: shown to peers; "" for none.
    """

    def __init__(self, federation: str, *, token: str = "", tls: TlsFiles | None = None) -> None:
        self._federation = federation
        self._tls = tls
        self._metadata: _Metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._peers: dict[str, _GrpcPeer] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def at(self, address: str) -> Peer:
        """See `peers.Peers`."""
        found = self._peers.get(address)
        if found is None:
            found = self._peers[address] = _GrpcPeer(address, self._federation, self._metadata, self._tls)
        return found

    def keep(self, addresses: Sequence[str]) -> None:
        """See `peers.Peers`."""
        for address in [known for known in self._peers if known not in addresses]:
            task = asyncio.create_task(self._peers.pop(address).close(), name="peer-close")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Let all go."""
        self.keep(())
        await asyncio.gather(*self._closing, return_exceptions=True)


class _GrpcPeer:
    def __init__(self, address: str, federation: str, metadata: _Metadata, tls: TlsFiles | None) -> None:
        self._address = address
        self._federation = federation
        self._metadata = metadata
        self._tls = tls
        self._opened: grpc.aio.Channel | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def _stub(self) -> "peer_pb2_grpc.PeerServiceAsyncStub":
        if self._opened is None:
            self._opened = opened(self._address, self._tls, _OPTIONS)
        return peer_pb2_grpc.PeerServiceStub(self._opened)

    def pool(self, name: PoolName) -> Asked:
        return _Pool(self, name)

    async def fetch(self, known: Sequence[KnownSummary]) -> tuple[PoolSummary, ...]:
        request = fetch_to_wire(self._federation, known)
        with self._errors():
            answer = await self._stub.FetchSummaries(request, timeout=FETCH_DEADLINE_S, metadata=self._metadata)
            return summaries_from_wire(answer)

    async def events(self, query: OccurrenceQuery, cursor: RingCursor) -> RingPage:
        request = events_to_wire(self._federation, query, cursor)
        with self._errors():
            answer = await self._stub.FetchEvents(request, timeout=FETCH_DEADLINE_S, metadata=self._metadata)
            return ring_page_from_wire(answer)

    async def vitals(self) -> Vitals:
        request = pb.FetchVitalsRequest(federation=self._federation)
        with self._errors():
            answer = await self._stub.FetchVitals(request, timeout=FETCH_DEADLINE_S, metadata=self._metadata)
            return vitals_from_wire(answer)

    async def audited(self, query: AuditQuery) -> AuditPage:
        request = audit_query_to_wire(self._federation, query)
        with self._errors():
            answer = await self._stub.FetchAudit(request, timeout=AUDIT_DEADLINE_S, metadata=self._metadata)
            return audit_page_from_wire(answer)

    def ask(self, pool: PoolName, question: Question) -> Pieces:
        if isinstance(question, ExecQuestion):
            return _Talk(self, pool, self._stub.TalkPool(metadata=self._metadata), question)
        call = self._stub.AskPool(ask_to_wire(self._federation, pool, question), metadata=self._metadata)
        return _Answers(self, call)

    async def close(self) -> None:
        self._hang_up()
        await asyncio.gather(*self._closing)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """What the transport says, in our words."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            self._redial(error)
            raise StreamClosed(f"replica at {self._address}: {error.details() or error.code().name}") from None
        except (grpc.aio.UsageError, InvalidArgument) as error:
            raise StreamClosed(f"replica at {self._address}: {error}") from None

    def _redial(self, error: grpc.aio.AioRpcError) -> None:
        """A certificate may have been renewed since the channel was opened, and a channel keeps the one it has."""
        if self._tls is not None and error.code() is grpc.StatusCode.UNAVAILABLE:
            self._hang_up()

    def _hang_up(self) -> None:
        """The next call opens a channel."""
        channel, self._opened = self._opened, None
        if channel is not None:
            task = asyncio.get_running_loop().create_task(channel.close(None), name="peer-channel-close")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def write(self, call: _TalkCall, pool: PoolName, question: Question) -> None:
        with self._errors():
            try:
                await call.write(ask_to_wire(self._federation, pool, question))
            except asyncio.InvalidStateError:
                raise StreamClosed(f"replica at {self._address} ended the answer") from None

    async def read(self, call: "_AskCall | _TalkCall") -> DetailReply:
        with self._errors():
            message = await call.read()
            if isinstance(message, pb.AskPoolResponse):
                return piece_from_wire(message)
        raise StreamClosed(f"replica at {self._address} ended the answer")


class _Pool:
    def __init__(self, peer: _GrpcPeer, name: PoolName) -> None:
        self._peer = peer
        self._name = name

    def ask(self, question: Question) -> Pieces:
        return self._peer.ask(self._name, question)


class _Answers:
    def __init__(self, peer: _GrpcPeer, call: "_AskCall | _TalkCall") -> None:
        self._peer = peer
        self._call = call
        self._ended = False

    async def next(self) -> DetailReply | None:
        if self._ended:
            return None
        reply = await self._peer.read(self._call)
        self._ended = reply.end
        return reply

    async def tell(self, value: ExecInput) -> None:
        raise StreamClosed("this question takes no inputs")

    def close(self) -> None:
        self._call.cancel()


class _Talk(_Answers):
    """An answer that takes inputs; the question goes ahead of the first of them."""

    def __init__(self, peer: _GrpcPeer, pool: PoolName, call: _TalkCall, question: Question) -> None:
        super().__init__(peer, call)
        self._talk = call
        self._pool = pool
        self._asking = asyncio.create_task(peer.write(call, pool, question), name=f"ask-{pool}")

    async def next(self) -> DetailReply | None:
        await asyncio.shield(self._asking)
        return await super().next()

    async def tell(self, value: ExecInput) -> None:
        await asyncio.shield(self._asking)
        await self._peer.write(self._talk, self._pool, value)

    def close(self) -> None:
        self._asking.cancel()
        super().close()


def _is_port(adapter: GrpcPeers) -> Peers:
    """For the type checker: the adapter keeps the port."""
    return adapter
