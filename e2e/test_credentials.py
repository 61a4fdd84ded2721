"""Credentials as clusters give them to agents: few rights, tokens that expire, files that change."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from e2e.agent_access import account_token, exec_plugin, kubeconfig
from e2e.control_plane import ControlPlane
from e2e.home import HASTY, KubernetesHome
from hanse.agent.cluster.kubernetes.api import Kubeconfig
from hanse.agent.cluster.kubernetes.cluster import KubernetesCluster
from hanse.agent.cluster.port import ClusterUnavailable, Done, StopPods
from tests.contract.cluster_port.acts import (
    FEDERATION,
    FIRST,
    PATIENCE_S,
    SET,
    forgotten,
    key,
    node_names,
    record,
    run_gang,
    until_counts,
)
from tests.contract.cluster_port.homes import FOR_LONG_S, SMALL_POD

LOOK_EVERY_S: Final = 0.2


@pytest_asyncio.fixture
async def token(home: KubernetesHome, plane: ControlPlane) -> AsyncIterator[str]:
    """Of an account that has no more rights than an agent needs."""
    yield await asyncio.to_thread(account_token, plane)


async def test_an_agent_needs_no_more_rights_than_its_role_gives(
    home: KubernetesHome, token: str, tmp_path: Path
) -> None:
    port = KubernetesCluster(Kubeconfig(kubeconfig(home.plane, tmp_path / "config", {"token": token})), "pool", HASTY)
    await port.claim(FEDERATION, FIRST, 100)
    nodes = await node_names(port)
    held, ending = record(key(1), nodes[:3], resources=SMALL_POD), record(key(2), nodes[:2], resources=SMALL_POD)
    await run_gang(port, held, home.run(SET, seconds=FOR_LONG_S))
    await run_gang(port, ending, home.run(SET, seconds=0))
    await until_counts(port, held.key, lambda c: c.running == 3)
    await until_counts(port, ending.key, lambda c: c.succeeded == 2)
    assert [line async for line in port.logs(ending.key, pod_set=SET, rank=0, follow=False, tail=1)]
    await home.fail(nodes[0])
    await until_counts(port, held.key, lambda c: c.missing == 1)
    assert await port.write(FIRST, [StopPods(held.key)]) == (Done(),)
    await until_counts(port, held.key, lambda c: c.occupying == 0)
    await forgotten(port, held.key)
    await forgotten(port, ending.key)
    state = await port.list()
    assert (state.records, state.pods) == ((), ())
    await port.close()


async def test_a_token_that_expires_is_asked_for_again(home: KubernetesHome, token: str, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    user = exec_plugin(tmp_path / "plugin", token, asked)
    port = KubernetesCluster(Kubeconfig(kubeconfig(home.plane, tmp_path / "config", user)), "pool", HASTY)
    await port.list()
    once = len(asked.read_text().splitlines())
    await port.list()
    assert len(asked.read_text().splitlines()) > once > 0
    await port.close()


async def test_credentials_that_change_are_read_anew(home: KubernetesHome, token: str, tmp_path: Path) -> None:
    path = kubeconfig(home.plane, tmp_path / "config", {"token": "of-yesterday"})
    port = KubernetesCluster(Kubeconfig(path), "pool", HASTY)
    with pytest.raises(ClusterUnavailable, match="nauthorized"):
        await port.read_claim()
    kubeconfig(home.plane, path, {"token": token})
    async with asyncio.timeout(PATIENCE_S):
        while not await _answers(port):  # noqa: ASYNC110 - credentials are not read for every request
            await asyncio.sleep(LOOK_EVERY_S)
    await port.close()


async def _answers(port: KubernetesCluster) -> bool:
    try:
        await port.read_claim()
    except ClusterUnavailable:
        return False
    return True
