"""A server of simulated clusters: what `hanse sim-cluster` runs.

There are no credentials for it yet, so it listens on the loopback alone: whoever reaches it may fail every node.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Mapping
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

from hanse.model.errors import InvalidArgument, Unavailable
from hanse.sim.v1 import sim_pb2, sim_pb2_grpc
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.service import SimService

MESSAGE_BYTES_MAX: Final = 64 << 20
STOP_GRACE_S: Final = 2.0
SERVICE: Final = sim_pb2.DESCRIPTOR.services_by_name["SimService"].full_name
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),
)


async def serve(
    listen: str,
    clusters: Mapping[str, SimCluster],
    *,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve clusters until cancelled, then close them.

    Args:
        listen: HOST:PORT; port 0 takes a free one.
        ready: called with the address, once calls are answered.

    Raises:
        InvalidArgument: not an address of the loopback.
        Unavailable: the port is taken.
    """
    host = loopback_host(listen)
    server = grpc.aio.server(options=OPTIONS)
    sim_pb2_grpc.add_SimServiceServicer_to_server(SimService(clusters), server)
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection((SERVICE, reflection.SERVICE_NAME), server)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as error:
        raise Unavailable(f"cannot listen on {listen}: is the port taken?", reason="LISTEN") from error
    await server.start()
    await checks.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
    ready(f"{host}:{port}")
    try:
        await asyncio.Event().wait()
    finally:
        for cluster in clusters.values():
            cluster.close()
        await server.stop(STOP_GRACE_S)


def loopback_host(listen: str) -> str:
    """The host part of an address. Raises InvalidArgument if it is not on the loopback."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal():
        raise InvalidArgument(f"{listen!r} is not HOST:PORT", path="listen")
    name = host.strip("[]")
    try:
        on_loopback = name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        on_loopback = False
    if not on_loopback:
        raise InvalidArgument(
            f"{listen}: a simulated cluster has no credentials, and listens on 127.0.0.1 only", path="listen"
        )
    return host
