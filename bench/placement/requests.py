"""The requests that are measured: no two alike, and such that the pool has room for them.

Room is reckoned here by plain arithmetic on the free GPUs of nodes, never by asking the placement: it would remember
what it was asked.
"""

import random
from typing import Final

import numpy as np

from bench.placement.pool import Room, amounts, gang
from hanse.model.job import Slice, Topology
from hanse.model.request import GangRequest

BLOCK: Final = "block"
RACK: Final = "rack"
HOST: Final = "host"
MODES: Final = ("required", "preferred", "two_layers")
POD_GPUS: Final = (1, 2, 4, 8)
SIZES: Final = (8, 64, 512, 1_000)
LAYERS: Final = {
    8: (((RACK, 4), (HOST, 2)), ((BLOCK, 8), (RACK, 4)), ((RACK, 8), (HOST, 1))),
    64: (((RACK, 8), (HOST, 2)), ((BLOCK, 16), (RACK, 4)), ((RACK, 16), (HOST, 4)), ((BLOCK, 32), (RACK, 8))),
    512: (((RACK, 8), (HOST, 2)), ((BLOCK, 16), (RACK, 4)), ((RACK, 16), (HOST, 4)), ((BLOCK, 64), (RACK, 8))),
    1_000: (((RACK, 8), (HOST, 2)), ((BLOCK, 20), (RACK, 5)), ((RACK, 10), (HOST, 2)), ((BLOCK, 50), (RACK, 5))),
}  # coarse to fine, by pods


def request_for(room: Room, pods: int, mode: str, rng: random.Random) -> GangRequest | None:
    """A gang of that many pods that the room can hold, None if it can hold none of that kind."""
    for gpus in rng.sample(POD_GPUS, len(POD_GPUS)):
        topology = _topology(room, pods, gpus, mode, rng)
        if topology is not None:
            return gang(pods, amounts(gpus, rng), topology)
    return None


def hopeless(room: Room, rng: random.Random) -> GangRequest:
    """A gang that finds no place: too many whole hosts for any one domain, or too many slices for the pool."""
    whole = room.free == room.free.max()
    if rng.random() < 0.5:
        level = rng.choice(("rack", "block", "zone"))
        pods = int(np.bincount(room.within[level], whole).max()) + rng.randint(1, 8)
        return gang(pods, amounts(8, rng), Topology(required=level))
    size = rng.choice((4, 8, 16))
    slices = int((np.bincount(room.within["rack"], whole).astype(np.int64) // size).sum()) + rng.randint(1, 3)
    layers = (Slice(2 * size, "block"), Slice(size, "rack"))
    return gang(2 * size * -(-slices // 2), amounts(8, rng), Topology(slices=layers))


def _topology(room: Room, pods: int, gpus: int, mode: str, rng: random.Random) -> Topology | None:
    most = room.free // gpus
    if mode == "required":
        for level in ("rack", "block", "zone"):
            if np.bincount(room.within[level], most).max() >= pods:
                return Topology(required=level)
        return None
    if mode == "preferred":
        return Topology(preferred=rng.choice(("rack", "block"))) if most.sum() >= pods else None
    for layers in rng.sample(LAYERS[pods], len(LAYERS[pods])):
        if _in_slices(room, gpus, layers) >= pods:
            return Topology(slices=tuple(Slice(size, level) for level, size in layers))
    return None


def _in_slices(room: Room, gpus: int, layers: tuple[tuple[str, int], ...]) -> int:
    """The most pods in whole slices."""
    sizes = dict(layers)
    unit = sizes.get("host", 1)
    pods = room.free // gpus // unit * unit
    inside = np.arange(len(pods))
    for level in ("rack", "block"):
        first = np.unique(room.within[level], return_index=True)[1]
        owner = room.within[level][inside]
        pods = np.bincount(owner, pods, minlength=len(first)).astype(np.int64)
        inside = first
        unit = sizes.get(level, 1)
        pods = pods // unit * unit
    return int(pods.sum())
