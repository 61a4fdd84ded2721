"""All services of one API server, built over a store and whatever else the replica has."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from hanse.apiserver.access_service import AccessService
from hanse.apiserver.applying import Applier
from hanse.apiserver.audit_calls import AuditedCalls
from hanse.apiserver.audit_service import AuditService
from hanse.apiserver.commits import GroupCommitter
from hanse.apiserver.config import ConfigService
from hanse.apiserver.events import EventService
from hanse.apiserver.jobs import JobService
from hanse.apiserver.pools import PoolService
from hanse.apiserver.ports import (
    AgentDetails,
    AuditLog,
    AuditTrail,
    EventMemory,
    Explainer,
    FleetView,
    PoolOffer,
    PoolView,
    Standing,
)
from hanse.apiserver.queues import QueueService
from hanse.apiserver.requests import Requests
from hanse.apiserver.server_info import Identity, ServerService
from hanse.apiserver.settings import ApiSettings
from hanse.apiserver.submissions import WRITE_ID_BITS, Submitter
from hanse.apiserver.trust import Joining, TrustService
from hanse.apiserver.usage import UsageService
from hanse.apiserver.writes import Writer
from hanse.kit.clock import Clock
from hanse.model.ids import FlavorName, QueueUid
from hanse.model.resources import Resources
from hanse.store.contract import Store
from hanse.store.traces import JobTraces

DEFAULT_SETTINGS: Final = ApiSettings()


class NoFleet:
    """The view of a server without a scheduler beside it: no pool is known, so no job is refused for its shape."""

    def offers(self) -> tuple[PoolOffer, ...]:
        return ()

    def pools(self) -> tuple[PoolView, ...]:
        return ()

    def version(self) -> int:
        return 0

    async def changed(self, since: int) -> int:
        return await asyncio.Future[int]()

    def used(self, queue: QueueUid) -> Mapping[FlavorName, Resources] | None:
        return None


class ApiServices:
    """The services of `hanse.api.v1`; usable while `running()` is entered.

    Args:
        fleet, explainer, details, events, standing, trail: see `ports`; None for a server that runs alone.
        audit: where calls that change something are written down; None for nowhere.
        joining: how clusters join here; None if this server signs nothing.
        rng: source of request ids, write ids and trace ids.
    """

    def __init__(
        self,
        store: Store,
        *,
        identity: Identity,
        clock: Clock,
        rng: random.Random,
        fleet: FleetView | None = None,
        explainer: Explainer | None = None,
        details: AgentDetails | None = None,
        events: EventMemory | None = None,
        standing: Standing | None = None,
        audit: AuditLog | None = None,
        trail: AuditTrail | None = None,
        settings: ApiSettings = DEFAULT_SETTINGS,
        joining: Joining | None = None,
    ) -> None:
        view: FleetView = fleet or NoFleet()
        self.settings = settings
        self.clock = clock
        self._committer = GroupCommitter(store)
        self._traces = JobTraces(store)
        requests = Requests(store, clock, rng)
        writer = Writer(store, requests)
        submitter = Submitter(store, self._committer, requests, view, settings=settings, clock=clock, rng=rng)
        self.jobs = JobService(
            store,
            submitter,
            requests,
            writer,
            fleet=view,
            explainer=explainer,
            details=details,
            clock=clock,
            write_id=lambda: rng.getrandbits(WRITE_ID_BITS) | 1,
            traces=self._traces,
            events=events,
        )
        submitter.on_stored = self.jobs.reader.remember
        self.events = EventService(store, self.jobs.reader, self.jobs.sight, events, view)
        self.pools = PoolService(store, writer, view, clock, details)
        self.queues = QueueService(store, writer, self.jobs.sight, view, clock)
        self.config = ConfigService(store, writer, Applier(store, writer, clock))
        self.access = AccessService()
        self.trust = TrustService(store, writer, clock, joining)
        self.audit = AuditService(trail, self.jobs.sight)
        self.calls = AuditedCalls(audit, clock)
        self.usage = UsageService(store, self.jobs.reader, self.jobs.sight, clock)
        self.server = ServerService(store, identity, clock, view, standing)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep what the services need going while the block runs."""
        committing = asyncio.create_task(self._committer.run(), name="api-commit")
        tracing = asyncio.create_task(self._traces.run(), name="api-traces")
        try:
            yield
        finally:
            committing.cancel()
            tracing.cancel()
            await asyncio.gather(committing, tracing, return_exceptions=True)
