"""What no service looks at by itself: calls of links, peers, simulated clusters, reflection and health.

The API's own services ask at their gate, with their own words and limits. Health is open: probes have no token, and
it tells nothing that an address does not. A method that is not in the table of rules is refused, whoever calls.
Where certificates are asked for, links and peers look at them themselves.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc

from hanse.apiserver.access.callers import AUTHORIZATION, Callers
from hanse.apiserver.access.rules import RULES, Scope
from hanse.apiserver.credentials import UNAUTHENTICATED
from hanse.model.errors import PermissionDenied

API: Final = "hanse.api."


class Door(grpc.aio.ServerInterceptor):
    """Refuses calls that may not come through."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # Any: handlers of every kind of call
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method.removeprefix("/")
        rule = RULES.get(method)
        if rule is None:
            return _refusing(handler, grpc.StatusCode.PERMISSION_DENIED, f"{method} is in no table of permissions")
        if rule.scope is Scope.ANYBODY or method.startswith(API) or self._callers.open or self._callers.certificates:
            return handler
        metadata = handler_call_details.invocation_metadata
        sent = [value for key, value in metadata if key == AUTHORIZATION and isinstance(value, str)]
        try:
            rule.check(await self._callers.caller(sent))
        except PermissionDenied as error:
            unknown = error.reason == UNAUTHENTICATED
            code = grpc.StatusCode.UNAUTHENTICATED if unknown else grpc.StatusCode.PERMISSION_DENIED
            return _refusing(handler, code, str(error))
        return handler


def _refusing(handler: Any, code: grpc.StatusCode, message: str) -> Any:
    """A handler of the same kind that refuses."""

    async def refuse(request: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        await context.abort(code, message)

    made = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    return made(refuse, handler.request_deserializer, handler.response_serializer)
