"""Long random lives of a pool: what is published always follows from what is there, whatever came before."""

import random
from dataclasses import dataclass, field, replace

import pytest

from hanse.agent.core.inventory import Inventory, NodeFacts
from hanse.agent.core.placement import Placement, place
from hanse.model.ids import FlavorName
from hanse.model.job import Slice, Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Taint, Toleration
from hanse.shape import Fit, NoFit, apply, decode, encode, fit, prepare, quick_reject

IB = (Level("ib/spine", "spine"), Level("ib/rack", "rack"))
NVL = (Level("nvl/domain", "nvlink"),)
H100, GB200 = FlavorName("h100"), FlavorName("gb200")
FLAVORS = [
    Flavor(GB200, 0, (Requirement("gpu", Operator.IN, ("gb200",)),)),
    Flavor(H100, 1, (Requirement("gpu", Operator.EXISTS),)),
]
STEPS = 80


def new_node(rng: random.Random, number: int) -> NodeFacts:
    """A host of one of two networks, now and then with a label missing, a taint, other cpu."""
    gb200 = rng.random() < 0.4
    levels = NVL if gb200 else IB
    labels = {level.key: f"{level.alias}{rng.randrange(3)}" for level in levels if rng.random() < 0.9}
    labels |= {"gpu": "gb200" if gb200 else "h100", "zone": rng.choice("ab"), "kubernetes.io/hostname": f"n{number}"}
    amounts = {NVIDIA_GPU: 4 if gb200 else 8, "cpu": rng.choice([96_000, 192_000]), "pods": 110, "rdma/hca": 8}
    taints = (Taint("team", "x", Effect.NO_SCHEDULE),) if rng.random() < 0.1 else ()
    return NodeFacts(f"n{number:03}", labels, taints, Resources(amounts))  # type: ignore[arg-type]


def new_set(rng: random.Random, *, exact: bool) -> SetRequest:
    gpus = rng.choice([1, 1, 2, 4, 8] if exact else [0, 1, 2])
    amounts = {NVIDIA_GPU: gpus, "cpu": 1_000 * gpus if exact else rng.choice([500, 30_000, 90_000])}
    slices = (Slice(2, rng.choice(["rack", "host", "nvlink", "spine"]), rng.random() < 0.2),)
    topology = Topology(
        required=rng.choice(["", "", "rack", "spine", "nvlink", "host"]),
        preferred=rng.choice(["", "", "rack"]),
        slices=slices if rng.random() < 0.25 else (),
    )
    count = rng.randint(1, 6) * (2 if topology.slices else 1)
    selector = Selector(((Requirement("zone", Operator.IN, ("a",)),),)) if rng.random() < 0.2 else Selector()
    tolerations = (Toleration("team", exists=True),) if rng.random() < 0.3 else ()
    return SetRequest(count, count, Resources(amounts), (), selector, tolerations, topology)


@dataclass
class Life:
    """One pool, what runs there, and the rules that hold after every step."""

    rng: random.Random
    pool: Inventory = field(default_factory=lambda: Inventory(FLAVORS, [IB, NVL]))
    held: list[Placement] = field(default_factory=list)
    count: int = 0

    def step(self) -> None:
        getattr(self, self.rng.choice(["add", "gang", "gang", "gang", "end", "end", "change", "daemon", "lose"]))()

    def add(self) -> None:
        self.count += 1
        self.pool.set_node(new_node(self.rng, self.count))

    def gang(self) -> None:
        exact = self.rng.random() < 0.7
        sets = tuple(new_set(self.rng, exact=exact) for _ in range(self.rng.choice([1, 1, 1, 2])))
        request, flavors = GangRequest(sets), tuple(self.rng.choice([H100, GB200]) for _ in sets)
        before = self.pool.shape()
        above = fit(decode(encode(before)), request, flavors)
        below = place(self.pool, request, flavors)
        assert encode(self.pool.shape()) == encode(before)
        if quick_reject(before, prepare(request, flavors)):
            assert isinstance(above, NoFit)
        if isinstance(above, Fit) and above.certain:
            assert isinstance(below, Placement)
        if isinstance(above, NoFit) and before.exact:
            assert isinstance(below, NoFit)
        if isinstance(below, Placement):
            self.pool.take(below)
            self.held.append(below)
            if isinstance(above, Fit) and above.certain:
                assert encode(apply(before, above.decision)) == encode(self.pool.shape())

    def end(self) -> None:
        if self.held:
            self.pool.give(self.held.pop(self.rng.randrange(len(self.held))))

    def change(self) -> None:
        node = self.any_node()
        if node is not None:
            self.pool.set_node(replace(node, cordoned=self.rng.random() < 0.5, ready=self.rng.random() < 0.8))

    def daemon(self) -> None:
        node = self.any_node()
        if node is not None:
            self.pool.set_node(node, Resources({"cpu": self.rng.randrange(60_000), "pods": self.rng.randrange(20)}))

    def lose(self) -> None:
        node = self.any_node()
        if node is not None and self.rng.random() < 0.3:
            self.pool.remove_node(node.name)

    def any_node(self) -> NodeFacts | None:
        nodes = [node.facts for node in self.pool]
        return self.rng.choice(nodes) if nodes else None

    def check(self) -> None:
        data = encode(self.pool.shape())
        assert encode(decode(data)) == data
        assert data == encode(self.pool.rebuilt(FLAVORS, [IB, NVL]).shape())
        for name in (NVIDIA_GPU, "cpu", "pods"):
            assert self.pool.account(name).balanced
        assert self.pool.account(NVIDIA_GPU).overdrawn == 0
        assert self.pool.empty_shape().gpus() >= self.pool.shape().gpus()


@pytest.mark.parametrize("seed", range(24))
def test_what_is_published_follows_from_what_is_there(seed: int) -> None:
    life = Life(random.Random(seed))
    for _ in range(12):
        life.add()
    for _ in range(STEPS):
        life.step()
        life.check()
    for placement in life.held:
        life.pool.give(placement)
    assert all(not node.own for node in life.pool)
    life.check()
