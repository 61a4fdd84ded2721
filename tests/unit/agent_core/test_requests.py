"""What may be asked beyond whole slices: ragged and preferred ones, even shares, spreading, spare hosts."""

from dataclasses import replace

import pytest

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.gang import Gang
from hanse.agent.core.ledger import NodeLedger, Placed
from hanse.agent.core.placement import Placement, place
from hanse.model.desired import BoundSet
from hanse.model.fence import GangKey
from hanse.model.ids import Attempt, JobId, Part
from hanse.model.job import Slice, Spread, Topology
from hanse.model.reasons import Reason
from hanse.model.request import SetRequest
from tests.unit.agent_core.pools import H100, facts, gang, hold, placed, pods, pool, refused

HOST, RACK, BLOCK = "host", "rack", "block"


def racks(*sizes: int, gpus: int = 4) -> dict[str, int]:
    """One block of racks with so many hosts."""
    return {f"b1/r{r}/n{n:02}": gpus for r, size in enumerate(sizes) for n in range(size)}


def with_topology(asked: SetRequest, topology: Topology) -> SetRequest:
    return replace(asked, topology=topology)


def by_rack(found: dict[str, int]) -> list[int]:
    """Pods by rack, most first."""
    counts: dict[str, int] = {}
    for node, n in found.items():
        counts[node.split("-")[1]] = counts.get(node.split("-")[1], 0) + n
    return sorted(counts.values(), reverse=True)


def balanced(n: int, gpus: int = 4, slices: tuple[Slice, ...] = ()) -> SetRequest:
    return with_topology(pods(n, gpus), Topology(slices=slices, balanced=RACK))


@pytest.mark.parametrize(
    ("sizes", "asked", "expected"),
    [
        pytest.param((18, 18, 18), balanced(20), [10, 10], id="K18 two of three racks"),
        pytest.param((18, 18, 18), balanced(40), [14, 13, 13], id="K18 what does not divide is one pod here"),
        pytest.param((18, 18, 18, 10, 2), balanced(2), [2], id="K19 the tightest if one is enough"),
        pytest.param((9, 6, 4, 2), balanced(5), [5], id="K17 one rack"),
        pytest.param((18,) * 8, balanced(128), [16] * 8, id="C15 eight racks of sixteen"),
        pytest.param((18, 18), balanced(32), [16, 16], id="C15 not 18 and 14"),
        pytest.param((18, 18, 18), balanced(24), [12, 12], id="C15 two racks of twelve"),
        pytest.param((18, 18, 18), balanced(48), [16] * 3, id="C15 three racks of sixteen"),
        pytest.param((18, 18), balanced(32, slices=(Slice(8, RACK),)), [16, 16], id="whole slices of eight"),
        pytest.param((18, 18), balanced(24, slices=(Slice(8, RACK),)), [16, 8], id="slices are not cut"),
        pytest.param((18, 10), balanced(25), [15, 10], id="as even as the rooms allow"),
    ],
)
def test_balanced_shares_are_even_over_the_fewest_racks(
    sizes: tuple[int, ...], asked: SetRequest, expected: list[int]
) -> None:
    (found,) = placed(pool(racks(*sizes)), asked)
    assert by_rack(found) == expected


def test_slices_of_a_coarser_level_keep_their_sizes() -> None:
    asked = with_topology(pods(12, 1), Topology(slices=(Slice(6, RACK),), balanced=HOST))
    (found,) = placed(pool(racks(2, 2)), asked)
    assert by_rack(found) == [6, 6]
    assert sorted(found.values()) == [3, 3, 3, 3]


def test_k17_more_than_there_is_is_refused() -> None:
    assert refused(pool(racks(9, 6, 4, 2)), balanced(22)).reason is Reason.SHAPE


def test_k19_even_shares_come_before_the_tightest_choice() -> None:
    """The fixture hands its search a least share of 10 and gets 15 + 10; the most even shares of 25 are 13 + 12."""
    (found,) = placed(pool(racks(18, 18, 18, 10, 2)), balanced(25))
    assert by_rack(found) == [13, 12]


def test_d6_a_leader_takes_one_place_in_one_rack() -> None:
    leader, workers = placed(pool(racks(9, 9)), pods(1, 4), balanced(17))
    assert by_rack(workers) == [9, 8]
    assert sum(leader.values()) == 1


def test_a_balanced_level_that_no_node_has_is_refused_by_name() -> None:
    no = refused(pool(racks(4)), with_topology(pods(2, 4), Topology(balanced="spine")))
    assert (no.reason, no.constraint) == (Reason.LEVEL_UNKNOWN, "level spine")


def test_the_last_slice_may_be_smaller() -> None:
    asked = pods(10, 4, slices=(Slice(4, RACK, ragged=True),))
    (found,) = placed(pool(racks(4, 4, 3)), asked)
    assert by_rack(found) == [4, 4, 2]


def test_ranks_of_the_smaller_slice_are_the_last() -> None:
    result = place(pool(racks(2, 4)), gang(pods(6, 4, slices=(Slice(4, RACK, ragged=True),))), (H100,))
    assert isinstance(result, Placement)
    assert [node.split("-")[1] for node in result.sets[0].nodes] == ["r1"] * 4 + ["r0"] * 2


def test_d1_without_a_rack_for_the_smaller_slice_nothing_is_placed() -> None:
    no = refused(pool(racks(5, 5, 1)), pods(10, 4, slices=(Slice(4, RACK, ragged=True),)))
    assert no.reason is Reason.SHAPE
    assert "found 6 hosts with 4 free GPUs in slices of 4; wanted 10, 2 of them in the last slice" in no.detail


def test_the_coarsest_preferred_layer_is_given_up_first() -> None:
    layers = (Slice(8, BLOCK, preferred=True), Slice(4, RACK, preferred=True))
    hosts = racks(4) | {f"b2/r{r}/n{n}": 4 for r in (5, 6) for n in range(5 - r % 2)}
    result = place(pool(hosts), gang(pods(8, 4, slices=layers)), (H100,))
    assert isinstance(result, Placement)
    assert result.note == "kept slices of 8 in one block and slices of 4 in one rack"
    result = place(pool(racks(4) | {f"b2/r5/n{n}": 4 for n in range(4)}), gang(pods(8, 4, slices=layers)), (H100,))
    assert isinstance(result, Placement)
    assert result.note == "kept slices of 4 in one rack, gave up slices of 8 in one block"
    result = place(pool(racks(3, 3, 3)), gang(pods(8, 4, slices=layers)), (H100,))
    assert isinstance(result, Placement)
    assert result.note == "gave up slices of 8 in one block and slices of 4 in one rack"


def test_a_gang_is_spread_over_racks() -> None:
    asked = with_topology(pods(6, 4), Topology(spread=Spread(RACK, 2)))
    (found,) = placed(pool(racks(6, 6, 6)), asked)
    assert by_rack(found) == [2, 2, 2]


def test_pods_without_gpus_are_spread_too() -> None:
    asked = with_topology(pods(3, 0, cpu=1_000), Topology(spread=Spread(HOST, 1)))
    (found,) = placed(pool(racks(2, 2)), asked)
    assert sorted(found.values()) == [1, 1, 1]


def test_slices_are_spread_over_blocks() -> None:
    topology = Topology(slices=(Slice(4, RACK),), spread=Spread(BLOCK, 4))
    hosts = racks(8) | {f"b2/r7/n{n}": 4 for n in range(4)}
    (found,) = placed(pool(hosts), with_topology(pods(8, 4), topology))
    assert by_rack(found) == [4, 4]
    assert {node.split("-")[0] for node in found} == {"b1", "b2"}


def test_a_gang_that_cannot_be_spread_is_told_what_there_is() -> None:
    no = refused(pool(racks(6, 6)), with_topology(pods(6, 4), Topology(spread=Spread(RACK, 2))))
    assert (no.reason, no.wanted, no.found) == (Reason.SHAPE, 6, 4)
    assert no.detail.endswith("found 4 hosts with 4 free GPUs with at most 2 of them in one rack; wanted 6")


NVL72 = pods(16, 4, slices=(Slice(16, RACK, exclusive=True),))


def test_sixteen_of_eighteen_hosts_keep_two_spare() -> None:
    rack = pool(racks(18))
    hold(rack, NVL72)
    assert refused(rack, pods(1, 1)).reason is Reason.SHAPE


def test_a_second_gang_takes_the_next_whole_rack() -> None:
    two = pool(racks(18, 18))
    used = {next(iter(hold(two, NVL72).sets[0].hosts)).path for _ in range(2)}
    assert used == {("b1", "r0"), ("b1", "r1")}
    assert refused(two, NVL72).reason is Reason.SHAPE


def cordon(name: str, *, cordoned: bool = True) -> NodeFacts:
    return facts(f"b1/r0/{name}", 4, cordoned=cordoned)


@pytest.mark.parametrize("down", [("n00",), ("n00", "n17")])
def test_hosts_that_are_down_leave_fewer_spares(down: tuple[str, ...]) -> None:
    rack = pool(racks(18))
    for name in down:
        rack.set_node(cordon(name))
    hold(rack, NVL72)
    assert refused(rack, pods(1, 1)).reason is Reason.SHAPE


def test_three_hosts_down_are_too_many() -> None:
    rack = pool(racks(18))
    for name in ("n00", "n01", "n02"):
        rack.set_node(cordon(name))
    no = refused(rack, NVL72)
    assert (no.wanted, no.found) == (1, 0)


def test_a_host_that_comes_back_is_a_spare_too() -> None:
    rack = pool(racks(18))
    rack.set_node(cordon("n00"))
    hold(rack, NVL72)
    rack.set_node(cordon("n00", cordoned=False))
    assert refused(rack, pods(1, 1)).reason is Reason.SHAPE


def test_a_smaller_last_slice_has_its_domain_for_itself_too() -> None:
    two = pool(racks(18, 18))
    asked = pods(20, 4, slices=(Slice(16, RACK, exclusive=True, ragged=True),))
    used = {use.path for use in hold(two, asked).sets[0].hosts}
    assert len(used) == 2
    assert refused(two, pods(1, 1)).reason is Reason.SHAPE


def test_what_became_of_preferred_layers_is_reported_until_it_is_known() -> None:
    key = GangKey(JobId("j"), Attempt(1), Part(0))
    asked = pods(8, 4, slices=(Slice(4, RACK, preferred=True),))
    found = NodeLedger(pool(racks(3, 3, 3))).place(key, gang(asked), [BoundSet("main", 8, 0, H100)])
    assert isinstance(found, Placed)
    held = Gang(key, stored=True, note=found.note)
    assert held.report().message == "gave up slices of 4 in one rack"
    held.domains_known = True
    assert not held.report().message
