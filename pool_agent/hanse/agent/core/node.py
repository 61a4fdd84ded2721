"""One node of the inventory: what the cluster says, who uses it, what is left.

What changes with every gang is one running sum, of the GPUs that exact pods hold; what follows from facts, foreign
usage and other pods is derived again only when these change. So holding a pod costs a few integers, and a node is
still a pure function of what the cluster says of it and of the pods we hold there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hanse.agent.core.devices import OnDevice, opened, room, with_left
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.groups import Room, charged, rooms
from hanse.agent.core.hosts import why_unusable
from hanse.agent.core.scores import NO_MERIT, Merit
from hanse.agent.core.topology import Domain
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Devices
from hanse.model.resources import DEVICE_MILLI, EMPTY, GPU_MILLI, Resources
from hanse.shape.classes import HostClass

LIMITS_KEPT_MAX: Final = 1_000  # of one class, by what else is used of a host
EXACT_KEPT_MAX: Final = 10_000  # of one class, by kind of pod


class PodKind:
    """Pods of ours that use the same of a node; one object each, compared by identity.

    Attributes:
        uses: of one pod, `pods` included; without `pods` it reserves GPUs of a host that is taken whole.
        on_device: it has a share of a device.
    """

    __slots__ = ("on_device", "uses")

    def __init__(self, uses: Resources) -> None:
        self.uses = uses
        self.on_device = isinstance(uses, OnDevice)


class HostKind:
    """A host class in use; one object each, compared by identity.

    Attributes:
        number: its place in the table, -1 if the table has no room for it.
        hosts: nodes of this class.
    """

    __slots__ = ("_exact", "_limits", "cls", "hosts", "number")

    def __init__(self, cls: HostClass) -> None:
        self.cls = cls
        self.number = -1
        self.hosts = 0
        self._exact: dict[PodKind, int] = {}
        self._limits: dict[Resources, int] = {}

    def limit(self, used: Resources) -> int:
        """See HostClass; pods that are no gang's are few in kind, and most hosts have none."""
        found = self._limits.get(used)
        if found is None:
            if len(self._limits) >= LIMITS_KEPT_MAX:
                self._limits.clear()
            found = self._limits[used] = self.cls.limit(used)
        return found

    def exact_gpus(self, pod: PodKind) -> int:
        """GPUs of one such pod if it is exact on this class, else 0."""
        found = self._exact.get(pod)
        if found is None:
            if len(self._exact) >= EXACT_KEPT_MAX:
                self._exact.clear()
            found = self._exact[pod] = pod.uses[self.cls.gpu] if self.cls.is_exact(pod.uses) else 0
        return found


NOT_COUNTED: Final = (0, 0, 0)
"""What a node adds to the totals of its pool while it takes no pods."""


class Node:
    """A node in its slot. Mutable, and only the inventory changes it.

    Attributes:
        own: how many pods of ours of which kind.
        foreign: summed usage of everything that is not ours.
        free_gpus: GPUs that the shape shows.
        raw_free_gpus: accelerators that nobody holds, not even a share, whatever else the host has left.
        offered_gpus: accelerators of the host, taken or not.
        hides: the shape shows fewer than are free.
        at_best: the class that it would be of with the accelerators that it has offered; mostly its own.
        at: its bin (class, free GPUs) in its lowest domain; None while it takes no pods.
        clipped: it counts among the shape's clipped hosts.
        counted: what it adds to the pool's usable nodes, their GPUs, and the free ones of these.
        why: why it takes no pods, "" if it does.
        merit: how it stands among hosts that placement holds equal.
    """

    __slots__ = (
        "_exact_gpus",
        "_gpus",
        "_limit",
        "_shared",
        "_sums",
        "_unheld_gpus",
        "_weighed",
        "at",
        "at_best",
        "clipped",
        "counted",
        "domain",
        "facts",
        "flavor",
        "foreign",
        "free_gpus",
        "hides",
        "kind",
        "merit",
        "offered_gpus",
        "own",
        "raw_free_gpus",
        "slot",
        "tree",
        "why",
    )  # fmt: skip

    def __init__(self, slot: int, facts: NodeFacts) -> None:
        self.slot = slot
        self.facts = facts
        self.foreign: Resources = EMPTY
        self.own: dict[PodKind, int] = {}
        self.flavor: FlavorName | None = None
        self.kind: HostKind | None = None
        self.at_best: HostKind | None = None
        self.tree = -1
        self.domain: Domain | None = None
        self.why = ""
        self.free_gpus = 0
        self.raw_free_gpus = 0
        self.offered_gpus = 0
        self.hides = False
        self.at: tuple[int, int] | None = None
        self.clipped = False
        self.counted = NOT_COUNTED
        self.merit: Merit = NO_MERIT
        self._sums: dict[str, int] | None = {}
        self._shared: dict[int, int] | None = {}
        self._exact_gpus = 0
        self._weighed = (
            False  # whether what follows is derived from the present facts, class and pods that are not exact
        )
        self._gpus = 0
        self._limit = 0  # GPUs that the other resources allow to exact pods
        self._unheld_gpus = 0  # GPUs that only exact pods hold, or nobody

    @property
    def name(self) -> NodeName:
        """Its name in the cluster."""
        return self.facts.name

    @property
    def cls(self) -> HostClass | None:
        """Its class, None if no flavor matches it."""
        return None if self.kind is None else self.kind.cls

    @property
    def path(self) -> tuple[str, ...]:
        """Its domains, coarse to fine."""
        return () if self.domain is None else self.domain.path

    def use(self, pod: PodKind, count: int) -> None:
        """Adds (or, negative, removes) pods of ours."""
        self._sums = None
        if pod.on_device:
            self._shared = None
        left = self.own.get(pod, 0) + count
        if left:
            self.own[pod] = left
        else:
            self.own.pop(pod, None)
        exact = 0 if self.kind is None else self.kind.exact_gpus(pod)
        if exact:
            self._exact_gpus += exact * count
        else:
            self._weighed = False

    def renew(self, kind: HostKind | None, flavor: FlavorName | None) -> None:
        """Takes over a class, and with it which of our pods are exact."""
        self.kind = kind
        self.flavor = flavor
        self._exact_gpus = 0 if kind is None else sum([kind.exact_gpus(p) * n for p, n in self.own.items()])
        self._weighed = False

    def change(self, facts: NodeFacts, foreign: Resources) -> None:
        """Takes over what the cluster says."""
        self.facts = facts
        self.foreign = foreign
        self._weighed = False

    def weigh(self) -> None:
        """Derives what is left."""
        if not self._weighed:
            self._weigh_anew()
        gpus = self._gpus
        if not gpus:
            return
        held = self._exact_gpus
        raw = self._unheld_gpus - held
        free = max(0, min(raw, self._limit - held, gpus))
        self.free_gpus = free
        self.raw_free_gpus = max(0, min(gpus, raw))
        self.hides = free < raw

    def _weigh_anew(self) -> None:
        self._weighed = True
        self.why = why_unusable(self.facts) if self.flavor is not None else "matches no flavor"
        kind = self.kind
        self._gpus = 0 if kind is None else kind.cls.gpus
        if kind is None or not self._gpus:
            self.free_gpus = self.raw_free_gpus = self.offered_gpus = 0
            self.hides = False
            return
        loose = self.foreign
        others = {pod: count for pod, count in self.own.items() if not kind.exact_gpus(pod)}
        if others:
            loose = loose.plus(Resources(_summed(others)))
        gpu = kind.cls.gpu
        self.offered_gpus = self.facts.allocatable[gpu]
        self._limit = kind.limit(loose)
        self._unheld_gpus = self.offered_gpus - loose[gpu] - self._closed()

    def shared(self) -> dict[int, int]:
        """Thousandths used of the devices that are shared, by device."""
        if self._shared is None:
            self._shared = opened({pod.uses: count for pod, count in self.own.items() if pod.on_device})
        return self._shared

    def _closed(self) -> int:
        """Devices that shares close to whole pods. Of foreign shares only the sum is known: at least so many."""
        return len(self.shared()) + -(-self.foreign[GPU_MILLI] // DEVICE_MILLI)

    def device_room(self) -> list[int]:
        """Thousandths left on each device that has any, the opened ones first, least left first."""
        return room(self.shared(), self.raw_free_gpus)

    def device_with(self, left: int) -> int:
        """The number of a device that has exactly so much left."""
        return with_left(self.shared(), left)

    def group_rooms(self, wish: Devices) -> list[Room]:
        """The groups of its devices that a wish may mean, with what is left in each for certain."""
        held = charged([(pod.uses, count) for pod, count in self.own.items() if pod.on_device])
        broken = sum([own.gpus for own in self.facts.devices]) - self.offered_gpus
        used = self.offered_gpus - self.raw_free_gpus - sum(held.values())
        return rooms(self.facts.devices, wish, held, max(0, used) + max(0, broken))

    def used(self, name: str) -> int:
        """What our pods use of a resource."""
        return sum([pod.uses[name] * count for pod, count in self.own.items()])

    def free(self, name: str) -> int:
        """What is left of one resource; negative if more is used than is offered. A shared device is not left."""
        if self._sums is None:
            self._sums = _summed(self.own)
        left = self.facts.allocatable[name] - self.foreign[name] - self._sums.get(name, 0)
        return left - self._closed() if self.kind is not None and name == self.kind.cls.gpu else left

    def overdrawn(self) -> Iterator[str]:
        """Resources of which more is used than is offered: a fault, and not ours to mend."""
        names = {name for pod in self.own for name in pod.uses}.union(self.foreign)
        return (name for name in sorted(names) if self.free(name) < 0)


def _summed(own: dict[PodKind, int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for pod, count in own.items():
        for name, amount in pod.uses.items():
            sums[name] = sums.get(name, 0) + amount * count
    return sums


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
    """The account of one resource on one node, from the pods themselves and not from the running sum.

    Of whole accelerators a shared one counts as free: what is used of it is in the account of its thousandths.
    """
    own = node.used(name)
    left = node.facts.allocatable[name] - node.foreign[name] - own
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
