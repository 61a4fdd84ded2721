"""Who may attach an agent, ask as a peer, or steer a simulated cluster: whoever shows a token that the API knows.

The API's own services ask at their gate, with their own words and limits. Health and reflection are open: probes have
no token, and tell nothing that an address does not.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from hanse.apiserver.credentials import Credentials
from hanse.model.errors import PermissionDenied

GUARDED: Final = ("/hanse.link.", "/hanse.sim.")


class Door(grpc.aio.ServerInterceptor):
    """Refuses calls of guarded services that show no token."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # Any: handlers of every kind of call
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(GUARDED):
            return handler
        shown = {key: value for key, value in handler_call_details.invocation_metadata if isinstance(value, str)}
        try:
            self._credentials.principal(shown.get("authorization", ""))
        except PermissionDenied as error:
            return _refusing(handler, str(error))
        return handler


def _refusing(handler: Any, message: str) -> Any:
    """A handler of the same kind that refuses."""

    async def refuse(request: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, message)

    made = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    return made(refuse, handler.request_deserializer, handler.response_serializer)
