"""Random small trees and requests, as oracle trees and as shapes and inventories."""

from collections.abc import Callable

from hypothesis import strategies as st

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Slice, Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector
from tests.property.shape_oracle import Ask, Tree

H100 = FlavorName("h100")
LEVELS = (Level("t/zone", "zone"), Level("t/block", "block"), Level("t/rack", "rack"))
HOST = {NVIDIA_GPU: 8, "cpu": 192_000, "memory": 2 << 40, "pods": 110}
POD = Resources({NVIDIA_GPU: 1, "cpu": 1_000, "pods": 1})


def levels_of(depth: int) -> tuple[Level, ...]:
    """The finest `depth` of three levels."""
    return LEVELS[len(LEVELS) - depth :]


def trees(depth: int, kids: int, hosts: int, free: st.SearchStrategy[int]) -> st.SearchStrategy[Tree]:
    """Trees with `depth` levels of domains, ragged."""
    tree: st.SearchStrategy[Tree] = st.lists(free, min_size=1, max_size=hosts)
    for _ in range(depth):
        tree = st.lists(tree, min_size=1, max_size=kids)
    return tree


@st.composite
def cases(draw: st.DrawFn, pods_max: int = 14) -> tuple[Tree, Ask, str]:
    """(tree, what is asked, required level or "")."""
    depth = draw(st.integers(1, 3))
    free = draw(st.sampled_from([st.integers(0, 8), st.sampled_from([0, 8]), st.sampled_from([0, 1, 3, 4, 8])]))
    tree = draw(trees(depth, 3, 4 if depth < 3 else 3, free))
    sizes = [0] * (depth + 1)
    size = 1
    for at in sorted(draw(st.lists(st.integers(0, depth), max_size=3, unique=True)), reverse=True):
        size *= draw(st.integers(1, 3))
        sizes[at] = size
    n = size * draw(st.integers(1, max(1, pods_max // size)))
    exclusive = draw(st.sampled_from([-1, -1, -1, *[at for at, s in enumerate(sizes) if s]]))
    ask = Ask(n, draw(st.sampled_from([1, 2, 3, 4, 8])), tuple(sizes), exclusive)
    required = draw(st.sampled_from(["", "", *[level.alias for level in levels_of(depth)]]))
    return tree, ask, required


def request(ask: Ask, required: str = "", preferred: str = "") -> GangRequest:
    """The oracle's ask as a request."""
    names = [level.alias for level in levels_of(ask.depth)] + ["host"]
    slices = tuple(Slice(s, names[at], at == ask.exclusive) for at, s in enumerate(ask.sizes) if s)
    pod = Resources({NVIDIA_GPU: ask.g, "cpu": 1_000 * ask.g})
    topology = Topology(required, preferred, slices)
    return GangRequest((SetRequest(ask.n, ask.n, pod, (H100,), Selector(), (), topology),))


def walk(tree: Tree, visit: Callable[[tuple[int, ...], int], None], path: tuple[int, ...] = ()) -> None:
    """Calls `visit(path, free)` for every host."""
    for i, part in enumerate(tree):
        if isinstance(part, int):
            visit((*path, i), part)
        else:
            walk(part, visit, (*path, i))


def node_name(path: tuple[int, ...]) -> NodeName:
    """The name of the host at a path of positions."""
    return NodeName("n-" + "-".join(map(str, path)))


def inventory(tree: Tree, depth: int, resources: dict[str, int] | None = None) -> Inventory:
    """An inventory in which so many GPUs are free on each host, the others taken by pods of ours."""
    levels = levels_of(depth)
    out = Inventory([Flavor(H100, 0)], [levels])

    def add(path: tuple[int, ...], free: int) -> None:
        name = node_name(path)
        labels = {level.key: f"d{at}" for level, at in zip(levels, path[:-1], strict=True)}
        out.set_node(NodeFacts(name, labels, (), Resources(resources or HOST)))
        if free < 8:
            out.hold(name, {POD: 8 - free})

    walk(tree, add)
    return out
