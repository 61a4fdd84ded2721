"""Capacity is what is really usable, whoever uses the rest (groups A and B of the scenarios)."""

import pytest

from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import place
from hanse.agent.core.places import Placement, recorded
from hanse.model.ids import NodeName
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.reasons import Reason
from hanse.model.resources import EMPTY, NVIDIA_GPU, Resources
from hanse.model.selectors import Effect, Operator, Requirement, Selector, Taint, Toleration
from hanse.shape import encode
from tests.unit.agent_core.pools import BLOCK_RACK, H100, REST, facts, gang, hold, placed, pods, pool, refused

PATHS = ("b1/r1/x1", "b1/r1/x2")
X1, X2 = NodeName("b1-r1-x1"), NodeName("b1-r1-x2")
DAEMON = Resources({"cpu": 4_000, "memory": 8 << 30, "pods": 12})
GPU_POD = Resources({NVIDIA_GPU: 1, "pods": 1})


def two(**changes: object) -> Inventory:
    """Two hosts of eight GPUs; the first is changed."""
    inventory = pool(dict.fromkeys(PATHS, 8))
    inventory.set_node(facts(PATHS[0], **changes))  # type: ignore[arg-type]
    return inventory


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ready": False}, id="B1 not ready"),
        pytest.param({"cordoned": True}, id="B3 cordoned"),
        pytest.param({"taints": (Taint("node.kubernetes.io/disk-pressure", "", Effect.NO_SCHEDULE),)}, id="pressure"),
        pytest.param({"taints": (Taint("team", "a", Effect.NO_SCHEDULE),)}, id="untolerated taint"),
        pytest.param({"gpus": 0}, id="allocatable fell to nothing"),
    ],
)
def test_an_unusable_host_is_not_counted(changes: dict[str, object]) -> None:
    inventory = two(**changes)
    assert placed(inventory, pods(1, 8)) == [{X2: 1}]
    no = refused(inventory, pods(2, 8))
    assert (no.reason, no.wanted, no.found) == (Reason.SHAPE, 2, 1)
    inventory.set_node(facts(PATHS[0]))
    assert placed(inventory, pods(2, 8)) == [{X1: 1, X2: 1}]


def test_a_tolerated_taint_and_a_preference_keep_nobody_off() -> None:
    taints = (Taint("team", "a", Effect.NO_SCHEDULE), Taint("slow", "", Effect.PREFER_NO_SCHEDULE))
    tolerant = pods(2, 8, tolerations=(Toleration("team", exists=True),))
    assert placed(two(taints=taints), tolerant) == [{X1: 1, X2: 1}]


def test_daemons_on_every_host_break_no_host() -> None:
    inventory = pool(dict.fromkeys(PATHS, 8))
    for path in PATHS:
        inventory.set_node(facts(path), DAEMON)
    assert inventory.shape().whole_hosts() == 2
    assert inventory.shape().exact


def test_b4_pods_are_a_resource() -> None:
    inventory = pool(dict.fromkeys(PATHS, 8))
    inventory.set_foreign(X1, Resources({"pods": 110}))
    assert placed(inventory, pods(1, 8)) == [{X2: 1}]
    assert inventory.shape().clipped_hosts == 1


def test_a17_two_sets_count_against_one_limit_of_pods() -> None:
    inventory = pool({})
    inventory.set_node(facts("b1/r1/x1", 0, rest={"cpu": 64_000, "pods": 1}))
    assert refused(inventory, pods(1, 0, cpu=100), pods(1, 0, cpu=100)).reason is Reason.SHAPE


def test_foreign_pods_take_room_and_give_it_back() -> None:
    inventory = pool(dict.fromkeys(PATHS, 8))
    inventory.set_foreign(X1, Resources({NVIDIA_GPU: 3, "pods": 1}))
    assert inventory.shape().free_gpus() == 13
    inventory.set_foreign(X1, EMPTY)
    assert inventory.shape().free_gpus() == 16


def test_usage_beyond_allocatable_is_a_fault_and_never_negative() -> None:
    inventory = pool(dict.fromkeys(PATHS, 8))
    inventory.hold(X1, {GPU_POD: 4})
    inventory.set_node(facts(PATHS[0], 0))
    assert inventory.faults() == ((X1, NVIDIA_GPU),)
    assert inventory.shape().free_gpus() == 8
    account = inventory.account(NVIDIA_GPU)
    assert (account.capacity, account.free, account.own, account.overdrawn) == (8, 8, 4, 4)
    assert account.balanced


def test_a_host_that_comes_back_still_carries_what_we_hold() -> None:
    inventory = pool(dict.fromkeys(PATHS, 8))
    held = hold(inventory, pods(1, 8))
    (name,) = held.nodes
    inventory.remove_node(name)
    assert inventory.shape().free_gpus() == 8
    inventory.set_node(facts(PATHS[0] if name == X1 else PATHS[1]))
    assert inventory.shape().free_gpus() == 8
    inventory.give(held)
    assert inventory.shape().free_gpus() == 16


def test_what_is_held_on_a_host_that_is_gone_can_be_released() -> None:
    inventory = pool(dict.fromkeys(PATHS, 8))
    held = hold(inventory, pods(2, 8))
    inventory.remove_node(X1)
    inventory.give(held)
    inventory.set_node(facts(PATHS[0]))
    assert inventory.shape().free_gpus() == 16
    with pytest.raises(ValueError, match="does not hold"):
        inventory.give(held)


def test_a6_usage_survives_new_levels_and_flavors() -> None:
    inventory = pool(dict.fromkeys(PATHS, 8))
    hold(inventory, pods(1, 8))
    other = inventory.rebuilt([Flavor(H100, 0)], [(BLOCK_RACK[0],)])
    assert [level.alias for level in other.shape().levels] == ["block"]
    assert other.shape().free_gpus() == inventory.shape().free_gpus() == 8
    assert refused(other, pods(2, 8)).reason is Reason.SHAPE


def test_a_host_belongs_to_the_first_flavor_that_matches() -> None:
    fast = Requirement("gpu", Operator.IN, ("fast",))
    inventory = Inventory([Flavor(H100, 1), Flavor("fast", 0, (fast,))], [BLOCK_RACK])  # type: ignore[arg-type]
    inventory.set_node(facts(PATHS[0], labels={"gpu": "fast"}))
    inventory.set_node(facts(PATHS[1]))
    assert [node.flavor for node in inventory] == ["fast", "h100"]
    assert inventory.shape().flavors == ("fast", "h100")


def test_a_host_without_a_flavor_is_of_no_use_and_shown() -> None:
    inventory = Inventory([Flavor(H100, 0, (Requirement("gpu", Operator.EXISTS),))], [BLOCK_RACK], [facts(PATHS[0])])
    assert inventory.shape().hosts() == 0
    assert [node.why for node in inventory] == ["matches no flavor"]
    assert inventory.account(NVIDIA_GPU).unusable == 8


def test_the_empty_shape_forgets_usage_cordons_and_readiness() -> None:
    inventory = two(cordoned=True)
    inventory.hold(X2, {GPU_POD: 8})
    assert inventory.shape().free_gpus() == 0
    assert inventory.empty_shape().free_gpus() == 16


def test_the_empty_shape_remembers_accelerators_that_a_plugin_does_not_offer_at_the_moment() -> None:
    inventory = two(gpus=0)
    assert inventory.shape().free_gpus() == 8
    assert inventory.empty_shape().free_gpus() == 16
    later = inventory.rebuilt(inventory.flavors, inventory.trees)
    assert encode(later.empty_shape()) == encode(inventory.empty_shape())
    inventory.remove_node(X1)
    inventory.set_node(facts(PATHS[0], gpus=0))
    assert inventory.empty_shape().free_gpus() == 8
    inventory.set_node(facts(PATHS[0], gpus=4))
    assert inventory.empty_shape().free_gpus() == 12


def test_kubelets_that_report_other_bytes_are_one_class() -> None:
    inventory = pool({})
    for i in range(20):
        inventory.set_node(facts(f"b1/r1/x{i:02}", rest={**REST, "memory": (2 << 40) - 4096 * i - 1}))
    assert len(inventory.shape().table.classes) == 1


@pytest.mark.parametrize(
    ("requirement", "hosts"),
    [
        (Requirement("zone", Operator.IN, ("a",)), 1),
        (Requirement("zone", Operator.NOT_IN, ("a",)), 1),
        (Requirement("zone", Operator.EXISTS), 2),
        (Requirement("kubernetes.io/hostname", Operator.IN, ("one",)), 1),
        (Requirement("memory-mib", Operator.GT, ("80000",)), 1),
        (Requirement("absent", Operator.DOES_NOT_EXIST), 2),
    ],
)
def test_b5_selectors_are_honoured(requirement: Requirement, hosts: int) -> None:
    inventory = pool({})
    one = {"zone": "a", "kubernetes.io/hostname": "one", "memory-mib": "81920"}
    inventory.set_node(facts(PATHS[0], labels=one))
    inventory.set_node(
        facts(PATHS[1], labels={**one, "zone": "b", "kubernetes.io/hostname": "two", "memory-mib": "40960"})
    )
    selector = Selector(((requirement,),))
    (found,) = placed(inventory, pods(hosts, 8, selector=selector))
    assert len(found) == hosts
    assert refused(inventory, pods(hosts + 1, 8, selector=selector)).reason is Reason.SHAPE


def test_a_selector_that_no_host_meets_is_refused_as_such() -> None:
    inventory = pool(dict.fromkeys(PATHS, 8))
    absent = Selector(((Requirement("absent", Operator.EXISTS),),))
    assert refused(inventory, pods(1, selector=absent)).reason is Reason.SELECTOR


def test_a_record_leads_back_to_the_placement() -> None:
    inventory = pool({f"b1/r{r}/x{i}": 8 for r in range(3) for i in range(2)})
    request = gang(pods(3, 8), pods(5, 2, required="rack"))
    placement = place(inventory, request, (H100, H100))
    assert isinstance(placement, Placement)
    nodes = [s.nodes for s in placement.sets]
    assert recorded(inventory, request, (H100, H100), nodes) == placement
    inventory.take(placement)
    held = encode(inventory.shape())
    other = pool({f"b1/r{r}/x{i}": 8 for r in range(3) for i in range(2)})
    other.take(recorded(other, request, (H100, H100), nodes))
    assert encode(other.shape()) == held


def test_a_failed_gang_leaves_no_trace() -> None:
    inventory = pool(dict.fromkeys(PATHS, 8))
    before = encode(inventory.shape())
    refused(inventory, pods(1, 8), pods(1, 8), pods(1, 8))
    assert encode(inventory.shape()) == before
    assert all(not node.own for node in inventory)


def test_a_pool_without_levels_places_by_hosts() -> None:
    inventory = pool({f"x{i}": 8 for i in range(4)}, ())
    (found,) = placed(inventory, pods(3, 8))
    assert found == {"x0": 1, "x1": 1, "x2": 1}
    assert refused(inventory, pods(3, 8, required="rack")).reason is Reason.LEVEL_UNKNOWN
    assert placed(inventory, pods(8, required="host")) == [{"x0": 8}]


def test_levels_that_repeat_a_key_are_refused() -> None:
    with pytest.raises(ValueError, match="listed twice"):
        Inventory([Flavor(H100, 0)], [(Level("k", "a"), Level("k", "b"))])
