"""What the tests of the cluster port do again and again."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from hanse.agent.cluster.port import (
    ClusterPort,
    ClusterState,
    Done,
    Epoch,
    ForgetGang,
    GangKey,
    GangRecord,
    HoldGang,
    PodCounts,
    PodRun,
    SetPlace,
    StartPods,
    WatchLost,
)
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, Part
from hanse.model.resources import Resources
from tests.contract.cluster_port.homes import POD

PATIENCE_S: Final = 30.0
FEDERATION: Final = "fed"
FIRST: Final = Epoch(1, 10)
SECOND: Final = Epoch(1, 20)
SET: Final = "worker"
LEADER: Final = "leader"


def key(number: int = 1, *, attempt: int = 1, part: int = 0) -> GangKey:
    return GangKey(JobId(f"aaaaaaaa-{number:016d}"), Attempt(attempt), Part(part))


def record(
    gang: GangKey,
    nodes: Iterable[str],
    *,
    resources: Resources = POD,
    first_rank: int = 0,
    payload: bytes = b"binding",
) -> GangRecord:
    """One pod set with one pod on each node."""
    places = tuple(NodeName(node) for node in nodes)
    held = SetPlace(SET, first_rank, places, FlavorName("h100"), resources)
    return GangRecord(gang, 7, (held,), False, payload)


def with_leader(held: GangRecord, node: str, *, resources: Resources = POD) -> GangRecord:
    """The same gang with a set of one more pod before the others."""
    leader = SetPlace(LEADER, 0, (NodeName(node),), FlavorName("h100"), resources)
    return replace(held, sets=(leader, *held.sets))


def start(gang: GangKey, *runs: PodRun, duration_s: int = 0) -> StartPods:
    return StartPods(gang, "train", "", runs, duration_s=duration_s)


async def claimed(port: ClusterPort, epoch: Epoch, revision: int = 100) -> None:
    await port.claim(FEDERATION, epoch, revision)


async def run_gang(port: ClusterPort, held: GangRecord, run: PodRun, *, duration_s: int = 0) -> None:
    """Hold a gang and start its pods, as epoch FIRST."""
    results = await port.write(FIRST, [HoldGang(held), start(held.key, run, duration_s=duration_s)])
    assert results == (Done(), Done())


async def node_names(port: ClusterPort) -> list[str]:
    return [node.name for node in (await port.list()).nodes]


def counts_in(state: ClusterState, gang: GangKey) -> PodCounts:
    """The counts of a gang, all zero if the cluster tells of none."""
    return next((counts for counts in state.pods if counts.gang == gang), PodCounts(gang))


async def until(port: ClusterPort, wanted: Callable[[ClusterState], bool]) -> ClusterState:
    """The first listed state that is wanted, looked at again whenever the watch tells of a change."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            state = await port.list()
            if wanted(state):
                return state
            try:
                async for _ in port.watch(state.version):
                    break
            except WatchLost:
                continue


async def until_counts(port: ClusterPort, gang: GangKey, wanted: Callable[[PodCounts], bool]) -> PodCounts:
    """The counts of a gang as soon as they are wanted."""
    return counts_in(await until(port, lambda state: wanted(counts_in(state, gang))), gang)


async def forgotten(port: ClusterPort, gang: GangKey) -> None:
    assert await port.write(FIRST, [ForgetGang(gang)]) == (Done(),)
