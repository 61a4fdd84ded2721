"""Kueue's published placement fixtures (group K of the scenarios), as far as they ask for what this version has.

Capacities are in pods: a host of capacity 3 has three GPUs and a pod asks for one. K11 to K14 replace failed nodes
and K17 to K20 balance, which nothing asks for yet. K15 and K23 rest on a constraint over several sets (leader and
workers in one rack), which requests cannot express; what remains of them is that sets never share room.
"""

from collections.abc import Mapping

import pytest

from hanse.model.job import Slice
from hanse.model.placement import Level
from hanse.model.reasons import Reason
from hanse.model.request import SetRequest
from tests.unit.agent_core.pools import facts, hold, placed, pods, pool, refused

HOST, RACK, BLOCK = "host", "rack", "block"
DATACENTER = tuple(Level(f"example.com/{a}", a) for a in ("dc", "aizone", "block", "rack"))
K1 = {"b1/r1/x3": 2, "b1/r2/x5": 2, "b1/r3/x1": 1, "b1/r3/x2": 1, "b1/r3/x4": 1, "b1/r3/x6": 1}
K4 = {"b1/r1/x3": 4, "b1/r1/x5": 1, "b1/r1/x1": 1, "b2/r1/x6": 2, "b2/r1/x2": 1}
K5 = {"b1/r1/x3": 1, "b1/r2/x5": 1, "b1/r2/x1": 1, "b1/r2/x6": 1, "b2/r1/x2": 1, "b2/r2/x4": 2}


@pytest.mark.parametrize(
    ("hosts", "asked", "expected"),
    [
        pytest.param(
            K1, pods(4, required=BLOCK), {f"b1-r3-x{i}": 1 for i in (1, 2, 4, 6)}, id="K1 fewest racks before hosts"
        ),
        pytest.param(
            {"b1/r1/x3": 2, "b1/r1/x5": 1, "b1/r1/x1": 1}, pods(2, required=BLOCK), {"b1-r1-x3": 2}, id="K2 one host"
        ),
        pytest.param(
            {"b1/r1/x1": 3, "b1/r1/x3": 3, "b1/r1/x5": 3},
            pods(6, slices=(Slice(2, HOST),)),
            {"b1-r1-x1": 2, "b1-r1-x3": 2, "b1-r1-x5": 2},
            id="K3 never three where slices are of two",
        ),
        pytest.param(
            K4, pods(6, slices=(Slice(2, HOST),)), {"b1-r1-x3": 4, "b2-r1-x6": 2}, id="K4 whole slices over blocks"
        ),
        pytest.param({"b1/r1/x1": 1, "b1/r1/x2": 1}, pods(1), {"b1-r1-x1": 1}, id="K21 equal hosts go by name"),
    ],
)
def test_goes_where_the_fixture_says(
    hosts: Mapping[str, int], asked: SetRequest, expected: Mapping[str, int]
) -> None:
    assert placed(pool(hosts), asked) == [expected]
    assert placed(pool(dict(reversed(list(hosts.items())))), asked) == [expected]


def test_k5_a_rack_slice_takes_what_leaves_least() -> None:
    (found,) = placed(pool(K5), pods(4, slices=(Slice(2, RACK),)))
    racks = {name: sum(n for node, n in found.items() if node.startswith(name)) for name in ("b1-r2", "b2-r2")}
    assert racks == {"b1-r2": 2, "b2-r2": 2}


def test_k6_zones_and_racks_round_down() -> None:
    hosts = {f"dc0/z{z}/b{z}{b}/r{z}{b}{r}/n{n:02}": 2 for z in "01" for b in "01" for r in "01" for n in range(18)}
    inventory = pool(hosts, DATACENTER)
    (found,) = placed(inventory, pods(96, 2, required="dc", slices=(Slice(48, "aizone"), Slice(16, "rack"))))
    racks: dict[str, int] = {}
    for node, n in found.items():
        racks[node.rsplit("-", 1)[0]] = racks.get(node.rsplit("-", 1)[0], 0) + n
    assert sorted(racks.values()) == [16] * 6
    assert sum(n for rack, n in racks.items() if "-z0-" in rack) == 48


@pytest.mark.parametrize(
    ("hosts", "asked", "wanted", "found"),
    [
        pytest.param(
            {"b1/r1/x1": 3, "b1/r1/x2": 3}, pods(6, slices=(Slice(6, RACK), Slice(2, HOST))), 1, 0, id="K7"
        ),
        pytest.param(
            {"b1/r1/x1": 7, "b1/r1/x2": 4, "b1/r2/x3": 7, "b1/r2/x4": 3},
            pods(16, slices=(Slice(8, RACK), Slice(4, HOST))), 2, 1, id="K8",
        ),
        pytest.param(
            {"b1/r1/x1": 4, "b1/r2/x2": 4, "b1/r3/x3": 4},
            pods(12, slices=(Slice(6, RACK), Slice(2, HOST))), 2, 0, id="K9",
        ),
        pytest.param(
            {
                "b1/r1/x1": 4, "b1/r1/x2": 4, "b1/r2/x3": 4, "b1/r2/x4": 4,
                "b2/r3/x5": 4, "b2/r3/x6": 4, "b2/r4/x7": 1, "b2/r4/x8": 1,
            },
            pods(24, slices=(Slice(12, BLOCK), Slice(6, RACK), Slice(3, HOST))), 2, 1, id="K10",
        ),
    ],
)  # fmt: skip
def test_refuses_with_the_slices_it_found(
    hosts: Mapping[str, int], asked: SetRequest, wanted: int, found: int
) -> None:
    no = refused(pool(hosts), asked)
    assert (no.reason, no.wanted, no.found) == (Reason.SHAPE, wanted, found)


def test_k15_two_sets_never_share_room() -> None:
    hosts = {"b1/small/x1": 1, "b1/small/x2": 3, "b1/large/x3": 6}
    leader, worker = placed(pool(hosts), pods(1, 3, required=RACK), pods(1, 3, required=RACK))
    assert leader == worker == {"b1-large-x3": 1}


def test_k16_the_leader_goes_where_workers_leave_room() -> None:
    inventory = pool({})
    for name, cpu in (("h1", 2_000), ("h2", 4_000), ("h3", 3_000)):
        inventory.set_node(facts(f"b1/r1/{name}", 0, rest={"cpu": cpu, "pods": 110}))
    leader, workers = placed(inventory, pods(1, 0, cpu=1_000), pods(4, 0, cpu=2_000, required=RACK))
    assert leader == {"b1-r1-h3": 1}
    assert workers == {"b1-r1-h1": 1, "b1-r1-h2": 2, "b1-r1-h3": 1}


def test_k22_a_host_without_room_for_pods_holds_none() -> None:
    inventory = pool({})
    inventory.set_node(facts("b1/r1/x1", 8, rest={"cpu": 1_000}))
    assert refused(inventory, pods(1)).reason is Reason.RESOURCES


def test_k24_preferred_takes_the_fewest_racks_and_leaves_least() -> None:
    hosts = {"b1/r1/x1": 3, "b1/r2/x2": 3, "b1/r3/x3": 2, "b1/r4/x4": 1}
    (found,) = placed(pool(hosts), pods(7, preferred=RACK))
    assert found == {"b1-r1-x1": 3, "b1-r2-x2": 3, "b1-r4-x4": 1}


def test_c17_the_tightest_zone_wins_when_both_need_two_racks() -> None:
    zones = (Level("example.com/zone", "zone"), Level("example.com/rack", "rack"))
    hosts = {"A/r1/x1": 2, "A/r2/x2": 1, "A/r3/x3": 1, "A/r4/x4": 1, "B/r5/x5": 2, "B/r6/x6": 2, "B/r7/x7": 2}
    (found,) = placed(pool(hosts, zones), pods(3, required="zone", preferred="rack"))
    assert found["A-r1-x1"] == 2
    assert sum(found.values()) == 3
    assert all(node.startswith("A-") for node in found)


def test_c16_preferred_falls_back_to_the_fewest_leaf_groups() -> None:
    sizes = {"s1": (5, 5, 6, 6, 8, 11), "s2": (1, 1, 2, 2, 2, 3, 3, 3, 6)}
    inventory = pool(
        {f"{s}/l{i}/n{n:02}": 8 for s, groups in sizes.items() for i, size in enumerate(groups) for n in range(size)}
    )
    asked = pods(8, 8, preferred=RACK)
    used = [{use.path for use in hold(inventory, asked).sets[0].hosts} for _ in range(3)]
    assert used[:2] == [{("s1", "l4")}, {("s1", "l5")}]
    assert len(used[2]) == 2
    assert {path[0] for path in used[2]} == {"s2"}
