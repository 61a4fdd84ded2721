"""Small pools and gangs for tests: `pool({"b1/r1/x3": 2})` has a host x3 with two GPUs in rack r1 of block b1."""

from collections.abc import Mapping

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Slice, Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector, Taint, Toleration
from hanse.shape import NoFit

H100 = FlavorName("h100")
REST = {"cpu": 192_000, "memory": 2 << 40, "pods": 110}
BLOCK_RACK = (Level("example.com/block", "block"), Level("example.com/rack", "rack"))


def facts(
    path: str,
    gpus: int = 8,
    levels: tuple[Level, ...] = BLOCK_RACK,
    *,
    labels: Mapping[str, str] | None = None,
    rest: Mapping[str, int] | None = None,
    taints: tuple[Taint, ...] = (),
    ready: bool = True,
    cordoned: bool = False,
) -> NodeFacts:
    """A node named by the whole path, so that names are unique."""
    *domains, _ = path.split("/")
    own = {level.key: name for level, name in zip(levels, domains, strict=True)}
    amounts = Resources({**(REST if rest is None else rest), NVIDIA_GPU: gpus})
    name = NodeName(path.replace("/", "-"))
    return NodeFacts(name, {**own, **(labels or {})}, taints, amounts, ready, cordoned)


def pool(hosts: Mapping[str, int], levels: tuple[Level, ...] = BLOCK_RACK) -> Inventory:
    """Hosts with so many GPUs, all free."""
    return Inventory([Flavor(H100, 0)], [levels], [facts(path, gpus, levels) for path, gpus in hosts.items()])


def pods(
    count: int,
    gpus: int = 1,
    *,
    required: str = "",
    preferred: str = "",
    slices: tuple[Slice, ...] = (),
    selector: Selector = Selector(),  # noqa: B008 - frozen
    tolerations: tuple[Toleration, ...] = (),
    cpu: int = 0,
    flavor: FlavorName = H100,
) -> SetRequest:
    """One pod set."""
    amounts = Resources({NVIDIA_GPU: gpus, "cpu": cpu})
    topology = Topology(required, preferred, slices)
    return SetRequest(count, count, amounts, (flavor,), selector, tolerations, topology)


def gang(*sets: SetRequest) -> GangRequest:
    """A gang of these sets."""
    return GangRequest(sets)


def placed(inventory: Inventory, *sets: SetRequest) -> list[dict[str, int]]:
    """Pods by node for each set; fails the test if the gang finds no place."""
    result = place(inventory, gang(*sets), tuple(s.flavors[0] for s in sets))
    assert isinstance(result, Placement), result
    out: list[dict[str, int]] = []
    for s in result.sets:
        counts: dict[str, int] = {}
        for use in s.hosts:
            counts[use.node] = counts.get(use.node, 0) + use.pods
        out.append(counts)
    return out


def refused(inventory: Inventory, *sets: SetRequest) -> NoFit:
    """Why the gang finds no place; fails the test if it does."""
    result = place(inventory, gang(*sets), tuple(s.flavors[0] for s in sets))
    assert isinstance(result, NoFit), result
    return result


def hold(inventory: Inventory, *sets: SetRequest) -> Placement:
    """Places and takes."""
    result = place(inventory, gang(*sets), tuple(s.flavors[0] for s in sets))
    assert isinstance(result, Placement), result
    inventory.take(result)
    return result
