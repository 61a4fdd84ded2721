"""Devices of one group: PCIe roots and NUMA nodes, counted from what a node tells and from the pods that are held."""

from dataclasses import replace

import pytest

from hanse.agent.core.explain import explain_nodes
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.groups import Room, rooms, shared_out
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.devices import DeviceGroup
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Devices, Topology
from hanse.model.queue import Flavor
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector
from hanse.shape import Fit, NoFit, fit

H100 = FlavorName("h100")
HOST = Resources({NVIDIA_GPU: 8, "cpu": 192_000, "memory": 2 << 40, "pods": 110})
ROOTS = (
    DeviceGroup("0", "pci0000:00", 2, 1),
    DeviceGroup("0", "pci0000:40", 2),
    DeviceGroup("1", "pci0000:80", 2, 1),
    DeviceGroup("1", "pci0000:c0", 2),
)
PCIE, NUMA, PCIE_NIC = Devices("pcie"), Devices("numa"), Devices("pcie", nic=True)


def pool(*devices: tuple[DeviceGroup, ...]) -> Inventory:
    """Hosts n0, n1, … of one rack, with these groups."""
    facts = [NodeFacts(NodeName(f"n{i}"), {}, (), HOST, devices=own) for i, own in enumerate(devices)]
    return Inventory([Flavor(H100, 0)], nodes=facts)


def gang(pods: int, gpus: int, wish: Devices | None) -> GangRequest:
    uses = Resources({NVIDIA_GPU: gpus, "cpu": 1_000})
    return GangRequest((SetRequest(pods, pods, uses, (H100,), Selector(), (), Topology(devices=wish)),))


def placed(inventory: Inventory, pods: int, gpus: int, wish: Devices | None) -> Placement:
    found = place(inventory, gang(pods, gpus, wish), (H100,))
    assert isinstance(found, Placement), found
    return found


def room(inventory: Inventory, wish: Devices, name: str = "n0") -> list[int]:
    node = inventory.node(NodeName(name))
    assert node is not None
    return [own.gpus for own in node.group_rooms(wish)]


@pytest.mark.parametrize(
    ("wish", "held", "others", "left"),
    [
        (PCIE, {}, 0, [2, 2, 2, 2]),
        (PCIE_NIC, {}, 0, [2, 2]),
        (NUMA, {}, 0, [4, 4]),
        (PCIE, {2_001: 1}, 0, [2, 1, 2, 2]),
        (NUMA, {2_001: 1}, 0, [3, 4]),
        (PCIE, {1_001: 1}, 0, [2, 2, 1, 1]),
        (PCIE, {}, 1, [1, 1, 1, 1]),
        (NUMA, {1_000: 2}, 3, [0, 1]),
    ],
)
def test_what_is_left_wherever_the_others_are(
    wish: Devices, held: dict[int, int], others: int, left: list[int]
) -> None:
    assert [own.gpus for own in rooms(ROOTS, wish, held, others)] == left


def test_pods_go_to_the_tightest_group_that_holds_them() -> None:
    assert shared_out([Room(1, 4), Room(2, 3), Room(3, 1)], 2, 4) == [2, 1, 1, -1]


def test_groups_are_charged_and_given_back() -> None:
    inventory = pool(ROOTS)
    held = placed(inventory, 3, 2, PCIE)
    assert held.sets[0].devices == (2_001, 2_003, 2_000), "those without a nic go first"
    inventory.take(held)
    assert room(inventory, PCIE) == [0, 0, 2, 0]
    assert room(inventory, NUMA) == [0, 2]
    inventory.give(held)
    assert room(inventory, PCIE) == [2, 2, 2, 2]
    assert inventory.faults() == ()


def test_a_pod_without_a_wish_counts_against_every_group() -> None:
    inventory = pool(ROOTS, ROOTS)
    inventory.hold(NodeName("n0"), {Resources({NVIDIA_GPU: 1, "pods": 1}): 1})
    inventory.set_foreign(NodeName("n1"), Resources({NVIDIA_GPU: 2}))
    assert room(inventory, PCIE) == [1, 1, 1, 1]
    assert room(inventory, PCIE, "n1") == [0, 0, 0, 0]
    assert placed(inventory, 2, 1, PCIE).nodes == ("n0",)


def test_a_broken_device_may_be_any() -> None:
    inventory = pool(ROOTS)
    facts = NodeFacts(NodeName("n0"), {}, (), Resources({**HOST, NVIDIA_GPU: 7}), devices=ROOTS)
    inventory.set_node(facts)
    assert room(inventory, NUMA) == [3, 3]


def test_only_hosts_that_tell_their_groups_are_used() -> None:
    inventory = pool((), ROOTS)
    assert placed(inventory, 4, 2, PCIE).nodes == ("n1",)
    found = place(inventory, gang(5, 2, PCIE), (H100,))
    assert isinstance(found, NoFit)
    assert found.reason is Reason.SHAPE
    assert "in one pcie group" in found.detail


@pytest.mark.parametrize(
    ("devices", "gpus", "wish", "told"),
    [
        ((), 2, PCIE, "no host of flavor h100 says which of its GPUs share a pcie group"),
        ((DeviceGroup("0", "", 8),), 2, PCIE, "no host of flavor h100 says which of its GPUs share a pcie group"),
        (ROOTS, 4, PCIE, "no host of flavor h100 has 4 GPUs in one pcie group"),
        (ROOTS[1:2], 2, PCIE_NIC, "no host of flavor h100 has 2 GPUs in one pcie group with a nic"),
    ],
)
def test_what_no_host_could_ever_do_is_said_by_name(
    devices: tuple[DeviceGroup, ...], gpus: int, wish: Devices, told: str
) -> None:
    found = place(pool(devices), gang(1, gpus, wish), (H100,))
    assert isinstance(found, NoFit)
    assert (found.reason, found.detail) == (Reason.RESOURCES, told)


def test_the_shape_says_yes_for_what_only_the_agent_knows_and_counts_the_same_gpus() -> None:
    inventory = pool((), ROOTS)
    above = fit(inventory.shape(), gang(2, 4, PCIE), (H100,))
    assert isinstance(above, Fit)
    assert not above.certain
    assert isinstance(place(inventory, gang(2, 4, PCIE), (H100,)), NoFit)


def test_the_nearest_miss_names_what_is_missing() -> None:
    inventory = pool((), ROOTS)
    inventory.hold(NodeName("n1"), {Resources({NVIDIA_GPU: 1, "pods": 1}): 1})
    text = explain_nodes(inventory, gang(1, 2, PCIE), (H100,)).text
    assert "1 has no pcie group with 2 GPUs left for certain" in text


def test_sets_of_one_gang_share_a_host_and_no_group() -> None:
    inventory = pool(ROOTS)
    sets = (*gang(1, 2, PCIE_NIC).sets, *gang(3, 2, PCIE).sets)
    found = place(inventory, GangRequest(sets), (H100, H100))
    assert isinstance(found, Placement)
    assert sorted(own for s in found.sets for own in s.devices) == [2_000, 2_001, 2_002, 2_003]
    assert found.sets[0].devices[0] in (2_000, 2_002)


def test_two_pods_that_look_the_same_are_told_apart_by_their_group() -> None:
    inventory = pool(ROOTS)
    first, second = placed(inventory, 1, 2, NUMA), placed(inventory, 1, 2, NUMA)
    inventory.take(first)
    other = replace(second, sets=(replace(second.sets[0], devices=(1_001,)),))
    inventory.take(other)
    assert room(inventory, NUMA) == [2, 2]
    inventory.give(first)
    assert room(inventory, NUMA) == [4, 2]
