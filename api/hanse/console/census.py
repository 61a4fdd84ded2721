"""The queues with what is in them, which costs a look at every job's record: done seldom, and once for all pages.

A count rests for as many times its own length as CENSUS_REST says, so that a federation of a hundred thousand jobs
spends a twentieth of one core on it and no more, whoever looks.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from hanse.api.v1 import queue_service_pb2
from hanse.apiserver.access.rights import Access
from hanse.apiserver.context import CallContext
from hanse.console.desk import Desk
from hanse.console.forms import Form, queue_form
from hanse.console.limits import CENSUS_AGE_MIN_S, CENSUS_REST
from hanse.console.sight import same_sight
from hanse.kit.clock import Clock
from hanse.model.errors import NotFound
from hanse.model.names import quoted
from hanse.wire.json import Json
from hanse.wire.limits import PAGE_SIZE_MAX

CALLERS_KEPT_MAX: Final = 64
PAGES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class _Counted:
    form: Form
    until_s: float
    access: Access


class Census:
    """The queues that each caller may see."""

    def __init__(self, desk: Desk, clock: Clock) -> None:
        self._desk = desk
        self._clock = clock
        self._known: list[_Counted] = []
        self._turn = asyncio.Lock()

    async def queues(self, ctx: CallContext) -> Form:
        """All of them, as they were a moment ago."""
        known = self._fresh(ctx)
        if known is not None:
            return known
        async with self._turn:
            return self._fresh(ctx) or await self._count(ctx)

    def _fresh(self, ctx: CallContext) -> Form | None:
        now_s = self._clock.monotonic()
        self._known = [one for one in self._known if now_s < one.until_s]
        return next((one.form for one in self._known if same_sight(one.access, ctx.access)), None)

    async def queue(self, ctx: CallContext, name: str) -> Form:
        """One of them. Raises NotFound: reason QUEUE_NOT_FOUND, also for one that the caller does not see."""
        queues = (await self.queues(ctx))["queues"]
        assert isinstance(queues, list)
        found = next((q for q in queues if isinstance(q, dict) and q["name"] == name), None)
        if found is None:
            raise NotFound(f"queue {quoted(name)} does not exist", reason="QUEUE_NOT_FOUND", path="queue")
        return found

    async def _count(self, ctx: CallContext) -> Form:
        begun_s = self._clock.monotonic()
        queues: list[Json] = []
        request = queue_service_pb2.ListQueuesRequest(page_size=PAGE_SIZE_MAX, status=True)
        for _ in range(PAGES_MAX):
            page = await self._desk.ask(ctx, self._desk.queues.list_queues, request)
            queues.extend(queue_form(queue) for queue in page.queues)
            request.page_token = page.next_page_token
            if not page.next_page_token:
                break
        ended_s = self._clock.monotonic()
        form: Form = {"queues": queues, "at": self._clock.now_ms(), "more": bool(request.page_token)}
        rest_s = max(CENSUS_AGE_MIN_S, (ended_s - begun_s) * CENSUS_REST)
        self._known = [*self._known, _Counted(form, ended_s + rest_s, ctx.access)][-CALLERS_KEPT_MAX:]
        return form
