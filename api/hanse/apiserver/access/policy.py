"""Who has which role, and what jobs of a queue may ask of a cluster. Pure values; `hanse.up.access_file` reads them.

Without a policy a server either trusts whoever it knows (`TRUSTING`, on the loopback only) or nobody (`CLOSED`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hanse.apiserver.access.rights import ALL_QUEUES, Access, Grant
from hanse.apiserver.access.terms import QueueTerms
from hanse.apiserver.access.verbs import QUEUE_VERBS, ROLES, Role

_NO_TERMS: Final[Mapping[str, QueueTerms]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Binding:
    """A role for users and groups, in some queues or in the whole federation.

    Attributes:
        queues: names, or beginnings of names with `*`; empty with `cluster`.
    """

    role: Role
    users: frozenset[str]
    groups: frozenset[str]
    queues: tuple[str, ...] = ()
    cluster: bool = False

    def of(self, principal: str, groups: Iterable[str]) -> bool:
        """Whether it is bound to them."""
        return principal in self.users or not self.groups.isdisjoint(groups)

    def grants(self) -> Iterable[Grant]:
        """What it gives."""
        if self.cluster:
            yield Grant(self.role, ALL_QUEUES, ROLES[self.role], cluster=True)
        for queue in self.queues:
            yield Grant(self.role, queue, ROLES[self.role] & QUEUE_VERBS)


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that is decided about callers.

    Attributes:
        trusting: whoever is known may do everything.
        queues: terms by name, or by the beginning of names with `*`; the longest that matches counts.
        revision: another number for each policy that was read.
    """

    bindings: tuple[Binding, ...] = ()
    queues: Mapping[str, QueueTerms] = field(default_factory=lambda: _NO_TERMS)
    trusting: bool = False
    revision: int = 0

    def access(self, principal: str, groups: tuple[str, ...] = (), *, expires_s: int = 0) -> Access:
        """The rights of a caller."""
        if self.trusting:
            return Access(principal, groups, unbounded=True, expires_s=expires_s)
        grants = tuple(g for one in self.bindings if one.of(principal, groups) for g in one.grants())
        return Access(principal, groups, grants, self.queues, expires_s=expires_s)


TRUSTING: Final = Policy(trusting=True)
CLOSED: Final = Policy()
