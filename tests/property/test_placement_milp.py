"""On trees too large for the slow solver, an integer program says what the optimum is, component by component."""

import random

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]

from hanse.agent.core.placement import Placement, place
from hanse.shape import NoFit
from tests.property.shape_cases import H100, inventory, request
from tests.property.shape_oracle import Ask, Cost, Tree, fit, is_leaf, spent
from tests.property.test_placement import on_one_host, pods_by_host


class Model:
    """Columns: for every host, units of pods and whether it is used; for every domain, the same with slices."""

    def __init__(self, tree: Tree, ask: Ask) -> None:
        self.ask = ask
        self.uppers: list[float] = []
        self.rows: list[tuple[dict[int, float], float, float]] = []
        self.goals: list[dict[int, float]] = [{} for _ in range(2 * (ask.depth + 1))]
        self.rows.append((self._domain(tree, -1), ask.n, ask.n))

    def _column(self, upper: float) -> int:
        self.uppers.append(upper)
        return len(self.uppers) - 1

    def _count(self, level: int, column: int, weight: int) -> None:
        self.goals[level][column] = 1
        self.goals[self.ask.depth + 1 + level][column] = weight

    def _domain(self, tree: Tree, depth: int) -> dict[int, float]:
        """The pods of a domain as a sum over columns."""
        pods: dict[int, float] = {}
        for part in tree:
            pods |= self._host(part) if isinstance(part, int) else self._domain(part, depth + 1)
        if depth >= 0:
            most = fit(tree, self.ask, depth)
            used = self._column(1)
            self._count(depth, used, most)
            self.rows.append(({**pods, used: -most}, -np.inf, 0))
            size = self.ask.sizes[depth]
            if size:
                self.rows.append(({**pods, self._column(most // size): -size}, 0, 0))
        return pods

    def _host(self, free: int) -> dict[int, float]:
        most, unit = self.ask.on_host(free), max(1, self.ask.sizes[-1])
        units, used = self._column(most // unit), self._column(1)
        self._count(self.ask.depth, used, most)
        self.rows.append(({units: unit, used: -most}, -np.inf, 0))
        return {units: unit}

    def optimum(self) -> Cost | None:
        """The least cost, each component under the best of those before it."""
        best: list[int] = []
        for goal in self.goals:
            value = self._least(goal)
            if value is None:
                return None
            best.append(value)
            self.rows.append((goal, value, value))
        return tuple(best)

    def _least(self, goal: dict[int, float]) -> int | None:
        matrix = np.zeros((len(self.rows), len(self.uppers)))
        for i, (row, _, _) in enumerate(self.rows):
            for column, weight in row.items():
                matrix[i, column] = weight
        costs = np.zeros(len(self.uppers))
        for column, weight in goal.items():
            costs[column] = weight
        lows, highs = np.array([r[1] for r in self.rows]), np.array([r[2] for r in self.rows])
        found = milp(
            costs,
            constraints=LinearConstraint(matrix, lows, highs),
            integrality=np.ones(len(costs)),
            bounds=Bounds(0, np.array(self.uppers)),
        )
        return round(found.fun) if found.success else None


def trees(rng: random.Random, depth: int) -> Tree:
    if depth == 0:
        return [rng.choice([0, 8, 8, rng.randint(0, 8)]) for _ in range(rng.randint(3, 8))]
    return [trees(rng, depth - 1) for _ in range(rng.randint(2, 6 if depth == 1 else 4))]


@pytest.mark.parametrize("seed", range(40))
def test_the_fast_placement_is_the_optimum(seed: int) -> None:
    rng = random.Random(seed)
    depth = rng.choice([1, 2, 2])
    tree = trees(rng, depth)
    assert not is_leaf(tree)
    sizes = [0] * (depth + 1)
    if rng.random() < 0.5:
        sizes[rng.randrange(depth + 1)] = rng.choice([2, 3, 4])
    size = max(1, *sizes)
    compare(tree, Ask(size * rng.randint(2, 60 // size), rng.choice([1, 2, 4, 8]), tuple(sizes)))


@pytest.mark.parametrize("layers", [2, 3])
@pytest.mark.parametrize("seed", range(15))
def test_so_it_is_with_slices_in_slices(seed: int, layers: int) -> None:
    rng = random.Random(f"{seed} {layers}")
    tree = trees(rng, 2)
    sizes = [0, 0, 0]
    size = 1
    for at in sorted(rng.sample(range(3), layers), reverse=True):
        size *= rng.choice([1, 2, 2, 3]) if at < 2 else rng.choice([2, 4])
        sizes[at] = size
    compare(tree, Ask(size * rng.randint(2, max(2, 70 // size)), rng.choice([1, 1, 2]), tuple(sizes)))


def compare(tree: Tree, ask: Ask) -> None:
    """The placement costs what the integer program says, or both find none."""
    found = place(inventory(tree, ask.depth), request(ask), (H100,))
    want = Model(tree, ask).optimum()
    if want is None:
        assert isinstance(found, NoFit)
        return
    assert isinstance(found, Placement)
    pods, cost = spent(tree, pods_by_host(tree, found), ask)
    assert pods == ask.n
    assert cost == want or on_one_host(tree, ask)
