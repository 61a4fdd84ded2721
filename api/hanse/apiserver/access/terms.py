"""What jobs of a queue may name of a cluster: namespaces, service accounts, priority classes, flavors. Pure.

Whoever may run a pod under a service account has its rights, and whoever may name a namespace reaches its Secrets; so
a queue of which the policy says nothing gets neither. Priority classes and flavors are open unless they are listed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

ALL: Final = "*"
DEFAULT_ACCOUNT: Final = "default"
"""The service account that every namespace has, and that a pod has which names none."""


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern of a policy names something: exact, or with a `*` at its end."""
    return name.startswith(pattern[:-1]) if pattern.endswith(ALL) else name == pattern


@dataclass(frozen=True, slots=True)
class QueueTerms:
    """What jobs of a queue may name; each a list of names or beginnings with `*`.

    Attributes:
        namespaces: that a job may name; one that names none is put where the agent says.
        service_accounts: beside `default`.
        priority_classes, flavors: None for all of them.
    """

    namespaces: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    priority_classes: tuple[str, ...] | None = None
    flavors: tuple[str, ...] | None = None


STRICT: Final = QueueTerms()
"""Of a queue of which the policy says nothing."""

LAX: Final = QueueTerms((ALL,), (ALL,))
"""Where there is no policy."""


def allowed(patterns: Sequence[str] | None, name: str) -> bool:
    """Whether one of the patterns names it; None is all."""
    return patterns is None or any(matches(pattern, name) for pattern in patterns)


def terms_of(queue: str, known: Mapping[str, QueueTerms]) -> QueueTerms:
    """The terms of a queue: those under its name, else those under the longest beginning of it, else STRICT."""
    found = [name for name in known if matches(name, queue)]
    return known[max(found, key=lambda name: (not name.endswith(ALL), len(name)))] if found else STRICT


def flavors_below(pattern: str, known: Mapping[str, QueueTerms]) -> tuple[str, ...] | None:
    """The flavors that some queue of a pattern may name; None for all."""
    if not pattern.endswith(ALL):
        return terms_of(pattern, known).flavors
    start = pattern[:-1]
    found = [terms_of(start, known), *(known[name] for name in known if name.startswith(start))]
    if any(terms.flavors is None for terms in found):
        return None
    return tuple(sorted({flavor for terms in found for flavor in terms.flavors or ()}))
