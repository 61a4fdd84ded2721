"""What becomes of the GPUs of each rack: every one counts once."""

from dataclasses import replace

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import place
from hanse.agent.core.places import Placement
from hanse.agent.core.racks import racks
from hanse.model.detail import RackUse
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Operator, Requirement, Selector

GPU = "nvidia.com/gpu"
H100 = FlavorName("h100")
RACK = Level("topology/rack", "rack")
HOST = Resources({GPU: 8, "cpu": 64_000, "memory": 2**40, "pods": 110})


def facts(rack: int, host: int) -> NodeFacts:
    return NodeFacts(NodeName(f"n{rack}{host}"), {"gpu": "h100", RACK.key: f"r{rack}"}, (), HOST)


def inventory() -> Inventory:
    """Two racks of two hosts with 8 GPUs each."""
    found = Inventory([Flavor(H100, 0, (Requirement("gpu", Operator.IN, ("h100",)),))], [(RACK,)])
    for rack in (0, 1):
        for host in (0, 1):
            found.set_node(facts(rack, host), Resources())
    return found


def taken(found: Inventory, pods: int, gpus: int) -> Placement:
    one = SetRequest(pods, pods, Resources({GPU: gpus}), (H100,), Selector(), (), Topology(required="rack"))
    result = place(found, GangRequest((one,)), (H100,))
    assert isinstance(result, Placement)
    found.take(result)
    return result


def sums(found: tuple[RackUse, ...]) -> RackUse:
    """All racks as one."""
    total = {name: sum(getattr(one, name) for one in found) for name in RackUse.__slots__ if name != "path"}
    return RackUse((), **total)


def test_racks_of_an_empty_pool_are_free_and_whole() -> None:
    assert racks(inventory(), (), ()) == (
        RackUse(("r0",), 2, whole_hosts=2, gpus=16, free_gpus=16),
        RackUse(("r1",), 2, whole_hosts=2, gpus=16, free_gpus=16),
    )


def test_what_runs_is_busy_and_is_told_from_what_is_held_and_what_ends() -> None:
    found = inventory()
    taken(found, 1, 8)
    held, ending = taken(found, 1, 4), taken(found, 1, 2)
    total = sums(racks(found, [held], [ending]))
    assert (total.gpus, total.free_gpus, total.held_gpus, total.releasing_gpus) == (32, 18, 4, 2)
    assert total.gpus - total.free_gpus - total.held_gpus - total.releasing_gpus - total.broken_gpus == 8
    assert total.whole_hosts == 2


def test_a_host_that_takes_no_pods_is_broken_with_all_that_it_had() -> None:
    found = inventory()
    held = taken(found, 2, 8)
    [name, _] = held.nodes
    node = found.node(name)
    assert node is not None
    found.set_node(replace(node.facts, ready=False), None)
    total = sums(racks(found, [held], ()))
    assert (total.broken_hosts, total.broken_gpus, total.held_gpus, total.free_gpus) == (1, 8, 8, 16)
    assert total.gpus == 32
