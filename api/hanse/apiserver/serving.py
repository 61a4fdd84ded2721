"""A listening gRPC server over the services: limits of messages, health, reflection, a graceful end."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from hanse.api.v1 import (
    config_service_pb2,
    job_service_pb2,
    pool_service_pb2,
    queue_service_pb2,
    server_service_pb2,
)
from hanse.apiserver.credentials import Credentials, check_listen
from hanse.apiserver.rpc import Gate, handlers
from hanse.apiserver.services import ApiServices
from hanse.apiserver.settings import DEFAULT_LISTEN
from hanse.model.errors import Unavailable
from hanse.wire.limits import BATCH_BYTES_MAX, MESSAGE_BYTES_MAX

STOP_GRACE_S: Final = 2.0
RECEIVED_BYTES_MAX: Final = 2 * BATCH_BYTES_MAX
"""More than a batch may have, so that a batch that is too large is refused in our own words."""

CLIENT_PINGS_MIN_S: Final = 10
KEEPALIVE_S: Final = 30
KEEPALIVE_TIMEOUT_S: Final = 10
NO_CREDENTIALS: Final = Credentials()

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", RECEIVED_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),  # a second server on the same port is an error, not a lottery
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
        (pool_service_pb2.DESCRIPTOR.services_by_name["PoolService"], services.pools),
        (queue_service_pb2.DESCRIPTOR.services_by_name["QueueService"], services.queues),
        (config_service_pb2.DESCRIPTOR.services_by_name["ConfigService"], services.config),
        (server_service_pb2.DESCRIPTOR.services_by_name["ServerService"], services.server),
    )


@asynccontextmanager
async def serve(
    services: ApiServices,
    *,
    listen: str = DEFAULT_LISTEN,
    credentials: Credentials = NO_CREDENTIALS,
    beside: Callable[[grpc.aio.Server], None] = lambda server: None,
) -> AsyncIterator[Serving]:
    """Listen while the block runs; `services.running()` is the caller's business.

    Args:
        listen: HOST:PORT; port 0 takes a free one.
        beside: adds services of other packages to the same port (links, simulated clusters).

    Raises:
        FailedPrecondition: reason CREDENTIALS_MISSING.
        Unavailable: reason ADDRESS_UNUSABLE.
    """
    check_listen(listen, credentials)
    gate = Gate(services.settings, credentials)
    server = grpc.aio.server(options=_OPTIONS)
    names = [descriptor.full_name for descriptor, _ in services_of(services)]
    for descriptor, service in services_of(services):
        server.add_generic_rpc_handlers((handlers(descriptor, service, gate),))
    beside(server)
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    port = _bind(server, listen)
    await server.start()
    for name in ("", *names):
        await healthy.set(name, health_pb2.HealthCheckResponse.SERVING)
    try:
        yield Serving(f"{listen.rpartition(':')[0]}:{port}", port)
    finally:
        await healthy.enter_graceful_shutdown()
        await server.stop(STOP_GRACE_S)


def _bind(server: grpc.aio.Server, listen: str) -> int:
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError:
        port = 0
    if not port:
        raise Unavailable(
            f"cannot listen on {listen}: the address is in use or not this machine's; stop what listens there, "
            "or listen on another port",
            reason="ADDRESS_UNUSABLE",
            path="listen",
        )
    return port
