"""Shares of a GPU: one device each, given back exactly, the same after a restart."""

from random import Random

import pytest

from hanse.agent.core.devices import UNKNOWN, OnDevice, chosen, tightest, with_left
from hanse.agent.core.explain import explain_nodes
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.ledger import NodeLedger, Placed, Unplaced
from hanse.agent.core.payload import Payload, decode_payload, encode_payload
from hanse.agent.core.placement import Placement, place
from hanse.model.desired import BoundSet
from hanse.model.fence import GangKey
from hanse.model.ids import NodeName
from hanse.model.job import Topology
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import DEVICE_MILLI, GPU_MILLI, NVIDIA_GPU, Resources
from hanse.model.selectors import Selector
from hanse.shape import Fit, NoFit, encode, fit
from tests.unit.agent_core.pools import H100, REST, facts, gang, hold, pods, pool, refused
from tests.unit.agent_core.stage import key

MIG = "nvidia.com/mig-1g.5gb"


def shares(count: int, milli: int, **beside: int) -> SetRequest:
    pod = Resources({GPU_MILLI: milli, **beside})
    return SetRequest(count, count, pod, (H100,), Selector(), (), Topology())


def sharing(path: str, gpus: int = 2, **beside: int) -> NodeFacts:
    return facts(path, gpus, rest={**REST, GPU_MILLI: gpus * DEVICE_MILLI, **beside})


def hosts(*gpus: int) -> Inventory:
    inventory = pool({})
    for i, n in enumerate(gpus):
        inventory.set_node(sharing(f"b/r/x{i}", n))
    return inventory


def left(inventory: Inventory, name: str) -> list[int]:
    node = inventory.node(NodeName(name))
    assert node is not None
    return node.device_room()


def test_a_share_needs_one_device_that_has_so_much_left() -> None:
    inventory = hosts(2)
    for milli in (800, 800):
        hold(inventory, shares(1, milli))
    assert left(inventory, "b-r-x0") == [200, 200]
    assert refused(inventory, shares(1, 300)).found == 0
    assert hold(inventory, shares(1, 200)).nodes == ("b-r-x0",)
    assert left(inventory, "b-r-x0") == [200]


def test_a_shared_device_is_no_whole_one() -> None:
    inventory = hosts(2)
    given = hold(inventory, shares(1, 300))
    assert inventory.shape().free_gpus() == 1
    assert inventory.figures() == (1, 2, 1)
    for cpu in (1_000, 190_000):  # one within its share of the host, one beyond it
        assert refused(inventory, pods(1, 2, cpu=cpu)).wanted == 1
        inventory.give(hold(inventory, pods(1, 1, cpu=cpu)))
    inventory.give(given)
    assert inventory.shape().free_gpus() == 2
    hold(inventory, pods(1, 2, cpu=190_000))


def test_whole_pods_leave_no_device_to_share() -> None:
    inventory = hosts(2)
    hold(inventory, pods(1, 1))
    assert [hold(inventory, shares(1, 600)).sets[0].devices for _ in range(1)] == [(0,)]
    assert refused(inventory, shares(1, 600)).found == 0


def test_pods_of_one_gang_share_devices_or_open_new_ones() -> None:
    inventory = hosts(4)
    (s,) = hold(inventory, shares(5, 400)).sets
    assert sorted(s.devices) == [0, 0, 1, 1, 2]
    assert refused(inventory, shares(4, 400)).found == 3
    assert left(inventory, "b-r-x0") == [200, 200, 600, 1000]


def test_a_gang_of_shares_may_span_hosts() -> None:
    inventory = hosts(2, 2)
    hold(inventory, shares(1, 500))
    placement = hold(inventory, shares(6, 400))
    assert inventory.shape().free_gpus() == 0
    inventory.give(placement)
    assert inventory.shape().free_gpus() == 3


def test_hosts_whose_kubelet_shares_no_device_take_no_shares() -> None:
    inventory = pool({"b/r/x": 8})
    no = place(inventory, gang(shares(1, 300)), (H100,))
    assert isinstance(no, NoFit)
    assert no.reason.name == "RESOURCES"


def test_foreign_shares_close_at_least_the_devices_of_their_sum() -> None:
    inventory = hosts(4)
    inventory.set_foreign(NodeName("b-r-x0"), Resources({GPU_MILLI: 1_100}))
    assert inventory.shape().free_gpus() == 2
    assert refused(inventory, shares(3, 1_000)).found == 2


def test_cut_and_sliced_devices_are_resources_of_their_own() -> None:
    inventory = pool({})
    inventory.set_node(sharing("b/r/x", 2, **{MIG: 3, "nvidia.com/gpu.shared": 1}))
    for name, count in ((MIG, 3), ("nvidia.com/gpu.shared", 1)):
        asked = SetRequest(count, count, Resources({name: 1}), (H100,), Selector(), (), Topology())
        hold(inventory, asked)
        assert refused(inventory, asked).wanted == count


def test_above_a_share_is_a_yes_that_is_not_certain() -> None:
    inventory = hosts(2)
    asked = gang(shares(1, 600))
    for _ in range(2):
        above = fit(inventory.shape(), asked, (H100,))
        assert isinstance(above, Fit)
        assert not above.certain
        hold(inventory, shares(1, 600))
    assert isinstance(fit(inventory.shape(), asked, (H100,)), Fit)  # what opened devices have left is not in a shape
    assert isinstance(place(inventory, asked, (H100,)), NoFit)
    assert isinstance(fit(inventory.shape(), gang(shares(5, 600)), (H100,)), NoFit)


def test_uses_of_two_devices_are_two_things() -> None:
    pod = Resources({GPU_MILLI: 300})
    assert OnDevice(pod, 1) != OnDevice(pod, 2)
    assert OnDevice(pod, 1) != pod
    assert pod != OnDevice(pod, 1)
    assert {OnDevice(pod, 1): 1, pod: 2}[OnDevice(pod, 1)] == 1


@pytest.mark.parametrize(
    ("used", "milli", "device"),
    [({}, 300, 0), ({0: 800}, 300, 1), ({1: 500, 2: 600}, 300, 2), ({1: 500}, 700, 0), ({0: 500, 1: 500}, 500, 0)],
)
def test_the_tightest_device_is_taken(used: dict[int, int], milli: int, device: int) -> None:
    assert tightest(used, milli) == device


def test_a_device_is_found_by_what_it_has_left() -> None:
    assert with_left({0: 300, 2: 700, 3: 700}, 300) == 2
    assert with_left({0: 300}, DEVICE_MILLI) == 1


def test_devices_that_a_record_does_not_know_are_chosen_beside_those_it_knows() -> None:
    assert chosen({}, 600, [0, UNKNOWN, 1, UNKNOWN]) == [0, 2, 1, 3]


def _place(ledger: NodeLedger, name: GangKey, *sets: SetRequest) -> Placed | Unplaced:
    bound = tuple(BoundSet(f"s{i}", s.count, 0, H100) for i, s in enumerate(sets))
    return ledger.place(name, GangRequest(sets), bound)


def overfull(ledger: NodeLedger) -> list[str]:
    """Nodes on which a device holds more than it has, or whole pods and shared devices are more than there are."""
    out: list[str] = []
    for node in ledger.inventory:
        whole = sum(pod.uses[NVIDIA_GPU] * n for pod, n in node.own.items())
        devices = node.shared()
        if max(devices.values(), default=0) > DEVICE_MILLI or whole + len(devices) > node.offered_gpus:
            out.append(node.name)
    return out


@pytest.mark.parametrize("known", [True, False])
def test_a_ledger_rebuilt_from_records_has_the_same_devices_and_never_an_overfull_one(known: bool) -> None:
    rng = Random(7)
    ledger = NodeLedger(hosts(4, 4, 2, 8))
    held: dict[GangKey, Placed] = {}
    for step in range(250):
        name = key(f"j{step}")
        match rng.randrange(4):
            case 0 | 1:
                sets = [shares(rng.randint(1, 3), rng.choice((110, 300, 470, 650, 810, 1000)))]
                if rng.random() < 0.3:
                    sets.append(pods(1, rng.randint(1, 2)))
                if isinstance(placed := _place(ledger, name, *sets), Placed):
                    held[name] = placed
            case _ if held:
                name = rng.choice(list(held))
                ledger.give(name)
                del held[name]
        again = NodeLedger(hosts(4, 4, 2, 8))
        for name, placed in held.items():
            kept = decode_payload(encode_payload(Payload(False, 0, placed.reserved, placed.devices)))
            again.take(name, placed.sets, kept.reserved, kept.devices if known else ())
        assert not overfull(ledger)
        if known:
            assert not overfull(again)
            assert [n.shared() for n in again.inventory] == [n.shared() for n in ledger.inventory]
            assert encode(again.inventory.shape()) == encode(ledger.inventory.shape())
        assert all(max(n.shared().values(), default=0) <= DEVICE_MILLI for n in again.inventory)
        for name in held:
            again.give(name)
        assert encode(again.inventory.shape()) == encode(hosts(4, 4, 2, 8).shape())


def test_shares_on_a_node_that_is_gone_come_back_with_it() -> None:
    inventory = hosts(2)
    placement = hold(inventory, shares(2, 600))
    inventory.remove_node(NodeName("b-r-x0"))
    inventory.set_node(sharing("b/r/x0"))
    assert left(inventory, "b-r-x0") == [400, 400]
    inventory.give(placement)
    assert left(inventory, "b-r-x0") == [1000, 1000]


def test_the_same_inventory_under_other_flavors_has_the_same_devices() -> None:
    inventory = hosts(4)
    hold(inventory, shares(3, 600))
    other = inventory.rebuilt(inventory.flavors, inventory.trees)
    assert [n.shared() for n in other] == [n.shared() for n in inventory]
    assert isinstance(place(other, gang(shares(1, 400)), (H100,)), Placement)


def test_what_fits_below_is_never_refused_above() -> None:
    rng = Random(13)
    inventory = hosts(4, 2, 8)
    held: list[Placement] = []
    fitted = 0
    for _ in range(200):
        s = shares(rng.randint(1, 4), rng.choice((110, 300, 470, 650, 810, 1000)), cpu=rng.choice((0, 9_000, 60_000)))
        below = place(inventory, gang(s), (H100,))
        if isinstance(below, Placement):
            assert isinstance(fit(inventory.shape(), gang(s), (H100,)), Fit)
            inventory.take(below)
            held.append(below)
            fitted += 1
        elif held:
            inventory.give(held.pop(rng.randrange(len(held))))
    assert 20 < fitted < 200


def test_the_nearest_miss_of_a_share_is_told_in_thousandths() -> None:
    inventory = hosts(2, 2)
    for milli in (700, 700, 800, 800):
        hold(inventory, shares(1, milli))
    told = explain_nodes(inventory, gang(shares(1, 400)), (H100,)).text
    assert told.endswith(
        "1 has a device with 200 of 400 thousandths left at the most, 1 has a device with 300 of 400"
        " thousandths left at the most"
    )


def test_an_agent_that_restarts_knows_what_is_asked_for_from_what_runs() -> None:
    ledger, again = NodeLedger(hosts(8)), NodeLedger(hosts(8))
    placed = _place(ledger, key(), shares(3, 300))
    assert isinstance(placed, Placed)
    again.take(key(), placed.sets, placed.reserved, placed.devices)
    for each in (ledger, again):
        assert [t.milli for t in each.inventory.demand.typical() if t.ask is not None] == [300]
