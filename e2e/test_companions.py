"""What travels with a job on a real API server: created before its pods, shared, gone with the last that uses it, and
never instead of somebody else's."""

import asyncio
import json
import urllib.error
from dataclasses import replace
from typing import Any, Final

import pytest

from e2e.home import KubernetesHome
from hanse.agent.cluster.port import ClusterPort, Done, ForgetGang, GangKey, HoldGang, Rejected, StopPods
from hanse.model.beside import Companion
from tests.contract.cluster_port.acts import (
    FIRST,
    PATIENCE_S,
    SECOND,
    SET,
    claimed,
    forgotten,
    key,
    node_names,
    record,
    start,
    until_counts,
)
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD

QUEUE: Final = "research"
NAMESPACE: Final = f"/api/v1/namespaces/hanse-jobs-{QUEUE}"
CONF: Final = f"{NAMESPACE}/configmaps/conf"


def config_map(**data: str) -> Companion:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf", "labels": {"a": "b"}}, "data": data}
    return Companion("ConfigMap", "conf", json.dumps(body))


def service() -> Companion:
    spec = {"clusterIP": "None", "selector": {"app": "train"}, "ports": [{"port": 80}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}, "spec": spec}
    return Companion("Service", "svc", json.dumps(body))


async def call(home: KubernetesHome, method: str, path: str, body: object = None) -> Any:
    return await asyncio.to_thread(home.plane.call, method, path, body)


async def is_there(home: KubernetesHome, path: str) -> bool:
    try:
        await call(home, "GET", path)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False
    return True


async def gone(home: KubernetesHome, path: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await is_there(home, path):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)


async def bring(home: KubernetesHome, agent: ClusterPort, gang: GangKey, *companions: Companion) -> Any:
    """Start a gang of one pod that brings these; what became of the start."""
    held = record(gang, (await node_names(agent))[:1], resources=SMALL_POD)
    order = replace(start(gang, home.run(SET, seconds=FOR_LONG_S)), queue=QUEUE, companions=companions)
    _, started = await agent.write(FIRST, [HoldGang(held), order])
    return started


async def end(agent: ClusterPort, gang: GangKey) -> None:
    assert await agent.write(FIRST, [StopPods(gang)]) == (Done(),)
    await until_counts(agent, gang, lambda c: c.occupying == 0)
    await forgotten(agent, gang)


async def test_what_a_job_brings_is_there_with_its_pods_and_goes_with_them(
    home: KubernetesHome, agent: ClusterPort
) -> None:
    assert await bring(home, agent, key(), config_map(lr="1"), service()) == Done()
    await until_counts(agent, key(), lambda c: c.running == 1)
    found = await call(home, "GET", CONF)
    assert (found["data"], found["metadata"]["labels"]["a"]) == ({"lr": "1"}, "b")
    assert (await call(home, "GET", f"{NAMESPACE}/services/svc"))["spec"]["clusterIP"] == "None"
    (pod,) = (await call(home, "GET", f"{NAMESPACE}/pods"))["items"]
    assert pod["metadata"]["labels"]["hanse.dev/job"] == key().job
    await end(agent, key())
    await gone(home, CONF)
    await gone(home, f"{NAMESPACE}/services/svc")


async def test_jobs_that_bring_the_same_share_it_and_the_last_takes_it_along(
    home: KubernetesHome, agent: ClusterPort
) -> None:
    assert await bring(home, agent, key(1), config_map(lr="1")) == Done()
    assert await bring(home, agent, key(2), config_map(lr="1")) == Done()
    await end(agent, key(1))
    assert await is_there(home, CONF)
    await end(agent, key(2))
    await gone(home, CONF)


async def test_a_job_that_brings_other_content_is_refused(home: KubernetesHome, agent: ClusterPort) -> None:
    assert await bring(home, agent, key(1), config_map(lr="1")) == Done()
    refused = await bring(home, agent, key(2), config_map(lr="2"))
    assert isinstance(refused, Rejected)
    assert "for another job and with other content" in refused.reason
    assert await agent.write(FIRST, [StopPods(key(2)), ForgetGang(key(2))]) == (Done(), Done())
    assert (await call(home, "GET", CONF))["data"] == {"lr": "1"}
    await end(agent, key(1))
    await gone(home, CONF)


@pytest.mark.parametrize("same", [True, False])
async def test_somebody_elses_is_used_if_it_is_the_same_and_never_changed(
    home: KubernetesHome, agent: ClusterPort, same: bool
) -> None:
    await asyncio.to_thread(home.plane.make, "/api/v1/namespaces", {"metadata": {"name": f"hanse-jobs-{QUEUE}"}})
    data = {"lr": "1"} if same else {"lr": "2"}
    before = await call(home, "POST", f"{NAMESPACE}/configmaps", {"metadata": {"name": "conf"}, "data": data})
    try:
        started = await bring(home, agent, key(), config_map(lr="1"))
        if same:
            assert started == Done()
            await until_counts(agent, key(), lambda c: c.running == 1)
            await end(agent, key())
        else:
            assert isinstance(started, Rejected)
            assert "not ours" in started.reason
            assert await agent.write(FIRST, [StopPods(key()), ForgetGang(key())]) == (Done(), Done())
        assert await call(home, "GET", CONF) == before
    finally:
        await call(home, "DELETE", CONF)


async def test_what_a_dead_agent_left_is_found_by_the_next(home: KubernetesHome, agent: ClusterPort) -> None:
    assert await bring(home, agent, key(), config_map(lr="1")) == Done()
    await until_counts(agent, key(), lambda c: c.running == 1)
    other = home.port()
    await claimed(other, SECOND)
    await other.list()
    assert await is_there(home, CONF)
    assert await other.write(SECOND, [StopPods(key())]) == (Done(),)
    await until_counts(other, key(), lambda c: c.occupying == 0)
    assert await other.write(SECOND, [ForgetGang(key())]) == (Done(),)
    async with asyncio.timeout(PATIENCE_S):
        while await is_there(home, CONF):
            await other.list()
