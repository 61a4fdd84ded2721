"""One node of the inventory: what the cluster says, who uses it, what is left."""

from collections.abc import Iterator
from dataclasses import dataclass

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.hosts import why_unusable
from hanse.agent.core.topology import Domain
from hanse.model.ids import FlavorName, NodeName
from hanse.model.resources import EMPTY, Resources
from hanse.shape.classes import HostClass


class Node:
    """A node in its slot. Mutable, and only the inventory changes it.

    Attributes:
        own: pods of ours by what one of them uses; a key without `pods` reserves a host that is taken whole.
        foreign: summed usage of everything that is not ours.
        used: own and foreign together.
        at: its bin (class, free GPUs) in its lowest domain; None while it takes no pods.
        clipped: the shape shows less of it than is free.
    """

    __slots__ = (
        "at", "clipped", "cls", "cls_id", "domain", "facts", "flavor", "foreign", "free_gpus", "own", "slot", "tree",
        "used", "why",
    )  # fmt: skip

    def __init__(self, slot: int, facts: NodeFacts) -> None:
        self.slot = slot
        self.facts = facts
        self.foreign: Resources = EMPTY
        self.own: dict[Resources, int] = {}
        self.used: Resources = EMPTY
        self.flavor: FlavorName | None = None
        self.cls: HostClass | None = None
        self.cls_id = -1
        self.tree = -1
        self.domain: Domain | None = None
        self.why = ""
        self.free_gpus = 0
        self.at: tuple[int, int] | None = None
        self.clipped = False

    @property
    def name(self) -> NodeName:
        """Its name in the cluster."""
        return self.facts.name

    @property
    def path(self) -> tuple[str, ...]:
        """Its domains, coarse to fine."""
        return () if self.domain is None else self.domain.path

    def weigh(self) -> None:
        """Derives what is left from what the cluster says and from who uses it."""
        self.why = why_unusable(self.facts) if self.flavor is not None else "matches no flavor"
        cls = self.cls
        if cls is None or cls.gpus == 0:
            self.free_gpus = 0
            return
        loose, exact_gpus = self.foreign, 0
        for pod, count in self.own.items():
            if cls.is_exact(pod):
                exact_gpus += pod[cls.gpu] * count
            else:
                loose = loose.plus(pod.times(count))
        self.free_gpus = cls.usable(self.raw_free_gpus, loose, exact_gpus)

    @property
    def raw_free_gpus(self) -> int:
        """Accelerators that nobody holds, whatever else the host has left."""
        if self.cls is None or not self.cls.gpu:
            return 0
        return max(0, min(self.cls.gpus, self.facts.allocatable[self.cls.gpu] - self.used[self.cls.gpu]))

    def is_clipped(self) -> bool:
        """Whether a shape with this host in bin `at` shows less of it than is free."""
        if self.why or self.cls is None:
            return False
        offered = self.facts.allocatable[self.cls.gpu] if self.cls.gpu else 0
        return self.at is None or offered > self.cls.gpus or self.free_gpus < self.raw_free_gpus

    def free(self, name: str) -> int:
        """What is left of one resource; negative if more is used than is offered."""
        return self.facts.allocatable[name] - self.used[name]

    def overdrawn(self) -> Iterator[str]:
        """Resources of which more is used than is offered: a fault, and not ours to mend."""
        return (name for name, used in self.used.items() if used > self.facts.allocatable[name])


@dataclass(frozen=True, slots=True)
class Account:
    """Where one resource went (S9): `capacity == free + own + foreign + unusable - overdrawn`, in integers.

    Attributes:
        unusable: free on hosts that take no pods.
        overdrawn: used beyond what hosts offer.
    """

    capacity: int
    free: int
    own: int
    foreign: int
    unusable: int
    overdrawn: int

    @property
    def balanced(self) -> bool:
        """S9."""
        return self.capacity == self.free + self.own + self.foreign + self.unusable - self.overdrawn

    def plus(self, other: "Account") -> "Account":
        """Both together."""
        return Account(
            self.capacity + other.capacity,
            self.free + other.free,
            self.own + other.own,
            self.foreign + other.foreign,
            self.unusable + other.unusable,
            self.overdrawn + other.overdrawn,
        )


def account(node: Node, name: str) -> Account:
    """The account of one resource on one node."""
    own = sum([pod[name] * count for pod, count in node.own.items()])
    left = node.free(name)
    free = max(0, left)
    usable = node.at is not None
    return Account(
        capacity=node.facts.allocatable[name],
        free=free if usable else 0,
        own=own,
        foreign=node.foreign[name],
        unusable=0 if usable else free,
        overdrawn=max(0, -left),
    )
