"""The agent's port to a simulated cluster in the same process.

The cluster has its own words (indexes, arrays, texts); here they become the port's and back. Calls are answered at
once, so no deadline applies. A shut-down cluster answers ClusterUnavailable, like one that is not there.

The deterministic simulator wraps this adapter to delay and lose calls; `write_prefix` is its way to crash an agent in
the middle of a write.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from hanse.agent.cluster.port import (
    Claim,
    ClusterEvent,
    ClusterPort,
    ClusterState,
    ClusterUnavailable,
    ClusterWrite,
    Done,
    Epoch,
    ExecInput,
    ExecOutput,
    GangKey,
    NodeFacts,
    PodCommand,
    PodStatus,
    Rejected,
    StartPods,
    Superseded,
    Wanted,
    WatchLost,
    WriteResult,
)
from hanse.agent.cluster.simulated_terms import (
    claim_of,
    epoch_id,
    event_of,
    gang_id,
    pod_statuses,
    prepare,
    start_input,
    state_of,
)
from hanse.model.errors import FailedPrecondition, HanseError, NotFound
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.pod_lines import PodName

_DONE = Done()


@contextmanager
def _port_errors() -> Iterator[None]:
    """The cluster's errors as the port's."""
    try:
        yield
    except FailedPrecondition as error:
        raise Superseded(str(error)) from error
    except HanseError as error:
        raise ClusterUnavailable(str(error)) from error


async def _bytes_of(stdin: AsyncIterator[ExecInput]) -> AsyncIterator[bytes]:
    async for value in stdin:
        yield value.data


class SimulatedCluster:
    """ClusterPort over a SimCluster of this process."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._listed: ClusterState | None = None

    async def read_claim(self) -> Claim:
        with _port_errors():
            self._cluster.sync()
            return claim_of(self._cluster)

    async def claim(self, federation: str, epoch: Epoch, revision: int) -> Claim:
        with _port_errors():
            self._cluster.claim(federation, epoch_id(epoch), revision)
            return claim_of(self._cluster)

    async def list(self) -> ClusterState:
        with _port_errors():
            self._cluster.sync()
            kept = self._listed
            if kept is not None and not self._cluster.nodes_are_as_of(kept.claim.cluster_uid, kept.version):
                kept = None
            self._listed = state_of(self._cluster, kept)
            return self._listed

    async def nodes(self) -> tuple[NodeFacts, ...]:
        return (await self.list()).nodes

    async def watch(self, version: int) -> AsyncIterator[tuple[ClusterEvent, ...]]:
        try:
            async with aclosing(self._cluster.changes(version)) as changes:
                async for _, changed in changes:
                    yield tuple(event_of(self._cluster, thing) for thing in changed)
        except HanseError as error:
            raise WatchLost(str(error)) from error

    async def write(self, epoch: Epoch, ops: Sequence[ClusterWrite]) -> tuple[WriteResult, ...]:
        with _port_errors():
            return self._write(epoch, ops)

    async def write_prefix(
        self, epoch: Epoch, ops: Sequence[ClusterWrite], *, whole: int, pods: int
    ) -> tuple[WriteResult, ...]:
        """What is left of a write when its writer dies: the first `whole` operations, and of a StartPods that comes
        next its first `pods` pods (none if 0)."""
        with _port_errors():
            results = self._write(epoch, ops[:whole])
            cut = ops[whole] if whole < len(ops) else None
            if isinstance(cut, StartPods) and pods > 0:
                self._cluster.write(epoch_id(epoch), [start_input(cut, pods_max=pods)])
            return results

    def _write(self, epoch: Epoch, ops: Sequence[ClusterWrite]) -> tuple[WriteResult, ...]:
        """Operations that name a node which does not exist never reach the cluster: it could not even store them."""
        prepared = [prepare(self._cluster, op) for op in ops]
        known = [made for made in prepared if not isinstance(made, Rejected)]
        outcomes = iter(self._cluster.write(epoch_id(epoch), known))
        return tuple(made if isinstance(made, Rejected) else _result(next(outcomes)) for made in prepared)

    async def lacking(self, wanted: Wanted) -> tuple[str, ...]:
        with _port_errors():
            return self._cluster.lacking(tuple(str(need) for need in wanted.needs))

    async def exec(self, command: PodCommand, stdin: AsyncIterator[ExecInput] | None) -> AsyncIterator[ExecOutput]:
        pod = PodName(gang_id(command.gang), command.pod_set, command.rank)
        read = _bytes_of(stdin) if stdin is not None else None
        async with aclosing(self._cluster.exec(pod, command.words, read)) as pieces:
            async for piece in pieces:
                yield ExecOutput(*piece)

    async def pods(self, key: GangKey) -> tuple[PodStatus, ...]:
        with _port_errors():
            self._cluster.sync()
            gang = self._cluster.engine.gangs.get(gang_id(key))
            return () if gang is None else pod_statuses(self._cluster.engine, key, gang)

    async def logs(
        self, key: GangKey, *, pod_set: str, rank: int, follow: bool, tail: int
    ) -> AsyncIterator[tuple[str, ...]]:
        """As in the port; a pod that does not exist has no lines."""
        pod = PodName(gang_id(key), pod_set, rank)
        try:
            async with aclosing(self._cluster.logs(pod, follow=follow, tail=tail)) as batches:
                async for lines in batches:
                    yield lines
        except NotFound:
            return
        except HanseError as error:
            raise ClusterUnavailable(str(error)) from error


def _result(refused: str) -> WriteResult:
    return Rejected(refused) if refused else _DONE


def _is_port(adapter: SimulatedCluster) -> ClusterPort:
    """For the type checker: the adapter keeps the port."""
    return adapter
