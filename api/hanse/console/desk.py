"""The API as the console asks it: in the same process, by the same table of permissions as any other caller.

What a method asks of its caller is looked up here before the service sees the call, as the API's own gate does it; a
method that stands in no table cannot be called. Whatever else is refused, or left out, the services do themselves.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from hanse.apiserver.access.rules import RULES, Rule
from hanse.apiserver.context import CallContext
from hanse.apiserver.rpc import method_name
from hanse.apiserver.services import ApiServices
from hanse.apiserver.serving import services_of

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


class Desk:
    """Calls the services for somebody."""

    def __init__(self, services: ApiServices) -> None:
        self.jobs = services.jobs
        self.pools = services.pools
        self.queues = services.queues
        self.events = services.events
        self.server = services.server
        self._rules: dict[Callable[..., Any], Rule] = {
            getattr(service, method_name(method.name)): RULES[f"{descriptor.full_name}/{method.name}"]
            for descriptor, service in services_of(services)
            for method in descriptor.methods
        }

    def check(self, ctx: CallContext, method: Callable[..., Any]) -> None:
        """Whether somebody may call a method at all. Raises PermissionDenied."""
        self._rules[method].check(ctx.access)

    async def ask(self, ctx: CallContext, method: Callable[[CallContext, Q], Awaitable[A]], request: Q) -> A:
        """One answer. Raises PermissionDenied, and what the method raises."""
        self.check(ctx, method)
        return await method(ctx, request)

    def follow(
        self, ctx: CallContext, method: Callable[[CallContext, Q], AsyncIterator[A]], request: Q
    ) -> AsyncIterator[A]:
        """Answers as they come. Raises PermissionDenied, and while iterated what the method raises."""
        self.check(ctx, method)
        return method(ctx, request)
