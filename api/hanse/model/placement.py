"""Where a gang went, as the agent reports it upward: counts and domains, never a node.

Node-level detail (`NodePlace`) exists only in answers that an agent gives on demand.
"""

from dataclasses import dataclass

from hanse.model.ids import FlavorName, NodeName

DOMAINS_LISTED_MAX = 64  # names per level in a report; above that only their number travels


@dataclass(frozen=True, slots=True)
class Level:
    """One rank of a pool's topology, coarse to fine; `alias` is the short name people use."""

    key: str
    alias: str


@dataclass(frozen=True, slots=True)
class LevelUse:
    """How many domains of one level a part uses, and the first DOMAINS_LISTED_MAX of them by full path."""

    level: str
    count: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartPlacement:
    """One part of a gang in one pool."""

    flavors: tuple[FlavorName, ...]
    pods: int
    domains: tuple[LevelUse, ...]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The pods of one pod set on one node.

    Attributes:
        ranks: of the pods within their set, ascending.
        path: names of the node's domains, coarse to fine.
    """

    name: NodeName
    pod_set: str
    ranks: tuple[int, ...]
    path: tuple[str, ...]
