"""AuditService as coroutines on messages: reads what the replicas have written down."""

from hanse.api.v1 import audit_service_pb2 as pb
from hanse.apiserver.access.verbs import Verb
from hanse.apiserver.context import CallContext
from hanse.apiserver.pages import PageToken, invalid_token, page_size, read_token, write_token
from hanse.apiserver.ports import AuditTrail
from hanse.apiserver.sight import Sight
from hanse.model.audit import AUDIT_RECORDS_MAX, AuditQuery
from hanse.model.errors import InvalidArgument, Unavailable
from hanse.model.ids import QueueUid
from hanse.wire.audit import audit_record_to_wire
from hanse.wire.limits import PAGE_SIZE_DEFAULT

DEADLINE_S = 10.0
"""How long an answer waits for other replicas, which look through files."""


class AuditService:
    """The methods of hanse.api.v1.AuditService."""

    def __init__(self, trail: AuditTrail | None, sight: Sight) -> None:
        self._trail = trail
        self._sight = sight

    async def list_audit_records(
        self, ctx: CallContext, request: pb.ListAuditRecordsRequest
    ) -> pb.ListAuditRecordsResponse:
        """One page, newest first.

        Raises:
            InvalidArgument: a time, page size or token that is wrong.
            NotFound: the caller does not see the queue.
            Unavailable: reason NO_AUDIT; no replica runs beside this server.
        """
        if self._trail is None:
            raise Unavailable("no replica runs beside this server; ask another one", reason="NO_AUDIT")
        token = read_token(request.page_token, request)
        size = page_size(request.page_size, default=PAGE_SIZE_DEFAULT, most=AUDIT_RECORDS_MAX)
        for name in ("since_ms", "before_ms"):
            if getattr(request, name) < 0:
                raise InvalidArgument("it is no time; use 0 for none", reason="TIME_INVALID", path=name)
        if request.queue and not ctx.access.may(Verb.AUDIT):
            await self._sight.queue(ctx.access, request.queue)
        query = AuditQuery(
            request.since_ms,
            _before(token) or request.before_ms,
            request.who,
            request.job,
            request.queue,
            request.verb,
            await self._seen(ctx),
            size,
        )
        deadline_s = DEADLINE_S if ctx.deadline_s is None else min(DEADLINE_S, ctx.deadline_s * 0.8)
        page = await self._trail.audited(query, deadline_s=deadline_s)
        more = PageToken(token.filter, 0, str(page.through_ms)) if page.through_ms > request.since_ms else None
        return pb.ListAuditRecordsResponse(
            records=[audit_record_to_wire(record) for record in page.records],
            next_page_token=write_token(more) if more is not None else "",
            replicas_silent=page.silent,
        )

    async def _seen(self, ctx: CallContext) -> dict[str, QueueUid] | None:
        """The queues whose records the caller may read, None for all and all else."""
        if ctx.access.may(Verb.AUDIT):
            return None
        queues = await self._sight.queues(ctx.access, Verb.AUDIT)
        return {str(name): QueueUid(stored.value.uid) for name, stored in queues.items()}


def _before(token: PageToken) -> int:
    """Where a page goes on, 0 for the first. Raises InvalidArgument."""
    if not token.after:
        return 0
    if not token.after.isdecimal() or len(token.after) > 16:
        raise invalid_token("is not a page token of this server")
    return int(token.after)
