"""A server of simulated clusters: what operators do, what auditors read, how wrong calls are refused."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
import pytest_asyncio
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from hanse.kit.clock import SystemClock
from hanse.model.errors import InvalidArgument, Unavailable
from hanse.sim.v1 import sim_pb2 as pb
from hanse.sim.v1.sim_pb2_grpc import SimServiceStub
from hanse.simcluster.build import build_cluster
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.server import serve
from hanse.simcluster.spec import Busy, Timing
from tests.unit.simcluster.clusters import EPOCH, gang, hold, spec, start

if TYPE_CHECKING:
    from hanse.sim.v1.sim_pb2_grpc import SimServiceAsyncStub

QUICK = Timing(start=10, start_jitter=0, run=60, stop=5, tick=1)
PATIENCE_S = 30.0


@pytest_asyncio.fixture
async def clusters(tmp_path: Path) -> dict[str, SimCluster]:
    first = build_cluster(spec(timing=QUICK), SystemClock(), tmp_path / "first")
    second = build_cluster(spec(busy=Busy(0.5)), SystemClock())
    return {"first": first, "second": second}


@pytest_asyncio.fixture
async def stub(clusters: dict[str, SimCluster]) -> AsyncIterator["SimServiceAsyncStub"]:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve("127.0.0.1:0", clusters, ready=ready.set_result))
    async with asyncio.timeout(PATIENCE_S), grpc.aio.insecure_channel(await ready) as channel:
        yield SimServiceStub(channel)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def launch(cluster: SimCluster, number: int, nodes: list[int]) -> None:
    key = gang(number)
    cluster.claim("fed", EPOCH, 1)
    assert cluster.write(EPOCH, [hold(nodes, key), start(key)]) == ["", ""]


async def entries(stub: "SimServiceAsyncStub", from_seq: int = 0) -> list[pb.PodLogEntry]:
    request = pb.PodLogRequest(pool="first", from_seq=from_seq)
    return [entry async for message in stub.PodLog(request) for entry in message.entries]


async def test_clusters_are_described(stub: "SimServiceAsyncStub", tmp_path: Path) -> None:
    both = (await stub.Describe(pb.DescribeRequest())).clusters
    assert [c.pool for c in both] == ["pool", "pool"]
    first, second = both
    assert (first.nodes, first.ready_nodes, first.gpus, first.free_gpus) == (16, 16, 128, 128)
    assert (first.state_path, first.pod_log_first_seq) == (str(tmp_path / "first"), 1)
    assert (second.gpus, second.free_gpus, second.state_path) == (128, 64, "")
    assert second.foreign_gangs > 0


async def test_operators_fail_and_restore_by_path(
    stub: "SimServiceAsyncStub", clusters: dict[str, SimCluster]
) -> None:
    launch(clusters["first"], 1, [0, 8])
    failed = await stub.Fail(pb.FailRequest(pool="first", path="b1/r0"))
    assert list(failed.nodes) == [f"n-b1-r0-h{i}" for i in range(4)]
    assert [g.job for g in failed.gangs] == [gang(1).job]
    assert (await stub.Describe(pb.DescribeRequest(pool="first"))).clusters[0].ready_nodes == 12
    restored = await stub.Restore(pb.RestoreRequest(pool="first", path="b1/r0"))
    assert (list(restored.nodes), list(restored.gangs)) == (list(failed.nodes), [])
    assert (await stub.Describe(pb.DescribeRequest(pool="first"))).clusters[0].ready_nodes == 16


async def test_operators_mark_nodes(stub: "SimServiceAsyncStub", clusters: dict[str, SimCluster]) -> None:
    request = pb.MarkNodesRequest(pool="first", path="b0/r0/h1", cordoned=True, allocatable={"nvidia.com/gpu": 7})
    request.add_taints.add(key="t", value="v", effect=pb.TAINT_EFFECT_NO_SCHEDULE)
    assert list((await stub.MarkNodes(request)).nodes) == ["n-b0-r0-h1"]
    listed = [node async for piece in stub.List(pb.ListRequest(pool="first")) for node in piece.nodes]
    (odd,) = [node for node in listed if node.cordoned]
    assert (odd.name, odd.allocatable["nvidia.com/gpu"], odd.ready) == ("n-b0-r0-h1", 7, True)
    assert ("t", "v") in [(taint.key, taint.value) for taint in odd.taints]


async def test_operators_add_and_remove_foreign_gangs(stub: "SimServiceAsyncStub") -> None:
    add = pb.AddForeignRequest(pool="first", name="x", nodes=["n-b0-r0-h0"] * 2, resources={"nvidia.com/gpu": 3})
    assert (await stub.AddForeign(add)).foreign_gangs == 1
    listed = [node async for piece in stub.List(pb.ListRequest(pool="first")) for node in piece.nodes]
    assert [dict(node.foreign) for node in listed if node.foreign] == [{"nvidia.com/gpu": 6, "pods": 2}]
    assert (await stub.RemoveForeign(pb.RemoveForeignRequest(pool="first", name="x"))).foreign_gangs == 0


async def test_an_auditor_reads_all_that_happened(
    stub: "SimServiceAsyncStub", clusters: dict[str, SimCluster]
) -> None:
    request = pb.PodLogRequest(pool="first", follow=True)
    found: list[pb.PodLogEntry] = []

    async def read() -> None:
        async for message in stub.PodLog(request):
            found.extend(message.entries)
            if found[-1].kind == pb.POD_LOG_KIND_ENDED:
                return

    reading = asyncio.create_task(read())
    launch(clusters["first"], 1, [0, 1])
    await reading
    assert [entry.kind for entry in found] == [
        pb.POD_LOG_KIND_CLAIMED,
        pb.POD_LOG_KIND_STARTED,
        pb.POD_LOG_KIND_CHANGED,
        pb.POD_LOG_KIND_ENDED,
    ]
    _, started, _, ended = found
    assert (started.gang.job, started.gang.attempt, started.epoch.revision) == (gang(1).job, 1, EPOCH.revision)
    assert [(s.name, s.first_rank, list(s.nodes)) for s in started.sets] == [
        ("worker", 0, ["n-b0-r0-h0", "n-b0-r0-h1"])
    ]
    assert started.sets[0].resources["nvidia.com/gpu"] == 8
    assert (ended.counts.succeeded, ended.at_ms - started.at_ms) == (2, 70)
    assert await entries(stub) == found
    assert await entries(stub, from_seq=ended.seq) == [ended]
    await stub.Fail(pb.FailRequest(pool="first", path="n-b0-r0-h1"))
    (failed,) = await entries(stub, from_seq=ended.seq + 1)
    assert (failed.kind, list(failed.nodes)) == (pb.POD_LOG_KIND_NODES_FAILED, ["n-b0-r0-h1"])


REFUSED = {
    "an unknown pool": (
        lambda stub: stub.Fail(pb.FailRequest(pool="frist", path="b0")),
        grpc.StatusCode.NOT_FOUND,
        "there are: first, second",
    ),
    "an unknown path": (
        lambda stub: stub.Fail(pb.FailRequest(pool="first", path="b7")),
        grpc.StatusCode.NOT_FOUND,
        "its top domains are b0, b1",
    ),
    "an empty path": (
        lambda stub: stub.Restore(pb.RestoreRequest(pool="first")),
        grpc.StatusCode.NOT_FOUND,
        "no node or domain",
    ),
    "a write without a claim": (
        lambda stub: stub.Write(pb.WriteRequest(pool="first", ops=[pb.WriteOp(accept=pb.AcceptRevision())])),
        grpc.StatusCode.FAILED_PRECONDITION,
        "may not write",
    ),
    "an empty operation": (
        lambda stub: stub.Write(pb.WriteRequest(pool="first", ops=[pb.WriteOp()])),
        grpc.StatusCode.INVALID_ARGUMENT,
        "says nothing",
    ),
    "a foreign gang nowhere": (
        lambda stub: stub.AddForeign(pb.AddForeignRequest(pool="first", name="x", nodes=["y"])),
        grpc.StatusCode.INVALID_ARGUMENT,
        "no node 'y'",
    ),
    "a foreign gang of negative size": (
        lambda stub: stub.AddForeign(
            pb.AddForeignRequest(pool="first", name="x", nodes=["n-b0-r0-h0"], resources={"cpu": -1})
        ),
        grpc.StatusCode.INVALID_ARGUMENT,
        "not negative",
    ),
    "a foreign gang too large": (
        lambda stub: stub.AddForeign(
            pb.AddForeignRequest(pool="first", name="x", nodes=["n-b0-r0-h0"], resources={"nvidia.com/gpu": 9})
        ),
        grpc.StatusCode.FAILED_PRECONDITION,
        "OutOfnvidia.com/gpu",
    ),
    "a resource that no node has": (
        lambda stub: stub.MarkNodes(pb.MarkNodesRequest(pool="first", path="b0", allocatable={"x": 1})),
        grpc.StatusCode.FAILED_PRECONDITION,
        "no node offers",
    ),
}


@pytest.mark.parametrize(("call", "code", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_wrong_call_is_refused_in_one_line(stub: "SimServiceAsyncStub", call, code, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(stub)
    error = caught.value
    assert (error.code(), words in (error.details() or ""), "\n" in (error.details() or "")) == (code, True, False)
    details = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    info = error_details_pb2.ErrorInfo()
    status_pb2.Status.FromString(details).details[0].Unpack(info)
    assert info.domain == "hanse"
    assert info.reason


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "example.com:80", "127.0.0.1", "10.0.0.1:7000", ":80"])
async def test_it_serves_the_loopback_only(listen: str) -> None:
    with pytest.raises(InvalidArgument):
        await serve(listen, {})


async def test_a_taken_port_is_told() -> None:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve("127.0.0.1:0", {}, ready=ready.set_result))
    address = await ready
    with pytest.raises(Unavailable, match=f"cannot listen on {address}"):
        await serve(address, {})
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_a_shut_down_cluster_answers_so(clusters: dict[str, SimCluster], stub: "SimServiceAsyncStub") -> None:
    clusters["first"].close()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.ReadClaim(pb.ReadClaimRequest(pool="first"))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
