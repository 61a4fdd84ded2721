"""Thousands of small random pools: ragged trees of several depths in one, hosts of several sizes, nodes without a
rack. The fast placement equals the slow obvious one on every route that it can take.

Small trees are mostly answered by the first route that is tried, so each of the others is also taken alone: what
would be tried before it is made to give up. HANSE_PLACEMENT_TREES=50000 looks at more trees.
"""

import os
import random
from dataclasses import replace
from functools import partial

import pytest

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.kit import kernels
from hanse.model.ids import NodeName
from hanse.model.job import Slice, Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector
from hanse.shape import NoFit, apply, domains, encode, fit, sets, solve
from hanse.shape.native import Native, native
from tests.property.shape_cases import H100, HOST, POD, walk
from tests.property.shape_oracle import Ask, Cost, Tree, is_leaf, optimum, spent
from tests.property.test_placement import on_one_host

TREES = int(os.environ.get("HANSE_PLACEMENT_TREES", "2000"))
BATCHES = 10
LADDERS = (
    (Level("a/zone", "zone"), Level("a/block", "block"), Level("a/rack", "rack")),
    (Level("b/block", "block"), Level("b/rack", "rack")),
    (Level("c/rack", "rack"),),
)
QUICK = (solve, "quick", lambda *_: None)
GREEDY = (solve, "_proven", lambda *_: False)
SETS = (sets, "SETS_MAX", 0)
FRUGAL = (sets, "FRUGAL_MAX", -1)
CLOSED_FORM = (solve, "is_heap", lambda _: False)
COMPILED = tuple([(native, name, getattr(kernels, name)) for name in Native.__slots__])
ROUTES: dict[str, tuple[tuple[object, str, object], ...]] = {
    "everything": (),
    "without_arrays": (QUICK,),
    "sets": (QUICK, GREEDY),
    "frugal_sets": (QUICK, GREEDY, SETS),
    "closed_form": (QUICK, GREEDY, SETS, FRUGAL),
    "search": (QUICK, GREEDY, SETS, FRUGAL, CLOSED_FORM),
    "everything_compiled": COMPILED,
    "closed_form_compiled": (QUICK, GREEDY, SETS, FRUGAL, *COMPILED),
    "search_compiled": (QUICK, GREEDY, SETS, FRUGAL, CLOSED_FORM, *COMPILED),
}
"""By name, what gives up."""


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No domain knows what was computed about its like on another route."""
    monkeypatch.setattr(domains, "_leaves", {})
    monkeypatch.setattr(domains, "_branches", {})


def tree(rng: random.Random, depth: int, free: list[int]) -> Tree:
    if depth == 0:
        return [rng.choice(free) for _ in range(rng.randint(1, 4))]
    return [tree(rng, depth - 1, free) for _ in range(rng.randint(1, 3))]


def deepened(part: Tree, by: int) -> Tree:
    """The same with levels added at the bottom, each lowest domain the only one in another."""
    if not is_leaf(part):
        return [deepened(kid, by) for kid in part if not isinstance(kid, int)]
    for _ in range(by):
        part = [part]
    return part


class Pool:
    """One to three trees in one inventory; `joint` is them all under one root, as deep as the deepest."""

    def __init__(self, rng: random.Random) -> None:
        first = rng.randint(0, 2)
        self.ladders = LADDERS[first : first + rng.choice([1, 1, 2, 3])]
        free = rng.choice([list(range(9)), [0, 8], [0, 1, 3, 4, 8], [1, 2, 5, 6, 7]])
        self.trees = [tree(rng, len(levels), free) for levels in self.ladders]
        self.depth = len(self.ladders[0])
        self.joint: list[Tree] = []
        for own, levels in zip(self.trees, self.ladders, strict=True):
            extra = self.depth - len(levels)
            self.joint.extend([deepened(kid, extra) for kid in own if not isinstance(kid, int)])
        self.inventory = Inventory([Flavor(H100, 0)], self.ladders)
        for number, own in enumerate(self.trees):
            walk(own, partial(self._add, rng, number))

    def _add(self, rng: random.Random, number: int, path: tuple[int, ...], left: int) -> None:
        levels = self.ladders[number]
        labels = {level.key: f"d{at}" for level, at in zip(levels, path, strict=False)}
        if self._alone(number, path) and rng.random() < 0.5:
            del labels[levels[-1].key]  # a rack of its own either way
        gpus = 4 if left <= 4 and rng.random() < 0.5 else 8
        facts = NodeFacts(self.name(number, path), labels, (), Resources({**HOST, NVIDIA_GPU: gpus}))
        self.inventory.set_node(facts)
        if left < gpus:
            self.inventory.hold(facts.name, {POD: gpus - left})

    def _alone(self, number: int, path: tuple[int, ...]) -> bool:
        part: Tree = self.trees[number]
        for at in path[:-1]:
            part = part[at]  # type: ignore[assignment]
        return len(part) == 1 and len(self.ladders[number]) > 1

    @staticmethod
    def name(number: int, path: tuple[int, ...]) -> NodeName:
        return NodeName(f"n{number}-" + "-".join(map(str, path)))

    def used(self, placement: Placement) -> list[list[object]]:
        """By tree, the placement as a tree of pods."""
        counts: dict[str, int] = {}
        for s in placement.sets:
            for use in s.hosts:
                counts[use.node] = counts.get(use.node, 0) + use.pods

        def mirror(number: int, part: Tree, path: tuple[int, ...]) -> list[object]:
            return [
                counts.get(self.name(number, (*path, i)), 0)
                if isinstance(kid, int)
                else mirror(number, kid, (*path, i))
                for i, kid in enumerate(part)
            ]

        return [mirror(number, own, ()) for number, own in enumerate(self.trees)]


def joined(pool: Pool, used: list[list[object]]) -> list[object]:
    """Pods by host in the form of `joint`."""
    out: list[object] = []
    for own, levels in zip(used, pool.ladders, strict=True):
        for kid in own:
            out.append(deepened(kid, pool.depth - len(levels)))  # type: ignore[arg-type]
    return out


def asked(rng: random.Random, pool: Pool) -> tuple[Ask, str]:
    """What is asked of the joint tree, and the level that is required; slices on levels that every tree has."""
    sizes = [0] * (pool.depth + 1)
    size = 1
    for at in sorted(rng.sample((pool.depth - 1, pool.depth), rng.randint(0, 2)), reverse=True):
        size *= rng.randint(1, 4)
        sizes[at] = size
    if len(pool.ladders) == 1 and rng.random() < 0.4 and pool.depth > 1:
        size *= rng.randint(1, 3)
        sizes[0] = size
    n = size * rng.randint(1, max(1, 30 // size))
    required = rng.choice(["", "", *[level.alias for level in pool.ladders[-1]]])
    return Ask(n, rng.choice([1, 1, 2, 3, 4]), tuple(sizes)), required


def request_of(pool: Pool, ask: Ask, required: str) -> GangRequest:
    names = [level.alias for level in pool.ladders[0]] + ["host"]
    slices = tuple(Slice(s, names[at]) for at, s in enumerate(ask.sizes) if s)
    pod = Resources({NVIDIA_GPU: ask.g, "cpu": 1_000 * ask.g})
    return GangRequest((SetRequest(ask.n, ask.n, pod, (H100,), Selector(), (), Topology(required, "", slices)),))


def wanted(pool: Pool, ask: Ask, required: str) -> Cost | None:
    """The least cost over everything, or over the trees one by one if a level is required."""
    if not required:
        return optimum(pool.joint, ask)
    costs: list[Cost] = []
    for own, levels in zip(pool.trees, pool.ladders, strict=True):
        extra = pool.depth - len(levels)
        at = [level.alias for level in levels].index(required)
        found = optimum(own, replace(ask, sizes=ask.sizes[extra:]), at)
        if found is not None:
            costs.append(stretched(found, extra))
    return min(costs, default=None)


def stretched(cost: Cost, extra: int) -> Cost:
    """As if the tree had more levels, in each of which a lowest domain is one by itself."""
    half = len(cost) // 2
    counts, fits = cost[:half], cost[half:]
    return (*counts[:-1], *counts[-2:-1] * extra, counts[-1], *fits[:-1], *fits[-2:-1] * extra, fits[-1])


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("route", ROUTES)
def test_every_route_finds_the_least_cost(route: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in ROUTES[route]:
        monkeypatch.setattr(module, name, value)
    each = max(1, TREES // BATCHES // len(ROUTES))
    for seed in range(batch * each, (batch + 1) * each):
        look_at(random.Random(f"{route} {seed}"))


def look_at(rng: random.Random) -> None:
    pool = Pool(rng)
    ask, required = asked(rng, pool)
    request = request_of(pool, ask, required)
    above = fit(pool.inventory.shape(), request, (H100,))
    found = place(pool.inventory, request, (H100,))
    want = wanted(pool, ask, required)
    assert (want is None) == isinstance(found, NoFit) == isinstance(above, NoFit)
    if want is None or not isinstance(found, Placement) or isinstance(above, NoFit):
        return
    pods, cost = spent(pool.joint, joined(pool, pool.used(found)), ask)
    assert pods == ask.n
    assert cost == want or on_one_host(pool.joint, ask)
    left = apply(pool.inventory.shape(), above.decision)
    pool.inventory.take(found)
    assert encode(left) == encode(pool.inventory.shape())
