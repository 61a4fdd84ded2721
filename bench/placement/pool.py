"""A busy pool for the bench: nodes in zones, blocks and racks, gangs that hold them, and what happens between two
measurements.

Racks are ragged (RACK_HOSTS hosts, more or less), one node in UNLABELLED_ONE_IN knows no rack, and two sizes of hosts
make two host classes. Half of the load is gangs of whole hosts, the rest pods of one to four GPUs; some hosts carry
pods that nobody of ours started. Jobs end in random order while others come, until no GPU is held by the job that
first had it for certain: what is free is then as scattered as in a pool that has run for long.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector

FLAVOR: Final = FlavorName("h100")
LEVELS: Final = (Level("bench/zone", "zone"), Level("bench/block", "block"), Level("bench/rack", "rack"))
GPUS: Final = 8
HOSTS: Final = (
    Resources({NVIDIA_GPU: GPUS, "cpu": 192_000, "memory": 2 << 40, "pods": 110}),
    Resources({NVIDIA_GPU: GPUS, "cpu": 128_000, "memory": 1 << 40, "pods": 110}),
)
RACK_HOSTS: Final = 25
BLOCK_RACKS: Final = 10
ZONE_BLOCKS: Final = 10
UNLABELLED_ONE_IN: Final = 500
FOREIGN_ONE_IN: Final = 25
GANG_HOSTS: Final = (2, 4, 8, 16, 32, 64, 128)
EVENTS_MAX: Final = 12  # node events between two measurements
OUT_MAX: Final = 50  # nodes that are cordoned or not ready at any time
ENDS_MAX: Final = 3  # jobs that end between two measurements
TURNOVERS: Final = 2  # times that every job is replaced before anything is measured


def amounts(gpus: int, rng: random.Random) -> Resources:
    """What one pod asks for: a different share of cpu and memory each time, within that of its GPUs."""
    return Resources(
        {NVIDIA_GPU: gpus, "cpu": gpus * rng.randint(1_000, 13_000), "memory": gpus * rng.randint(1, 1 << 36)}
    )


def gang(count: int, pod: Resources, topology: Topology = Topology()) -> GangRequest:  # noqa: B008 - frozen
    """A gang of one set."""
    return GangRequest((SetRequest(count, count, pod, (FLAVOR,), Selector(), (), topology),))


def facts_of(nodes: int, rng: random.Random) -> list[NodeFacts]:
    """The nodes, rack by rack."""
    out: list[NodeFacts] = []
    rack = 0
    while len(out) < nodes:
        for _ in range(min(nodes - len(out), RACK_HOSTS + rng.randint(-3, 3))):
            block = rack // BLOCK_RACKS
            labels = {
                LEVELS[0].key: f"z{block // ZONE_BLOCKS}",
                LEVELS[1].key: f"b{block}",
                LEVELS[2].key: f"r{rack}",
            }
            if rng.randrange(UNLABELLED_ONE_IN) == 0:
                del labels[LEVELS[2].key]
            name = NodeName(f"n{len(out):06d}")
            out.append(NodeFacts(name, labels, (), HOSTS[block % 3 == 2]))
        rack += 1
    return out


@dataclass(frozen=True, slots=True)
class Room:
    """What is free, by node, for the bench's own arithmetic.

    Attributes:
        free: GPUs.
        within: by level, the number of the domain that each node is in.
    """

    free: NDArray[np.int64]
    within: dict[str, NDArray[np.int64]]


@dataclass(slots=True)
class Spent:
    """What the changes between measurements took, in nanoseconds."""

    places: list[int] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)
    settles: list[int] = field(default_factory=list)


class BusyPool:
    """Nodes and the jobs on them, at about `load` (0 to 1) of all GPUs."""

    def __init__(self, nodes: int, load: float, seed: int) -> None:
        self.rng = random.Random(seed)
        self.facts = {facts.name: facts for facts in facts_of(nodes, self.rng)}
        self.names = sorted(self.facts)
        self.inventory = Inventory([Flavor(FLAVOR, 0)], [LEVELS], self.facts.values())
        self.spent = Spent()
        self._jobs: list[Placement] = []
        self._out: list[NodeName] = []
        self._held = 0
        self._wanted = int(load * nodes * GPUS)
        for name in self.names:
            if self.rng.randrange(FOREIGN_ONE_IN) == 0:
                self.inventory.set_foreign(name, Resources({NVIDIA_GPU: self.rng.randint(1, 3), "cpu": 4_000}))
        self._balance()
        for _ in range(TURNOVERS * len(self._jobs)):
            self._end_one()
            self._balance()
        self.spent = Spent()

    def hold(self, placement: Placement) -> None:
        """A gang takes its places and becomes one of the jobs."""
        start = time.thread_time_ns()
        self.inventory.take(placement)
        self.inventory.shape()
        self.spent.takes.append(time.thread_time_ns() - start)
        self._jobs.append(placement)
        self._held += gpus_of(placement)

    def change(self) -> None:
        """What happens between two measurements: node events, jobs that end, others that start."""
        for _ in range(self.rng.randint(1, EVENTS_MAX)):
            _, tell = self.event()
            tell()
        for _ in range(self.rng.randint(1, ENDS_MAX)):
            self._end_one()
        self._balance()

    def settle(self) -> None:
        """Brings the shape up to date, as the agent does to publish it."""
        start = time.thread_time_ns()
        self.inventory.shape()
        self.spent.settles.append(time.thread_time_ns() - start)

    def event(self) -> tuple[str, Callable[[], None]]:
        """One node is to change: a foreign pod comes or goes, the node is cordoned or not ready for a while, or is
        made anew, or only says that it is alive. Returns which, and what tells the inventory."""
        name = self.rng.choice(self.names)
        facts = self.facts[name]
        kind = self.rng.choice(("foreign", "foreign", "cordon", "ready", "beat", "anew"))
        if kind == "foreign":
            node = self.inventory.node(name)
            busy = node is not None and bool(node.foreign)
            pods = Resources({} if busy else {NVIDIA_GPU: 1, "cpu": 4_000})
            return kind, lambda: self.inventory.set_foreign(name, pods)
        if kind in ("cordon", "ready") and name not in self._out:
            return kind, self._out_or_back(name, kind)
        if kind == "beat":
            facts = replace(facts, labels=dict(facts.labels))
        return kind, lambda: self._tell(facts, anew=kind == "anew")

    def _out_or_back(self, name: NodeName, kind: str) -> Callable[[], None]:
        """A node takes no pods from now on, or, where OUT_MAX do not, one that did not does again."""
        if len(self._out) >= OUT_MAX:
            name = self._out.pop(self.rng.randrange(len(self._out)))
            facts = replace(self.facts[name], cordoned=False, ready=True)
        else:
            facts = replace(self.facts[name], cordoned=kind == "cordon", ready=kind != "ready")
            self._out.append(name)
        self.facts[name] = facts
        return lambda: self._tell(facts, anew=False)

    def _tell(self, facts: NodeFacts, *, anew: bool) -> None:
        if anew:
            self.inventory.remove_node(facts.name)
        self.inventory.set_node(facts)

    def room(self) -> Room:
        """What is free now."""
        columns = self.inventory.columns()
        within: dict[str, NDArray[np.int64]] = {}
        for depth, level in enumerate(LEVELS):
            numbers: dict[tuple[str, ...], int] = {}
            paths = (node.path[: depth + 1] for node in columns.nodes)
            within[level.alias] = np.array([numbers.setdefault(path, len(numbers)) for path in paths])
        return Room(columns.free.copy(), within)

    def _end_one(self) -> None:
        at = self.rng.randrange(len(self._jobs))
        self._jobs[at], self._jobs[-1] = self._jobs[-1], self._jobs[at]
        ended = self._jobs.pop()
        self.inventory.give(ended)
        self._held -= gpus_of(ended)

    def _balance(self) -> None:
        """Jobs end, or start, until the load is what is wanted."""
        while self._held > self._wanted:
            self._end_one()
        misses = 0
        while self._held < self._wanted and misses < 20:
            found = place(self.inventory, self._newcomer(self._wanted - self._held), (FLAVOR,))
            if isinstance(found, Placement):
                self.hold(found)
            else:
                misses += 1

    def _newcomer(self, room_gpus: int) -> GangRequest:
        """A gang of whole hosts, one time in twenty, or a pod of one to four GPUs: about half of the GPUs each."""
        hosts = self.rng.choice(GANG_HOSTS)
        if self.rng.random() < 0.05 and hosts * GPUS <= room_gpus:
            return gang(hosts, amounts(GPUS, self.rng), Topology(preferred="rack"))
        gpus = self.rng.choice((1, 1, 1, 2, 2, 4))
        return gang(1, amounts(min(gpus, room_gpus), self.rng))


def gpus_of(placement: Placement) -> int:
    """GPUs of a whole gang."""
    return sum(s.pod.gpus * use.pods for s in placement.sets for use in s.hosts)
