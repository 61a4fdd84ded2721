"""A collector that takes everything and looks at nothing: `python -m bench.telemetry.collector`.

A process of its own, so that what it costs is not taken for what telling costs. It says its address in one line, and
ends with its stdin.
"""

import asyncio
import sys
from typing import Any, Final

import grpc

SERVICES: Final = (
    "opentelemetry.proto.collector.trace.v1.TraceService",
    "opentelemetry.proto.collector.metrics.v1.MetricsService",
)


async def _take(request: bytes, context: "grpc.aio.ServicerContext[Any, Any]") -> bytes:
    return b""  # the empty answer of either service


async def main() -> None:
    """Serve until stdin ends."""
    server = grpc.aio.server()
    for service in SERVICES:
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(_take)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main())
