"""A seat is a replica's place in this process: the replica that sits there now, and a new one when it falls.

What is bound to a replica by name (the API server's ports, the agents' dialling) speaks to the seat.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from hanse.apiserver import ports
from hanse.bus.contract import Bus
from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.clock import Clock
from hanse.kit.stream import Stream, StreamClosed, connected_pair
from hanse.kit.trust.shown import Shown
from hanse.link.v1 import link_pb2 as pb
from hanse.model.audit import AuditPage, AuditQuery
from hanse.model.detail import ExecInput, RackUse
from hanse.model.ids import Attempt, FlavorName, JobId, PoolName, QueueUid, ReplicaId
from hanse.model.job import JobSpec
from hanse.model.lifecycle import JobState
from hanse.model.occurrence import OccurrenceQuery, RingCursor
from hanse.model.resources import Resources
from hanse.model.vitals import Vitals
from hanse.scheduler.shell.departures import Archive
from hanse.scheduler.shell.peers import Peers
from hanse.scheduler.shell.replica import FederationMismatch, Replica, ReplicaConfig
from hanse.scheduler.shell.session import AgentStream
from hanse.store.contract import Store

log = logging.getLogger(__name__)

RESTART = BackoffPolicy(first_s=0.2, max_s=10.0)

AgentEnd = Stream[pb.AttachRequest, pb.AttachResponse]


class Seat:
    """Keeps one replica running. It is the `FleetView`, `Explainer`, `AgentDetails` and `EventMemory` of the API
    server."""

    def __init__(
        self,
        config: ReplicaConfig,
        store: Store,
        bus: Bus | None,
        clock: Clock,
        rng: random.Random,
        elsewhere: Peers | None = None,
        archive: Archive | None = None,
        audit: ports.AuditLog | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self.bus = bus
        self._clock = clock
        self._rng = rng
        self._elsewhere = elsewhere
        self._archive = archive
        self._audit = audit
        self._peers: dict[ReplicaId, Replica] = {}
        self._links: set[asyncio.Task[None]] = set()
        self._taken = asyncio.Event()
        self.replica = self._made()

    def _made(self) -> Replica:
        return Replica(
            self._config,
            self._store,
            self.bus,
            self._clock,
            self._rng,
            self._elsewhere,
            archive=self._archive,
            audit=self._audit,
        )

    def listens_at(self, address: str) -> None:
        """Where others reach this replica; said before it runs."""
        self._config = replace(self._config, address=address)
        self._sit(self._made())

    def is_barred(self, shown: Shown) -> bool:
        """Whether a certificate is revoked."""
        return self.replica.is_barred(shown)

    def addresses(self) -> list[str]:
        """HOST:PORT of every replica that is alive, by name."""
        known = self.replica.world.replicas
        return [known[name].address for name in sorted(known) if known[name].address]

    def other_addresses(self) -> list[str]:
        """HOST:PORT of every replica but this one."""
        return [address for address in self.addresses() if address != self._config.address]

    def share(self, peers: dict[ReplicaId, Replica]) -> None:
        """All seats of a process know each other's replicas."""
        self._peers = peers
        self._sit(self.replica)

    def _sit(self, replica: Replica) -> None:
        self.replica = replica
        self._peers[self._config.replica] = replica
        replica.peers = self._peers

    async def run(self) -> None:
        """Run a replica; after a bug, another one."""
        self._taken.set()
        backoff = Backoff(RESTART, self._rng)
        while True:
            try:
                await self.replica.run()
            except FederationMismatch:
                raise
            except Exception:
                log.exception("replica_failed", extra={"replica": self._config.replica})
                await self.replica.drain()
                await asyncio.sleep(backoff.delay_s())
                self._sit(self._made())

    @property
    def ready(self) -> bool:
        """Whether the replica that sits here should be sent calls."""
        return self.replica.ready

    async def serve_link(self, stream: AgentStream) -> None:
        """Serve one agent's stream until it ends; one that comes early waits until somebody sits here."""
        await self._taken.wait()
        await self.replica.serve_link(stream)

    async def drain(self) -> None:
        """Send the agents to other replicas, and take no more."""
        await self.replica.drain()

    async def leave(self) -> None:
        """A graceful stop: others need not wait for the lease."""
        await self.replica.leave()
        for task in list(self._links):
            task.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def dial(self) -> AgentEnd:
        """A stream of this process to the replica that sits here."""
        mine: AgentEnd
        theirs: AgentStream
        mine, theirs = connected_pair()
        task = asyncio.create_task(self.replica.serve_link(theirs), name="link")
        self._links.add(task)
        task.add_done_callback(self._links.discard)
        return mine

    # ---- the API server's ports ------------------------------------------------------------------------------

    def pools(self) -> tuple[ports.PoolView, ...]:
        return self.replica.fleet.pools()

    def roots(self) -> tuple[ports.RootHolder, ...]:
        return self.replica.fleet.roots()

    def links(self) -> Mapping[PoolName, ports.PoolLink]:
        return self.replica.fleet.links()

    async def vitals(self, *, deadline_s: float) -> Mapping[ReplicaId, Vitals]:
        return await self.replica.all_vitals(deadline_s=deadline_s)

    def offers(self) -> tuple[ports.PoolOffer, ...]:
        return self.replica.fleet.offers()

    def version(self) -> int:
        return self.replica.fleet.version()

    async def changed(self, since: int) -> int:
        return await self.replica.fleet.changed(since)

    def used(self, queue: QueueUid) -> Mapping[FlavorName, Resources] | None:
        return self.replica.fleet.used(queue)

    async def explain(self, job: JobId, spec: JobSpec, state: JobState) -> ports.Explanation:
        return await self.replica.fleet.explain(job, spec, state)

    async def nodes(
        self, job: JobId, attempt: Attempt, parts: Sequence[ports.PartAt], *, deadline_s: float
    ) -> ports.NodesAnswer:
        return await self.replica.details.nodes(job, attempt, parts, deadline_s=deadline_s)

    async def explain_nodes(
        self, job: JobId, spec: JobSpec, pools: Sequence[PoolName], *, deadline_s: float
    ) -> Mapping[PoolName, tuple[str, ...]]:
        return await self.replica.details.explain_nodes(job, spec, pools, deadline_s=deadline_s)

    async def explain_placed(
        self, job: JobId, attempt: Attempt, parts: Sequence[ports.PartAt], *, deadline_s: float
    ) -> Mapping[PoolName, tuple[str, ...]]:
        return await self.replica.details.explain_placed(job, attempt, parts, deadline_s=deadline_s)

    async def racks(self, pool: PoolName, *, deadline_s: float) -> tuple[RackUse, ...] | None:
        return await self.replica.details.racks(pool, deadline_s=deadline_s)

    def logs(self, pod: ports.PodRef, *, tail_lines: int, follow: bool) -> AsyncIterator[tuple[ports.LogEntry, ...]]:
        return self.replica.details.logs(pod, tail_lines=tail_lines, follow=follow)

    def exec(
        self, pod: ports.PodRef, *, command: Sequence[str], tty: bool, inputs: AsyncIterator[ExecInput] | None
    ) -> AsyncIterator[ports.ExecPiece]:
        return self.replica.details.exec(pod, command=command, tty=tty, inputs=inputs)

    async def events(
        self, query: OccurrenceQuery, cursors: Mapping[str, RingCursor], *, deadline_s: float
    ) -> ports.EventPage:
        return await self.replica.events.events(query, cursors, deadline_s=deadline_s)

    async def news(self) -> None:
        await self.replica.recorder.news()

    async def audited(self, query: AuditQuery, *, deadline_s: float) -> AuditPage:
        """See `ports.AuditTrail`."""
        return await self.replica.audited(query, deadline_s=deadline_s)

    def retried(self, old: JobId, new: JobId, revision: int) -> None:
        self.replica.recorder.retried(old, new, revision)


class Seats:
    """All seats of a process; agents dial them in turn."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self._seats = tuple(seats)
        self._next = 0
        shared: dict[ReplicaId, Replica] = {}
        for seat in self._seats:
            seat.share(shared)

    async def dial(self) -> AgentEnd:
        """A stream to the next seat in turn."""
        if not self._seats:
            raise StreamClosed("there is no replica")
        seat = self._seats[self._next % len(self._seats)]
        self._next += 1
        return seat.dial()
