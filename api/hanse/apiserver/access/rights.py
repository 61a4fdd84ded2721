"""The rights of one caller, and the sentences that refuse. Pure.

What somebody may not see does not exist: it is answered with the very sentence that an unknown name gets, made from
the names that this caller sees. What they see and may not do is refused with the role that is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hanse.apiserver.access.terms import ALL, LAX, QueueTerms, allowed, flavors_below, matches, terms_of
from hanse.apiserver.access.verbs import OWN, Role, Verb, least_role
from hanse.model.errors import PermissionDenied
from hanse.model.names import quoted

ALL_QUEUES: Final = ALL
_NO_TERMS: Final[Mapping[str, QueueTerms]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs in the queues that a pattern names: a name, or the beginning of names with `*` behind it.

    Attributes:
        role: by which the verbs were given, for people.
        cluster: given for the whole federation.
    """

    role: Role
    queue: str
    verbs: frozenset[Verb]
    cluster: bool = False

    def covers(self, queue: str) -> bool:
        """Whether the pattern names the queue."""
        return matches(self.queue, queue)


@dataclass(frozen=True, slots=True)
class Access:
    """What one caller may do.

    Attributes:
        principal: who calls.
        groups: that vouch for them, as the policy knows them.
        grants: by queue.
        terms: what jobs of queues may name, by the patterns of the policy.
        unbounded: nothing is asked: everything is allowed.
        expires_s: Unix time after which the caller has to show who they are again; 0 for never.
    """

    principal: str
    groups: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    terms: Mapping[str, QueueTerms] = field(default_factory=lambda: _NO_TERMS)
    unbounded: bool = False
    expires_s: int = 0

    def may(self, verb: Verb, queue: str | None = None, *, owner: str = "") -> bool:
        """Whether the verb is allowed in a queue, or without one in the whole federation.

        Args:
            owner: of the job that it is about; "" if it is about none, or nobody's.
        """
        if self.unbounded:
            return True
        if queue is None:
            return any(grant.cluster and verb in grant.verbs for grant in self.grants)
        verbs = {verb, OWN[verb]} if verb in OWN and owner and owner == self.principal else {verb}
        return any(not verbs.isdisjoint(grant.verbs) and grant.covers(queue) for grant in self.grants)

    def somewhere(self, verb: Verb) -> bool:
        """Whether the verb, or that for one's own jobs, is allowed in some queue."""
        verbs = {verb, OWN[verb]} if verb in OWN else {verb}
        return self.unbounded or any(not verbs.isdisjoint(grant.verbs) for grant in self.grants)

    def everywhere(self, verb: Verb) -> bool:
        """Whether the verb is allowed in every queue that there is, or will be."""
        return self.may(verb, ALL_QUEUES)

    def names(self, verb: Verb) -> tuple[str, ...] | None:
        """The queues in which the verb is allowed, if the policy names every one of them; None if it has patterns."""
        found = {grant.queue for grant in self.grants if verb in grant.verbs}
        if self.unbounded or any(pattern.endswith("*") for pattern in found):
            return None
        return tuple(sorted(found))

    def require(self, verb: Verb, queue: str | None = None, *, owner: str = "") -> None:
        """Raises PermissionDenied with the role that is missing."""
        if not self.may(verb, queue, owner=owner):
            raise denied(self, verb, queue)

    def terms_in(self, queue: str) -> QueueTerms:
        """What jobs of a queue may name."""
        return LAX if self.unbounded else terms_of(queue, self.terms)

    def sees_flavor(self, flavor: str) -> bool:
        """Whether some queue that the caller sees may have the flavor."""
        if self.may(Verb.VIEW_FEDERATION):
            return True
        seen = (grant.queue for grant in self.grants if Verb.VIEW in grant.verbs)
        return any(allowed(flavors_below(pattern, self.terms), flavor) for pattern in seen)

    def roles_in(self, queue: str | None) -> tuple[str, ...]:
        """The roles that count in a queue, or without one in the whole federation."""
        found = {g.role.value for g in self.grants if (g.cluster if queue is None else g.covers(queue))}
        return tuple(sorted(found))


def denied(access: Access, verb: Verb, queue: str | None = None, *, where: str = "") -> PermissionDenied:
    """One line that says which role is missing for what."""
    if queue is not None:
        where = f" in queue {quoted(queue)}"
    own = f" ({Role.SUBMITTER} for your own jobs)" if verb in OWN else ""
    has = ", ".join(access.roles_in(queue))
    return PermissionDenied(
        f"{verb}{where} needs role {least_role(verb)}{own}; {access.principal} has {has or 'none there'}"
        " (`hanse whoami` lists yours; whoever runs the federation gives others)",
        reason="ROLE_MISSING",
    )


def denied_anywhere(access: Access, verb: Verb) -> PermissionDenied:
    """The same for somebody who may do it in no queue at all."""
    return denied(access, verb, where=" in any queue")


def unbounded(principal: str) -> Access:
    """Of somebody who may do everything."""
    return Access(principal, unbounded=True)
