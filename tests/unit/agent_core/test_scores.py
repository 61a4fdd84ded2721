"""Named terms decide between hosts and domains that placement holds equal, and between no others."""

import pytest

from hanse.agent.core.chosen import chosen_lines
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.scores import ScoreTerm, merit_of
from hanse.model.ids import NodeName
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.shape import encode
from tests.unit.agent_core.pools import BLOCK_RACK, H100, facts, hold, placed, pods

POWER = ScoreTerm("power", "example.com/power-w", 1)
HEAT = ScoreTerm("heat", "example.com/inlet-c", -2)


def scored(hosts: dict[str, str], *terms: ScoreTerm, levels: tuple[Level, ...] = BLOCK_RACK) -> Inventory:
    """Hosts of eight GPUs with a power label."""
    nodes = [facts(path, 8, levels, labels={POWER.label: watts} if watts else {}) for path, watts in hosts.items()]
    return Inventory([Flavor(H100, 0)], [levels], nodes, scores=terms or (POWER,))


@pytest.mark.parametrize(
    ("labels", "merit"),
    [
        ({POWER.label: "400", HEAT.label: "20"}, (0, -360_000)),
        ({POWER.label: "0.5", HEAT.label: "0"}, (0, -500)),
        ({POWER.label: "lots", HEAT.label: "20"}, (1, 40_000)),
        ({}, (2, 0)),
    ],
)
def test_merit_is_the_weighted_sum_and_silence_comes_last(labels: dict[str, str], merit: tuple[int, int]) -> None:
    assert merit_of(labels, (POWER, HEAT)) == merit


def test_the_best_of_equal_hosts_is_taken_and_ranks_follow_names() -> None:
    inventory = scored({"b/r/x1": "100", "b/r/x2": "300", "b/r/x3": "", "b/r/x4": "200"})
    assert list(placed(inventory, pods(2, 8))[0]) == ["b-r-x2", "b-r-x4"]


def test_the_best_of_equal_racks_is_taken() -> None:
    inventory = scored({"b/r1/x1": "100", "b/r1/x2": "400", "b/r2/x1": "300", "b/r2/x2": "300"})
    assert list(placed(inventory, pods(2, 8, required="rack"))[0]) == ["b-r2-x1", "b-r2-x2"]


def test_terms_never_outrank_the_objective() -> None:
    inventory = scored({"b/r1/x1": "1", "b/r1/x2": "1", "b/r2/x1": "900", "b/r2/x2": "900", "b/r2/x3": "900"})
    assert list(placed(inventory, pods(2, 8))[0]) == ["b-r1-x1", "b-r1-x2"]


def test_pods_counted_on_the_nodes_heed_terms_too() -> None:
    inventory = scored({"b/r/x1": "100", "b/r/x2": "300", "b/r/x3": "200"})
    assert list(placed(inventory, pods(2, 8, cpu=190_000))[0]) == ["b-r-x2", "b-r-x3"]


def test_labels_of_terms_make_no_classes_and_a_new_value_costs_none() -> None:
    inventory = scored({"b/r/x1": "100", "b/r/x2": "300"})
    before = encode(inventory.shape())
    table = inventory.table
    assert len(table.classes) == 1
    inventory.set_node(facts("b/r/x1", labels={POWER.label: "900"}))
    assert encode(inventory.shape()) == before
    assert inventory.table is table
    assert list(placed(inventory, pods(1, 8))[0]) == ["b-r-x1"]
    inventory.remove_node(NodeName("b-r-x1"))
    assert len(inventory) == 1


def test_terms_survive_new_levels() -> None:
    inventory = scored({"b/r/x1": "100", "b/r/x2": "300"}).rebuilt([Flavor(H100, 0)], [BLOCK_RACK[:1]])
    assert list(placed(inventory, pods(1, 8))[0]) == ["b-r-x2"]


def test_what_decided_is_told() -> None:
    inventory = scored({"b1/r1/x1": "100", "b1/r1/x2": "300", "b1/r2/x1": "200", "b2/r3/x1": ""})
    gang = hold(inventory, pods(1, 8, required="rack"))
    assert chosen_lines(inventory, gang.nodes) == (
        "1 block, with 0 of 8 GPUs free",
        "1 rack, with 0 of 8 GPUs free",
    )
    inventory.give(gang)
    pair = hold(inventory, pods(2, 8, required="rack"))
    assert chosen_lines(inventory, [*pair.nodes, NodeName("gone")]) == (
        "1 block, with 8 of 24 GPUs free",
        "1 rack, with 0 of 16 GPUs free",
        "power 200 a host, 200 on the hosts that are free",
    )
