"""Fate for simulated clusters: their nodes fail and come back when an operator says so.

`hanse up` answers these calls at the address of its API, `hanse sim-cluster` at its own. A server of real clusters
does not know them, and its answer is told as that.
"""

import random
from typing import TYPE_CHECKING, Final

from hanse.model.errors import FailedPrecondition, InvalidArgument
from hanse.model.names import quoted

if TYPE_CHECKING:
    from hanse.sim.v1.sim_pb2 import PathResponse

DEADLINE_S: Final = 30.0


def pool_and_path(text: str) -> tuple[str, str]:
    """`iowa-h100/b7/r03` as the pool and the path inside it.

    Raises:
        InvalidArgument: one of the two is missing.
    """
    pool, slash, path = text.partition("/")
    if not slash or not pool or not path.strip("/"):
        raise InvalidArgument(
            f"{quoted(text)} is not POOL/PATH; name a domain or a node, as in iowa-h100/b7/r03",
            reason="PATH_INVALID",
            path="path",
        )
    return pool, path.strip("/")


async def fail(server: str, pool: str, path: str) -> "PathResponse":
    """Kill the machines below a path."""
    from hanse.sim.v1 import sim_pb2

    return await _call(server, sim_pb2.FailRequest(pool=pool, path=path))


async def restore(server: str, pool: str, path: str) -> "PathResponse":
    """Make the nodes below a path as new."""
    from hanse.sim.v1 import sim_pb2

    return await _call(server, sim_pb2.RestoreRequest(pool=pool, path=path))


async def _call(server: str, request: object) -> "PathResponse":
    import os

    import grpc

    from hanse.client.address import server_address, tls_files
    from hanse.client.calls import Connection, Terms
    from hanse.client.tokens import token_source
    from hanse.sim.v1 import sim_pb2, sim_pb2_grpc

    connection = Connection(
        server_address(server or None, os.environ),
        token=token_source(None, None, os.environ),
        terms=Terms(),
        rng=random.SystemRandom(),
        tls=tls_files(os.environ),
    )
    stub: sim_pb2_grpc.SimServiceAsyncStub = sim_pb2_grpc.SimServiceStub(connection.channel)
    try:
        if isinstance(request, sim_pb2.FailRequest):
            return await stub.Fail(request, timeout=DEADLINE_S, metadata=connection.metadata)
        assert isinstance(request, sim_pb2.RestoreRequest)
        return await stub.Restore(request, timeout=DEADLINE_S, metadata=connection.metadata)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise FailedPrecondition(
                f"the server at {connection.server} simulates no clusters; name one that does with --server",
                reason="NOT_SIMULATED",
            ) from None
        raise connection.error(error) from None
    finally:
        await connection.close()
