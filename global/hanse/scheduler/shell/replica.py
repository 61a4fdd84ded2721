"""One global replica, assembled: membership and grants, the feed, the cycle, and the streams of its agents.

Everything it knows is in the store or comes again by itself, so it owns no state: killed at any moment and started
again it is another replica of the same name, with a nonce of its own.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Mapping
from typing import Final

from hanse.apiserver.ports import AuditLog
from hanse.bus.contract import Bus
from hanse.kit.clock import Clock
from hanse.kit.stream import StreamClosed
from hanse.kit.telemetry import metrics
from hanse.kit.trust.shown import Shown
from hanse.model.attach import Hello, Refusal
from hanse.model.audit import AuditPage, AuditQuery, merged
from hanse.model.errors import HanseError
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.vitals import SUPERSEDED, TAKEN, Vitals
from hanse.scheduler.core.chronicle import Chronicle
from hanse.scheduler.core.world import FIRST_INCARNATION, World
from hanse.scheduler.shell.attach import Federation, Granted, attach, detach
from hanse.scheduler.shell.barring import is_barred
from hanse.scheduler.shell.departures import Archive
from hanse.scheduler.shell.details import Details
from hanse.scheduler.shell.events import Gatherer
from hanse.scheduler.shell.janitor import keep_history
from hanse.scheduler.shell.peers import Asked, Elsewhere, Peers
from hanse.scheduler.shell.replica_config import ReplicaConfig
from hanse.scheduler.shell.retention import Retainer
from hanse.scheduler.shell.session import AgentStream, Session, ending, read_hello, refuse
from hanse.scheduler.shell.specs import SpecReads
from hanse.scheduler.shell.vitals import VitalsKeeper
from hanse.scheduler.shell.wiring import Outside, Told, wired
from hanse.store import keys
from hanse.store.contract import ModRevisionIs, Put, Store, StoreError, StoreUnavailable, Txn

log = logging.getLogger(__name__)

FOUND_PAUSE_S: Final = 1.0
"""Between looks at a store that does not answer, or whose founding has no known outcome."""

DRAIN_DEADLINE_S: Final = 2.0


class Replica:
    """A global scheduler with its link server.

    Attributes:
        fleet: answers about pools and explanations, for the API server.
        details: answers that need an agent, for the API server.
        summaries: what the pools say of their capacity.
        recorder, events: what it remembers of what happened, and what all replicas do, for the API server.
        peers: other replicas of this process, by name, so that a question finds the stream of any pool.

    Args:
        elsewhere: how to reach replicas of other processes; None if there are none.
        archive: takes the jobs that ended long ago, which are then dropped; None: they stay in the store for ever.
        audit: where it writes down what is decided; None for nowhere.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        store: Store,
        bus: Bus | None,
        clock: Clock,
        rng: random.Random,
        elsewhere: Peers | None = None,
        archive: Archive | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self.config = config
        self._store = store
        self._bus = bus
        self._clock = clock
        self._rng = rng
        self.nonce = f"{rng.getrandbits(64):016x}"
        self.world = World(config.replica)
        self.peers: Mapping[ReplicaId, Replica] = {}
        self._specs = SpecReads(store)
        self._sessions: dict[PoolName, Session] = {}  # the newest stream of each pool
        self._streams: list[Session] = []  # every stream, also one that a newer one of its pool has hidden
        self._leaving = False
        self._session_left = asyncio.Event()
        self._marks_due = asyncio.Event()
        self._attaching: dict[PoolName, list[str]] = {}
        self._one_attach = asyncio.Lock()
        self._agents_seen = 0
        self._superseded = 0
        outside = Outside(config, store, self.world, clock, rng, self.nonce, self.write_id)
        told = Told(self._changed, self._heard, self._feed_changed, self._marks_due.set)
        parts = wired(outside, told, archive, audit)
        self.summaries, self.states, self.feed = parts.summaries, parts.states, parts.feed
        self.roots, self.committer, self.cycle = parts.roots, parts.committer, parts.cycle
        self.reports, self.fleet, self.recorder = parts.reports, parts.fleet, parts.recorder
        self._leaves = parts.leaves
        self._retainer, self._job_traces = parts.retainer, parts.job_traces
        self.gauges = parts.gauges(lambda: self._streams)
        self.details = Details(self, self.world)
        self._elsewhere = self._made_elsewhere(elsewhere)
        self.audit = audit
        self.vitals = VitalsKeeper(
            config.replica, clock, ready=lambda: self.ready, counts=self._counted, now=self._held_now
        )
        self.events = Gatherer(
            self.recorder, replica=config.replica, beside=self._rings_beside, elsewhere=self._elsewhere
        )

    def _made_elsewhere(self, peers: Peers | None) -> Elsewhere | None:
        if peers is None:
            return None
        return Elsewhere(
            peers,
            self.world,
            self._clock,
            replica=self.config.replica,
            beside=lambda name: name in self.peers,
            take=self.summaries.take,
        )

    @property
    def ring(self) -> Chronicle:
        """What this replica remembers of what happened."""
        return self.recorder.ring

    def _counted(self) -> Counter[str]:
        """All that this replica counts, since its start."""
        counts = self.committer.counts + self.cycle.counts
        return counts + Counter({TAKEN: self.roots.taken, SUPERSEDED: self._superseded})

    def _held_now(self) -> tuple[int, int, int, int]:
        """Agents, roots, waiting jobs, unsettled transactions."""
        pending = len(self.states.pending) + len(self.states.held)
        roots = len(self.world.held_roots(self.nonce))
        return len(self._sessions), roots, pending, self.committer.settling

    async def all_vitals(self, *, deadline_s: float) -> Mapping[ReplicaId, Vitals]:
        """How each replica is that answers in time."""
        beside = {name: peer.vitals.tell() for name, peer in sorted(self.peers.items())}
        mine = {self.config.replica: self.vitals.tell(), **beside}
        others = await self._elsewhere.vitals(deadline_s=deadline_s) if self._elsewhere is not None else {}
        return {**others, **mine}

    async def audited(self, query: AuditQuery, *, deadline_s: float) -> AuditPage:
        """What every replica has written down; those of one process write into one log."""
        mine = {str(self.config.replica): await self.audit.find(query)} if self.audit is not None else {}
        if self._elsewhere is None:
            return merged(mine)
        others, silent = await self._elsewhere.audited(query, deadline_s=deadline_s)
        return merged({**mine, **others}, tuple(sorted(silent)))

    def _rings_beside(self) -> Mapping[ReplicaId, Chronicle]:
        return {name: peer.ring for name, peer in sorted(self.peers.items()) if peer is not self}

    @property
    def federation(self) -> str:
        """Name of its federation."""
        return self.config.federation

    @property
    def ready(self) -> bool:
        """Whether it knows the store's contents and is a member: what it is asked and told counts."""
        return self.feed.loaded.is_set() and self.roots.is_member() and not self._leaving

    @property
    def name_is_taken(self) -> bool:
        """Whether another start of a replica of this name is what the store holds."""
        found = self.world.replicas.get(self.config.replica)
        return self.roots.alive.is_set() and found is not None and found.nonce != self.nonce

    def write_id(self) -> int:
        """Identity of one write: a random positive 63-bit number."""
        return self._rng.getrandbits(62) + 1

    # ---- life ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until cancelled; then leave at once, so that others need not wait for the lease."""
        await self._found()
        try:
            with metrics.REGISTRY.observed(self.gauges.observe):
                await self._serve()
        finally:
            await self.states.close()
            await self.committer.close()

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.feed.run(), name="feed")
            group.create_task(self.roots.run_membership(), name="membership")
            group.create_task(self._keep_marks(), name="marks")
            group.create_task(self.reports.run(), name="reports")
            group.create_task(self.roots.run_grants(self._changed), name="grants")
            group.create_task(keep_history(self._store, self._clock, self.config.history_s), name="janitor")
            if self.config.schedules:
                group.create_task(self.cycle.run(), name="cycle")
                group.create_task(self._leaves.run(), name="leaves")
            if self._bus is not None:
                client = f"hanse-replica-{self.config.replica}-{self.nonce}"
                group.create_task(self.summaries.follow(self._bus, client), name="bus")
            if self._elsewhere is not None:
                group.create_task(self._elsewhere.run(), name="peers")
            if self._retainer is not None:
                group.create_task(self._keep_ended(self._retainer), name="retention")
            group.create_task(self._job_traces.run(), name="traces")
            group.create_task(self.vitals.run(), name="vitals")

    async def _keep_ended(self, retainer: Retainer) -> None:
        await self.feed.loaded.wait()
        with metrics.REGISTRY.observed(lambda: metrics.JOBS_KEPT.add(retainer.kept)):
            await retainer.run()

    async def drain(self) -> None:
        """End the agents' streams and take no new ones: they attach to another replica at once."""
        self._leaving = True
        for session in self._streams:
            session.end()
        try:
            async with asyncio.timeout(DRAIN_DEADLINE_S):
                while self._streams:
                    self._session_left.clear()
                    await self._session_left.wait()
        except TimeoutError:
            log.warning("drain_late", extra={"pools": len(self._streams)})

    async def leave(self) -> None:
        """Give the lease back: other replicas take the roots now. For a graceful stop."""
        await self.roots.close()

    async def _found(self) -> None:
        """The first replica on an empty store gives it its name and its first incarnation; nobody works before."""
        while True:
            try:
                if await self._is_founded():
                    return
            except StoreUnavailable as error:
                log.warning("store_unavailable", extra={"cause": str(error)})
            await asyncio.sleep(FOUND_PAUSE_S)

    async def _is_founded(self) -> bool:
        """Whether the store has a name and an incarnation, and they are ours; if it has none, try to give them."""
        read = await self._store.read([keys.INCARNATION, keys.FEDERATION])
        if keys.INCARNATION not in read.items:
            ops = (
                Put(keys.INCARNATION, str(FIRST_INCARNATION).encode()),
                Put(keys.FEDERATION, self.config.federation.encode()),
            )
            await self._store.transact(
                Txn((ModRevisionIs(keys.INCARNATION, 0), ModRevisionIs(keys.FEDERATION, 0)), ops)
            )
            read = await self._store.read([keys.INCARNATION, keys.FEDERATION])
        found = read.items.get(keys.FEDERATION)
        if found is not None and found.value.decode() != self.config.federation:
            raise FederationMismatch(
                f"the store belongs to federation {found.value.decode()!r}, not {self.config.federation!r};"
                " name the right one in the settings"
            )
        return keys.INCARNATION in read.items

    def _changed(self) -> None:
        self.cycle.wake()

    def _heard(self) -> None:
        self.cycle.wake()
        self.fleet.touch()

    def _feed_changed(self) -> None:
        if self.world.agents_changed != self._agents_seen:
            self._agents_seen = self.world.agents_changed
            self._end_superseded()
        self.summaries.look()
        self.roots.look()
        self._leaves.look()
        self.cycle.wake()
        self.fleet.touch()

    def _end_superseded(self) -> None:
        """End streams whose epoch is not the pool's any more.

        An attach whose agent had given up waiting for it can be granted later than the one that was answered: the
        agent then has a stream whose reports would count for nothing. It attaches once more.
        """
        for session in self._streams:
            if self.world.agents.get(session.pool, 0) > session.granted.epoch.revision:
                log.warning("session_superseded", extra={"pool": session.pool})
                self._superseded += 1
                metrics.FENCED.add(1, "attach")
                session.end()

    # ---- links -----------------------------------------------------------------------------------------------

    def is_barred(self, shown: Shown) -> bool:
        """Whether a certificate is revoked."""
        return is_barred(self.world, shown)

    def session(self, pool: PoolName) -> Session | None:
        """The live stream of a pool, here or at a peer."""
        mine = self._sessions.get(pool)
        if mine is not None:
            return mine
        peer = self.peers.get(ReplicaId(self.world.attached_to(pool)))
        return peer._sessions.get(pool) if peer is not None and peer is not self else None

    def agent(self, pool: PoolName) -> Asked | None:
        """Who hands questions to the pool's agent: its stream here, or the replica that has it; None if nobody."""
        found = self.session(pool)
        if found is None and self._elsewhere is not None:
            return self._elsewhere.pool(pool)
        return found

    async def serve_link(self, stream: AgentStream) -> None:
        """Serve one agent's stream until it ends; never raises for what an agent does."""
        try:
            await self._serve_link(stream)
        except (StreamClosed, StoreError, TimeoutError, HanseError) as error:
            log.info("link_ended", extra={"cause": str(error)})
        finally:
            stream.close()

    async def _serve_link(self, stream: AgentStream) -> None:
        await self.feed.loaded.wait()
        await self.roots.alive.wait()
        hello = await read_hello(stream)
        if self._leaving:
            raise StreamClosed(f"replica {self.config.replica} is leaving")
        if isinstance(hello, Refusal):
            return await refuse(stream, hello)
        federation = Federation(self.config.federation, self.world.incarnation)
        granted = await self._attach(hello, federation)
        metrics.ATTACHMENTS.add(1, "granted" if isinstance(granted, Granted) else "refused")
        if isinstance(granted, Refusal):
            return await refuse(stream, granted)
        session = Session(
            self._store,
            self.world,
            self._clock,
            stream,
            hello,
            granted,
            replica=self.config.replica,
            federation=federation,
            writer=self.reports,
            specs=self._specs,
            on_summary=self.summaries.take_from_agent,
        )
        self._sessions[hello.pool] = session
        self._streams.append(session)
        self._marks_due.set()  # the lease that its mark is bound to may be lost by now
        self._end_superseded()
        try:
            await session.run()
        except BaseExceptionGroup as errors:
            log.info("link_ended", extra={"pool": hello.pool, "cause": ending(errors)})
        finally:
            if self._sessions.get(hello.pool) is session:
                del self._sessions[hello.pool]
                self.summaries.forget(hello.pool)
            self._streams.remove(session)
            self._session_left.set()
            await detach(self._store, hello.pool, session.granted)

    async def _attach(self, hello: Hello, federation: Federation) -> Granted | Refusal:
        """Grant an epoch; while that is under way, the pool counts as having a stream here."""
        others = self._attaching.setdefault(hello.pool, [])
        others.append(hello.instance)
        try:
            async with self._one_attach:  # they all register in one key; in turn, none conflicts with another here
                return await attach(
                    self._store,
                    self._clock,
                    hello,
                    federation=federation,
                    replica=self.config.replica,
                    lease=self.roots.lease,
                    streams_here=lambda pool: pool in self._sessions or len(self._attaching.get(pool, ())) > 1,
                )
        finally:
            others.remove(hello.instance)
            if not others:
                self._attaching.pop(hello.pool, None)

    async def _keep_marks(self) -> None:
        """When the lease was lost, what said that agents are attached here went with it: say it again.

        What is compared is the lease that each mark is bound to, since an attach that began under one lease may be
        answered under the next.
        """
        while True:
            await self._marks_due.wait()
            self._marks_due.clear()
            for pool in sorted(self._sessions):
                session, lease = self._sessions.get(pool), self.roots.lease
                if session is not None and lease and session.granted.lease != lease:
                    await self._mark(session, lease)

    async def _mark(self, session: Session, lease: int) -> None:
        try:
            await session.mark_again(lease)
            if session not in self._streams:  # it has ended meanwhile, and took away the mark before this one
                await detach(self._store, session.pool, session.granted)
        except StoreError as error:
            log.warning("mark_failed", extra={"pool": session.pool, "cause": str(error)})
            session.end()  # the agent attaches anew, which marks it too


class FederationMismatch(Exception):
    """The store belongs to another federation."""


__all__ = ["FederationMismatch", "Replica", "ReplicaConfig"]
