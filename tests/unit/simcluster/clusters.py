"""Small clusters for unit tests."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from hanse.model.ids import Attempt, JobId, Part
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.simcluster.engine import Engine
from hanse.simcluster.inputs import Claim, EpochId, GangId, HeldSet, Hold, Program, Start, pack
from hanse.simcluster.nodes import Indexes
from hanse.simcluster.spec import Busy, ClusterSpec, GroupLevel, NodeGroup, Timing, uniform

BEGIN_MS: Final = 1_700_000_000_000
EPOCH: Final = EpochId(1, 10)
CLAIM: Final = Claim("fed", EPOCH, 1)
LEVELS: Final = (
    GroupLevel("example.com/block", "block", "b"),
    GroupLevel("example.com/rack", "rack", "r"),
    GroupLevel("kubernetes.io/hostname", "host", "h"),
)
HOST: Final = Resources({NVIDIA_GPU: 8, "cpu": 64_000, "pods": 110})
NOBODY: Final = Busy()
TIMING: Final = Timing(start=100, start_jitter=0, run=1_000, stop=50, tick=1)


def spec(
    *, timing: Timing = TIMING, counts: tuple[int, ...] = (2, 2, 4), busy: Busy = NOBODY, seed: int = 0
) -> ClusterSpec:
    group = NodeGroup("n", LEVELS, uniform(counts), HOST, {"gpu": "h100"}, busy=busy)
    return ClusterSpec("pool", (group,), timing, seed)


def engine(cluster: ClusterSpec | None = None) -> Engine:
    return Engine(cluster or spec(), uid="uid", now_ms=BEGIN_MS)


def gang(number: int = 1, attempt: int = 1) -> GangId:
    return GangId(JobId(f"aaaaaaaa-{number:016d}"), Attempt(attempt), Part(0))


def some(nodes: Iterable[int]) -> Indexes:
    return np.array(list(nodes), dtype=np.int32)


def hold(nodes: Iterable[int], key: GangId | None = None, *, gpus: int = 8, name: str = "worker") -> Hold:
    placed = HeldSet(name, 0, "h100", pack(some(nodes)), {NVIDIA_GPU: gpus})
    return Hold(key or gang(), 7, (placed,))


def start(key: GangId | None = None, *programs: Program, duration_ms: int = 0, pods_max: int = 0) -> Start:
    return Start(key or gang(), "train", programs, duration_ms, pods_max)


def run(cluster: Engine, nodes: Iterable[int], key: GangId | None = None, *programs: Program) -> GangId:
    """Hold and start a gang now."""
    held = hold(nodes, key)
    assert cluster.apply(held, cluster.now_ms) == ""
    assert cluster.apply(start(held.gang, *programs), cluster.now_ms) == ""
    return held.gang
