"""What a summary promises: see docs/reference/summaries.md, whose table of reasons is read here."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.devices import DeviceGroup
from hanse.model.ids import Attempt, FlavorName, JobId, Part, PoolName, QueueUid
from hanse.model.job import DEVICE_KINDS, Devices
from hanse.model.placement import Level
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Operator, Requirement, Selector
from hanse.scheduler.core.facts import BindingFacts, SummaryFacts, SummaryOrder
from hanse.scheduler.core.ledger import PoolLedger
from hanse.shape import SUMMARY_BYTES_MAX, Fit, Group, NoFit, Shape, decode, encode, fit
from hanse.shape.classes import HostClass
from hanse.shape.domains import Node, branch, leaf
from hanse.shape.lens import Table
from tests.property.test_inventory_story import FLAVORS, GB200, H100, IB, NVL, new_node, new_set

ROOT = Path(__file__).parents[2]
TYPICAL_BYTES_MAX = 2_048
STEPS = 150


def documented() -> set[Reason]:
    """The reasons for which a yes above may be refused below, as the reference lists them."""
    text = (ROOT / "docs/reference/summaries.md").read_text(encoding="utf-8")
    return {Reason[name] for name in re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE)}


def gang(rng: random.Random, *, exact: bool) -> tuple[GangRequest, tuple[FlavorName, ...]]:
    sets = tuple(new_set(rng, exact=exact) for _ in range(rng.choice((1, 1, 1, 2))))
    return GangRequest(sets), tuple(rng.choice((H100, GB200)) for _ in sets)


# ---- closed ---------------------------------------------------------------------------------------------------


@dataclass
class Pair:
    """A scheduler's ledger of a pool, the pool, and the bindings that are on their way from one to the other."""

    rng: random.Random
    pool: Inventory = field(default_factory=lambda: Inventory(FLAVORS, [IB, NVL]))
    ledger: PoolLedger = field(default_factory=lambda: PoolLedger(lambda: 1))
    under_way: list[BindingFacts] = field(default_factory=list)
    held: dict[str, Placement] = field(default_factory=dict)
    revision: int = 0
    observed: int = 0
    sequence: int = 0

    def commit(self) -> None:
        """The scheduler binds a gang of the exact class, by what it believes is free."""
        request, flavors = gang(self.rng, exact=True)
        shape = self.ledger.shape()
        found = fit(shape, request, flavors) if shape is not None else None
        if isinstance(found, Fit) and found.certain:
            self.revision += 1
            name = JobId(f"abcdefgh-{self.revision:016d}")
            queue = QueueUid("abcdefgh")
            binding = BindingFacts(
                PoolName("p"), name, Attempt(1), Part(0), self.revision, queue, request, flavors, ()
            )
            self.ledger.put(name, binding)
            self.under_way.append(binding)

    def arrive(self) -> None:
        """The agent places the oldest binding that is under way."""
        if self.under_way:
            binding = self.under_way.pop(0)
            placed = place(self.pool, binding.request, binding.flavors)
            assert isinstance(placed, Placement)
            self.pool.take(placed)
            self.held[binding.job] = placed
            self.observed = binding.create_revision

    def end(self) -> None:
        """A gang is over: its places are free, and then its binding goes."""
        if self.held:
            name = self.rng.choice(sorted(self.held))
            self.pool.give(self.held.pop(name))
            self.publish()
            self.ledger.remove(name)

    def publish(self) -> None:
        """A summary goes up, as bytes."""
        self.sequence += 1
        shape = decode(encode(self.pool.shape()))
        order = SummaryOrder(1, 1, self.sequence)
        self.ledger.accept(SummaryFacts(order, self.observed, 0.0, 0, shape, None))

    def check(self) -> None:
        """What the scheduler believes is, byte for byte, what the agent says once it has placed what is under way."""
        believed = self.ledger.shape()
        assert believed is not None
        ahead: list[Placement] = []
        for binding in self.under_way:
            placed = place(self.pool, binding.request, binding.flavors)
            assert isinstance(placed, Placement)
            self.pool.take(placed)
            ahead.append(placed)
        assert encode(believed) == encode(self.pool.shape())
        for placed in reversed(ahead):
            self.pool.give(placed)


@pytest.mark.parametrize("seed", range(12))
def test_a_scheduler_believes_what_the_agent_will_say_over_a_long_life(seed: int) -> None:
    pair = Pair(random.Random(seed))
    for number in range(40):
        pair.pool.set_node(new_node(pair.rng, number))
    pair.publish()
    for _ in range(STEPS):
        getattr(pair, pair.rng.choice(("commit", "commit", "arrive", "arrive", "end", "publish")))()
        pair.check()
    assert pair.revision > STEPS / 10


# ---- safe -----------------------------------------------------------------------------------------------------


@dataclass
class Answers:
    """What a summary and the nodes said to the same requests."""

    refused: dict[Reason, int] = field(default_factory=dict)
    asked: int = 0


ROOTS = (DeviceGroup("0", "pci0000:00", 4, 1), DeviceGroup("1", "pci0000:80", 4))


def unruly(rng: random.Random) -> Inventory:
    """A pool with pods of others on its nodes, and labels that no summary has room for."""
    pool = Inventory(FLAVORS, [IB, NVL])
    for number in range(rng.randint(4, 24)):
        node = new_node(rng, number)
        foreign = Resources({"cpu": rng.choice((0, 0, 20_000, 80_000)), "pods": rng.choice((0, 5, 100))})
        labels = {**node.labels, "serial": f"s{number}", "rev": str(number % 7)}
        pool.set_node(replace(node, labels=labels, devices=rng.choice(((), ROOTS))), foreign)
    return pool


def picky(rng: random.Random, request: GangRequest) -> GangRequest:
    """Now and then by a label that the shape leaves out, or by a number, or by devices of one group."""
    if rng.randrange(6) == 0:
        devices = Devices(rng.choice(DEVICE_KINDS), rng.random() < 0.3)
        sets = [replace(s, topology=replace(s.topology, devices=devices)) for s in request.sets if s.resources.gpus]
        request = replace(request, sets=tuple(sets)) if len(sets) == len(request.sets) else request
    serial = Requirement("serial", Operator.IN, (f"s{rng.randrange(24)}", f"s{rng.randrange(24)}"))
    chosen = rng.choice((serial, Requirement("rev", Operator.GT, ("3",)), None, None))
    if chosen is None:
        return request
    return replace(request, sets=tuple(replace(s, selector=Selector(((chosen,),))) for s in request.sets))


def told(seed: int, steps: int) -> Answers:
    rng, answers = random.Random(seed), Answers()
    pool = unruly(rng)
    for _ in range(steps):
        request, flavors = gang(rng, exact=rng.random() < 0.4)
        request = picky(rng, request)
        above = fit(decode(encode(pool.shape())), request, flavors)
        below = place(pool, request, flavors)
        answers.asked += 1
        if isinstance(above, Fit) and isinstance(below, NoFit):
            assert not above.certain
            answers.refused[below.reason] = answers.refused.get(below.reason, 0) + 1
        if isinstance(below, Placement) and rng.random() < 0.5:
            pool.take(below)
    return answers


def test_a_yes_above_is_refused_below_only_for_documented_reasons() -> None:
    seen: set[Reason] = set()
    for seed in range(60):
        seen |= set(told(seed, 40).refused)
    assert seen == documented()


@pytest.mark.parametrize("seed", range(30))
def test_a_no_above_is_wrong_by_at_most_the_clipped_hosts(seed: int) -> None:
    rng = random.Random(seed)
    pool = unruly(rng)
    for _ in range(20):
        request, flavors = gang(rng, exact=True)
        if len(request.sets) > 1 or request.sets[0].topology.slices:
            continue
        shape = decode(encode(pool.shape()))
        above = most(request, partial(fit, shape, flavors=flavors))
        below = most(request, partial(place, pool, flavors=flavors))
        densest = 8 // request.sets[0].resources.gpus
        assert below - above <= shape.clipped_hosts * densest
        taken = place(pool, request, flavors)
        if isinstance(taken, Placement):
            pool.take(taken)


def most(request: GangRequest, ask: Callable[[GangRequest], object]) -> int:
    """The most pods of the gang's one set that fit."""
    low, high = 0, 64
    while low < high:
        middle = (low + high + 1) // 2
        sized = replace(request, sets=(replace(request.sets[0], count=middle, min_count=middle),))
        if isinstance(ask(sized), NoFit):
            high = middle - 1
        else:
            low = middle
    return low


# ---- small ----------------------------------------------------------------------------------------------------


def busy(rng: random.Random, levels: tuple[Level, ...], fan: tuple[int, ...], load: float) -> Shape:
    """5,000 hosts of two classes: domains that are taken whole, free ones, and such with any free GPUs."""

    def lowest() -> Node:
        size = fan[-1] - (rng.random() < 0.1)
        kind, counts = rng.random(), dict[tuple[int, int], int]()
        for _ in range(size):
            free = 0 if rng.random() < load else rng.choice((8, 8, rng.randint(0, 8)))
            free = 0 if kind < load / 2 else 8 if kind > 1 - (1 - load) / 2 else free
            at = (rng.random() < 0.02, free)
            counts[at] = counts.get(at, 0) + 1
        return leaf(counts)

    def domain(parts: tuple[int, ...]) -> Node:
        return lowest() if len(parts) == 1 else branch([(domain(parts[1:]), 1) for _ in range(parts[0])])

    kids: list[tuple[Node, int]] = []
    while sum(kid.hosts for kid, _ in kids) < 5_000:
        kids.append((domain(fan), 1))
    offers = [Resources({"cpu": cpu, "memory": 2 << 40, "pods": 110}) for cpu in (192_000, 128_000)]
    classes = tuple(HostClass(FlavorName("h100"), NVIDIA_GPU, 8, offered) for offered in offers)
    return Shape((Group(levels, branch(kids)),), Table(classes))


@pytest.mark.parametrize("load", [0.6, 0.8, 0.95])
@pytest.mark.parametrize(
    "fan", [(8, 16), (12, 25), (4, 8, 18), (5, 6, 32), (16,)], ids=lambda fan: "x".join(map(str, fan))
)
def test_a_typical_pool_of_5_000_hosts_takes_two_kibibytes(fan: tuple[int, ...], load: float) -> None:
    levels = tuple(Level(f"t/{name}", name) for name in ("zone", "block", "rack"))[-len(fan) :]
    shape = busy(random.Random(7), levels, fan, load)
    data = encode(shape)
    assert len(data) <= TYPICAL_BYTES_MAX < SUMMARY_BYTES_MAX
    assert decode(data).exact
