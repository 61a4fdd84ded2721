"""The agent's adapter over gRPC, when there is nobody at the other end."""

import asyncio
import socket

import numpy as np
import pytest

from hanse.agent.cluster.port import ClusterUnavailable, WatchLost
from hanse.agent.cluster.simulated_grpc import GrpcCluster
from hanse.kit.clock import SystemClock
from hanse.simcluster.build import build_cluster
from hanse.simcluster.inputs import FailNodes, pack
from hanse.simcluster.server import serve
from tests.unit.simcluster.clusters import spec

PATIENCE_S = 30.0


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def test_nobody_is_told_in_one_line_and_at_once() -> None:
    address = free_address()
    port = GrpcCluster(address, "pool")
    async with asyncio.timeout(PATIENCE_S / 5):
        with pytest.raises(ClusterUnavailable, match=f"pool at {address}: ") as caught:
            await port.list()
        with pytest.raises(WatchLost, match=address):
            await anext(port.watch(0))
    assert "\n" not in str(caught.value)
    await port.close()
    with pytest.raises(ClusterUnavailable, match="closed"):
        await port.read_claim()


async def test_it_finds_a_server_that_comes_up_later() -> None:
    address = free_address()
    port = GrpcCluster(address, "pool")
    with pytest.raises(ClusterUnavailable):
        await port.read_claim()
    up = asyncio.Event()
    cluster = build_cluster(spec(), SystemClock())
    serving = asyncio.create_task(serve(address, {"pool": cluster}, ready=lambda _: up.set()))
    await up.wait()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                assert (await port.read_claim()).cluster_uid == cluster.engine.uid
                break
            except ClusterUnavailable:
                await asyncio.sleep(0)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await port.close()


async def test_what_changes_shortly_after_a_message_is_told_together() -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    cluster = build_cluster(spec(), SystemClock())
    serving = asyncio.create_task(serve("127.0.0.1:0", {"pool": cluster}, ready=ready.set_result))
    port = GrpcCluster(await ready, "pool")
    watch = port.watch(cluster.engine.version)
    told: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        for node in range(5):
            cluster.operate(FailNodes(pack(np.array([node], dtype=np.int32)), remove=False))
            if not told:
                told.append(len(await anext(watch)))
            await port.read_claim()  # the server has had its turn
        while sum(told) < 5:
            told.append(len(await anext(watch)))
    assert sum(told) == 5
    assert len(told) < 5
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await port.close()


async def test_a_pool_that_the_server_does_not_have_is_told() -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve("127.0.0.1:0", {}, ready=ready.set_result))
    port = GrpcCluster(await ready, "pool")
    with pytest.raises(ClusterUnavailable, match="no simulated cluster 'pool' here"):
        await port.read_claim()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await port.close()
