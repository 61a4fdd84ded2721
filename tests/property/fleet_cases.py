"""Random pools that differ in everything a shape can say, random changes of them, and random gangs."""

import random
from collections.abc import Sequence
from dataclasses import replace

from hanse.model.ids import FlavorName
from hanse.model.job import Slice, Spread, Topology
from hanse.model.placement import Level
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import DEVICE_MILLI, GPU_MILLI, NVIDIA_GPU, Resources
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Taint, Toleration
from hanse.shape import Group, Shape
from hanse.shape.classes import HostClass, label_hash
from hanse.shape.domains import Branch, Leaf, Node, branch, leaf
from hanse.shape.lens import Table

FLAVORS = (FlavorName("h100"), FlavorName("a100"), FlavorName("cpu"))
LADDERS = (
    (),
    (Level("t/rack", "rack"),),
    (Level("t/block", "block"), Level("t/rack", "rack")),
    (Level("v/spine", "block"), Level("v/leaf", "rack")),
    (Level("t/zone", "zone"), Level("t/block", "block"), Level("t/rack", "rack")),
    (Level("n/domain", "nvlink"),),
)
GIB = 2**30
DEDICATED = Taint("dedicated", "training", Effect.NO_SCHEDULE)


def host_class(rng: random.Random) -> HostClass:
    flavor = rng.choice(FLAVORS)
    gpus = 0 if flavor == "cpu" else rng.choice((4, 8, 8))
    offers = {
        "cpu": rng.choice((64_000, 128_000, 192_000)),
        "memory": rng.choice((512, 1024, 2048)) * GIB,
        "pods": rng.choice((32, 110)),
        "rdma/hca": rng.choice((0, gpus)),
        GPU_MILLI: gpus * DEVICE_MILLI,
    }
    labels = {label_hash(key): label_hash(rng.choice("ab")) for key in ("zone", "driver") if rng.random() < 0.6}
    taints = (DEDICATED,) if rng.random() < 0.2 else ()
    gpu = NVIDIA_GPU if gpus else ""
    return HostClass(flavor, gpu, gpus, Resources(offers), taints, tuple(sorted(labels.items())))


def table(rng: random.Random) -> Table:
    classes = {host_class(rng) for _ in range(rng.choice((1, 1, 2, 3, 6)))}
    left_out = frozenset({label_hash("driver")}) if rng.random() < 0.2 else frozenset()
    return Table(tuple(sorted(classes, key=repr)), left_out, rng.random() < 0.1)


def lowest(rng: random.Random, known: Table, busy: float, alike: bool) -> Leaf:
    """A lowest domain; of one class if hosts there are `alike`."""
    counts: dict[tuple[int, int], int] = {}
    c = rng.randrange(len(known.classes))
    for _ in range(rng.randint(1, 6)):
        c = c if alike else rng.randrange(len(known.classes))
        full = known.classes[c].gpus
        at = (c, rng.randint(0, full) if rng.random() < busy else full)
        counts[at] = counts.get(at, 0) + rng.choice((1, 1, 2, 4))
    return leaf(counts)


def domain(rng: random.Random, known: Table, depth: int, busy: float, alike: bool) -> Node:
    if depth == 0:
        return lowest(rng, known, busy, alike)
    wide = rng.choice((1, 2, 3, 5, 20 if depth == 1 else 3))
    return branch([(domain(rng, known, depth - 1, busy, alike), rng.choice((1, 1, 1, 2, 5))) for _ in range(wide)])


def root(rng: random.Random, known: Table, levels: Sequence[Level], alike: bool) -> Branch:
    """A group's tree; now and then without any host."""
    if rng.random() < 0.05:
        return branch([])
    found = domain(rng, known, max(1, len(levels)), rng.choice((0.2, 0.8, 1.0)), alike)
    assert isinstance(found, Branch)
    return found


def pool(rng: random.Random, *, alike: bool) -> Shape:
    """`alike`: lowest domains have hosts of one class each."""
    known = table(rng)
    ladders = rng.sample(LADDERS, rng.choice((1, 1, 1, 2)))
    return Shape(tuple(Group(levels, root(rng, known, levels, alike)) for levels in ladders), known)


def changed(rng: random.Random, shape: Shape, *, alike: bool) -> Shape:
    """The pool later: some lowest domains, or a whole group, are different."""

    def follow(node: Node) -> Node:
        if isinstance(node, Leaf):
            return lowest(rng, shape.table, 0.9, alike) if rng.random() < 0.5 else node
        kids = [(kid, copies) for kid, copies in node.kids]
        at = rng.randrange(len(kids))
        kid, copies = kids[at]
        kids[at : at + 1] = [(follow(kid), 1), (kid, copies - 1)]
        return branch(kids)

    groups = list(shape.groups)
    at = rng.randrange(len(groups))
    now = groups[at].root
    anew = rng.random() < 0.2 or not now.kids
    after = root(rng, shape.table, groups[at].levels, alike) if anew else follow(now)
    assert isinstance(after, Branch)
    groups[at] = Group(groups[at].levels, after)
    return Shape(tuple(groups), shape.table)


def selector(rng: random.Random) -> Selector:
    def requirement() -> Requirement:
        operator = rng.choice([o for o in Operator if o is not Operator.UNSPECIFIED])
        values = ("5",) if operator in (Operator.GT, Operator.LT) else tuple(rng.sample("abc", rng.choice((1, 2))))
        named = operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST)
        return Requirement(rng.choice(("zone", "driver", "other")), operator, () if named else values)

    if rng.random() < 0.6:
        return Selector()
    return Selector(tuple(tuple(requirement() for _ in range(rng.choice((1, 2)))) for _ in range(rng.choice((1, 2)))))


def pod_set(rng: random.Random) -> tuple[SetRequest, FlavorName]:
    flavor = rng.choice(FLAVORS)
    gpus = rng.choice((0, 1, 2, 3, 4, 8, 8)) if flavor != "cpu" else rng.choice((0, 0, 1))
    share = max(gpus, 1)
    offers = {NVIDIA_GPU: gpus, "cpu": rng.choice((1_000, 8_000, 20_000)) * share}
    if rng.random() < 0.3:
        offers["memory"] = rng.choice((64, 300, 900)) * GIB
    if rng.random() < 0.2:
        offers["rdma/hca"] = gpus
    if not gpus and rng.random() < 0.3:
        offers[GPU_MILLI] = rng.choice((250, 300, 600))
    names = ["zone", "block", "rack", "host", "t/rack", "nvlink"]
    size = 1
    slices: list[Slice] = []
    for level in sorted(rng.sample(names[:4], rng.choice((0, 0, 1, 1, 2))), key=names.index, reverse=True):
        size *= rng.choice((1, 2, 3, 4))
        slices.insert(0, Slice(size, level, rng.random() < 0.15, preferred=rng.random() < 0.1))
    if slices and rng.random() < 0.1:
        slices[0] = replace(slices[0], ragged=True)
    count = size * rng.choice((1, 2, 5, 12, 40, 150)) + (rng.random() < 0.05)
    required = rng.choice(("", "", rng.choice(names)))
    preferred = rng.choice(("", "", "", rng.choice(names)))
    tolerations = (Toleration("dedicated", exists=True),) if rng.random() < 0.5 else ()
    balanced = rng.choice(names) if rng.random() < 0.05 else ""
    spread = Spread(rng.choice(names), rng.choice((1, 2, 5, 8, 24))) if rng.random() < 0.15 else None
    same = ("zone",) if rng.random() < 0.05 else ()
    topology = Topology(required, preferred, tuple(slices), balanced, spread, same)
    request = SetRequest(count, count, Resources(offers), (flavor,), selector(rng), tolerations, topology)
    return request, flavor


def gang(rng: random.Random, sets: int = 1) -> tuple[GangRequest, tuple[FlavorName, ...]]:
    pairs = [pod_set(rng) for _ in range(sets)]
    return GangRequest(tuple(s for s, _ in pairs)), tuple(f for _, f in pairs)
