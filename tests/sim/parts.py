"""The one place that knows how production code is put together: a replica with its API, and an agent.

Everything else in the simulator speaks of processes that have a `run`, a `serve_link` and a `call`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

from google.protobuf.message import Message

from hanse.agent.cluster.port import ClusterPort
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.runtime import Agent
from hanse.apiserver.context import CallContext
from hanse.apiserver.failures import told
from hanse.apiserver.server_info import Identity
from hanse.apiserver.services import ApiServices
from hanse.bus.contract import Bus
from hanse.kit.clock import Clock
from hanse.kit.stream import Stream
from hanse.link.v1 import link_pb2
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.summary import KnownSummary, PoolSummary
from hanse.scheduler.core.retention import Retention
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.shell.departures import Archive
from hanse.scheduler.shell.peers import Peers
from hanse.scheduler.shell.replica import Replica, ReplicaConfig
from hanse.scheduler.shell.session import AgentStream
from hanse.store.contract import Store
from tests.sim.fleet import LEVELS

FEDERATION: Final = "sim"
SUMMARY_INTERVAL_S: Final = 0.5

Dial = Callable[[], Awaitable[Stream[link_pb2.AttachRequest, link_pb2.AttachResponse]]]


class ReplicaParts:
    """A replica and the API beside it, as one process has them."""

    def __init__(
        self,
        config: ReplicaConfig,
        store: Store,
        bus: Bus | None,
        clock: Clock,
        rng: Random,
        archive: Archive | None,
        peers: Peers | None,
    ) -> None:
        self._replica = Replica(config, store, bus, clock, rng, peers, archive)
        self._services = ApiServices(
            store,
            identity=Identity("sim", "memory", config.replica),
            clock=clock,
            rng=rng,
            fleet=self._replica.fleet,
            explainer=self._replica.fleet,
            details=self._replica.details,
        )
        self._up = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with self._services.running():
            self._up.set()
            await self._replica.run()

    async def serve_link(self, stream: AgentStream) -> None:
        """One agent's stream."""
        await self._replica.serve_link(stream)

    def newer_than(self, known: Sequence[KnownSummary]) -> tuple[PoolSummary, ...]:
        """What it tells other replicas of the pools that are attached to it."""
        return tuple(self._replica.summaries.newer_than(known))

    async def stream(self, method: str, request: Message) -> AsyncIterator[Message]:
        """One call of the API that goes on; raises HanseError."""
        await self._up.wait()
        streams: dict[str, Any] = {"WatchJobs": self._services.jobs.watch_jobs}  # Any: as in `call`
        try:
            async for answer in streams[method](CallContext(), request):
                yield answer
        except Exception as error:
            raise told(error) from error

    async def call(self, method: str, request: Message) -> Message:
        """One call of the API; raises HanseError."""
        await self._up.wait()
        services = self._services
        handlers: dict[str, Any] = {  # Any: each takes another kind of request
            "SubmitJobs": services.jobs.submit_jobs,
            "CancelJob": services.jobs.cancel_job,
            "HoldJob": services.jobs.hold_job,
            "ReleaseJob": services.jobs.release_job,
            "UpdateJob": services.jobs.update_job,
            "RetryJob": services.jobs.retry_job,
            "GetJob": services.jobs.get_job,
            "ListJobs": services.jobs.list_jobs,
            "ExplainJob": services.jobs.explain_job,
            "CordonPool": services.pools.cordon_pool,
            "DrainPool": services.pools.drain_pool,
            "UncordonPool": services.pools.uncordon_pool,
            "LeavePool": services.pools.leave_pool,
            "ReadmitPool": services.pools.readmit_pool,
            "ListPools": services.pools.list_pools,
            "GetQueue": services.queues.get_queue,
            "UpdateQueue": services.queues.update_queue,
            "HoldQueue": services.queues.hold_queue,
            "ReleaseQueue": services.queues.release_queue,
            "GiveQueue": services.queues.give_queue,
            "CreateCohort": services.config.create_cohort,
            "UpdateCohort": services.config.update_cohort,
        }
        try:
            answer: Message = await handlers[method](CallContext(), request)
        except Exception as error:
            raise told(error) from error
        return answer


def replica(
    name: str,
    store: Store,
    bus: Bus | None,
    clock: Clock,
    rng: Random,
    *,
    archive: Archive | None = None,
    age_s: float = 0.0,
    prefer_pools: bool = True,
    peers: Peers | None = None,
) -> ReplicaParts:
    """A replica of that name. With an archive, jobs leave the store `age_s` after their end.

    A preference is for fleets of many pools; to be tried on the few of a run, it begins where there are two.
    """
    limits = Limits(candidates_max=1) if prefer_pools else Limits(prefer_pools=False)
    retention = Retention(age_s=age_s)
    config = ReplicaConfig(ReplicaId(name), federation=FEDERATION, address=name, retention=retention, limits=limits)
    return ReplicaParts(config, store, bus, clock, rng, archive, peers)


def agent(pool: PoolName, cluster: ClusterPort, dial: Dial, bus: Bus | None, clock: Clock, rng: Random) -> Agent:
    """An agent for a cluster."""
    config = AgentConfig(pool, levels=LEVELS, summary_min_interval_s=SUMMARY_INTERVAL_S)
    return Agent(config, cluster, dial, bus, clock, rng)
