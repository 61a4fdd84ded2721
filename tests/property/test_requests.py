"""Ragged slices, spreading, and even shares: what is placed is what brute force finds, above and below alike."""

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hanse.agent.core.placement import Placement, place
from hanse.model.job import Slice, Spread, Topology
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector
from hanse.shape import Fit, NoFit, apply, encode, fit
from tests.property.request_oracle import Want, best, counts, evenness, holds, hosts
from tests.property.shape_cases import H100, inventory, levels_of, node_name, trees, walk
from tests.property.shape_oracle import Tree

FLAVORS = (H100,)


@st.composite
def wants(draw: st.DrawFn) -> tuple[Tree, Want]:
    """Small trees, and gangs that need most of them: several domains, and slices that do not divide."""
    depth = draw(st.integers(1, 2))
    kids, most = draw(st.sampled_from([(3, 2), (5, 1), (6, 1)] if depth == 1 else [(2, 2), (3, 1)]))
    free = st.sampled_from([0, 1, 2, 3, 3, 4] if kids < 6 else [1, 3, 3])
    tree = [draw(trees(depth - 1, kids, most, free)) for _ in range(draw(st.integers(2, kids)))]
    total = sum(hosts(tree))
    n = draw(st.integers(max(1, total // 3), max(1, total - 1)))
    sizes, caps = [0] * (depth + 1), [0] * (depth + 1)
    size = 1
    for at in draw(st.sampled_from([[], [0], [0], [depth], [depth, 0], [1], list(range(depth, -1, -1))])):
        size *= draw(st.integers(2, 3))
        sizes[at] = size
    if draw(st.sampled_from([True, False, False])):
        caps[draw(st.integers(0, depth))] = draw(st.integers(1, 6))
    levels = [at for at in range(depth + 1) if not any(sizes[:at])]
    balanced = draw(st.sampled_from([-1] * len(levels) + levels))
    if balanced >= 0:
        n = max(1, n // size) * size
    return tree, Want(n, tuple(sizes), tuple(caps), draw(st.sampled_from([-1, -1, -1, 0])), balanced)


def request(want: Want, cpu: int = 0, soft: tuple[int, ...] = ()) -> GangRequest:
    """The want as a request; layers at the depths of `soft` are preferred."""
    names = [*[level.alias for level in levels_of(want.depth)], "host"]
    slices = tuple(Slice(s, names[at], False, True, at in soft) for at, s in enumerate(want.sizes) if s)
    spread = next((Spread(names[at], most) for at, most in enumerate(want.caps) if most), None)
    topology = Topology(
        required=names[want.required] if want.required >= 0 else "",
        slices=slices,
        balanced=names[want.balanced] if want.balanced >= 0 else "",
        spread=spread,
    )
    pod = Resources({NVIDIA_GPU: 1, "cpu": 1_000 + cpu})
    return GangRequest((SetRequest(want.n, want.n, pod, FLAVORS, Selector(), (), topology),))


def by_host(tree: Tree, placement: Placement) -> tuple[int, ...]:
    names: list[str] = []
    walk(tree, lambda path, _: names.append(node_name(path)))
    found: dict[str, int] = {}
    for use in placement.sets[0].hosts:
        found[use.node] = found.get(use.node, 0) + use.pods
    return tuple(found.get(name, 0) for name in names)


@settings(max_examples=400, deadline=None)
@given(wants())
@example(([[4, 4], [4, 1]], Want(7, (3, 0), (0, 0))))
@example(([[[4], [4]], [[2], [3]]], Want(7, (4, 0, 2), (0, 0, 0))))
@example(([[3], [3], [3], [1]], Want(7, (0, 0), (0, 0), balanced=0)))
def test_places_as_brute_force_would(case: tuple[Tree, Want]) -> None:
    tree, want = case
    expected = best(tree, want)
    found = place(inventory(tree, want.depth), request(want), FLAVORS)
    if expected is None:
        assert isinstance(found, NoFit)
        return
    assert isinstance(found, Placement), (found, expected)
    pods = by_host(tree, found)
    assert sum(pods) == want.n
    assert holds(tree, pods, want)
    least, even = expected
    if want.balanced < 0:
        assert counts(tree, pods, want.depth) == least
    else:
        assert counts(tree, pods, want.balanced) == least[: want.balanced + 1]
        assert evenness(tree, pods, want.balanced) == even


@settings(max_examples=200, deadline=None)
@given(wants())
def test_the_shape_says_the_same_and_keeps_the_books(case: tuple[Tree, Want]) -> None:
    tree, want = case
    pool = inventory(tree, want.depth)
    before = encode(pool.shape())
    above = fit(pool.shape(), request(want), FLAVORS)
    below = place(pool, request(want), FLAVORS)
    assert isinstance(above, Fit) == isinstance(below, Placement)
    if isinstance(above, Fit) and isinstance(below, Placement):
        assert above.certain
        pool.take(below)
        assert encode(apply(inventory(tree, want.depth).shape(), above.decision)) == encode(pool.shape())
        pool.give(below)
        assert encode(pool.shape()) == before


@settings(max_examples=200, deadline=None)
@given(wants(), st.data())
def test_preferred_layers_are_given_up_from_the_coarsest_on(case: tuple[Tree, Want], data: st.DataObject) -> None:
    tree, want = case
    layers = [at for at, size in enumerate(want.sizes) if size]
    soft = tuple(at for at in layers if data.draw(st.booleans()))
    gone = [soft[:n] for n in range(len(soft) + 1)]
    sizes = [tuple(0 if at in without else size for at, size in enumerate(want.sizes)) for without in gone]
    fitting = [n for n, left in enumerate(sizes) if best(tree, replace(want, sizes=left)) is not None]
    pool = inventory(tree, want.depth)
    found = place(pool, request(want, soft=soft), FLAVORS)
    above = fit(pool.shape(), request(want, soft=soft), FLAVORS)
    assert isinstance(found, Placement) == isinstance(above, Fit) == bool(fitting)
    if isinstance(found, Placement) and isinstance(above, Fit):
        assert above.dropped == fitting[0]
        assert holds(tree, by_host(tree, found), replace(want, sizes=sizes[fitting[0]]))


@settings(max_examples=200, deadline=None)
@given(wants())
def test_counting_nodes_finds_what_the_shape_finds(case: tuple[Tree, Want]) -> None:
    """A pod that asks for more than its share of the cpu is counted node by node, and here never short of it."""
    tree, want = case
    by_shape = place(inventory(tree, want.depth), request(want), FLAVORS)
    counted = place(inventory(tree, want.depth), request(want, cpu=23_000), FLAVORS)
    assert isinstance(by_shape, Placement) == isinstance(counted, Placement)
    if isinstance(by_shape, Placement) and isinstance(counted, Placement):
        pods = by_host(tree, counted)
        assert holds(tree, pods, want)
        level = want.depth if want.balanced < 0 else want.balanced
        assert counts(tree, pods, level) == counts(tree, by_host(tree, by_shape), level)
        if want.balanced >= 0:
            assert evenness(tree, pods, level) == evenness(tree, by_host(tree, by_shape), level)


@settings(max_examples=200, deadline=None)
@given(wants())
def test_consecutive_ranks_fill_slices_inside_one_domain(case: tuple[Tree, Want]) -> None:
    tree, want = case
    found = place(inventory(tree, want.depth), request(want), FLAVORS)
    if not isinstance(found, Placement):
        return
    paths = [(*use.path, use.node) for use in found.sets[0].hosts for _ in range(use.pods)]
    for depth, size in enumerate(want.sizes):
        for first in range(0, want.n, size) if size else ():
            assert len({path[: depth + 1] for path in paths[first : first + size]}) == 1
