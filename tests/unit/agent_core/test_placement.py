"""What the objective does not say: several sets, small work, ranks, exclusive domains, refusals in names."""

from hanse.agent.core.explain import explain_nodes
from hanse.agent.core.placement import place
from hanse.agent.core.places import Placement
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Slice
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.reasons import Reason
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Operator, Requirement, Selector
from hanse.shape import Fit, encode, fit
from tests.unit.agent_core.pools import H100, REST, facts, gang, hold, placed, pods, pool, refused

GPU = Resources({NVIDIA_GPU: 1, "pods": 1})


def racks(found: dict[str, int]) -> set[str]:
    return {node.rsplit("-", 1)[0] for node in found}


def test_i1_consecutive_ranks_go_to_consecutive_domains() -> None:
    inventory = pool({f"b1/r{r}/x{x}": 1 for r in range(3) for x in range(4)})
    placement = hold(inventory, pods(10))
    (s,) = placement.sets
    assert [node.rsplit("-", 1)[0] for node in s.nodes] == sorted(node.rsplit("-", 1)[0] for node in s.nodes)
    assert [use.first_rank for use in s.hosts] == list(range(10))
    assert list(s.nodes) == sorted(s.nodes)


def test_i5_ranks_follow_blocks_not_host_names() -> None:
    inventory = pool({"b1/r1/z": 8, "b2/r1/a": 8, "b1/r2/m": 8})
    (s,) = hold(inventory, pods(3, 8)).sets
    assert list(s.nodes) == ["b1-r1-z", "b1-r2-m", "b2-r1-a"]


def test_slices_are_consecutive_ranks_in_one_domain() -> None:
    inventory = pool({f"b1/r{r}/x{x}": 8 for r in range(4) for x in range(3)})
    (s,) = hold(inventory, pods(8, 8, slices=(Slice(2, "rack"),))).sets
    assert all(len({n.rsplit("-", 1)[0] for n in s.nodes[i : i + 2]}) == 1 for i in range(0, 8, 2))


def test_c10_a_broken_rack_is_taken_before_a_whole_one() -> None:
    inventory = pool({f"b1/r{r}/x{x}": 8 for r in range(2) for x in range(4)})
    inventory.hold(NodeName("b1-r1-x0"), {GPU: 8})
    inventory.hold(NodeName("b1-r1-x1"), {GPU: 8})
    assert racks(placed(inventory, pods(2, 8, required="rack"))[0]) == {"b1-r1"}


def test_h12_a_single_pod_fills_a_broken_host_in_a_broken_rack() -> None:
    inventory = pool({f"b1/r{r}/x{x}": 8 for r in range(3) for x in range(3)})
    inventory.hold(NodeName("b1-r1-x1"), {GPU: 2})
    inventory.hold(NodeName("b1-r2-x2"), {GPU: 5})
    assert placed(inventory, pods(1)) == [{"b1-r2-x2": 1}]
    assert placed(inventory, pods(1, 4)) == [{"b1-r1-x1": 1}]
    assert racks(placed(inventory, pods(1, 8))[0]) <= {"b1-r1", "b1-r2"}


def test_h11_pods_without_gpus_break_up_no_domain_that_is_whole() -> None:
    nvlink = (Level("nvidia.com/gpu.clique", "nvlink"),)
    inventory = pool({f"c{c:02}/n{n:02}": 4 for c in range(12) for n in range(18)}, nvlink)
    for n in range(9):
        inventory.hold(NodeName(f"c03-n{n:02}"), {GPU: 4})
    (found,) = placed(inventory, pods(64, 0, cpu=24_000))
    assert racks(found) == {"c03"}
    (one,) = placed(inventory, pods(1, 0, cpu=1_000))
    assert racks(one) == {"c03"}


def test_pods_without_gpus_prefer_hosts_without() -> None:
    inventory = pool({"b1/r1/x": 8})
    inventory.set_node(facts("b1/r2/y", 0))
    assert placed(inventory, pods(3, 0, cpu=1_000)) == [{"b1-r2-y": 3}]


def test_sets_of_a_gang_go_to_one_domain_if_they_can() -> None:
    inventory = pool({f"b{b}/r{r}/x{x}": 8 for b in range(2) for r in range(2) for x in range(4)})
    inventory.hold(NodeName("b0-r0-x0"), {GPU: 4})
    leader, workers = placed(inventory, pods(1, 0, cpu=1_000), pods(4, 8))
    assert racks(leader) == racks(workers)
    leader, workers = placed(inventory, pods(1, 2), pods(3, 8))
    assert racks(leader) == racks(workers) == {"b0-r0"}


def test_b6_every_set_has_its_own_selector() -> None:
    inventory = pool({})
    for zone in "ab":
        for i in range(3):
            inventory.set_node(facts(f"{zone}/r/x{i}", labels={"zone": zone}))
    only_a = pods(1, 8, selector=_in("zone", "a"))
    workers = pods(3, 8, required="block")
    leader, rest = placed(inventory, only_a, workers)
    assert racks(leader) == {"a-r"}
    assert racks(rest) == {"b-r"}


def _in(key: str, value: str) -> Selector:
    return Selector(((Requirement(key, Operator.IN, (value,)),),))


def test_d7_an_empty_set_needs_no_place() -> None:
    inventory = pool({"b1/r1/x": 8})
    placement = place(inventory, gang(pods(0, 8), pods(1, 8)), (H100, H100))
    assert isinstance(placement, Placement)
    assert [s.set_index for s in placement.sets] == [1]


def test_two_flavors_in_one_gang() -> None:
    cpu = FlavorName("cpu")
    is_cpu = Requirement("kind", Operator.IN, ("cpu",))
    inventory = pool({"b1/r1/x": 8, "b1/r1/y": 8}).rebuilt([Flavor(cpu, 0, (is_cpu,)), Flavor(H100, 1)], [_LEVELS])
    inventory.set_node(facts("b1/r1/z", 0, labels={"kind": "cpu"}))
    head, workers = placed(inventory, pods(1, 0, cpu=1_000, flavor=cpu), pods(2, 8))
    assert head == {"b1-r1-z": 1}
    assert set(workers) == {"b1-r1-x", "b1-r1-y"}


_LEVELS = (Level("example.com/block", "block"), Level("example.com/rack", "rack"))


def test_an_exclusive_domain_must_be_whole_and_is_closed_to_others() -> None:
    inventory = pool({f"b1/r{r}/x{x}": 8 for r in range(3) for x in range(4)})
    inventory.hold(NodeName("b1-r0-x0"), {GPU: 1})
    alone = pods(2, 8, slices=(Slice(2, "rack", True),))
    held = hold(inventory, alone)
    (used,) = racks(dict.fromkeys(held.nodes, 1))
    assert used in {"b1-r1", "b1-r2"}
    assert inventory.shape().free_gpus() == 12 * 8 - 1 - 4 * 8
    assert encode(inventory.shape()) == encode(inventory.rebuilt(inventory.flavors, inventory.trees).shape())
    hold(inventory, alone)
    assert refused(inventory, alone).found == 0
    inventory.give(held)
    assert racks(dict.fromkeys(hold(inventory, alone).nodes, 1)) == {used}


def test_whole_hosts_alone_when_the_host_is_exclusive() -> None:
    inventory = pool({"b1/r1/x": 8, "b1/r1/y": 8})
    inventory.hold(NodeName("b1-r1-x"), {GPU: 1})
    held = hold(inventory, pods(1, 2, slices=(Slice(1, "host", True),)))
    assert held.nodes == ("b1-r1-y",)
    assert inventory.shape().free_gpus() == 7


def test_b15_the_sum_never_decides() -> None:
    inventory = pool({f"b1/r1/x{x}": 1 for x in range(10)})
    assert refused(inventory, pods(1, 8)).reason is Reason.RESOURCES
    inventory = pool({f"b1/r1/x{x}": 8 for x in range(10)})
    for x in range(10):
        inventory.hold(NodeName(f"b1-r1-x{x}"), {GPU: 7})
    no = refused(inventory, pods(1, 8))
    assert (no.reason, no.wanted, no.found) == (Reason.SHAPE, 1, 0)


def test_every_resource_is_checked() -> None:
    inventory = pool({})
    inventory.set_node(facts("b1/r1/x", rest={**REST, "rdma/hca": 1}))
    fits = pods(1, 8)
    with_hca = type(fits)(**{f: getattr(fits, f) for f in fits.__slots__} | {"resources": fits.resources.plus(_HCA)})
    hold(inventory, with_hca)
    assert refused(pool({"b1/r1/x": 8}), with_hca).reason is Reason.RESOURCES


_HCA = Resources({"rdma/hca": 1})


def test_pods_beyond_the_share_are_counted_on_the_nodes() -> None:
    inventory = pool({f"b1/r1/x{x}": 8 for x in range(2)})
    greedy = pods(4, 1, cpu=90_000)
    above = fit(inventory.shape(), gang(greedy), (H100,))
    assert isinstance(above, Fit)
    assert not above.certain
    assert placed(inventory, greedy) == [{"b1-r1-x0": 2, "b1-r1-x1": 2}]
    hold(inventory, greedy)
    assert refused(inventory, pods(1, 1, cpu=90_000)).reason is Reason.SHAPE


def test_the_nearest_miss_is_told_in_names() -> None:
    inventory = pool({f"b1/r{r}/x{x:02}": 8 for r in range(2) for x in range(16)})
    for x in range(4):
        inventory.hold(NodeName(f"b1-r0-x{x:02}"), {GPU: 8})
    inventory.set_node(facts("b1/r1/x00", cordoned=True))
    inventory.hold(NodeName("b1-r1-x01"), {GPU: 2})
    told = explain_nodes(inventory, gang(pods(16, 8, required="rack")), (H100,))
    assert told.text == "rack b1/r1 holds 14 of 16 hosts: 1 cordoned, 1 has 6 of 8 GPUs"
    assert explain_nodes(inventory, gang(pods(2, 8)), (H100,)).fits
    huge = explain_nodes(inventory, gang(pods(17, 8, required="rack")), (H100,))
    assert huge.text == "rack b1/r1 holds 14 of 17 hosts, and 16 when it is empty"
    never = explain_nodes(inventory, gang(pods(1, 9)), (H100,))
    assert never.text == "no host of flavor h100 holds one pod even when it is empty"
