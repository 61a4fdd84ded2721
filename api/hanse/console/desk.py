"""The API as the console asks it: in the same process, by the way that every caller takes.

That way looks into the table of permissions before a service sees a call, and writes down who changed what. Whatever
else is refused, or left out, the services do themselves.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from hanse.apiserver.access.rules import RULES
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
        self._calls = services.calls
        self._names: dict[Callable[..., Any], str] = {
            getattr(service, method_name(method.name)): f"{descriptor.full_name}/{method.name}"
            for descriptor, service in services_of(services)
            for method in descriptor.methods
        }

    def check(self, ctx: CallContext, method: Callable[..., Any]) -> None:
        """Whether somebody may call a method at all. Raises PermissionDenied."""
        RULES[self._names[method]].check(ctx.access)

    async def ask(self, ctx: CallContext, method: Callable[[CallContext, Q], Awaitable[A]], request: Q) -> A:
        """One answer. Raises PermissionDenied, and what the method raises."""
        return await self._calls.ask(self._names[method], ctx, request, method)

    def follow(
        self, ctx: CallContext, method: Callable[[CallContext, Q], AsyncIterator[A]], request: Q
    ) -> AsyncIterator[A]:
        """Answers as they come. Raises, while iterated, PermissionDenied and what the method raises."""
        return self._calls.follow(self._names[method], ctx, request, method)
