"""Starts that are cut off, late, stopped or refused on a real API server: never a rank twice, never half a gang."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import pytest
import pytest_asyncio

from e2e.control_plane import ControlPlane
from e2e.home import HASTY, KubernetesHome
from e2e.pod_log import PodLog, pod_log
from hanse.agent.cluster.port import ClusterPort, Done, ForgetGang, HoldGang, StopPods, Superseded
from tests.contract.cluster_port.acts import (
    FEDERATION,
    FIRST,
    PATIENCE_S,
    SECOND,
    SET,
    counts_in,
    key,
    node_names,
    record,
    run_gang,
    start,
    until_counts,
)
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD

PODS: Final = 12
JOBS: Final = "/api/v1/namespaces/hanse-jobs"
SLOW: Final = replace(HASTY, requests_per_s=60.0, requests_burst_max=1, start_wait_s=0.2)
"""So slow that a start can be cut off at any point, and goes on behind the write that ordered it."""


@pytest_asyncio.fixture
async def slow(plane: ControlPlane) -> AsyncIterator[KubernetesHome]:
    home = KubernetesHome(plane, SLOW)
    await home.wipe()
    yield home
    await home.close()


@pytest.fixture
def log(plane: ControlPlane) -> Iterator[PodLog]:
    with pod_log(plane) as log:
        yield log
        log.check()


async def reached(plane: ControlPlane, wanted: Callable[[list[dict[str, Any]]], bool]) -> None:
    """The pods of native jobs are as wanted."""
    async with asyncio.timeout(PATIENCE_S):
        while not wanted((await asyncio.to_thread(plane.call, "GET", f"{JOBS}/pods"))["items"]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # the API server's doing


@asynccontextmanager
async def watching(port: ClusterPort) -> AsyncIterator[None]:
    """As an agent does all the time, from its last list on; what comes late is seen by it."""
    version = (await port.list()).version

    async def watch() -> None:
        async for _ in port.watch(version):
            pass

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def bound(pods: list[dict[str, Any]]) -> int:
    return sum(1 for pod in pods if "nodeName" in pod["spec"])


CUTS: Final = {
    "before its first pod": lambda pods: True,
    "with its first pod": lambda pods: len(pods) >= 1,
    "in the middle of its pods": lambda pods: len(pods) >= PODS // 2,
    "with its last pod": lambda pods: len(pods) == PODS,
    "when the first pod was let go": lambda pods: bound(pods) >= 1,
    "when half of them were": lambda pods: bound(pods) >= PODS // 2,
}


@pytest.mark.parametrize("cut", CUTS)
async def test_an_agent_that_dies_in_a_start_is_succeeded(slow: KubernetesHome, log: PodLog, cut: str) -> None:
    older = slow.port()
    await older.claim(FEDERATION, FIRST, 100)
    nodes = await node_names(older)
    held = record(key(), [nodes[n % 4] for n in range(PODS)], resources=SMALL_POD)
    order = start(held.key, slow.run(SET, seconds=FOR_LONG_S))
    async with watching(older):
        assert await older.write(FIRST, [HoldGang(held), order]) == (Done(), Done())
        await reached(slow.plane, CUTS[cut])
    await slow.close()

    newer = slow.port()
    await newer.claim(FEDERATION, SECOND, 100)
    state = await newer.list()
    assert [(one.key, one.started) for one in state.records] == [(held.key, True)]
    counts = counts_in(state, held.key)
    if counts.existing + counts.missing < PODS:
        assert await newer.write(SECOND, [order]) == (Done(),)
    await until_counts(newer, held.key, lambda c: c.running == PODS)
    assert len(log.of(held.key.job)) == PODS


async def test_a_start_goes_on_behind_its_write_and_can_be_stopped(slow: KubernetesHome, log: PodLog) -> None:
    port = slow.port()
    await port.claim(FEDERATION, FIRST, 100)
    held = record(key(), (await node_names(port)) * 8, resources=SMALL_POD)
    await run_gang(port, held, slow.run(SET, seconds=FOR_LONG_S))
    assert counts_in(await port.list(), held.key).existing == 64, "told to run, although few do yet"
    async with watching(port):
        await reached(slow.plane, lambda pods: bound(pods) >= 1)
        assert await port.write(FIRST, [StopPods(held.key)]) == (Done(),)
        stopped = await until_counts(port, held.key, lambda c: c.occupying == 0)
        assert stopped.existing + stopped.missing == 64
        assert await port.write(FIRST, [ForgetGang(held.key)]) == (Done(),)
        await reached(slow.plane, lambda pods: not pods)
    assert (await port.list()).records == ()
    assert log.pods, "some of them had a node, and each of these once"


async def test_of_two_that_claim_at_once_the_newer_has_it(home: KubernetesHome) -> None:
    older, newer = home.port(), home.port()
    ends = await asyncio.gather(
        older.claim(FEDERATION, FIRST, 100), newer.claim(FEDERATION, SECOND, 100), return_exceptions=True
    )
    assert not isinstance(ends[1], BaseException)
    assert not isinstance(ends[0], BaseException) or isinstance(ends[0], Superseded)
    gang = record(key(), await node_names(newer))
    with pytest.raises(Superseded):
        await older.write(FIRST, [HoldGang(gang)])
    assert await newer.write(SECOND, [HoldGang(gang)]) == (Done(),)


async def test_pods_that_the_cluster_does_not_admit_are_told_and_leave_nothing(
    home: KubernetesHome, agent: ClusterPort
) -> None:
    """Each alone would be admitted; what is said of the others the controller alone is told."""
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}}
    await asyncio.to_thread(home.plane.call, "POST", f"{JOBS}/resourcequotas", quota)
    held = record(key(), (await node_names(agent))[:4], resources=SMALL_POD)
    try:
        await run_gang(agent, held, home.run(SET, seconds=1))
        refused = await until_counts(agent, held.key, lambda c: bool(c.failure))
        assert refused.infrastructure
        assert "exceeded quota" in refused.failure
        async with watching(agent):
            await agent.write(FIRST, [StopPods(held.key)])
            await until_counts(agent, held.key, lambda c: c.occupying == 0)
            assert await agent.write(FIRST, [ForgetGang(held.key)]) == (Done(),)
            await reached(home.plane, lambda pods: not pods)
        state = await agent.list()
        assert (state.records, state.pods) == ((), ())
    finally:
        await asyncio.to_thread(home.plane.delete, f"{JOBS}/resourcequotas/few")
