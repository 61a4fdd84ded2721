"""Places on the node arrays: figures follow every change, and a ledger rebuilt from records equals the one lost."""

from dataclasses import replace
from random import Random

from hanse.agent.core.inventory import Inventory
from hanse.agent.core.ledger import NodeFigures, NodeLedger, Placed, Unplaced
from hanse.agent.core.payload import Payload, decode_payload, encode_payload
from hanse.model.desired import BoundSet
from hanse.model.fence import GangKey
from hanse.model.job import Slice, Topology
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import CPU, EMPTY, NVIDIA_GPU, Resources
from hanse.model.selectors import Selector
from hanse.shape import encode
from tests.unit.agent_core.stage import FLAVORS, H100, LEVELS, key, nodes

HOSTS = 12
ANYWHERE = Topology()


def request(pods: int, gpus: int, *, topology: Topology = ANYWHERE) -> tuple[GangRequest, tuple[BoundSet, ...]]:
    pod = Resources({CPU: 1_000 * gpus, NVIDIA_GPU: gpus})
    asked = SetRequest(pods, pods, pod, (H100,), Selector(), (), topology)
    return GangRequest((asked,)), (BoundSet("worker", pods, 4, H100),)


def several(*pods: int, gpus: int = 8, topology: Topology = ANYWHERE) -> tuple[GangRequest, tuple[BoundSet, ...]]:
    """A set for each number of pods, all alike otherwise."""
    asked = [request(count, gpus, topology=topology)[0].sets[0] for count in pods]
    return GangRequest(tuple(asked)), tuple(BoundSet(f"s{i}", count, 0, H100) for i, count in enumerate(pods))


def fresh() -> NodeLedger:
    return NodeLedger(Inventory(FLAVORS, (LEVELS,), nodes(HOSTS)))


def counted(ledger: NodeLedger) -> NodeFigures:
    """The same figures, by looking at every node."""
    usable = [node for node in ledger.inventory if node.at is not None and node.cls is not None]
    gpus = sum(node.facts.allocatable[NVIDIA_GPU] for node in usable)
    return NodeFigures(len(ledger.inventory), len(usable), gpus, sum(node.raw_free_gpus for node in usable))


def place(ledger: NodeLedger, gang: GangKey, pods: int, gpus: int, topology: Topology = ANYWHERE) -> Placed:
    placed = ledger.place(gang, *request(pods, gpus, topology=topology))
    assert isinstance(placed, Placed)
    return placed


def test_every_rank_has_a_node_and_ranks_count_from_the_first_of_the_part() -> None:
    placed = place(fresh(), key(), 3, 8)
    (held,) = placed.sets
    assert (held.name, held.first_rank, held.flavor, len(held.nodes)) == ("worker", 4, H100, 3)
    assert [use.level for use in placed.domains] == ["rack", "host"]


def test_refusal_takes_nothing() -> None:
    ledger = fresh()
    before = encode(ledger.inventory.shape())
    assert isinstance(ledger.place(key(), *request(HOSTS + 1, 8)), Unplaced)
    assert encode(ledger.inventory.shape()) == before


def test_figures_follow_every_change() -> None:
    rng, ledger = Random(3), fresh()
    facts = nodes(HOSTS)
    held: list[GangKey] = []
    for step in range(200):
        gang = key(f"j{step}")
        match rng.randrange(5):
            case 0 | 1:
                if isinstance(ledger.place(gang, *request(rng.randint(1, 4), rng.choice((1, 2, 8)))), Placed):
                    held.append(gang)
            case 2 if held:
                ledger.give(held.pop(rng.randrange(len(held))))
            case 3:
                node = replace(rng.choice(facts), cordoned=rng.random() < 0.5)
                ledger.change_node(node, rng.choice((EMPTY, Resources({NVIDIA_GPU: 1}))))
            case _:
                ledger.remove_node(rng.choice(facts).name)
        assert ledger.node_figures == counted(ledger), step


def test_places_of_a_node_that_is_gone_can_be_given_back() -> None:
    ledger = fresh()
    placed = place(ledger, key(), 2, 8)
    ledger.remove_node(placed.sets[0].nodes[0])
    ledger.give(key())
    ledger.give(key())
    assert ledger.node_figures.free_gpus == (HOSTS - 1) * 8


def test_ledger_that_is_rebuilt_equals_the_one_that_was_lost_exclusive_gangs_included() -> None:
    ledger, again = fresh(), fresh()
    exclusive = Topology(slices=(Slice(1, "rack", exclusive=True),))
    gangs = {
        key("plain"): place(ledger, key("plain"), 3, 8),
        key("share"): place(ledger, key("share"), 5, 2),
        key("alone"): place(ledger, key("alone"), 1, 8, exclusive),
    }
    assert gangs[key("alone")].reserved
    for gang, placed in gangs.items():
        kept = decode_payload(encode_payload(Payload(reserved=placed.reserved)))
        domains = again.take(gang, placed.sets, kept.reserved)
        assert domains == placed.domains
    assert encode(again.inventory.shape()) == encode(ledger.inventory.shape())
    assert again.node_figures == ledger.node_figures
    for gang in gangs:
        again.give(gang)
    assert encode(again.inventory.shape()) == encode(fresh().inventory.shape())


def test_sets_are_given_back_one_by_one_with_what_they_reserve() -> None:
    ledger = fresh()
    exclusive = Topology(slices=(Slice(1, "rack", exclusive=True),))
    placed = ledger.place(key(), *several(1, 1, topology=exclusive))
    assert isinstance(placed, Placed)
    assert all(placed.reserved)
    again = fresh()
    again.take(key(), placed.sets, decode_payload(encode_payload(Payload(reserved=placed.reserved))).reserved)
    for given, free in ((1, 10), (1, 10), (0, 12)):
        for each in (ledger, again):
            each.give_sets(key(), {given})
            assert each.node_figures.free_gpus == free * 8
        assert encode(again.inventory.shape()) == encode(ledger.inventory.shape())
    for each in (ledger, again):
        each.give(key())
        each.give_sets(key(), {0})
        assert encode(each.inventory.shape()) == encode(fresh().inventory.shape())


def test_ledger_with_sets_given_back_equals_the_one_that_is_rebuilt() -> None:
    rng, ledger = Random(5), fresh()
    held: dict[GangKey, tuple[Placed, set[int]]] = {}
    for step in range(300):
        gang = key(f"j{step}")
        match rng.randrange(4):
            case 0 | 1:
                sets = several(*(rng.randint(1, 3) for _ in range(rng.randint(1, 3))), gpus=rng.choice((1, 2, 8)))
                if isinstance(placed := ledger.place(gang, *sets), Placed):
                    held[gang] = placed, set()
            case 2 if held:
                gang = rng.choice(list(held))
                ended = {rng.randrange(len(held[gang][0].sets))}
                ledger.give_sets(gang, ended - held[gang][1])
                held[gang][1].update(ended)
            case _ if held:
                gang = rng.choice(list(held))
                ledger.give(gang)
                del held[gang]
            case _:
                continue
        again = fresh()
        for gang, (placed, ended) in held.items():
            again.take(gang, placed.sets, placed.reserved)
            again.give_sets(gang, ended)
        assert encode(again.inventory.shape()) == encode(ledger.inventory.shape()), step
        assert ledger.node_figures == counted(ledger), step
        assert ledger.inventory.account(NVIDIA_GPU).balanced, step
