"""A whole federation in one event loop: the truth (store, clusters), the ways between, and the processes.

Processes are production code (`parts` builds them); everything that they touch is a faulty adapter with the process's
actor in it. The world starts, kills, pauses and restarts them, and hears of every step: `changed`, `committed`,
`applied` and `noted` are the hooks of store and clusters, and the checkers hang on them.
"""

import asyncio
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from google.protobuf.message import Message

from hanse.agent.cluster.simulated import SimulatedCluster
from hanse.kit.stream import Stream, StreamClosed
from hanse.link.v1 import link_pb2
from hanse.model.errors import HanseError, Unavailable
from hanse.model.ids import JobId, PoolName
from hanse.model.lifecycle import State, decode_state
from hanse.scheduler.shell.recovery import raise_incarnation
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.facts import Fact, FactKind
from hanse.simcluster.inputs import Accept, FailNodes, Hold, Input, RestoreNodes, pack
from hanse.simcluster.spec import ClusterSpec
from hanse.store import keys
from hanse.store.contract import Event, EventKind, KeyValue, LeaseGone, ModRevisionIs, Txn
from tests.sim import parts, strangers
from tests.sim.archive import FaultyArchive
from tests.sim.bus import BusWeather, FaultyBus
from tests.sim.cluster import FaultyCluster
from tests.sim.cluster_checks import ClusterChecks, ObservedEngine
from tests.sim.fleet import Fleet
from tests.sim.guard_checks import GuardChecks
from tests.sim.histories import Histories
from tests.sim.link import LinkConnection, Network
from tests.sim.loop import Actor, Life, SimClock, SimLoop
from tests.sim.peers import SimPeers
from tests.sim.store import Backup, FaultyStore, ObservedStore, StoreWeather
from tests.sim.store_checks import StoreChecks
from tests.sim.story import Story
from tests.sim.summary_checks import SummaryChecks
from tests.sim.swarm import Swarm
from tests.sim.telling import told_event, told_input
from tests.sim.verdict import Court
from tests.sim.view import StoreView
from tests.sim.watchers import Changes
from tests.sim.weather import Answer, Weather

RESTART_S: Final = (0.2, 3.0)
DIAL_REFUSED_S: Final = 0.2
REPLICA_NONE: Final = "no replica answers"

LinkEnd = Stream[link_pb2.AttachRequest, link_pb2.AttachResponse]


@dataclass(slots=True)
class Process:
    """One run of a program."""

    actor: Actor
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class AgentProcess(Process):
    """One run of an agent."""


@dataclass(slots=True)
class ReplicaProcess(Process):
    """One run of a replica."""

    replica: "parts.ReplicaParts | None" = None


@dataclass(slots=True)
class ReplicaSite:
    """Where a replica runs, under one id for ever (P4)."""

    name: str
    process: ReplicaProcess | None = None
    runs: int = 0


@dataclass(slots=True)
class PoolSite:
    """One cluster and the agents that were started for it: one, unless somebody starts another.

    `away`: nobody can reach it, and no agent is started, until an operator brings it back."""

    name: PoolName
    engine: ObservedEngine
    cluster: SimCluster
    agents: list[AgentProcess] = field(default_factory=list)
    runs: int = 0
    away: bool = False


class World:
    """See the module."""

    def __init__(self, loop: SimLoop, swarm: Swarm, fleet: Fleet, rng: Random) -> None:
        self.loop = loop
        self.rng = rng
        self.fleet = fleet
        self.weather = Weather(loop, swarm, rng)
        self.clock = SimClock(loop)
        self.story = Story(loop)
        self.court = Court(self.story, loop.time, loop.stop)
        self.view = StoreView()
        self.archive = FaultyArchive(self.weather)
        self.retain_age_s = swarm.retain_age_s
        self.prefer_pools = swarm.prefer_pools
        self.store_checks = StoreChecks(self.view, self.court, self.archive.lines)
        self.guard_checks = GuardChecks(self.view, self.court)
        self.cluster_checks = ClusterChecks(self.view, self.court)
        self.summary_checks = SummaryChecks(self.court)
        self.histories = Histories(self.court, loop.time)
        self.changes = Changes()
        self.restoring = False
        self.request_lost: Callable[[str, Txn], None] = lambda client, txn: None
        self.store_weather = StoreWeather(self.weather, lambda client, txn: self.request_lost(client, txn))
        self.bus_weather = BusWeather(self.weather)
        self.network = Network(self.weather, self._heard)
        self.store = ObservedStore(self.clock, self)
        self.replicas = [ReplicaSite(f"r{number}") for number in range(swarm.replicas)]
        self.pools = [self._pool_site(spec) for spec in fleet.clusters]

    def _pool_site(self, spec: ClusterSpec) -> PoolSite:
        engine = ObservedEngine(spec, self, uid=f"cluster-{spec.name}", now_ms=self.clock.now_ms())
        return PoolSite(engine.pool, engine, SimCluster(engine, self.clock))

    def note(self, text: str, *about: str) -> None:
        """Something that no process did."""
        self.story.note(text, *about, who="world")

    async def begin(self) -> None:
        """Settings of operators, then every process."""
        settings = self.fleet.settings()
        await self.store.apply(Txn(tuple(ModRevisionIs(s.key, 0) for s in settings), settings), Actor("operator"))
        for replica in self.replicas:
            self.ensure_replica(replica)
        for pool in self.pools:
            self.ensure_agent(pool)

    # ---- processes

    def processes(self) -> list[Process]:
        """Those that were started and not killed."""
        replicas: list[Process] = [site.process for site in self.replicas if site.process is not None]
        return replicas + [agent for pool in self.pools for agent in pool.agents]

    async def restore(self, backup: Backup) -> None:
        """An operator ends every replica, sets the store back, raises its incarnation, and starts all again (P15)."""
        self.note(f"the store is set back from revision {self.store.revision} to {backup.revision}")
        self.restoring = True
        for site in self.replicas:
            self.kill_replica(site)
        self.store.restore(backup)
        self.view.restart(backup.revision, backup.items)
        self.store_checks.restarted()
        self.cluster_checks.restarted()
        self.histories.restarted()
        self.changes.restarted()
        await raise_incarnation(self.store)
        self.restoring = False
        for site in self.replicas:
            self.ensure_replica(site)

    def ensure_replica(self, site: ReplicaSite) -> None:
        """Start it if it does not run."""
        if site.process is not None or self.restoring:
            return
        site.runs += 1
        actor = Actor(site.name, site.runs)
        process = site.process = ReplicaProcess(actor)
        self.note(f"{site.name} starts for the {site.runs}. time")
        store = FaultyStore(self.store, actor, self.store_weather, self.story)
        rng = Random(f"{self.rng.random()}")
        process.replica = parts.replica(
            site.name,
            store,
            self._bus(actor),
            SimClock(self.loop, actor),
            rng,
            archive=self.archive if self.retain_age_s else None,
            age_s=self.retain_age_s,
            prefer_pools=self.prefer_pools,
            peers=SimPeers(self),
        )
        process.task = self.loop.spawn(actor, process.replica.run(), name=f"{site.name}.{site.runs}")
        process.task.add_done_callback(
            lambda task: self._ended(process, task, lambda: self._replica_ended(site, process))
        )

    def ensure_agent(self, site: PoolSite) -> None:
        """Start one if none runs."""
        if not site.agents and not site.away:
            self.start_agent(site)

    def start_agent(self, site: PoolSite) -> None:
        """Start an agent, also if there is one."""
        site.runs += 1
        actor = Actor(f"agent-{site.name}.{site.runs}", site.runs)
        process = AgentProcess(actor)
        site.agents.append(process)
        self.note(f"{actor.name} starts", site.name)
        port = FaultyCluster(
            SimulatedCluster(site.cluster), site.engine, actor, self.weather, self.cluster_checks, self.story
        )
        rng = Random(f"{self.rng.random()}")
        agent = parts.agent(
            site.name, port, lambda: self._dial(actor, site), self._bus(actor), SimClock(self.loop, actor), rng
        )
        process.task = self.loop.spawn(actor, agent.run(), name=actor.name)
        process.task.add_done_callback(
            lambda task: self._ended(process, task, lambda: self._agent_ended(site, process))
        )

    def take_away(self, site: PoolSite) -> None:
        """No agent of a cluster is there any more, until it is brought back."""
        site.away = True
        for process in tuple(site.agents):
            self.kill(site, process)

    def destroy(self, site: PoolSite) -> None:
        """Every machine of a cluster dies, with all that runs there; the cluster's own records outlive them."""
        self.take_away(site)
        site.engine.dead = True
        nodes = site.engine.nodes.indexes(site.engine.nodes.names)
        self._touched(site)
        site.cluster.operate(FailNodes(pack(nodes)))

    def wake_agent(self, site: PoolSite) -> None:
        """An agent of a cluster that was away is there again; its machines are as they were."""
        site.away = False
        self.ensure_agent(site)

    def bring_back(self, site: PoolSite) -> None:
        """A cluster that was away, or whose machines were dead, is there again, with its agent."""
        site.engine.dead = False
        self._restore_nodes(site)
        self.wake_agent(site)

    def kill(self, site: PoolSite, process: AgentProcess) -> None:
        """kill -9 of an agent."""
        self.note(f"{process.actor.name} is killed", site.name)
        site.agents.remove(process)
        self._bury(process.actor)

    def kill_replica(self, site: ReplicaSite) -> None:
        """kill -9 of a replica."""
        if site.process is not None:
            self.note(f"{site.name} is killed")
            actor, site.process = site.process.actor, None
            self._bury(actor)

    def pause(self, process: Process, span_s: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        if process.actor.life is Life.RUNNING:
            self.note(f"{process.actor.name} is paused for {span_s:.1f}s")
            self.loop.pause(process.actor)
            self.loop.world_later(span_s, self.loop.resume, process.actor)

    def _bury(self, actor: Actor) -> None:
        self.loop.kill(actor)
        self.network.died(actor)
        self.bus_weather.died(actor)

    def _ended(self, process: Process, task: "asyncio.Task[None]", restart: Callable[[], object]) -> None:
        """A process ended by itself: fine if it says so, a fault if it fell over."""
        if process.actor.life is Life.DEAD:
            return
        error = None if task.cancelled() else task.exception()
        if error is not None:
            lines = traceback.format_exception(error)
            self.court.accuse("crash", f"{process.actor.name} fell over: {''.join(lines[-12:])}")
        self._bury(process.actor)
        self.loop.world_later(self.rng.uniform(*RESTART_S), restart)

    def _replica_ended(self, site: ReplicaSite, process: ReplicaProcess) -> None:
        if site.process is process:
            site.process = None
            self.ensure_replica(site)

    def _agent_ended(self, site: PoolSite, process: AgentProcess) -> None:
        if process in site.agents:
            site.agents.remove(process)
            self.ensure_agent(site)

    # ---- ways

    def _bus(self, actor: Actor) -> FaultyBus | None:
        return None if self.weather.swarm.bus_absent else FaultyBus(self.bus_weather, actor)

    def dial_as_stranger(self, site: PoolSite, wrong: str) -> None:
        """Somebody who is not the pool's agent dials in."""
        up = [other.process for other in self.replicas if other.process is not None]
        if up:
            actor, process = Actor("stranger-agent"), self.rng.choice(up)
            connection = self._connect(actor, process, site)
            self.loop.spawn(actor, strangers.agent(self, site, connection.near, wrong), name=actor.name)

    async def _dial(self, client: Actor, site: PoolSite) -> LinkEnd:
        """An agent dials out: to any replica that the network leads it to, or to somebody else."""
        await asyncio.sleep(self.weather.lag(self.weather.swarm.link_lag_s))
        if self.weather.hits(self.weather.swarm.stranger_replica_p):
            stranger = Actor("stranger-replica")
            connection = self.network.connect(client, stranger, site.name)
            wrong = self.rng.choice(tuple(strangers.REPLICAS))
            self.loop.spawn(stranger, strangers.replica(self, site, connection.far, wrong), name=stranger.name)
            return connection.near
        up = [site.process for site in self.replicas if site.process is not None]
        if not up:
            await asyncio.sleep(DIAL_REFUSED_S)
            raise StreamClosed(REPLICA_NONE)
        return self._connect(client, self.rng.choice(up), site).near

    def _connect(self, client: Actor, process: ReplicaProcess, site: PoolSite) -> LinkConnection:
        connection = self.network.connect(client, process.actor, site.name)
        assert process.replica is not None
        self.loop.spawn(process.actor, process.replica.serve_link(connection.far), name="serve-link")
        return connection

    # ---- faults that need the truth

    def end_lease(self, lease: int) -> None:
        """The store loses a lease, whoever keeps it alive."""
        self.loop.world_task(self._revoke(lease), name="lose-lease")

    async def _revoke(self, lease: int) -> None:
        try:
            await self.store.lease_revoke(lease)
        except LeaseGone:
            return

    def heal(self) -> None:
        """Faults stop: everything runs, everything is reached, every node is back."""
        self.note("faults stop")
        self.weather.swarm = self.weather.swarm.calmed()
        self.store_weather.heal()
        self.bus_weather.heal()
        self.network.calm()
        for process in self.processes():
            self.loop.resume(process.actor)
        for replica in self.replicas:
            self.ensure_replica(replica)
        for pool in self.pools:
            while len(pool.agents) > 1:
                self.kill(pool, self.rng.choice(pool.agents))
            self.ensure_agent(pool)
            if not pool.engine.dead:
                self._restore_nodes(pool)

    def _restore_nodes(self, site: PoolSite) -> None:
        table = site.engine.nodes
        site.cluster.operate(RestoreNodes(pack(table.indexes(table.names))))
        self._touched(site)

    def _touched(self, site: PoolSite) -> None:
        for node in range(len(site.engine.nodes)):
            self.cluster_checks.node_changed(site.name, node, self.loop.time())

    # ---- calls of people

    async def call(self, method: str, request: Message, deadline_s: float) -> Message:
        """A call of the API at some replica; raises HanseError, TimeoutError if no answer comes."""
        answer: Answer[Message] = Answer(self.loop)
        self.loop.world_later(self.weather.lag(self.weather.swarm.link_lag_s), self._serve, method, request, answer)
        return await answer.get(deadline_s)

    def _serve(self, method: str, request: Message, answer: Answer[Message]) -> None:
        up = [site.process for site in self.replicas if site.process is not None]
        process = self.rng.choice(up) if up else None
        if process is None or process.replica is None:
            answer.give(None, Unavailable("no server answers"))
            return
        copy = type(request).FromString(request.SerializeToString(deterministic=True))
        self.loop.spawn(process.actor, self._handle(process.replica, method, copy, answer), name=method)

    def stream(self, method: str, request: Message) -> "asyncio.Queue[Message | HanseError]":
        """A call with many answers, at some replica; they end with an error, or without a word if it dies."""
        answers: asyncio.Queue[Message | HanseError] = asyncio.Queue()
        up = [site.process for site in self.replicas if site.process is not None]
        process = self.rng.choice(up) if up else None
        if process is None or process.replica is None:
            answers.put_nowait(Unavailable("no server answers"))
        else:
            self.loop.spawn(process.actor, self._answer(process.replica, method, request, answers), name=method)
        return answers

    async def _answer(
        self,
        replica: parts.ReplicaParts,
        method: str,
        request: Message,
        answers: "asyncio.Queue[Message | HanseError]",
    ) -> None:
        """Each answer leaves when it is made, and none overtakes another."""
        under_way: deque[Message | HanseError] = (
            deque()
        )  # timers that are due at once run in any order; this keeps it
        arrives_s = 0.0

        def send(answer: Message | HanseError) -> None:
            nonlocal arrives_s
            arrives_s = max(arrives_s, self.loop.time() + self.weather.lag(self.weather.swarm.link_lag_s))
            under_way.append(answer)
            self.loop.world_later(arrives_s - self.loop.time(), lambda: answers.put_nowait(under_way.popleft()))

        try:
            async for answer in replica.stream(method, request):
                send(answer)
        except HanseError as error:
            send(error)

    async def _handle(
        self, replica: parts.ReplicaParts, method: str, request: Message, answer: Answer[Message]
    ) -> None:
        value: Message | None = None
        failure: Exception | None = None
        try:
            value = await replica.call(method, request)
        except HanseError as error:
            failure = error
        self.loop.world_later(self.weather.lag(self.weather.swarm.link_lag_s), answer.give, value, failure)

    # ---- hooks

    def changed(self, revision: int, events: tuple[Event, ...]) -> None:
        """The store made a revision."""
        self.view.apply(revision, events)
        for event in events:
            key = event.kv.key
            if key.startswith(keys.BINDINGS) and event.kind is EventKind.PUT:
                self.cluster_checks.binding_seen(self.view.bindings[key])
            elif key.startswith(keys.BINDINGS):
                gone = keys.parse_binding(key)
                self.cluster_checks.binding_gone(gone, self._engine(gone.pool))
            elif key.startswith(keys.STATES) and event.kind is EventKind.PUT:
                self._state_written(keys.job_of(key), self.view.before[key])
                self.changes.put(keys.job_of(key), revision)
            elif key.startswith(keys.STATES):
                self.changes.removed(keys.job_of(key))
        self.store_checks.revision_made()

    def _state_written(self, job: JobId, before: KeyValue | None) -> None:
        now = self.view.states[job]
        if before is not None and now.state is State.PENDING and decode_state(before.value).state.live:
            there = [site.engine for site in self.pools if not site.engine.dead]  # what it achieved, nobody can know
            self.cluster_checks.requeued(job, now.attempt, there)

    def committed(self, revision: int, txn: Txn, author: Actor, *, late: bool) -> None:
        """The transaction behind it."""
        who = f"{author.name} (late)" if late else author.name
        for event in self.view.events:
            text, about = told_event(self.view, event)
            self.story.note(f"@{revision} {text}", *about, who=who)
        self.store_checks.transaction_made(txn, (author.name, author.run))
        self.guard_checks.transaction_made(txn)
        bound = frozenset(binding.queue for binding in self.view.created_bindings())
        if bound:
            self.store_weather.provoke(bound)

    def applied(self, engine: ObservedEngine, change: Input, refused: str) -> None:
        """A cluster did something for an agent or an operator."""
        if not isinstance(change, Accept):
            text, about = told_input(change)
            outcome = f" refused: {refused}" if refused else ""
            self.story.note(f"{engine.pool} {text}{outcome}", engine.pool, *about)
        self.cluster_checks.applied(engine, change, refused, self.loop.time())
        if isinstance(change, Hold) and not refused:
            self.summary_checks.held(engine, change)

    def _engine(self, pool: PoolName) -> ObservedEngine:
        return next(site.engine for site in self.pools if site.name == pool)

    def _heard(self, client: Actor, message: Message) -> None:
        """An agent said something over its link."""
        if not isinstance(message, link_pb2.AttachRequest) or message.WhichOneof("body") != "summary":
            return
        self.summary_checks.said(self._engine(PoolName(message.summary.pool)), message.summary)

    def noted(self, engine: ObservedEngine, fact: Fact) -> None:
        """Pods changed."""
        if fact.gang is not None:
            kind = FactKind(fact.kind).name.lower()
            what = f"{engine.pool} pods of {fact.gang.job}/{fact.gang.attempt}.{fact.gang.part} {kind}: {fact.counts}"
            self.story.note(what, engine.pool, fact.gang.job, who="cluster")
        self.cluster_checks.noted(engine, fact)
