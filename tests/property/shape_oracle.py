"""The slow, obvious solver: every subset of hosts, every split over children, all costs kept.

It knows nothing of folding, bounds or order; it only knows what a placement is and what it costs. Trees are nested
lists: a lowest domain is a list of free GPUs by host, any other domain a list of domains.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

Tree = list["Tree"] | list[int]
Cost = tuple[int, ...]


@dataclass(frozen=True)
class Ask:
    """n pods of g GPUs; `sizes[d]` is the slice size at depth d, the host last, 0 for none."""

    n: int
    g: int
    sizes: tuple[int, ...]
    exclusive: int = -1
    gpus: int = 8

    @property
    def depth(self) -> int:
        return len(self.sizes) - 1

    def step(self, depth: int) -> int:
        return max([1, *self.sizes[depth:]])

    def on_host(self, free: int) -> int:
        if self.exclusive == self.depth and free < self.gpus:
            return 0
        return free // self.g // max(1, self.sizes[-1]) * max(1, self.sizes[-1])


def is_leaf(tree: Tree) -> bool:
    return all(isinstance(part, int) for part in tree)


def whole(tree: Tree, ask: Ask) -> bool:
    return all(part == ask.gpus if isinstance(part, int) else whole(part, ask) for part in tree)


def fit(tree: Tree, ask: Ask, depth: int) -> int:
    """The most pods a domain at this depth holds."""
    total = sum(ask.on_host(part) if isinstance(part, int) else fit(part, ask, depth + 1) for part in tree)
    if depth < 0:
        return total
    if depth == ask.exclusive and not whole(tree, ask):
        return 0
    size = max(1, ask.sizes[depth])
    return total // size * size


def costs(tree: Tree, ask: Ask, depth: int) -> dict[int, Cost]:
    """For every number of pods that the domain can hold, the least cost of what is used inside it."""
    inside = _leaf_costs(tree, ask) if is_leaf(tree) else _branch_costs(tree, ask, depth)
    most, step = fit(tree, ask, depth), ask.step(max(depth, 0))
    return {x: cost for x, cost in inside.items() if x <= most and x % step == 0}


def _leaf_costs(tree: Tree, ask: Ask) -> dict[int, Cost]:
    caps = [cap for cap in (ask.on_host(part) for part in tree if isinstance(part, int)) if cap]
    best: dict[int, Cost] = {}
    for many in range(len(caps) + 1):
        for subset in combinations(caps, many):
            for x in range(many, min(sum(subset), ask.n) + 1):
                _improve(best, x, (many, sum(subset)))
    return best


def _branch_costs(tree: Tree, ask: Ask, depth: int) -> dict[int, Cost]:
    height = ask.depth - depth
    best: dict[int, Cost] = {0: (0,) * (2 * height)}
    for kid in tree:
        assert isinstance(kid, list)
        around = fit(kid, ask, depth + 1)
        kid_costs = costs(kid, ask, depth + 1)
        following = dict(best)
        for x, cost in best.items():
            for y, inner in kid_costs.items():
                if 0 < y <= ask.n - x:
                    half = height - 1
                    used = (1, *inner[:half], around, *inner[half:])
                    _improve(following, x + y, tuple(a + b for a, b in zip(cost, used, strict=True)))
        best = following
    return best


def _improve(best: dict[int, Cost], x: int, cost: Cost) -> None:
    if x not in best or cost < best[x]:
        best[x] = cost


def optimum(tree: Tree, ask: Ask, required: int = -1) -> Cost | None:
    """The least cost of the whole set; inside one domain of depth `required` if that is not -1."""
    found = costs(tree, ask, -1).get(ask.n) if fit(tree, ask, -1) >= ask.n else None
    if found is None or required < 0:
        return found
    return found if found[: required + 1] == (1,) * (required + 1) else None


def spent(tree: Sequence[object], used: Sequence[object], ask: Ask) -> tuple[int, Cost]:
    """(pods, cost) of a placement: `used` mirrors `tree` with pods on each host. Checks every rule on the way."""
    pods, cost = _spent(list(tree), list(used), ask, -1)
    return pods, cost


def _spent(tree: list[object], used: list[object], ask: Ask, depth: int) -> tuple[int, Cost]:
    assert len(tree) == len(used)
    if depth == ask.depth - 1:
        return _spent_on_hosts(tree, used, ask, depth)
    height = ask.depth - depth
    total, cost = 0, (0,) * (2 * height)
    for kid, inside in zip(tree, used, strict=True):
        assert isinstance(kid, list)
        assert isinstance(inside, list)
        pods, inner = _spent(kid, inside, ask, depth + 1)
        if pods:
            assert pods <= fit(kid, ask, depth + 1)
            assert pods % max(1, ask.sizes[depth + 1]) == 0
            half = height - 1
            full = (1, *inner[:half], fit(kid, ask, depth + 1), *inner[half:])
            cost = tuple(a + b for a, b in zip(cost, full, strict=True))
        total += pods
    return total, cost


def _spent_on_hosts(tree: list[object], used: list[object], ask: Ask, depth: int) -> tuple[int, Cost]:
    total = hosts = caps = 0
    for free, pods in zip(tree, used, strict=True):
        assert isinstance(free, int)
        assert isinstance(pods, int)
        if pods:
            assert pods <= ask.on_host(free)
            assert pods % max(1, ask.sizes[-1]) == 0
            total, hosts, caps = total + pods, hosts + 1, caps + ask.on_host(free)
    return total, (hosts, caps)
