"""ServerService as coroutines on messages."""

from dataclasses import dataclass

from hanse.api.v1 import server_service_pb2
from hanse.apiserver.catalog import read_all
from hanse.apiserver.context import CallContext
from hanse.apiserver.ports import FleetView, Standing
from hanse.apiserver.seen import seen_server, seen_status
from hanse.apiserver.status import federation_status
from hanse.kit.clock import Clock
from hanse.model.errors import Unavailable
from hanse.store import keys
from hanse.store.contract import KeyValue, Store
from hanse.store.schema import ReplicaValue, decode


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this server is.

    Attributes:
        store: kind of the store: `memory`, `sqlite`, `etcd`.
    """

    version: str
    store: str
    replica: str = ""


class ServerService:
    """The methods of hanse.api.v1.ServerService."""

    def __init__(
        self, store: Store, identity: Identity, clock: Clock, fleet: FleetView, standing: Standing | None
    ) -> None:
        self._store = store
        self._identity = identity
        self._clock = clock
        self._fleet = fleet
        self._standing = standing

    async def get_server_info(
        self, ctx: CallContext, request: server_service_pb2.GetServerInfoRequest
    ) -> server_service_pb2.ServerInfo:
        """The server and its federation."""
        return seen_server(ctx.access, await self._info())

    async def _info(self) -> server_service_pb2.ServerInfo:
        read = await self._store.read([keys.FEDERATION, keys.INCARNATION])
        return server_service_pb2.ServerInfo(
            version=self._identity.version,
            federation=_text(read.items.get(keys.FEDERATION)),
            store=self._identity.store,
            replica=self._identity.replica,
            replicas=[_replica(kv) for kv in await read_all(self._store, keys.REPLICAS)],
            revision=read.revision,
            incarnation=_number(read.items.get(keys.INCARNATION)),
            time_ms=self._clock.now_ms(),
        )

    async def get_status(
        self, ctx: CallContext, request: server_service_pb2.GetStatusRequest
    ) -> server_service_pb2.FederationStatus:
        """How the whole federation is. Raises Unavailable beside no replica."""
        if self._standing is None:
            raise Unavailable("no replica runs beside this server; ask another one", reason="NO_REPLICA")
        status = await federation_status(await self._info(), self._fleet, self._standing)
        return seen_status(ctx.access, status, self._fleet.pools())


def _replica(kv: KeyValue) -> server_service_pb2.Replica:
    value = decode(kv.value, ReplicaValue)
    return server_service_pb2.Replica(
        id=kv.key.rsplit("/", 1)[1],
        address=value.address,
        schedules=value.schedules,
        started_ms=value.started_ms,
    )


def _text(kv: KeyValue | None) -> str:
    return kv.value.decode(errors="replace") if kv is not None else ""


def _number(kv: KeyValue | None) -> int:
    text = _text(kv)
    return int(text) if text.isdecimal() else 0
