"""The agent's port to a simulated cluster of another process, over `hanse.sim.v1`.

Every unary call has a deadline; a watch and a followed log have none, but the channel's keep-alive finds a dead peer.
What the transport says becomes the port's: a refusal for the epoch is Superseded, everything that leaves the outcome
open is ClusterUnavailable, and a watch that ends for whatever reason is WatchLost.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import grpc

from hanse.agent.cluster.port import (
    PORT_DEADLINE_S,
    Claim,
    ClusterEvent,
    ClusterPort,
    ClusterState,
    ClusterUnavailable,
    ClusterWrite,
    Done,
    Epoch,
    ExecInput,
    ExecOutput,
    GangKey,
    NodeFacts,
    PodCommand,
    PodStatus,
    Rejected,
    Superseded,
    Wanted,
    WatchLost,
    WriteResult,
)
from hanse.agent.cluster.simulated_wire import (
    Listing,
    claim_from_wire,
    epoch_to_wire,
    events_from_wire,
    key_to_wire,
    op_to_wire,
    pods_from_wire,
)
from hanse.model.errors import FailedPrecondition, NotFound
from hanse.sim.v1 import sim_pb2 as pb
from hanse.sim.v1 import sim_pb2_grpc

MESSAGE_BYTES_MAX: Final = 64 << 20
KEEPALIVE_MS: Final = 10_000
KEEPALIVE_TIMEOUT_MS: Final = 3_000
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

_DONE: Final = Done()


class GrpcCluster:
    """ClusterPort over a channel to a server of simulated clusters."""

    def __init__(self, address: str, pool: str) -> None:
        """A cluster of the server at HOST:PORT. Needs a running event loop; connects when it is first used."""
        self._pool = pool
        self._where = f"{pool} at {address}"
        self._channel = grpc.aio.insecure_channel(address, options=OPTIONS)
        self._stub = sim_pb2_grpc.SimServiceStub(self._channel)
        self._listed: ClusterState | None = None

    async def close(self) -> None:
        """Let the channel go; calls in flight end with ClusterUnavailable."""
        await self._channel.close()

    async def read_claim(self) -> Claim:
        with self._port_errors():
            request = pb.ReadClaimRequest(pool=self._pool)
            return claim_from_wire(await self._stub.ReadClaim(request, timeout=PORT_DEADLINE_S))

    async def claim(self, federation: str, epoch: Epoch, revision: int) -> Claim:
        with self._port_errors():
            request = pb.ClaimRequest(
                pool=self._pool, federation=federation, epoch=epoch_to_wire(epoch), revision=revision
            )
            return claim_from_wire(await self._stub.Claim(request, timeout=PORT_DEADLINE_S))

    async def list(self) -> ClusterState:
        with self._port_errors():
            kept = self._listed
            request = pb.ListRequest(pool=self._pool)
            if kept is not None:
                request.nodes_as_of, request.cluster_uid = kept.version, kept.claim.cluster_uid
            listing = Listing(kept)
            async for piece in self._stub.List(request, timeout=PORT_DEADLINE_S):
                listing.add(piece)
            self._listed = listing.state()
            return self._listed

    async def nodes(self) -> tuple[NodeFacts, ...]:
        return (await self.list()).nodes

    async def watch(self, version: int) -> AsyncIterator[tuple[ClusterEvent, ...]]:
        try:
            async for message in self._stub.Watch(pb.WatchRequest(pool=self._pool, version=version)):
                yield events_from_wire(message)
        except grpc.aio.AioRpcError as error:
            raise WatchLost(f"watch of {self._where}: {_said(error)}") from error
        raise WatchLost(f"watch of {self._where}: the server ended it")

    async def write(self, epoch: Epoch, ops: Sequence[ClusterWrite]) -> tuple[WriteResult, ...]:
        with self._port_errors():
            request = pb.WriteRequest(pool=self._pool, epoch=epoch_to_wire(epoch), ops=[op_to_wire(op) for op in ops])
            response = await self._stub.Write(request, timeout=PORT_DEADLINE_S)
            return tuple(Rejected(r.reason) if r.rejected else _DONE for r in response.results)

    async def lacking(self, wanted: Wanted) -> tuple[str, ...]:
        with self._port_errors():
            request = pb.LackingRequest(pool=self._pool, needs=[str(need) for need in wanted.needs])
            return tuple((await self._stub.Lacking(request, timeout=PORT_DEADLINE_S)).lacking)

    async def exec(self, command: PodCommand, stdin: AsyncIterator[ExecInput] | None) -> AsyncIterator[ExecOutput]:
        first = pb.ExecRequest(
            pool=self._pool,
            key=key_to_wire(command.gang),
            pod_set=command.pod_set,
            rank=command.rank,
            command=command.words,
        )
        call = self._stub.Exec(_exec_requests(first, stdin))
        try:
            async for message in call:
                code = message.exit_code if message.HasField("exit_code") else None
                yield ExecOutput(message.stdout, message.stderr, code)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise NotFound(_said(error)) from None
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                raise FailedPrecondition(_said(error)) from None
            raise ClusterUnavailable(f"{self._where}: {_said(error)}") from error
        finally:
            call.cancel()

    async def pods(self, key: GangKey) -> tuple[PodStatus, ...]:
        with self._port_errors():
            request = pb.PodsRequest(pool=self._pool, key=key_to_wire(key))
            return pods_from_wire(key, await self._stub.Pods(request, timeout=PORT_DEADLINE_S))

    async def logs(
        self, key: GangKey, *, pod_set: str, rank: int, follow: bool, tail: int
    ) -> AsyncIterator[tuple[str, ...]]:
        """As in the port; a pod that does not exist has no lines."""
        request = pb.LogsRequest(
            pool=self._pool, key=key_to_wire(key), pod_set=pod_set, rank=rank, follow=follow, tail_lines=tail
        )
        try:
            async for message in self._stub.Logs(request, timeout=None if follow else PORT_DEADLINE_S):
                yield tuple(message.lines)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise ClusterUnavailable(f"{self._where}: {_said(error)}") from error

    @contextmanager
    def _port_errors(self) -> Iterator[None]:
        """What the transport says, as the port's errors."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                raise Superseded(_said(error)) from error
            raise ClusterUnavailable(f"{self._where}: {_said(error)}") from error
        except grpc.aio.UsageError as error:
            raise ClusterUnavailable(f"{self._where}: the channel is closed") from error


async def _exec_requests(
    first: pb.ExecRequest, stdin: AsyncIterator[ExecInput] | None
) -> AsyncIterator[pb.ExecRequest]:
    yield first
    if stdin is not None:
        async for value in stdin:
            yield pb.ExecRequest(data=value.data, end=value.end)


def _said(error: grpc.aio.AioRpcError) -> str:
    return " ".join((error.details() or error.code().name).split())


def _is_port(adapter: GrpcCluster) -> ClusterPort:
    """For the type checker: the adapter keeps the port."""
    return adapter
