"""AccessService as coroutines on messages: answered from the policy alone, without a look at what there is."""

from collections.abc import Mapping
from typing import Final

from hanse.api.v1 import access_service_pb2 as pb
from hanse.apiserver.access.rights import denied
from hanse.apiserver.access.verbs import OWN, QUEUE_VERBS, Verb
from hanse.apiserver.context import CallContext
from hanse.apiserver.suggest import did_you_mean
from hanse.model.errors import InvalidArgument
from hanse.model.names import is_subdomain, quoted

COMMANDS: Final[Mapping[str, Verb]] = {
    **{verb.value: verb for verb in Verb},
    **dict.fromkeys(("cancel", "hold", "release", "update", "retry"), Verb.CHANGE),
    **dict.fromkeys(("cordon", "uncordon", "drain", "leave", "give"), Verb.OPERATE),
    **dict.fromkeys(("apply", "create", "delete"), Verb.CONFIGURE),
    **dict.fromkeys(("get", "list", "watch", "explain", "events", "jobs"), Verb.VIEW),
    "sbatch": Verb.SUBMIT,
    "status": Verb.VIEW_FEDERATION,
}
"""What a verb may be called: its own name, or that of a command which needs it."""


class AccessService:
    """The methods of hanse.api.v1.AccessService."""

    async def who_am_i(self, ctx: CallContext, request: pb.WhoAmIRequest) -> pb.WhoAmIResponse:
        """The caller."""
        access = ctx.access
        return pb.WhoAmIResponse(
            principal=ctx.principal,
            groups=access.groups,
            unbounded=access.unbounded,
            grants=[pb.RoleGrant(role=g.role, queue=g.queue, cluster=g.cluster) for g in access.grants],
            expires_ms=access.expires_s * 1_000,
        )

    async def check_access(self, ctx: CallContext, request: pb.CheckAccessRequest) -> pb.CheckAccessResponse:
        """Whether the caller may. Raises InvalidArgument: reason VERB_UNKNOWN or NAME_INVALID."""
        verb = COMMANDS.get(request.verb)
        if verb is None:
            hint = did_you_mean(request.verb, COMMANDS) or f"; there are {', '.join(Verb)}"
            raise InvalidArgument(f"no verb {quoted(request.verb)}{hint}", reason="VERB_UNKNOWN", path="verb")
        queue = request.queue or None
        if queue is not None and not is_subdomain(queue):
            raise InvalidArgument(f"{quoted(queue)} is no name of a queue", reason="NAME_INVALID", path="queue")
        where = queue if verb in QUEUE_VERBS else None
        if verb in QUEUE_VERBS and queue is None and not ctx.access.everywhere(verb):
            return pb.CheckAccessResponse(message=f"{verb} is allowed queue by queue; name one")
        allowed = (verb in QUEUE_VERBS and queue is None) or ctx.access.may(verb, where)
        own = not allowed and verb in OWN and where is not None and ctx.access.may(OWN[verb], where)
        message = "" if allowed or own else denied(ctx.access, verb, where).message
        return pb.CheckAccessResponse(allowed=allowed or own, own_only=own, message=message)
