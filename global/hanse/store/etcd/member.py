"""One endpoint of etcd: its connections, its pulse, and the requests under way through it.

A request to a member that has died quietly (stopped, cut off) hangs until its deadline. Short deadlines would tell
sooner, and would also turn every slow disk and busy machine into unknown outcomes. So a request may take its whole
deadline, and a *pulse* beside it asks the member for its status twice a second: when the member does not answer, nor
anything else has been heard from it, for a second, the requests under way are given up, and new ones go elsewhere.

There are two connections. Status, leases and tokens have their own, so that neither a pulse nor a keep-alive waits
behind megabytes of a listing or of a watch that catches up.

The pulse also tells what a request would find out too late: that the member has no leader, that it belongs to another
cluster, that the cluster is out of space.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, cast

import grpc

from hanse.etcd.v3 import rpc_pb2 as pb
from hanse.etcd.v3 import rpc_pb2_grpc as rpc
from hanse.store.etcd.faults import Failed, Fate, fate_of, plain
from hanse.store.etcd.tokens import WITH_LEADER, Metadata, Tokens

log = logging.getLogger(__name__)

PULSE_EVERY_S: Final = 0.5
PULSE_TIMEOUT_S: Final = 1.0

MESSAGE_BYTES_MAX: Final = 64 * 1_024 * 1_024
"""Of an answer; a range that would be larger is asked for in smaller steps."""

CHANNEL_OPTIONS: Final = (
    # etcd ends connections that ping more often than every 5 s, or without a call. Two pings without data are
    # gRPC's own limit, which an idle watch would reach.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    # etcd is inside; a proxy for the way out has no business here.
    ("grpc.enable_http_proxy", 0),
    # Nobody else's retries: what may be tried again is known here only.
    ("grpc.service_config_disable_resolution", 1),
    # Connections of our own, even where two stores in a process speak to one member.
    ("grpc.use_local_subchannel_pool", 1),
)

Request = TypeVar("Request")
Response = TypeVar("Response")
UnaryCall: TypeAlias = grpc.aio.UnaryUnaryMultiCallable[Request, Response]
StreamCall: TypeAlias = grpc.aio.StreamStreamCall[Request, Response]


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a member said last.

    Attributes:
        cluster: the id of its cluster.
        applied: the last entry of the log that it has applied.
        full: the cluster is out of space.
        sizes: bytes of its file: `file`, of that `used`, and the `quota` if it says so (3.6 does).
    """

    cluster: int
    applied: int
    full: bool
    sizes: Mapping[str, int]


class Member:
    """See the module.

    Attributes:
        endpoint: ``host:port``.
        trouble: why it cannot be used now, "" if it can.
        vitals: from its last answer; None before the first.
    """

    def __init__(
        self,
        endpoint: str,
        credentials: grpc.ChannelCredentials | None,
        admit: Callable[[int], bool],
        tokens: Tokens,
        on_change: Callable[[], None],
    ) -> None:
        self.endpoint = endpoint
        self.trouble = "has not answered yet"
        self.vitals: Vitals | None = None
        self._admit = admit
        self._tokens = tokens
        self._stranger = False
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._heard_s = float("-inf")
        self._look = asyncio.Event()
        self._under_way: dict[grpc.aio.Call, None] = {}
        self._channels = (_channel(endpoint, credentials), _channel(endpoint, credentials))
        bulk, quick = self._channels
        self.kv = rpc.KVStub(bulk)
        self.watch = rpc.WatchStub(bulk)
        self.lease = rpc.LeaseStub(quick)
        self._auth = rpc.AuthStub(quick)
        self._maintenance = rpc.MaintenanceStub(quick)

    async def call(
        self, method: UnaryCall[Request, Response], request: Request, *, timeout_s: float, metadata: Metadata
    ) -> Response:
        """One request, tried once. Raises Failed."""
        call = method(request, timeout=timeout_s, metadata=metadata)
        self._under_way[call] = None
        try:
            response = await call
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from None
        except asyncio.CancelledError:
            if call in self._under_way or _asked_to_stop():
                raise
            raise Failed(Fate.UNSURE, f"{self.endpoint} {self.trouble}") from None
        finally:
            self._under_way.pop(call, None)
        self._heard_s = self._loop.time()
        return response

    async def metadata(self, *, timeout_s: float) -> Metadata:
        """What to send with a request. Raises Failed: DENIED for a wrong password, else NOT_DONE."""

        async def authenticate(request: pb.AuthenticateRequest) -> pb.AuthenticateResponse:
            call = self._auth.Authenticate
            answer = await self.call(call, request, timeout_s=timeout_s, metadata=(WITH_LEADER,))
            if not self._is_ours(answer.header.cluster_id):
                raise Failed(Fate.NOT_DONE, f"{self.endpoint} {self.trouble}")
            return answer

        return await self._tokens.metadata(authenticate)

    async def renew(self, lease: int, *, timeout_s: float, metadata: Metadata) -> int:
        """Keep a lease alive, tried once: seconds, or 0 if there is no such lease. Raises Failed."""
        request = pb.LeaseKeepAliveRequest(ID=lease)
        call = self.lease.LeaseKeepAlive(iter((request,)), timeout=timeout_s, metadata=metadata)
        self.hold(call)
        try:
            return (await self.read(call)).TTL
        finally:
            self.release(call)

    async def read(self, call: StreamCall[Request, Response]) -> Response:
        """The next message of a stream that is held. Raises Failed when there is none."""
        try:
            response = await call.read()
        except grpc.aio.AioRpcError as error:
            raise self._failed(error) from None
        except asyncio.CancelledError:
            if call in self._under_way or _asked_to_stop():
                raise
            raise Failed(Fate.UNSURE, f"{self.endpoint} {self.trouble}") from None
        if response is grpc.aio.EOF:
            raise Failed(Fate.UNSURE, f"{self.endpoint} has ended the stream")
        self._heard_s = self._loop.time()
        return cast(Response, response)

    def hold(self, call: grpc.aio.Call) -> None:
        """Give this stream up when the member does not answer."""
        self._under_way[call] = None

    def release(self, call: grpc.aio.Call) -> None:
        """The stream is over."""
        self._under_way.pop(call, None)
        call.cancel()

    def look(self) -> None:
        """Take its pulse now."""
        self._look.set()

    async def run(self) -> None:
        """Take its pulse until cancelled."""
        while True:
            try:
                await self._take_pulse()
            except Exception as error:
                # A bug must not leave a member looking well, or ill, for ever.
                log.exception("etcd_pulse_failed", extra={"member": self.endpoint})
                self._change(f"cannot be asked ({type(error).__name__}: {error})")
            try:
                async with asyncio.timeout(PULSE_EVERY_S):
                    await self._look.wait()
            except TimeoutError:
                continue
            self._look.clear()

    async def close(self) -> None:
        """Give up everything."""
        self._change("is closed")
        self._drop()
        for channel in self._channels:
            await channel.close()

    # ------------------------------------------------------------------------------------------- the pulse

    async def _take_pulse(self) -> None:
        token = self._tokens.token
        try:
            status = await self._maintenance.Status(pb.StatusRequest(), timeout=PULSE_TIMEOUT_S, metadata=token)
        except grpc.aio.AioRpcError as error:
            if fate_of(error.details() or "") in (Fate.NOT_KNOWN_TO, Fate.DENIED):
                await self._introduce_ourselves(token)
            else:
                self._no_pulse(error)
            return
        self._heard_s = self._loop.time()
        full = any("NOSPACE" in text for text in status.errors)
        self.vitals = Vitals(status.header.cluster_id, status.raft_applied_index, full, _sizes(status))
        self._change(self._trouble_of(status))

    def _trouble_of(self, status: pb.StatusResponse) -> str:
        if not self._is_ours(status.header.cluster_id):
            return self.trouble
        if not status.leader:
            return "knows no leader (a majority of its cluster has to run)"
        if status.is_learner:
            return "is still learning"
        if any("CORRUPT" in text for text in status.errors):
            return "has damaged data (alarm CORRUPT): restore it"
        return ""

    def _is_ours(self, cluster_id: int) -> bool:
        """Whether its cluster is the one that we belong to; if not, that is its trouble."""
        self._stranger = not self._admit(cluster_id)
        if self._stranger:
            self._change(f"belongs to another cluster (its id is {cluster_id:x})")
        return not self._stranger

    async def _introduce_ourselves(self, refused: Metadata) -> None:
        """The server (3.6 or newer) wants to know who asks for its status. It answers, so it is well as far as we
        know; its cluster it names when it gives us a token."""
        self._heard_s = self._loop.time()
        if self._stranger:
            return
        self._tokens.refused(refused)
        try:
            await self.metadata(timeout_s=PULSE_TIMEOUT_S)
        except Failed as failed:
            if failed.fate is not Fate.DENIED:
                return
        if self._tokens.token and not refused:
            self.look()
        else:
            self._change("")

    def _no_pulse(self, error: grpc.aio.AioRpcError) -> None:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            self._change(f"cannot be reached ({plain(error.details() or '')})")
            self._drop()
        elif self._loop.time() - self._heard_s > PULSE_TIMEOUT_S:
            self._change("does not answer")
            self._drop()

    def _failed(self, error: grpc.aio.AioRpcError) -> Failed:
        """And what it says about the member."""
        details = error.details() or ""
        fate = fate_of(details)
        if "no leader" in details:
            self._change("knows no leader (a majority of its cluster has to run)")
        elif error.code() is grpc.StatusCode.UNAVAILABLE and "etcdserver:" not in details:
            self._change(f"cannot be reached ({plain(details)})")
        if fate in (Fate.NOT_DONE, Fate.UNSURE, Fate.FULL):
            self.look()
        return Failed(fate, f"{self.endpoint}: {plain(details)}")

    def _change(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._on_change()

    def _drop(self) -> None:
        """Give up what is under way. Whoever waits finds his call gone from the list, and so knows why."""
        dropped = tuple(self._under_way)
        self._under_way.clear()
        for call in dropped:
            call.cancel()


def _sizes(status: pb.StatusResponse) -> Mapping[str, int]:
    sizes = {"file": status.db_size, "used": status.db_size_in_use, "quota": status.db_size_quota}
    return {what: size for what, size in sizes.items() if size}


def _asked_to_stop() -> bool:
    """Whether the task itself is cancelled, and not just the call that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _channel(endpoint: str, credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
    if credentials is None:
        return grpc.aio.insecure_channel(endpoint, options=CHANNEL_OPTIONS)
    return grpc.aio.secure_channel(endpoint, credentials, options=CHANNEL_OPTIONS)
