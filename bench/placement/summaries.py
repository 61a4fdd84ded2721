"""How many bytes a pool's shape takes: of busy pools, and of pools that were made to be hard to write down."""

import random
from typing import Final

from bench.contract import JsonValue
from bench.placement.gangs import LOADS
from bench.placement.hard import PIECE
from bench.placement.pool import FLAVOR, GPUS, LEVELS, BusyPool, facts_of
from hanse.agent.core.inventory import Inventory
from hanse.model.queue import Flavor
from hanse.shape import encode

ROUNDS: Final = 20
WORST_NODES: Final = (5_000, 20_000)


def measure(nodes: int, seed: int) -> tuple[int, int, JsonValue]:
    """Bytes of a typical summary (the larger of the medians of the loads), the most bytes of any, and details."""
    typical: dict[str, JsonValue] = {}
    medians: list[int] = []
    most: list[int] = []
    for load in LOADS:
        pool = BusyPool(nodes, load, seed)
        sizes: list[int] = []
        for _ in range(ROUNDS):
            pool.change()
            sizes.append(len(encode(pool.inventory.shape())))
        sizes.sort()
        medians.append(sizes[ROUNDS // 2])
        most.append(sizes[-1])
        typical[f"{load:.2f}"] = {"p50": sizes[ROUNDS // 2], "max": sizes[-1]}
    worst = {str(n): _worst(n, seed) for n in WORST_NODES}
    return max(medians), max([*most, *worst.values()]), {"typical": typical, "worst": worst}


def _worst(nodes: int, seed: int) -> int:
    """Every host with another number of free GPUs than its neighbours, every rack another mixture."""
    rng = random.Random(seed)
    inventory = Inventory([Flavor(FLAVOR, 0)], [LEVELS], facts_of(nodes, rng))
    for node in list(inventory):
        held = rng.randint(0, GPUS)
        if held:
            inventory.hold(node.name, {PIECE: held})
    return len(encode(inventory.shape()))
