"""Who calls, and until when: all that a service needs to know of a call's transport."""

from dataclasses import dataclass, field
from typing import Final

from hanse.apiserver.access.rights import Access, unbounded

AGENT_DEADLINE_S: Final = 1.0
"""How long any answer waits for agents."""

ANONYMOUS: Final = "anonymous"
"""The principal of everybody, while no credentials are configured."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """One call.

    Attributes:
        principal: who calls; request ids are theirs alone.
        peer: the caller's address, for logs only.
        deadline_s: how long the caller waits from the start of the call, None for as long as the server does.
        trace: W3C traceparent of the caller, "" if there is none; it travels with the jobs that the call creates.
        access: what the caller may do; everything, unless a server says otherwise.
    """

    principal: str = ANONYMOUS
    peer: str = ""
    deadline_s: float | None = None
    trace: str = ""
    access: Access = field(default_factory=lambda: unbounded(ANONYMOUS))


def agent_deadline_s(ctx: CallContext) -> float:
    """How long a call may wait for agents: never so long that its caller gives up first."""
    return AGENT_DEADLINE_S if ctx.deadline_s is None else min(AGENT_DEADLINE_S, ctx.deadline_s / 2)
