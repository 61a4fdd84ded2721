"""What an administrator's policies refuse on a real API server: of one gang of a call, for one gang of many."""

import asyncio
from typing import Any, Final

import pytest

from e2e.home import KubernetesHome
from e2e.policies import refused
from hanse.agent.cluster.port import ClusterPort, Done, ForgetGang, HoldGang, Rejected, StopPods
from tests.contract.cluster_port.acts import (
    FIRST,
    PATIENCE_S,
    SET,
    counts_in,
    forgotten,
    key,
    node_names,
    record,
    run_gang,
    start,
    until_counts,
)
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD

JOBS: Final = "/api/v1/namespaces/hanse-jobs/pods"
MANY: Final = 40
"""More than there are requests at a time."""


@pytest.mark.parametrize("reason", ["Forbidden", "RequestEntityTooLarge", "Invalid"])
async def test_one_gang_of_a_call_is_refused(home: KubernetesHome, agent: ClusterPort, reason: str) -> None:
    nodes = await node_names(agent)
    gangs = [record(key(number), nodes[:2], resources=SMALL_POD) for number in range(3)]
    ops = [op for held in gangs for op in (HoldGang(held), start(held.key, home.run(SET, seconds=FOR_LONG_S)))]
    labels = {"hanse.dev/job": key(1).job}
    pod = {
        "metadata": {"name": "probe", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    unless = f"!has(object.metadata.labels) || object.metadata.labels[?'hanse.dev/job'].orValue('') != '{key(1).job}'"
    with refused(home.plane, "CREATE", unless, ("POST", JOBS, pod), reason=reason):
        results = await agent.write(FIRST, ops)
        assert [result for at, result in enumerate(results) if at != 3] == [Done()] * 5
        assert isinstance(results[3], Rejected)
        assert "the policy says no" in results[3].reason
    assert counts_in(await agent.list(), key(1)).existing == 0
    for number in (0, 2):
        await until_counts(agent, key(number), lambda c: c.running == 2)
    assert await agent.write(FIRST, [StopPods(key(1)), ForgetGang(key(1))]) == (Done(), Done())
    assert [one.key for one in (await agent.list()).records] == [key(0), key(2)]


async def test_a_gang_that_may_not_be_stopped_holds_up_no_other(home: KubernetesHome, agent: ClusterPort) -> None:
    nodes = await node_names(agent)
    stuck, free = (
        record(key(1), nodes * (MANY // len(nodes)), resources=SMALL_POD),
        record(key(2), nodes[:4], resources=SMALL_POD),
    )
    for held in (stuck, free):
        await run_gang(agent, held, home.run(SET, seconds=FOR_LONG_S))
    await until_counts(agent, stuck.key, lambda c: c.running == MANY)
    await until_counts(agent, free.key, lambda c: c.running == 4)
    of_it = f"{JOBS}?labelSelector=hanse.dev/job={stuck.key.job},hanse.dev/rank=0"
    (one,) = (await asyncio.to_thread(home.plane.call, "GET", of_it))["items"]
    path = f"{JOBS}/{one['metadata']['name']}"
    probe: tuple[str, str, Any] = ("DELETE", path, None)
    unless = f"oldObject.metadata.labels[?'hanse.dev/job'].orValue('') != '{stuck.key.job}'"
    with refused(home.plane, "DELETE", unless, probe):
        assert await agent.write(FIRST, [StopPods(stuck.key), StopPods(free.key)]) == (Done(), Done())
        await until_counts(agent, free.key, lambda c: c.occupying == 0)
        await forgotten(agent, free.key)
        state = await agent.list()
        assert counts_in(state, stuck.key).occupying == MANY
        assert [one.key for one in state.records] == [stuck.key]
    await until_counts(agent, stuck.key, lambda c: c.occupying == 0)
    await forgotten(agent, stuck.key)
    async with asyncio.timeout(PATIENCE_S):
        while (await asyncio.to_thread(home.plane.call, "GET", JOBS))["items"]:  # noqa: ASYNC110 - they go with their Job
            await asyncio.sleep(0.1)
