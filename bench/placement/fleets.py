"""Fleets of pools that differ as real ones do, their changes, and gangs that never come twice.

Six builds, each with its maker's levels: scalable units of racks, NVLink domains of 18 hosts in pods, two clouds'
network layers, an InfiniBand tree of three levels, plain racks behind Ethernet. A pool has about as many hosts as
wanted, of one accelerator flavor (one class of hosts, or two while a driver is being rolled out) and some without
accelerators; offers of cpu, memory and pods differ from site to site. Its load is drawn from 60 % to 95 %: domains
that are all busy, all free, or broken into hosts with any number of free GPUs.
"""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from hanse.model.ids import FlavorName
from hanse.model.job import Slice, Topology
from hanse.model.placement import Level
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Operator, Requirement, Selector
from hanse.shape import Group, Shape
from hanse.shape.classes import HostClass, label_hash
from hanse.shape.domains import Branch, Leaf, Node, branch, leaf
from hanse.shape.lens import Table

GIB: Final = 2**30
LOADS: Final = (0.60, 0.95)
DRIVERS: Final = ("550", "560", "570")
PLAIN: Final = HostClass(FlavorName("cpu"), "", 0, Resources({"cpu": 96_000, "memory": 384 * GIB, "pods": 110}))


class Build(NamedTuple):
    """How one maker lays out a cluster: levels, parts of each domain from the top down (hosts last), and hosts."""

    levels: tuple[Level, ...]
    fan: tuple[int, ...]
    gpus: int
    cpu: int
    memory_gib: int


BUILDS: Final = (
    Build((Level("su/unit", "block"), Level("su/rack", "rack")), (8, 4), 8, 224_000, 2_000),
    Build((Level("nv/pod", "block"), Level("nv/domain", "rack")), (8, 18), 4, 144_000, 960),
    Build((Level("c1/l1", "zone"), Level("c1/l2", "block"), Level("c1/l3", "rack")), (5, 6, 16), 8, 192_000, 2_048),
    Build((Level("c2/block", "block"), Level("c2/subblock", "rack")), (12, 16), 8, 208_000, 1_872),
    Build((Level("ib/a", "zone"), Level("ib/b", "block"), Level("ib/c", "rack")), (4, 8, 20), 8, 128_000, 1_024),
    Build((Level("eth/rack", "rack"),), (16,), 8, 96_000, 1_536),
)  # fmt: skip


class Pools:
    """Makes pools of about `nodes` hosts of a flavor, and changes them."""

    def __init__(self, rng: random.Random, nodes: int, flavor: FlavorName) -> None:
        self._rng, self._nodes, self._flavor = rng, nodes, flavor
        self._made = 0

    def one(self) -> Shape:
        """A pool that was not there before."""
        rng, build = self._rng, self._rng.choice(BUILDS)
        self._made += 1
        table, load = self._table(build), rng.uniform(*LOADS)
        kids: list[tuple[Node, int]] = []
        while sum([kid.hosts for kid, _ in kids]) < self._nodes:
            kids.append((self._domain(build.fan, table, load), 1))
        return Shape((Group(build.levels, branch(kids)),), table)

    def _table(self, build: Build) -> Table:
        rng = self._rng
        offers = Resources(
            {
                "cpu": build.cpu - rng.choice((0, 0, 2_000)),
                "memory": (build.memory_gib - rng.choice((0, 0, 32))) * GIB,
                "pods": rng.choice((110, 250)),
                "rdma/hca": build.gpus,
            }
        )
        site = (label_hash("topology.kubernetes.io/zone"), label_hash(f"zone-{self._made}"))
        labels = [
            tuple(sorted((site, (label_hash("driver"), label_hash(driver)))))
            for driver in rng.sample(DRIVERS, rng.choice((1, 1, 2)))
        ]
        hosts = [HostClass(self._flavor, NVIDIA_GPU, build.gpus, offers, (), mine) for mine in sorted(labels)]
        return Table((*hosts, PLAIN))

    def _domain(self, fan: Sequence[int], table: Table, load: float) -> Node:
        if len(fan) == 1:
            return self._lowest(fan[0], table, load)
        parts = max(1, fan[0] - (self._rng.random() < 0.2))
        return branch([(self._domain(fan[1:], table, load), 1) for _ in range(parts)])

    def _lowest(self, hosts: int, table: Table, load: float) -> Leaf:
        """A lowest domain of one class; now and then a host is out of order, or one without GPUs is beside them."""
        rng = self._rng
        c = rng.randrange(len(table.classes) - 1)
        full = table.classes[c].gpus
        draw = rng.random()
        counts: dict[tuple[int, int], int] = {}
        for _ in range(hosts - (rng.random() < 0.1)):
            free = 0 if rng.random() < load else rng.choice((full, full, rng.randint(0, full)))
            if draw < load * 0.5:
                free = 0
            elif draw > 1 - (1 - load) * 0.5:
                free = full
            counts[c, free] = counts.get((c, free), 0) + 1
        if rng.random() < 0.1:
            counts[len(table.classes) - 1, 0] = 1
        return leaf(counts)

    def changed(self, shape: Shape) -> Shape:
        """The pool after gangs came and went: up to four lowest domains of one parent are different."""
        group = shape.groups[0]
        root = self._after(group.root, shape.table)
        assert isinstance(root, Branch)
        return Shape((Group(group.levels, root),), shape.table)

    def _after(self, node: Node, table: Table) -> Node:
        if isinstance(node, Leaf):
            return self._lowest(node.hosts, table, self._rng.uniform(*LOADS))
        kids = dict(node.kids)
        several = 1 if isinstance(node.kids[0][0], Branch) else 4
        for kid in self._rng.sample(list(kids), min(len(kids), several)):
            kids[kid] -= 1
            after = self._after(kid, table)
            kids[after] = kids.get(after, 0) + 1
        return branch(kids.items())


class Gangs:
    """Gangs of 2 to 1,024 pods of whole GPUs; the memory they ask for makes each one new."""

    def __init__(self, rng: random.Random, flavor: FlavorName) -> None:
        self._rng, self._flavor, self._made = rng, flavor, 0

    def one(self) -> tuple[GangRequest, tuple[FlavorName, ...]]:
        """A gang that was not there before."""
        rng = self._rng
        self._made += 1
        step, slices = self._slices()
        count = step * max(1, round(2 ** rng.uniform(1, 10) / step))
        required = rng.choice(("", "", "zone", "block", "block", "rack"))
        preferred = "" if required or rng.random() < 0.7 else "block"
        topology = Topology(required, preferred, slices)
        flavors = (self._flavor,)
        return GangRequest((SetRequest(count, count, self._pod(), flavors, self._selector(), (), topology),)), flavors

    def _slices(self) -> tuple[int, tuple[Slice, ...]]:
        rng = self._rng
        if rng.random() < 0.5:
            return 1, ()
        lowest = Slice(rng.choice((2, 3, 4, 8, 16)), "rack")
        if rng.random() < 0.6:
            return lowest.size, (lowest,)
        above = Slice(lowest.size * rng.choice((2, 4)), "block")
        return above.size, (above, lowest)

    def _pod(self) -> Resources:
        gpus = self._rng.choice((1, 2, 4, 8, 8))
        hcas = gpus if self._rng.random() < 0.3 else 0
        memory = 32 * GIB * gpus + 4_096 * self._made
        return Resources({NVIDIA_GPU: gpus, "cpu": 8_000 * gpus, "memory": memory, "rdma/hca": hcas})

    def _selector(self) -> Selector:
        if self._rng.random() < 0.7:
            return Selector()
        return Selector(((Requirement("driver", Operator.IN, tuple(self._rng.sample(DRIVERS, 2))),),))
