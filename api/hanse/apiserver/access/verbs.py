"""What can be done, and which role may do it. Pure.

A role is a set of verbs. Bound to queues it gives those verbs that concern queues, in these queues; bound to the
whole federation it gives all of them, in every queue. A tenant is whoever has roles in some queues only: of all
others nothing is seen, not even whether they exist.

A submitter changes what they have submitted themselves, and reads everything of the queue: a queue is one team.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Verb(StrEnum):
    """Something that a role allows."""

    VIEW = "view"
    LOGS = "logs"
    SUBMIT = "submit"
    CHANGE_OWN = "change-own"
    EXEC_OWN = "exec-own"
    CHANGE = "change"
    EXEC = "exec"
    HOLD_QUEUE = "hold-queue"
    AUDIT = "audit"
    VIEW_FEDERATION = "view-federation"
    OPERATE = "operate"
    CONFIGURE = "configure"
    ATTACH = "attach"
    PEER = "peer"


class Role(StrEnum):
    """Somebody's part. The first five are of people, the others of parts of the product that show a token."""

    ADMIN = "admin"
    OPERATOR = "operator"
    QUEUE_ADMIN = "queue-admin"
    SUBMITTER = "submitter"
    VIEWER = "viewer"
    AGENT = "agent"
    REPLICA = "replica"


MEANING: Final[Mapping[Verb, str]] = {
    Verb.VIEW: "see a queue, its jobs, why they wait and what happened to them",
    Verb.LOGS: "read what its jobs write",
    Verb.SUBMIT: "submit jobs to it",
    Verb.CHANGE_OWN: "cancel, hold, release, update and retry one's own jobs",
    Verb.EXEC_OWN: "run commands in one's own jobs",
    Verb.CHANGE: "cancel, hold, release, update and retry every job of a queue",
    Verb.EXEC: "run commands in every job of a queue",
    Verb.HOLD_QUEUE: "hold and release a queue",
    Verb.AUDIT: "read the audit log",
    Verb.VIEW_FEDERATION: "see replicas, cohorts, all that is told of pools",
    Verb.OPERATE: "let clusters join, cordon, drain and let go pools, revoke certificates, say who admits",
    Verb.CONFIGURE: "create, change and delete queues, cohorts, flavors and priority classes",
    Verb.ATTACH: "attach an agent by a token",
    Verb.PEER: "ask as a replica by a token",
}

OWN: Final[Mapping[Verb, Verb]] = {Verb.CHANGE: Verb.CHANGE_OWN, Verb.EXEC: Verb.EXEC_OWN}
"""The verb that is enough where the job is one's own."""

QUEUE_VERBS: Final = frozenset(
    {
        Verb.VIEW,
        Verb.LOGS,
        Verb.SUBMIT,
        Verb.CHANGE_OWN,
        Verb.EXEC_OWN,
        Verb.CHANGE,
        Verb.EXEC,
        Verb.HOLD_QUEUE,
        Verb.AUDIT,
    }
)
"""What a role gives in single queues."""

_VIEWER: Final = frozenset({Verb.VIEW, Verb.LOGS, Verb.VIEW_FEDERATION})
_SUBMITTER: Final = _VIEWER | {Verb.SUBMIT, Verb.CHANGE_OWN, Verb.EXEC_OWN}
_QUEUE_ADMIN: Final = _SUBMITTER | {Verb.CHANGE, Verb.EXEC, Verb.HOLD_QUEUE, Verb.AUDIT}
_OPERATOR: Final = _QUEUE_ADMIN | {Verb.OPERATE}

ROLES: Final[Mapping[Role, frozenset[Verb]]] = {
    Role.VIEWER: _VIEWER,
    Role.SUBMITTER: _SUBMITTER,
    Role.QUEUE_ADMIN: _QUEUE_ADMIN,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: _OPERATOR | {Verb.CONFIGURE},
    Role.AGENT: frozenset({Verb.ATTACH}),
    Role.REPLICA: frozenset({Verb.PEER}),
}


def least_role(verb: Verb) -> Role:
    """The role with the fewest verbs that has this one."""
    return min((role for role in Role if verb in ROLES[role]), key=lambda role: len(ROLES[role]))
