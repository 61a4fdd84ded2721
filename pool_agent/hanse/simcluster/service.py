"""SimService over the simulated clusters of this process.

Handlers are coroutines on messages; `context` is used for nothing but refusing.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Final

from hanse.model.errors import NotFound
from hanse.sim.v1 import sim_pb2 as pb
from hanse.sim.v1 import sim_pb2_grpc
from hanse.simcluster import wire
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.inputs import FailNodes, OperatorInput, RemoveForeign, RestoreNodes, pack
from hanse.simcluster.nodes import Indexes
from hanse.simcluster.pod_lines import PodName
from hanse.simcluster.refusals import Context, refusing

POOLS_NAMED_MAX: Final = 8
WATCH_GATHER_S: Final = 0.1
"""Messages of one watch are so far apart: pods of a gang come up, and end, one after the other. The first change
after a pause is told at once."""


class SimService(sim_pb2_grpc.SimServiceServicer):
    """Serves every cluster of a mapping from pool name to cluster; the mapping may change."""

    def __init__(self, clusters: Mapping[str, SimCluster]) -> None:
        self._clusters = clusters

    def _cluster(self, pool: str) -> SimCluster:
        cluster = self._clusters.get(pool)
        if cluster is None:
            known = ", ".join(sorted(self._clusters)[:POOLS_NAMED_MAX]) or "none"
            raise NotFound(f"no simulated cluster {pool!r} here; there are: {known}", path="pool")
        cluster.sync()
        return cluster

    # For agents

    async def ReadClaim(self, request: pb.ReadClaimRequest, context: Context) -> pb.ClusterClaim:  # noqa: N802
        async with refusing(context):
            return wire.claim_message(self._cluster(request.pool).engine)

    async def Claim(self, request: pb.ClaimRequest, context: Context) -> pb.ClusterClaim:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            cluster.claim(request.federation, wire.epoch_id(request.epoch), request.revision)
            return wire.claim_message(cluster.engine)

    async def List(self, request: pb.ListRequest, context: Context) -> AsyncIterator[pb.ListResponse]:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            kept = bool(request.nodes_as_of) and cluster.nodes_are_as_of(request.cluster_uid, request.nodes_as_of)
            for message in list(wire.list_messages(cluster.engine, nodes_as_kept=kept)):
                yield message

    async def Watch(self, request: pb.WatchRequest, context: Context) -> AsyncIterator[pb.WatchResponse]:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            async with aclosing(cluster.changes(request.version)) as changes:
                async for version, changed in changes:
                    yield wire.watch_message(cluster.engine, version, changed)
                    await asyncio.sleep(WATCH_GATHER_S)

    async def Write(self, request: pb.WriteRequest, context: Context) -> pb.WriteResponse:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            prepared = [wire.agent_input(op, cluster.engine) for op in request.ops]
            known = [made for made in prepared if not isinstance(made, str)]
            outcomes = iter(cluster.write(wire.epoch_id(request.epoch), known))
            reasons = [made if isinstance(made, str) else next(outcomes) for made in prepared]
            return pb.WriteResponse(results=[pb.WriteResult(rejected=bool(r), reason=r) for r in reasons])

    async def Lacking(self, request: pb.LackingRequest, context: Context) -> pb.LackingResponse:  # noqa: N802
        async with refusing(context):
            return pb.LackingResponse(lacking=self._cluster(request.pool).lacking(request.needs))

    async def Pods(self, request: pb.PodsRequest, context: Context) -> pb.PodsResponse:  # noqa: N802
        async with refusing(context):
            return wire.pods_message(self._cluster(request.pool).engine, wire.gang_id(request.key))

    async def Logs(self, request: pb.LogsRequest, context: Context) -> AsyncIterator[pb.LogsResponse]:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            pod = PodName(wire.gang_id(request.key), request.pod_set, request.rank)
            logs = cluster.logs(pod, follow=request.follow, tail=max(0, request.tail_lines))
            async with aclosing(logs) as batches:
                async for lines in batches:
                    yield pb.LogsResponse(lines=lines)

    async def Exec(  # noqa: N802
        self, requests: AsyncIterator[pb.ExecRequest], context: Context
    ) -> AsyncIterator[pb.ExecResponse]:
        async with refusing(context):
            first = await anext(requests, pb.ExecRequest())
            cluster = self._cluster(first.pool)
            pod = PodName(wire.gang_id(first.key), first.pod_set, first.rank)
            async with aclosing(cluster.exec(pod, first.command, _stdin(requests))) as pieces:
                async for stdout, stderr, exit_code in pieces:
                    yield pb.ExecResponse(stdout=stdout, stderr=stderr, exit_code=exit_code)

    # For auditors and people

    async def PodLog(self, request: pb.PodLogRequest, context: Context) -> AsyncIterator[pb.PodLogResponse]:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            async with aclosing(cluster.pod_log(request.from_seq, follow=request.follow)) as batches:
                async for batch in batches:
                    yield wire.pod_log_message(batch)

    async def Describe(self, request: pb.DescribeRequest, context: Context) -> pb.DescribeResponse:  # noqa: N802
        async with refusing(context):
            pools = [request.pool] if request.pool else sorted(self._clusters)
            clusters = [self._cluster(pool) for pool in pools]
            return pb.DescribeResponse(clusters=[_description(cluster) for cluster in clusters])

    # For operators, and fate

    async def Fail(self, request: pb.FailRequest, context: Context) -> pb.PathResponse:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            nodes = cluster.nodes_below(request.path)
            return _operate(cluster, nodes, FailNodes(pack(nodes), request.remove))

    async def Restore(self, request: pb.RestoreRequest, context: Context) -> pb.PathResponse:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            nodes = cluster.nodes_below(request.path)
            return _operate(cluster, nodes, RestoreNodes(pack(nodes)))

    async def MarkNodes(self, request: pb.MarkNodesRequest, context: Context) -> pb.PathResponse:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            nodes = cluster.nodes_below(request.path)
            return _operate(cluster, nodes, wire.mark_nodes(request, nodes))

    async def AddForeign(self, request: pb.AddForeignRequest, context: Context) -> pb.ForeignResponse:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            cluster.operate(wire.add_foreign(request, cluster.engine))
            return pb.ForeignResponse(foreign_gangs=len(cluster.engine.foreign))

    async def RemoveForeign(self, request: pb.RemoveForeignRequest, context: Context) -> pb.ForeignResponse:  # noqa: N802
        async with refusing(context):
            cluster = self._cluster(request.pool)
            cluster.operate(RemoveForeign(request.name, max(0, request.grace_s) * 1000))
            return pb.ForeignResponse(foreign_gangs=len(cluster.engine.foreign))


async def _stdin(requests: AsyncIterator[pb.ExecRequest]) -> AsyncIterator[bytes]:
    async for request in requests:
        yield request.data
        if request.end:
            return


def _operate(cluster: SimCluster, nodes: Indexes, change: OperatorInput) -> pb.PathResponse:
    """Change nodes; the answer names them, and the gangs that lost pods."""
    before = {gang: found.counts.missing for gang, found in cluster.engine.gangs.items()}
    cluster.operate(change)
    gangs = cluster.engine.gangs
    lost = [gang for gang, missing in before.items() if gang in gangs and gangs[gang].counts.missing > missing]
    return wire.path_message(cluster.engine, nodes, lost)


def _description(cluster: SimCluster) -> pb.ClusterDescription:
    return wire.description(
        cluster.engine, pod_log_first_seq=cluster.pod_log_first_seq, state_path=cluster.state_path
    )
