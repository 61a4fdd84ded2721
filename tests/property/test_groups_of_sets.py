"""Sets of one group go into one domain of its level, whenever some arrangement does that; the rest goes anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Group, Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector
from hanse.shape import Fit, apply, encode, fit

H100 = FlavorName("h100")
LEVELS = (Level("example.com/block", "block"), Level("example.com/rack", "rack"))
ANYWHERE = ""


@dataclass(frozen=True)
class PodSet:
    """So many pods of so many GPUs, of the group or not."""

    count: int
    gpus: int
    grouped: bool


@dataclass(frozen=True)
class Case:
    """Blocks of racks of the GPUs of hosts; sets, of which the grouped ones share one domain of a level."""

    blocks: list[list[list[int]]]
    level: str
    sets: list[PodSet]

    @property
    def request(self) -> GangRequest:
        group = Group("together", self.level)
        return GangRequest(
            tuple(
                SetRequest(
                    s.count,
                    s.count,
                    Resources({NVIDIA_GPU: s.gpus}),
                    (H100,),
                    Selector(),
                    (),
                    Topology(group=group if s.grouped else None),
                )
                for s in self.sets
            )
        )

    def hosts(self) -> list[tuple[str, str, int]]:
        """(block, rack, GPUs) of every host."""
        return [
            (f"b{b}", f"b{b}r{r}", gpus)
            for b, racks in enumerate(self.blocks)
            for r, rack in enumerate(racks)
            for gpus in rack
        ]

    def inventory(self) -> Inventory:
        nodes = [
            NodeFacts(
                NodeName(f"{rack}-{i}"),
                {LEVELS[0].key: block, LEVELS[1].key: rack},
                (),
                Resources({NVIDIA_GPU: gpus, "cpu": 16_000, "memory": 1 << 30, "pods": 110}),
            )
            for i, (block, rack, gpus) in enumerate(self.hosts())
        ]
        return Inventory([Flavor(H100, 0)], [LEVELS], nodes)

    @property
    def feasible(self) -> bool:
        """By brute force: the grouped pods in each domain of the level in turn, the others on what is left."""
        hosts = self.hosts()
        at = 0 if self.level == "block" else 1
        domains = {host[at] for host in hosts}
        pods = [(s.gpus, s.grouped) for s in self.sets for _ in range(s.count)]
        pods.sort(reverse=True)
        return any(
            _packs(pods, [gpus for *_, gpus in hosts], [host[at] == domain for host in hosts]) for domain in domains
        )

    def is_together(self, placement: Placement) -> bool:
        """Whether the grouped pods are in one domain of the level."""
        at = 0 if self.level == "block" else 1
        domain_of = {f"{host[1]}-{i}": host[at] for i, host in enumerate(self.hosts())}
        used = {domain_of[use.node] for s in placement.sets if self.sets[s.set_index].grouped for use in s.hosts}
        return len(used) <= 1


def _packs(pods: Sequence[tuple[int, bool]], free: list[int], inside: Sequence[bool]) -> bool:
    if not pods:
        return True
    (gpus, grouped), rest = pods[0], pods[1:]
    tried: set[tuple[int, bool]] = set()
    for i, left in enumerate(free):
        if left < gpus or (grouped and not inside[i]) or (left, inside[i]) in tried:
            continue
        tried.add((left, inside[i]))
        free[i] -= gpus
        found = _packs(rest, free, inside)
        free[i] += gpus
        if found:
            return True
    return False


racks = st.lists(st.integers(0, 4), min_size=1, max_size=2)
pod_sets = st.builds(PodSet, st.integers(1, 3), st.integers(1, 3), st.booleans())
cases = st.builds(
    Case,
    st.lists(st.lists(racks, min_size=1, max_size=2), min_size=1, max_size=2),
    st.sampled_from(["block", "rack"]),
    st.lists(pod_sets, min_size=2, max_size=3),
)


@settings(max_examples=1500, deadline=None)
@given(cases)
def test_a_group_is_in_one_domain_and_found_whenever_there_is_one(case: Case) -> None:
    inventory = case.inventory()
    flavors = (H100,) * len(case.sets)
    above, below = fit(inventory.shape(), case.request, flavors), place(inventory, case.request, flavors)
    assert isinstance(below, Placement) == isinstance(above, Fit) == case.feasible, (above, below)
    if isinstance(below, Placement):
        assert case.is_together(below)


@settings(max_examples=300, deadline=None)
@given(cases)
def test_above_and_below_take_the_same(case: Case) -> None:
    inventory = case.inventory()
    flavors = (H100,) * len(case.sets)
    above, below = fit(inventory.shape(), case.request, flavors), place(inventory, case.request, flavors)
    if isinstance(above, Fit) and isinstance(below, Placement):
        after = apply(inventory.shape(), above.decision)
        for s in below.sets:
            for uses, nodes in s.usage():
                for name, pods in nodes:
                    inventory.hold(name, {uses: pods})
        assert encode(after) == encode(inventory.shape())
