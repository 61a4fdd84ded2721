"""What goes wrong, and when: every fault of the swarm that is not the fault of a single message.

Each kind of fault is a process of its own that waits an exponential time and strikes; it ends what it began (a paused
agent goes on, a cordoned pool is uncordoned, a dead node returns) by itself, unless the run heals first.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from hanse.model.errors import HanseError
from hanse.simcluster.inputs import AddForeign, FailNodes, MarkNodes, OperatorInput, RestoreNodes, pack
from hanse.store import keys
from hanse.store.contract import Put, Txn
from hanse.store.schema import BindingValue, decode
from tests.sim import strangers
from tests.sim.fleet import GPU, GPUS_PER_NODE, PER_GPU
from tests.sim.store import Backup
from tests.sim.swarm import Swarm

if TYPE_CHECKING:
    from tests.sim.people import People
    from tests.sim.world import PoolSite, ReplicaSite, World

SHORT_S: Final = (0.3, 6.0)
LONG_S: Final = (1.0, 25.0)
RIVAL_P: Final = 0.7
SHUT_P: Final = 0.7
CRASH_P: Final = 0.5
CRASH_AFTER_S: Final = (0.05, 0.6)
CLOCK_STEP_MAX_MS: Final = 3_600_000


class Nemesis:
    """Strikes until it is stopped."""

    def __init__(self, world: "World", rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._tasks: list[asyncio.Task[None]] = []
        self._names = 0
        self._people: People | None = None
        self._backup: Backup | None = None

    def begin(self, swarm: Swarm) -> None:
        """Start every fault that the swarm has."""
        for name, strike in self._strikes().items():
            every_s = getattr(swarm, name)
            if every_s:
                self._tasks.append(self._world.loop.world_task(self._run(every_s, strike), name=name))

    def couple(self, people: "People") -> None:
        """Let one fault provoke another: what happens while a transaction is on its way is what rules are about."""
        self._people = people
        self._world.request_lost = self._request_lost

    def _request_lost(self, client: str, txn: Txn) -> None:
        """Somebody else acts, or the sender dies, before a lost transaction arrives."""
        bound = [op for op in txn.ops if isinstance(op, Put) and op.key.startswith(keys.BINDINGS)]
        takes = any(keys.head_flavor(op.key) for op in txn.ops if op.key.startswith(keys.POOLS))
        if not (bound and takes):
            return  # not a commit that takes capacity
        op = self._rng.choice(bound)
        at = keys.parse_binding(op.key)
        if self._people is not None and self._rng.random() < RIVAL_P:
            self._people.submit_rival(at.job, decode(op.value, BindingValue))
        if self._world.weather.swarm.node_mark_every_s and self._rng.random() < SHUT_P:
            self._shut(next(site for site in self._world.pools if site.name == at.pool))
        site = next((s for s in self._world.replicas if s.name == client and s.process is not None), None)
        if site is not None and self._world.weather.swarm.replica_crash_every_s and self._rng.random() < CRASH_P:
            self._later(self._span(CRASH_AFTER_S), lambda: self._end_replica(site))

    def _shut(self, site: "PoolSite") -> None:
        """All nodes of a cluster take nothing new for a while."""
        nodes = list(range(len(site.engine.nodes)))
        self._touch(site, nodes)
        packed = pack(site.engine.nodes.indexes(site.engine.nodes.names))
        if self._operate(site, "all nodes are shut", MarkNodes(packed, cordoned=True)):
            self._later(self._span(LONG_S), lambda: self._restore(site, nodes))

    def stop(self) -> None:
        self._world.request_lost = lambda client, txn: None
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def _strikes(self) -> dict[str, Callable[[], None]]:
        return {
            "store_down_every_s": self._store_down,
            "store_cut_every_s": self._store_cut,
            "compact_every_s": self._compact,
            "lease_loss_every_s": self._lose_lease,
            "link_break_every_s": self._break_link,
            "link_stall_every_s": self._stall_link,
            "bus_down_every_s": self._bus_down,
            "node_fail_every_s": self._fail_nodes,
            "node_mark_every_s": self._mark_node,
            "foreign_every_s": self._add_foreign,
            "agent_crash_every_s": self._crash_agent,
            "agent_pause_every_s": self._pause_agent,
            "agent_twin_every_s": self._twin_agent,
            "replica_crash_every_s": self._crash_replica,
            "replica_pause_every_s": self._pause_replica,
            "clock_step_every_s": self._step_clock,
            "stranger_agent_every_s": self._dial_as_stranger,
            "restore_every_s": self._restore_store,
        }

    async def _run(self, every_s: float, strike: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(1.0 / every_s))
            strike()

    def _span(self, bounds: tuple[float, float]) -> float:
        return self._rng.uniform(*bounds)

    def _later(self, delay_s: float, undo: Callable[[], object]) -> None:
        self._world.loop.world_later(delay_s, undo)

    # ---- store, links, bus

    def _store_down(self) -> None:
        span_s = self._span(SHORT_S)
        self._world.note(f"the store is down for {span_s:.1f}s")
        self._world.store_weather.take_down(span_s)

    def _restore_store(self) -> None:
        """A backup is made, and after a while it is all that is left."""
        backup = self._world.store.backup()
        joined = len(self._world.view.configs) == len(self._world.pools)  # what joins later, nobody waits for
        if self._backup is None and joined:
            self._world.note(f"a backup is made at revision {backup.revision}")
            self._backup = backup
            self._later(self._span(LONG_S), self._set_back)

    def _set_back(self) -> None:
        backup, self._backup = self._backup, None
        if backup is not None and self._tasks:  # faults have not stopped yet
            self._world.loop.world_task(self._world.restore(backup), name="restore")

    def _store_cut(self) -> None:
        site = self._rng.choice(self._world.replicas)
        span_s = self._span(LONG_S)
        self._world.note(f"{site.name} is cut off from the store for {span_s:.1f}s")
        self._world.store_weather.cut(site.name, span_s)

    def _compact(self) -> None:
        revision = max(0, self._world.store.revision - self._rng.randint(0, 20))
        self._world.note(f"history before {revision} is compacted")
        self._world.loop.world_task(self._world.store.compact(revision), name="compact")

    def _lose_lease(self) -> None:
        leases = self._world.store.sessions
        if leases:
            lease = self._rng.choice(leases)
            self._world.note(f"lease {lease} is lost")
            self._world.end_lease(lease)

    def _break_link(self) -> None:
        connections = self._world.network.open()
        if connections:
            connection = self._rng.choice(connections)
            self._world.note(f"the link of {connection.client.name} to {connection.server.name} breaks")
            connection.break_off()

    def _stall_link(self) -> None:
        connections = self._world.network.open()
        if connections:
            connection = self._rng.choice(connections)
            way = connection.stall_one_way()
            self._world.note(f"the link of {connection.client.name} stalls {way}")

    def _dial_as_stranger(self) -> None:
        self._world.dial_as_stranger(self._site(), self._rng.choice(tuple(strangers.AGENTS)))

    def _bus_down(self) -> None:
        span_s = self._span(LONG_S)
        self._world.note(f"the bus is down for {span_s:.1f}s")
        self._world.bus_weather.take_down(span_s)

    # ---- clusters

    def _operate(self, site: "PoolSite", what: str, change: OperatorInput) -> bool:
        try:
            site.cluster.operate(change)
        except HanseError:
            return False  # no room for the foreign pods, or the like
        self._world.note(f"{what} in {site.name}", site.name)
        return True

    def _site(self) -> "PoolSite":
        return self._rng.choice(self._world.pools)

    def _fail_nodes(self) -> None:
        site = self._site()
        table = site.engine.nodes
        path = self._rng.choice(table.paths)
        nodes = table.below(path[0] if self._rng.random() < 0.2 else table.names[table.paths.index(path)])
        self._touch(site, nodes.tolist())
        if self._operate(site, f"{len(nodes)} nodes fail", FailNodes(pack(nodes), self._rng.random() < 0.3)):
            self._later(self._span(LONG_S), lambda: self._restore(site, nodes.tolist()))

    def _restore(self, site: "PoolSite", nodes: list[int]) -> None:
        if site.engine.dead:
            return  # whoever brings the cluster back restores them all
        self._touch(site, nodes)
        table = site.engine.nodes
        self._operate(
            site, f"{len(nodes)} nodes return", RestoreNodes(pack(table.indexes([table.names[n] for n in nodes])))
        )

    def _mark_node(self) -> None:
        site = self._site()
        node = self._rng.randrange(len(site.engine.nodes))
        packed = pack(site.engine.nodes.indexes([site.engine.nodes.names[node]]))
        mark = self._rng.choice((
            MarkNodes(packed, cordoned=True),
            MarkNodes(packed, ready=False),
            MarkNodes(packed, healthy=False),
            MarkNodes(packed, allocatable={GPU: GPUS_PER_NODE - 1}),
        ))  # fmt: skip
        self._touch(site, [node])
        if self._operate(site, f"a node changes to {mark}", mark):
            self._later(self._span(LONG_S), lambda: self._restore(site, [node]))

    def _add_foreign(self) -> None:
        site = self._site()
        table = site.engine.nodes
        chosen = [self._rng.randrange(len(table)) for _ in range(self._rng.randint(1, 3))]
        self._names += 1
        change = AddForeign(
            f"foreign-{self._names}",
            pack(table.indexes([table.names[n] for n in chosen])),
            dict(PER_GPU.times(self._rng.randint(1, GPUS_PER_NODE)).items()),
            life_ms=int(self._span(LONG_S) * 1000),
        )
        self._touch(site, chosen)
        self._operate(site, "foreign pods arrive", change)

    def _touch(self, site: "PoolSite", nodes: list[int]) -> None:
        for node in nodes:
            self._world.cluster_checks.node_changed(site.engine.pool, node, self._world.loop.time())

    # ---- processes

    def _crash_agent(self) -> None:
        site = self._site()
        if site.agents:
            self._world.kill(site, self._rng.choice(site.agents))
            self._later(self._span(LONG_S), lambda: self._world.ensure_agent(site))

    def _pause_agent(self) -> None:
        site = self._site()
        if site.agents:
            self._world.pause(self._rng.choice(site.agents), self._span(LONG_S))

    def _twin_agent(self) -> None:
        """Somebody starts a second agent; later one of the two is ended."""
        site = self._site()
        if len(site.agents) == 1:
            self._world.start_agent(site)
            self._later(self._span(LONG_S), lambda: self._end_a_twin(site))

    def _end_a_twin(self, site: "PoolSite") -> None:
        if len(site.agents) > 1:
            self._world.kill(site, self._rng.choice(site.agents))

    def _crash_replica(self) -> None:
        self._end_replica(self._rng.choice(self._world.replicas))

    def _end_replica(self, site: "ReplicaSite") -> None:
        if site.process is not None:
            self._world.kill_replica(site)
            self._later(
                self._span(SHORT_S if self._rng.random() < 0.7 else LONG_S), lambda: self._world.ensure_replica(site)
            )

    def _pause_replica(self) -> None:
        site = self._rng.choice(self._world.replicas)
        if site.process is not None:
            self._world.pause(site.process, self._span(LONG_S))

    def _step_clock(self) -> None:
        processes = self._world.processes()
        if processes:
            process = self._rng.choice(processes)
            process.actor.skew_ms += self._rng.randint(-CLOCK_STEP_MAX_MS, CLOCK_STEP_MAX_MS)
            self._world.note(f"the wall clock of {process.actor.name} is {process.actor.skew_ms} ms wrong")
