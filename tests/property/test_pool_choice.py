"""Choosing a pool by its shape is choosing as one tree of all nodes would, with the pools as its coarsest level."""

from dataclasses import replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import place
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import Resources
from hanse.model.selectors import Operator, Requirement, Selector
from hanse.scheduler.core.choice import rank_of
from hanse.shape import Fit, NoFit, decode, encode, fit

GPU: Final = "nvidia.com/gpu"
H100: Final = FlavorName("h100")
FLAVOR: Final = Flavor(H100, 0, (Requirement("gpu", Operator.IN, ("h100",)),))
POOL, BLOCK, RACK = Level("pool", "pool"), Level("block", "block"), Level("rack", "rack")
HOST: Final = Resources({GPU: 4, "cpu": 64_000, "memory": 2**40, "pods": 110})

# Of one pool, by block and rack, the GPUs that are taken of each host.
Taken = list[list[list[int]]]
hosts = st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, 4]), min_size=1, max_size=4)
pools = st.lists(st.lists(hosts, min_size=1, max_size=3), min_size=1, max_size=2)


def inventory(fleet: dict[str, Taken], levels: tuple[Level, ...]) -> Inventory:
    found = Inventory([FLAVOR], [levels])
    for pool, blocks in fleet.items():
        for b, racks in enumerate(blocks):
            for r, used in enumerate(racks):
                labels = {"gpu": "h100", "pool": pool, "block": f"b{b}", "rack": f"r{r}"}
                for h, gpus in enumerate(used):
                    facts = NodeFacts(NodeName(f"{pool}-{b}-{r}-{h}"), labels, (), HOST)
                    found.set_node(facts, Resources({GPU: gpus}) if gpus else Resources())
    return found


@settings(max_examples=200, deadline=None)
@given(
    taken=st.lists(pools, min_size=2, max_size=4),
    count=st.integers(1, 6),
    gpus=st.sampled_from([1, 2, 4]),
    required=st.sampled_from(["", "block", "rack"]),
)
def test_the_best_pool_by_its_summary_is_the_pool_that_one_tree_would_take(
    taken: list[Taken], count: int, gpus: int, required: str
) -> None:
    fleet = {f"p{n}": blocks for n, blocks in enumerate(taken)}
    one = SetRequest(count, count, Resources({GPU: gpus}), (H100,), Selector(), (), Topology(required=required))
    fits = {
        name: fit(decode(encode(inventory({name: blocks}, (BLOCK, RACK)).shape())), GangRequest((one,)), (H100,))
        for name, blocks in fleet.items()
    }
    ranks = {name: rank_of(found, 0) for name, found in fits.items() if isinstance(found, Fit)}
    inside = GangRequest((replace(one, topology=Topology(required=required or "pool")),))
    placed = place(inventory(fleet, (POOL, BLOCK, RACK)), inside, (H100,))
    if isinstance(placed, NoFit):
        assert not ranks
        return
    chosen = placed.sets[0].hosts[0].path[0]
    assert ranks[chosen] == min(ranks.values())
