"""Trees on which the greedy choice cannot prove itself: what the exact search costs.

Hosts have any number of free GPUs, held by pods of ours at random, racks are ragged; gangs of 1,000 pods ask for one
to three GPUs each, with slices of awkward sizes. Each request is measured first and looked at afterwards; those that
the greedy's certificate answered are not counted.
"""

import random
from typing import Final

from bench.contract import JsonValue
from bench.placement.clock import Stopwatch
from bench.placement.pool import FLAVOR, GPUS, LEVELS, amounts, facts_of, gang
from bench.placement.proofs import Proofs
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.job import Slice, Topology
from hanse.model.queue import Flavor
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.shape.take import Proof

PODS: Final = 1_000
PIECE: Final = Resources({NVIDIA_GPU: 1, "cpu": 1_000, "pods": 1})
TOPOLOGIES: Final = (
    Topology(),
    Topology(slices=(Slice(2, "host"),)),
    Topology(slices=(Slice(5, "rack"),)),
    Topology(slices=(Slice(20, "block"), Slice(4, "rack"))),
    Topology(slices=(Slice(10, "rack"), Slice(2, "host"))),
    Topology(slices=(Slice(100, "zone"), Slice(25, "block"), Slice(5, "rack"))),
)
TRIES_MAX: Final = 20  # requests looked at for each one wanted


def measure(nodes: int, wanted: int, seed: int) -> tuple[Stopwatch, JsonValue]:
    """`wanted` requests that needed more than the greedy, each on a tree that differs from the one before."""
    rng = random.Random(seed)
    watch, proofs, tried = Stopwatch(), Proofs(), 0
    inventory, names = _scattered(nodes, rng)
    while len(watch.cpu_ns) < wanted and tried < TRIES_MAX * wanted:
        tried += 1
        for name in rng.sample(names, 200):
            _hold_some(inventory, name, rng)
        request = gang(PODS, amounts(rng.choice((1, 1, 2, 3)), rng), rng.choice(TOPOLOGIES))
        inventory.shape()
        found = watch.time(lambda request=request: place(inventory, request, (FLAVOR,)))  # type: ignore[misc]
        if not isinstance(found, Placement) or proofs.look(inventory, request) is Proof.CERTIFICATE:
            watch.drop()
    return watch, {"tried": tried, "proofs": proofs.told(), **_dict(watch.told())}


def _dict(told: JsonValue) -> dict[str, JsonValue]:
    assert isinstance(told, dict)
    return told


def _scattered(nodes: int, rng: random.Random) -> tuple[Inventory, list[str]]:
    facts = facts_of(nodes, rng)
    inventory = Inventory([Flavor(FLAVOR, 0)], [LEVELS], facts)
    names = [str(fact.name) for fact in facts]
    for name in names:
        _hold_some(inventory, name, rng)
    return inventory, names


def _hold_some(inventory: Inventory, name: str, rng: random.Random) -> None:
    """Any number of the node's GPUs is held from now on, mostly some."""
    node = inventory.node(name)  # type: ignore[arg-type]
    assert node is not None
    held = node.used(NVIDIA_GPU)
    if held:
        inventory.release(node.name, {PIECE: held})
    want = rng.choice((GPUS, rng.randint(0, GPUS), rng.randint(3, GPUS)))
    if want:
        inventory.hold(node.name, {PIECE: want})
