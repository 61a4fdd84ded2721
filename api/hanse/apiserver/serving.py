"""A listening gRPC server over the services: limits of messages, health, reflection, a graceful end.

Health has two sides. A server that answers the health service `LIVENESS` is alive, and is restarted if it does not;
the empty service and those of the API say whether it should be sent calls, which a replica that has lost its store
should not. What other packages serve on the same port asks for a token wherever the API asks for one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from hanse.api.v1 import (
    access_service_pb2,
    audit_service_pb2,
    config_service_pb2,
    event_service_pb2,
    job_service_pb2,
    pool_service_pb2,
    queue_service_pb2,
    server_service_pb2,
    trust_service_pb2,
    usage_service_pb2,
)
from hanse.apiserver.access.callers import Callers
from hanse.apiserver.access.policy import CLOSED, TRUSTING
from hanse.apiserver.credentials import Credentials, check_listen
from hanse.apiserver.door import Door
from hanse.apiserver.rpc import Gate, handlers
from hanse.apiserver.services import ApiServices
from hanse.apiserver.settings import DEFAULT_LISTEN
from hanse.kit.addresses import is_loopback
from hanse.kit.tls import TlsFiles, server_credentials
from hanse.kit.trust.shown import Barred, nobody_is_barred
from hanse.model.errors import Unavailable
from hanse.wire.limits import BATCH_BYTES_MAX, MESSAGE_BYTES_MAX

STOP_GRACE_S: Final = 2.0
RECEIVED_BYTES_MAX: Final = 2 * BATCH_BYTES_MAX
"""More than a batch may have, so that a batch that is too large is refused in our own words."""

HANDSHAKE_MAX_S: Final = 10
METADATA_BYTES_MAX: Final = 32 * 1024
"""Of all headers of one call; a token has at most 8 KiB."""

CLIENT_PINGS_MIN_S: Final = 10
KEEPALIVE_S: Final = 30
KEEPALIVE_TIMEOUT_S: Final = 10
NO_CREDENTIALS: Final = Credentials()
LIVENESS: Final = "liveness"
READY_LOOK_S: Final = 0.2

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", RECEIVED_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),  # a second server on the same port is an error, not a lottery
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MAX_S * 1000),  # who is slower holds a socket, and no more
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),  # a watcher whose machine died frees its place
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_S * 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", CLIENT_PINGS_MIN_S * 1000),
)


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that listens; `address` has the real port."""

    address: str
    port: int


def services_of(services: ApiServices) -> tuple[tuple[ServiceDescriptor, object], ...]:
    """Every service of the API and what serves it."""
    return (
        (job_service_pb2.DESCRIPTOR.services_by_name["JobService"], services.jobs),
        (event_service_pb2.DESCRIPTOR.services_by_name["EventService"], services.events),
        (pool_service_pb2.DESCRIPTOR.services_by_name["PoolService"], services.pools),
        (queue_service_pb2.DESCRIPTOR.services_by_name["QueueService"], services.queues),
        (config_service_pb2.DESCRIPTOR.services_by_name["ConfigService"], services.config),
        (audit_service_pb2.DESCRIPTOR.services_by_name["AuditService"], services.audit),
        (access_service_pb2.DESCRIPTOR.services_by_name["AccessService"], services.access),
        (trust_service_pb2.DESCRIPTOR.services_by_name["TrustService"], services.trust),
        (server_service_pb2.DESCRIPTOR.services_by_name["ServerService"], services.server),
        (usage_service_pb2.DESCRIPTOR.services_by_name["UsageService"], services.usage),
    )


@asynccontextmanager
async def serve(
    services: ApiServices | None,
    *,
    listen: str = DEFAULT_LISTEN,
    credentials: Credentials = NO_CREDENTIALS,
    callers: Callers | None = None,
    barred: Barred = nobody_is_barred,
    tls: TlsFiles | None = None,
    beside: Callable[[grpc.aio.Server], None] = lambda server: None,
    ready: Callable[[], bool] | None = None,
) -> AsyncIterator[Serving]:
    """Listen while the block runs; `services.running()` is the caller's business.

    Args:
        services: of the API; None serves only what is beside it.
        listen: HOST:PORT; port 0 takes a free one.
        credentials: who may call, if that is all there is to say: whoever they know may do everything on the
            loopback, and nothing beyond it.
        callers: who may call, and with which rights; instead of `credentials`.
        barred: certificates that are believed no more.
        tls: the server's files; in clear without. Those who show certificates need no token for what is beside.
        beside: adds services of other packages to the same port (links, simulated clusters).
        ready: whether calls should be sent here, looked at again and again; None: always.

    Raises:
        FailedPrecondition: reason CREDENTIALS_MISSING.
        InvalidArgument: reason TLS_INVALID.
        Unavailable: reason ADDRESS_UNUSABLE.
    """
    policy = TRUSTING if is_loopback(listen.rpartition(":")[0]) else CLOSED
    known = callers or Callers(lambda: credentials, lambda: policy)
    check_listen(listen, open=known.open)
    server = grpc.aio.server(options=_OPTIONS, interceptors=[Door(known)])
    names = _add(
        server, services, Gate(services.settings, known, services.clock, services.calls, barred) if services else None
    )
    beside(server)
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    port = bind(server, listen, tls)
    await server.start()
    await _say(healthy, (LIVENESS,), serving=True)
    await _say(healthy, ("", *names), serving=ready is None or ready())
    looking = [] if ready is None else [asyncio.create_task(_look(healthy, ("", *names), ready), name="readiness")]
    try:
        yield Serving(f"{listen.rpartition(':')[0]}:{port}", port)
    finally:
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)
        await healthy.enter_graceful_shutdown()
        await server.stop(STOP_GRACE_S)


def _add(server: grpc.aio.Server, services: ApiServices | None, gate: Gate | None) -> list[str]:
    """Serve the API; the names of its services."""
    if services is None or gate is None:
        return []
    for descriptor, service in services_of(services):
        server.add_generic_rpc_handlers((handlers(descriptor, service, gate),))
    return [descriptor.full_name for descriptor, _ in services_of(services)]


async def _look(healthy: Any, names: Sequence[str], ready: Callable[[], bool]) -> None:
    """Say whenever readiness changes. Looked at, because it is made of parts that change by themselves."""
    said = ready()
    while True:
        await asyncio.sleep(READY_LOOK_S)
        if ready() != said:
            said = not said
            await _say(healthy, names, serving=said)


async def _say(healthy: Any, names: Sequence[str], *, serving: bool) -> None:  # Any: the package has no types
    response = health_pb2.HealthCheckResponse
    for name in names:
        await healthy.set(name, response.SERVING if serving else response.NOT_SERVING)


def bind(
    server: grpc.aio.Server, listen: str, tls: TlsFiles | None, *, path: str = "listen", above: bytes = b""
) -> int:
    """Have a server listen; the real port.

    Args:
        path: of the setting that said where.
        above: PEM of certificates that are shown with the server's own.

    Raises:
        InvalidArgument: reason TLS_INVALID.
        Unavailable: reason ADDRESS_UNUSABLE.
    """
    safe = server_credentials(tls, above=above) if tls is not None else None
    try:
        port = server.add_insecure_port(listen) if safe is None else server.add_secure_port(listen, safe)
    except RuntimeError:
        port = 0
    if not port:
        raise Unavailable(
            f"cannot listen on {listen}: the address is in use or not this machine's; stop what listens there, "
            "or listen on another port",
            reason="ADDRESS_UNUSABLE",
            path=path,
        )
    return port
