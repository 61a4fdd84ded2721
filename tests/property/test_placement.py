"""The fast placement equals the slow obvious one, above on the shape and below on the nodes."""

from hypothesis import given, settings

from hanse.agent.core.placement import Placement, place
from hanse.shape import Fit, NoFit, apply, encode, fit
from tests.property.shape_cases import H100, cases, inventory, levels_of, node_name, request
from tests.property.shape_oracle import Ask, Tree, optimum, spent

FLAVORS = (H100,)


def pods_by_host(tree: Tree, placement: Placement) -> list[object]:
    """The placement as a tree of pods."""
    counts: dict[str, int] = {}
    for s in placement.sets:
        for use in s.hosts:
            counts[use.node] = counts.get(use.node, 0) + use.pods

    def mirror(part: Tree, path: tuple[int, ...]) -> list[object]:
        return [
            counts.get(node_name((*path, i)), 0) if isinstance(kid, int) else mirror(kid, (*path, i))
            for i, kid in enumerate(part)
        ]

    return mirror(tree, ())


def hosts(tree: Tree) -> list[int]:
    return [free for part in tree for free in ([part] if isinstance(part, int) else hosts(part))]


def on_one_host(tree: Tree, ask: Ask) -> bool:
    """Whether the fragmentation score decides instead of the objective."""
    return not 0 <= ask.exclusive < ask.depth and any(ask.on_host(free) >= ask.n for free in hosts(tree))


@settings(max_examples=1_500, deadline=None)
@given(cases())
def test_places_at_the_least_cost_or_nowhere(case: tuple[Tree, Ask, str]) -> None:
    tree, ask, required = case
    levels = [level.alias for level in levels_of(ask.depth)]
    want = optimum(tree, ask, levels.index(required) if required else -1)
    pool = inventory(tree, ask.depth)
    found = place(pool, request(ask, required), FLAVORS)
    if want is None:
        assert isinstance(found, NoFit)
        return
    assert isinstance(found, Placement)
    pods, cost = spent(tree, pods_by_host(tree, found), ask)
    assert pods == ask.n
    if on_one_host(tree, ask):
        assert cost[: len(cost) // 2] == want[: len(want) // 2]
    else:
        assert cost == want


@settings(max_examples=700, deadline=None)
@given(cases())
def test_what_the_shape_leaves_is_what_the_nodes_leave(case: tuple[Tree, Ask, str]) -> None:
    tree, ask, required = case
    pool = inventory(tree, ask.depth)
    before = encode(pool.shape())
    above = fit(pool.shape(), request(ask, required), FLAVORS)
    below = place(pool, request(ask, required), FLAVORS)
    assert isinstance(above, Fit) == isinstance(below, Placement)
    if isinstance(above, Fit) and isinstance(below, Placement):
        assert above.certain
        left = apply(pool.shape(), above.decision)
        pool.take(below)
        assert encode(left) == encode(pool.shape())
        assert pool.account("nvidia.com/gpu").balanced
        pool.give(below)
        assert encode(pool.shape()) == before
