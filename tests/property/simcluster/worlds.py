"""Small simulated clusters and everything that can happen to them, for hypothesis to draw from."""

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np
from hypothesis import strategies as st

from hanse.model.ids import Attempt, JobId, Part
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.simcluster.engine import Engine
from hanse.simcluster.inputs import (
    Accept,
    AddedTaint,
    AddForeign,
    Claim,
    EpochId,
    FailNodes,
    Forget,
    GangId,
    HeldSet,
    Hold,
    Input,
    LoseRecord,
    MarkNodes,
    Program,
    RemoveForeign,
    RemovePods,
    RestoreNodes,
    Start,
    Stop,
    pack,
)
from hanse.simcluster.spec import Busy, ClusterSpec, GroupLevel, NodeGroup, Timing

BEGIN_MS: Final = 1_700_000_000_000
NODES: Final = 6
HOST: Final = Resources({NVIDIA_GPU: 4, "cpu": 8_000, "pods": 5})
LEVELS: Final = (GroupLevel("example.com/rack", "rack", "r"), GroupLevel("kubernetes.io/hostname", "host", "h"))
EPOCH: Final = EpochId(1, 1)


def small_spec(*, racks: tuple[int, ...] = (3, 3), busy: float = 0.0) -> ClusterSpec:
    """Racks of hosts with 4 GPUs; things take a fraction of a second."""
    group = NodeGroup("n", LEVELS, ((len(racks),), racks), HOST, busy=Busy(busy, scattered=True))
    return ClusterSpec("small", (group,), Timing(start=40, start_jitter=60, run=300, stop=50, tick=5), seed=3)


def new_engine(spec: ClusterSpec | None = None) -> Engine:
    return Engine(spec or small_spec(), uid="uid", now_ms=BEGIN_MS)


def indexes(nodes: Iterable[int]) -> bytes:
    return pack(np.array(sorted(nodes), dtype=np.int32))


gangs = st.builds(
    GangId,
    st.sampled_from([JobId("aaaaaaaa-1"), JobId("aaaaaaaa-2")]),
    st.just(Attempt(1)),
    st.just(Part(0)),
)
nodes = st.integers(0, NODES - 1)
node_lists = st.lists(nodes, min_size=0, max_size=4).map(lambda found: pack(np.array(found, dtype=np.int32)))
node_sets = st.sets(nodes, min_size=1, max_size=NODES).map(indexes)
amounts = st.fixed_dictionaries({NVIDIA_GPU: st.sampled_from([0, 1, 1, 2, 4])}, optional={"cpu": st.just(3_000)})
sets = st.builds(HeldSet, st.sampled_from(["a", "b"]), st.integers(0, 3), st.just("h100"), node_lists, amounts)
programs = st.builds(
    Program,
    st.sampled_from(["a", "b"]),
    run_ms=st.sampled_from([-1, 0, 17, 400]),
    start_ms=st.sampled_from([-1, -1, 0, 33]),
    exit_code=st.sampled_from([0, 0, 1]),
)
holds = st.builds(
    Hold, gangs, st.just(7), st.lists(sets, min_size=1, max_size=2, unique_by=lambda s: s.name).map(tuple)
)
starts = st.builds(
    Start,
    gangs,
    st.just("job"),
    st.lists(programs, max_size=2, unique_by=lambda p: p.pod_set).map(tuple),
    duration_ms=st.sampled_from([0, 0, 120]),
    pods_max=st.integers(0, 3),
)
marks = st.builds(
    MarkNodes,
    node_sets,
    cordoned=st.none() | st.booleans(),
    ready=st.none() | st.booleans(),
    healthy=st.none() | st.booleans(),
    add_taints=st.sampled_from([(), (AddedTaint("t", "v", 1),), (AddedTaint("t", "", 3),)]),
    remove_taint_keys=st.sampled_from([(), ("t",)]),
    allocatable=st.sampled_from([{}, {}, {NVIDIA_GPU: 2}, {NVIDIA_GPU: 4}]),
)
stops = st.builds(Stop, gangs, st.sampled_from([0, 20, 30_000]))
inputs: st.SearchStrategy[Input] = st.one_of(
    holds,
    starts,
    starts,
    stops,
    stops,
    st.builds(Forget, gangs),
    st.builds(Forget, gangs),
    st.builds(Accept, st.integers(0, 9)),
    st.builds(Claim, st.just("fed"), st.builds(EpochId, st.just(1), st.integers(1, 3)), st.just(1)),
    st.builds(FailNodes, node_sets, st.booleans()),
    st.builds(RestoreNodes, node_sets),
    marks,
    st.builds(AddForeign, st.sampled_from(["x", "y"]), node_sets, amounts, st.sampled_from([0, 150])),
    st.builds(RemoveForeign, st.sampled_from(["x", "y"]), st.sampled_from([0, 70])),
    st.builds(LoseRecord, gangs),
)
waits = st.sampled_from([0, 0, 1, 13, 60, 250])


def _launched(hold: Hold, start: Start, wait_ms: int) -> list[tuple[int, Input]]:
    """A gang is held and started: what happens most, and would be rare if both were drawn apart."""
    return [(0, hold), (wait_ms, msgspec.structs.replace(start, gang=hold.gang))]


steps = st.lists(
    st.one_of(
        st.builds(_launched, holds, starts, waits),
        st.builds(lambda wait_ms, change: [(wait_ms, change)], waits, inputs),
        st.builds(lambda wait_ms, change: [(wait_ms, change)], waits, inputs),
    ),
    min_size=8,
    max_size=30,
).map(lambda parts: [step for part in parts for step in part])
"""Milliseconds that pass, and then what is done."""


def pods_to_remove(engine: Engine, gang: GangId, drawn: int) -> RemovePods | None:
    """A pod of a gang that somebody deletes, if the gang has any."""
    found = engine.gangs.get(gang)
    if found is None or not len(found.nodes):
        return None
    return RemovePods(gang, indexes([drawn % len(found.nodes)]))
