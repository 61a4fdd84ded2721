"""One value of a label for all pods: placed on nodes with one value if any value has room, above and below alike."""

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Slice, Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector
from hanse.shape import Fit, apply, encode, fit
from tests.property.request_oracle import Want, best
from tests.property.shape_oracle import Tree

H100 = FlavorName("h100")
RACK = Level("example.com/rack", "rack")
KEY = "example.com/switch"
VALUES_MANY = 9  # more than a shape tells apart


@dataclass(frozen=True)
class Case:
    """Racks of hosts as (GPUs, value of the label), n pods in slices, and whether the shape leaves the label out."""

    racks: list[list[tuple[int, str]]]
    n: int
    size: int
    hidden: bool
    cpu: int

    @property
    def request(self) -> GangRequest:
        topology = Topology(slices=(Slice(self.size, "rack"),) if self.size > 1 else (), same=(KEY,))
        pod = Resources({NVIDIA_GPU: 1, "cpu": self.cpu})
        return GangRequest((SetRequest(self.n, self.n, pod, (H100,), Selector(), (), topology),))

    def inventory(self) -> Inventory:
        nodes = [
            self._node(f"r{r}-n{i}", f"r{r}", gpus, value)
            for r, rack in enumerate(self.racks)
            for i, (gpus, value) in enumerate(rack)
        ]
        others = [self._node(f"x{i}", "x", 0, f"other{i}") for i in range(VALUES_MANY if self.hidden else 0)]
        return Inventory([Flavor(H100, 0)], [(RACK,)], [*nodes, *others])

    def _node(self, name: str, rack: str, gpus: int, value: str) -> NodeFacts:
        labels = {RACK.key: rack, **({KEY: value} if value else {})}
        amounts = Resources({NVIDIA_GPU: gpus, "cpu": 16_000, "memory": 1 << 30, "pods": 110})
        return NodeFacts(NodeName(name), labels, (), amounts)

    @property
    def feasible(self) -> bool:
        values = {value for rack in self.racks for _, value in rack if value}
        want = Want(self.n, (self.size if self.size > 1 else 0, 0), (0, 0))
        return any(best(self.only(value), want) is not None for value in values)

    def only(self, value: str) -> Tree:
        tree: list[Tree] = [[gpus if own == value else 0 for gpus, own in rack] for rack in self.racks]
        return tree

    def values_of(self, placement: Placement) -> set[str]:
        used = {use.node for use in placement.sets[0].hosts}
        return {
            value for r, rack in enumerate(self.racks) for i, (_, value) in enumerate(rack) if f"r{r}-n{i}" in used
        }


hosts = st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", "b", ""]))
cases = st.builds(
    lambda racks, size, slices, hidden, cpu: Case(racks, size * slices, size, hidden, cpu),
    st.lists(st.lists(hosts, min_size=1, max_size=3), min_size=1, max_size=2),
    st.integers(1, 3),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from([100, 3_900]),
)


@settings(max_examples=500, deadline=None)
@given(cases)
def test_all_pods_see_one_value_or_none_is_placed(case: Case) -> None:
    found = place(case.inventory(), case.request, (H100,))
    assert isinstance(found, Placement) == case.feasible, found
    if isinstance(found, Placement):
        assert len(case.values_of(found) - {""}) == len(case.values_of(found)) == 1


@settings(max_examples=500, deadline=None)
@given(cases)
def test_the_shape_says_the_same_where_it_tells_values_apart(case: Case) -> None:
    pool = case.inventory()
    above, below = fit(pool.shape(), case.request, (H100,)), place(pool, case.request, (H100,))
    if case.hidden:
        assert isinstance(above, Fit) or not isinstance(below, Placement)
        assert not isinstance(above, Fit) or not above.certain
        return
    assert isinstance(above, Fit) == isinstance(below, Placement)
    if isinstance(above, Fit) and isinstance(below, Placement) and above.certain:
        pool.take(below)
        assert encode(apply(case.inventory().shape(), above.decision)) == encode(pool.shape())


def test_sets_that_name_the_label_share_its_value() -> None:
    case = Case([[(2, "a"), (2, "b")], [(4, "b"), (1, "a")]], 2, 1, hidden=False, cpu=100)
    (workers,) = case.request.sets
    two = GangRequest((workers, replace(workers, count=3, min_count=3)))
    found = place(case.inventory(), two, (H100, H100))
    assert isinstance(found, Placement)
    assert {use.node for s in found.sets for use in s.hosts} <= {"r0-n1", "r1-n0"}
    elsewhere = replace(workers, count=3, min_count=3, topology=Topology())
    assert isinstance(place(case.inventory(), GangRequest((workers, elsewhere)), (H100, H100)), Placement)


def test_a_refusal_says_what_one_value_holds() -> None:
    for hidden in (False, True):
        case = Case([[(2, "a"), (2, "b")], [(1, "b"), (1, "")]], 4, 1, hidden=hidden, cpu=100)
        no = place(case.inventory(), case.request, (H100,))
        assert not isinstance(no, Placement)
        assert (no.wanted, no.found) == (4, 3)
        assert KEY in no.constraint
