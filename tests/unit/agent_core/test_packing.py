"""The fragmentation score: what it prefers, that it only looks at changes, and that names decide nothing."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from hanse.agent.core.chosen import small_lines
from hanse.agent.core.demand import COUNT_MAX, KINDS_MAX, TYPICAL_MAX, WEIGHT, Demand
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.ledger import NodeLedger, Placed
from hanse.agent.core.packing import WHOLE_HOST_MILLI, Packing
from hanse.agent.core.placement import Placement, place
from hanse.agent.core.usable import HOLD, REACH
from hanse.model.desired import BoundSet
from hanse.model.ids import NodeName
from hanse.model.job import Topology
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.model.request import SetRequest
from hanse.model.resources import DEVICE_MILLI, GPU_MILLI, NVIDIA_GPU, Resources
from hanse.model.selectors import Operator, Requirement, Selector
from hanse.shape import Fit, apply, encode, fit
from hanse.shape.ask import SetAsk, prepare
from tests.unit.agent_core.pools import BLOCK_RACK, H100, facts, gang, hold, placed, pods, pool
from tests.unit.agent_core.stage import key

GIB = 1 << 30
MODEL = "model"


def host(path: str, gpus: int = 4, cpu: int = 48_000, levels: tuple[Level, ...] = (), model: str = "a") -> NodeFacts:
    rest = {"cpu": cpu, "memory": 8 * cpu * GIB // 1_000, "pods": 110, GPU_MILLI: gpus * DEVICE_MILLI}
    return facts(path, gpus, levels, labels={MODEL: model}, rest=rest)


def hosts(nodes: Iterable[NodeFacts], levels: tuple[Level, ...] = ()) -> Inventory:
    return Inventory([Flavor(H100, 0)], [levels], nodes)


def ask(milli: int, cpu: int = 1_000, model: str = "") -> SetRequest:
    """One pod with thousandths of a GPU: whole ones from 1000 up, none for 0."""
    gpus = {NVIDIA_GPU: milli // DEVICE_MILLI} if milli >= DEVICE_MILLI else {GPU_MILLI: milli}
    only = Selector(((Requirement(MODEL, Operator.IN, (model,)),),)) if model else Selector()
    amounts = Resources({**gpus, "cpu": cpu, "memory": 4 * cpu * GIB // 1_000})
    return SetRequest(1, 1, amounts, (H100,), only, (), Topology())


def prepared(s: SetRequest) -> SetAsk:
    return prepare(gang(s), (H100,)).sets[0]


def note(inventory: Inventory, s: SetRequest, times: int) -> None:
    for _ in range(times):
        inventory.demand.note(prepared(s))


def where(inventory: Inventory, s: SetRequest) -> str:
    ((name, _),) = placed(inventory, s)[0].items()
    return name


def test_a_share_goes_where_what_it_leaves_is_of_use() -> None:
    inventory = hosts([host("x", 2), host("y", 2)])
    note(inventory, ask(300), 4_000)
    inventory.hold(NodeName("x"), {})
    hold(inventory, ask(700))
    hold(inventory, ask(500))
    rooms = {node.name: node.device_room() for node in inventory}
    share = hold(inventory, ask(200))
    after = {node.name: node.device_room() for node in inventory}
    gone = Counter(r for room in rooms.values() for r in room) - Counter(r for room in after.values() for r in room)
    assert gone == {500: 1}, "300 are left for the pods that come; 300 less 200 would be left for nobody"
    assert share.sets[0].devices


def test_pods_that_need_much_cpu_go_where_it_strands_no_device() -> None:
    inventory = hosts([host("poor", 4, 32_000), host("rich", 4, 128_000)])
    inventory.hold(NodeName("poor"), {Resources({NVIDIA_GPU: 1, "pods": 1}): 1})
    inventory.hold(NodeName("rich"), {Resources({NVIDIA_GPU: 1, "pods": 1}): 1})
    note(inventory, ask(1_000, 8_000), 100)
    assert where(inventory, ask(1_000, 24_000)) == "rich"
    assert where(inventory, ask(0, 24_000)) == "rich"


def test_devices_that_few_kinds_may_use_are_taken_first_by_those_that_may() -> None:
    inventory = hosts([host("common", 2, 20_000), host("rare", 2, 4_000)])
    note(inventory, ask(1_000, 9_000), 100)
    assert where(inventory, ask(800, 2_000)) == "rare"


def test_hosts_that_only_some_pods_may_use_are_left_to_them() -> None:
    inventory = hosts([host("a", model="a"), host("b", model="b")])
    for node in "ab":
        inventory.hold(NodeName(node), {Resources({NVIDIA_GPU: 1, "pods": 1}): 1})
    note(inventory, ask(1_000, 2_000, model="a"), 50)
    note(inventory, ask(1_000, 2_000), 100)
    assert where(inventory, ask(600)) == "b"


@pytest.mark.parametrize("s", [ask(300), ask(1_000, 40_000), ask(0, 4_000)])
def test_no_whole_domain_is_broken_while_a_broken_one_has_room(s: SetRequest) -> None:
    paths = [f"b{b}/r{r}/x{x}" for b in range(2) for r in range(3) for x in range(3)]
    inventory = hosts([host(path, levels=BLOCK_RACK) for path in paths], BLOCK_RACK)
    inventory.hold(NodeName("b1-r2-x1"), {Resources({NVIDIA_GPU: 4, "pods": 1, "cpu": 48_000}): 1})
    racks = [hold(inventory, s).nodes[0].rsplit("-", 1)[0] for _ in range(2)]
    assert racks == ["b1-r2", "b1-r2"]
    for x in (0, 2):
        inventory.set_node(host(f"b1/r2/x{x}", levels=BLOCK_RACK, cpu=100))
    assert hold(inventory, s).nodes[0].startswith("b1-")


def test_nothing_known_whole_hosts_stay_whole() -> None:
    inventory = hosts([host("x", 8), host("y", 8), host("z", 8)])
    used = {hold(inventory, ask(m)).nodes[0] for m in (300, 1_000, 500, 2_000, 700)}
    assert len(used) == 1


def test_a_pod_of_several_is_placed_as_one() -> None:
    inventory = hosts([host("x", 4), host("y", 8)])
    three = pods(3, 2, cpu=15_000)
    assert placed(inventory, three) == [{"y": 3}]


def usable(node_room: list[int], rest: dict[str, int], inventory: Inventory, number: int) -> int:
    """The docstring of `packing`, word by word, in integers."""
    total = 0
    for t in inventory.demand.typical():
        rows = None if t.ask is None else inventory.table.rows(t.ask)
        cls = inventory.table.classes[number]
        if not (cls.gpus >= t.gpus if rows is None else any(rows.rows[number])):  # type: ignore[union-attr]
            continue
        room = min([rest[name] // amount for name, amount in t.rest.items()], default=10**9)
        size = t.milli or DEVICE_MILLI
        many = sum(left // size for left in node_room) // max(1, t.gpus)
        if not room:
            continue
        reach = sum(left for left in node_room if left >= size) if many else 0
        hold_ = min(many, room) * (t.gpus * DEVICE_MILLI + t.milli)
        total += t.weight * (int(REACH) * reach + int(HOLD) * hold_)
    return total


def test_scores_are_those_of_the_slow_obvious_sum() -> None:
    rng = Random(11)
    inventory = hosts([host(f"x{i}", rng.choice((2, 4, 8)), rng.choice((16_000, 64_000))) for i in range(12)])
    kinds = [ask(m, rng.choice((500, 2_000, 9_000))) for m in (110, 320, 470, 810, 1_000, 2_000, 4_000)]
    for _ in range(400):
        note(inventory, rng.choice(kinds), 1)
    for s in [rng.choice(kinds) for _ in range(25)]:
        if isinstance(found := place(inventory, gang(s), (H100,)), Placement):
            inventory.take(found)
    checked = 0
    for s in kinds:
        one = prepared(s)
        spot = inventory.packing().best(one)
        best: list[int] = []
        for node in inventory:
            rest = {name: node.free(name) for name in ("cpu", "memory", "pods")}
            if any(node.free(name) < amount for name, amount in one.pod.items()):
                continue
            room, milli, number = node.device_room(), one.pod[GPU_MILLI], node.at and node.at[0]
            assert number is not None
            before = usable(room, rest, inventory, number)
            left = {name: rest[name] - one.pod[name] for name in rest}
            afters = [[*room[:i], r - milli, *room[i + 1 :]] for i, r in enumerate(room) if milli and r >= milli]
            whole = one.pod[NVIDIA_GPU]
            if whole and room.count(DEVICE_MILLI) >= whole:
                afters = [room[: len(room) - whole]]
            assert node.cls is not None
            opened = int(WHOLE_HOST_MILLI * (REACH + HOLD)) * WEIGHT * (node.free_gpus == node.cls.gpus)
            best.extend(before - usable(after, left, inventory, number) + opened for after in afters)
        assert (spot is None) == (not best)
        if spot is not None:
            assert round(spot.score * (REACH + HOLD) * WEIGHT) == min(best)
            checked += 1
    assert checked > 4


def test_scores_of_changed_hosts_only_equal_those_of_all_hosts_anew() -> None:
    rng = Random(5)
    inventory = hosts([host(f"x{i}", rng.choice((2, 4, 8)), rng.choice((16_000, 64_000))) for i in range(20)])
    kinds = [ask(m, rng.choice((500, 2_000, 6_000))) for m in (0, 110, 320, 470, 650, 810, 1_000, 2_000)]
    for s in kinds:
        note(inventory, s, rng.randint(10, 300))
    held: list[Placement] = []
    for step in range(300):
        s = rng.choice(kinds)
        if step % 3 == 2 and held:
            inventory.give(held.pop(rng.randrange(len(held))))
        if step % 17 == 0:
            inventory.set_node(host(f"x{rng.randrange(20)}", 4, rng.choice((16_000, 64_000))))
        spot = inventory.packing().best(prepared(s))
        anew = Packing(inventory.columns(), inventory.table, inventory.demand, merits=False).best(prepared(s))
        assert spot == anew, step
        if isinstance(found := place(inventory, gang(s), (H100,)), Placement):
            inventory.take(found)
            held.append(found)
    assert len(held) > 10


def test_names_decide_nothing() -> None:
    def filled(names: list[str]) -> Counter[tuple[object, ...]]:
        rng, sizes = Random(3), Random(4)
        nodes = [host("x", sizes.choice((2, 4, 8)), sizes.choice((16_000, 64_000))) for _ in names]
        inventory = hosts(
            [NodeFacts(NodeName(n), f.labels, f.taints, f.allocatable) for n, f in zip(names, nodes, strict=True)]
        )
        for _ in range(80):
            s = ask(rng.choice((0, 110, 320, 470, 810, 1_000)), rng.choice((500, 2_000, 6_000)))
            note(inventory, s, 1)
            if isinstance(found := place(inventory, gang(s), (H100,)), Placement):
                inventory.take(found)
        return Counter((n.offered_gpus, n.free("cpu"), tuple(n.device_room())) for n in inventory)

    names = [f"n{i:02}" for i in range(15)]
    assert filled(names) == filled(names[::-1])


def test_an_exact_pod_goes_to_the_best_of_the_hosts_that_its_shape_holds_equal() -> None:
    inventory = pool({f"b/r/x{i}": 8 for i in range(4)})
    for i, cpu in enumerate((23_000, 10_000, 0, 5_000)):
        inventory.hold(NodeName(f"b-r-x{i}"), {Resources({NVIDIA_GPU: 1, "cpu": cpu, "pods": 1}): 1})
    note(inventory, ask(1_000, 28_000), 200)
    assert len({(n.at, n.free_gpus) for n in inventory}) == 1
    assert where(inventory, pods(1, 1, cpu=9_000)) != "b-r-x0", "six pods of 28 cores beside it, five on x0"


def test_an_exact_pod_leaves_hosts_that_offer_more_beside_a_gpu_to_pods_that_need_it() -> None:
    inventory = hosts([host("rich", 8, 192_000), host("poor", 4, 32_000)])
    for node in ("rich", "poor"):
        inventory.hold(NodeName(node), {Resources({NVIDIA_GPU: 1, "pods": 1}): 1})
    inventory.hold(NodeName("rich"), {Resources({NVIDIA_GPU: 1, "pods": 1}): 5})
    assert where(inventory, pods(1, 1, cpu=1_000)) == "poor"


def test_choosing_among_equal_hosts_leaves_the_shape_that_the_scheduler_expects() -> None:
    rng = Random(17)
    paths = [f"b{b}/r{r}/x{x}" for b in range(2) for r in range(3) for x in range(3)]
    sizes = {path: (rng.choice((4, 8)), rng.choice((32_000, 64_000))) for path in paths}
    inventory = hosts([host(path, *sizes[path], BLOCK_RACK) for path in paths], BLOCK_RACK)
    held: list[Placement] = []
    certain = 0
    for _ in range(250):
        s = pods(rng.randint(1, 2), rng.choice((1, 2, 4)), cpu=rng.choice((1_000, 3_000, 12_000)))
        shape = inventory.shape()
        above, below = fit(shape, gang(s), (H100,)), place(inventory, gang(s), (H100,))
        if isinstance(below, Placement):
            inventory.take(below)
            held.append(below)
            if isinstance(above, Fit) and above.certain:
                assert encode(apply(shape, above.decision)) == encode(inventory.shape())
                certain += 1
        if len(held) > 12:
            inventory.give(held.pop(rng.randrange(len(held))))
    assert certain > 50


def test_demand_is_bounded_and_forgets() -> None:
    demand = Demand()
    old, new = prepared(ask(300)), prepared(ask(700))
    for s in [old] * COUNT_MAX + [new] * (2 * COUNT_MAX):
        demand.note(s)
    weight = {t.milli: t.weight for t in demand.typical()}
    assert weight[700] > 3 * weight[300] > 0
    for n in range(3 * KINDS_MAX):
        demand.note(prepared(ask(500, 1_000 + n)))
    assert len(demand.typical()) == TYPICAL_MAX
    assert 0.9 * WEIGHT < sum(t.weight for t in demand.typical()) <= WEIGHT


def test_pods_without_gpus_are_no_demand_and_large_sets_no_flood() -> None:
    demand = Demand()
    demand.note(prepared(pods(10, 0, cpu=1_000)))
    assert all(t.ask is None for t in demand.typical())
    demand.note(prepared(pods(100_000, 8)))
    demand.note(prepared(pods(1, 1)))
    assert [t.weight for t in demand.typical() if t.ask is not None] != [WEIGHT]


def test_a_table_is_renewed_ever_more_rarely() -> None:
    demand = Demand()
    versions = set()
    for _ in range(10_000):
        demand.note(prepared(ask(300)))
        versions.add(demand.version)
    assert 4 <= len(versions) <= 8


def test_a_pool_without_nodes_has_no_best_host() -> None:
    assert hosts([]).packing().best(prepared(ask(300))) is None
    assert np.size(hosts([]).columns().devices()) == 0


def test_pods_that_want_one_value_of_a_label_go_to_no_host_without_it() -> None:
    inventory = hosts([host("a"), host("b")])
    inventory.set_node(
        facts("c", 4, (), labels={MODEL: "a", "subnet": "s1"}, rest={"cpu": 64_000, "memory": GIB << 10, "pods": 110})
    )
    for s in (pods(1, 1, cpu=40_000), pods(1, 1, cpu=1_000)):
        assert where(inventory, replace(s, topology=Topology(same=("subnet",)))) == "c"


@pytest.mark.parametrize("milli", [300, 1_000, 2_000, 0])
def test_the_terms_of_a_host_add_up_to_its_score(milli: int) -> None:
    rng = Random(9)
    inventory = hosts([host(f"x{i}", rng.choice((2, 4, 8)), rng.choice((16_000, 64_000))) for i in range(8)])
    for _ in range(12):
        filler = gang(ask(rng.choice((300, 500, 1_000)), rng.choice((500, 4_000))))
        if isinstance(found := place(inventory, filler, (H100,)), Placement):
            inventory.take(found)
    s = prepared(ask(milli))
    spot = inventory.packing().best(s)
    assert spot is not None
    terms = inventory.packing().terms(s, spot.row, spot.device_left)
    assert terms.score == pytest.approx(spot.score)
    assert terms.reach + terms.hold >= 0


def test_a_whole_host_in_a_whole_rack_is_told() -> None:
    inventory = pool({"b0/r0/h0": 4, "b0/r1/h0": 4})
    terms = inventory.packing().terms(prepared(pods(1, 1)), 0, 0)
    assert (terms.domains, terms.whole_host) == (1, True)
    assert small_lines(terms)[0] == "fragmentation: breaks 1 whole domain and a whole host"


def test_what_chose_a_share_is_told_of_the_gang_that_has_it() -> None:
    ledger = NodeLedger(hosts([host("x0", 2), host("x1", 2)]))
    first, second = ask(600), ask(300)
    for name, s in (("a", first), ("b", second)):
        assert isinstance(ledger.place(key(name), gang(s), (BoundSet("main", 1, 0, H100),)), Placed)
    before = encode(ledger.inventory.shape())
    terms = ledger.small_terms(key("b"))
    assert terms is not None
    assert not terms.whole_host, "the other share had opened it"
    breaks, score = small_lines(terms)
    assert breaks == "fragmentation: breaks nothing that was whole"
    assert score.startswith("fragmentation: score ")
    assert encode(ledger.inventory.shape()) == before
    assert ledger.small_terms(key("c")) is None


def test_no_score_placed_a_gang_of_several_hosts() -> None:
    ledger = NodeLedger(pool({"b/r/h0": 4, "b/r/h1": 4}))
    assert isinstance(ledger.place(key(), gang(pods(2, 4)), (BoundSet("main", 2, 0, H100),)), Placed)
    assert ledger.small_terms(key()) is None
