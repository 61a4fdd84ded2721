"""The federation of a story: the simulator's world, with what a story decides instead of a seed.

Which replica an agent dials and which one a call reaches follows from names, not from a draw; links are cut on
command; and every state of every job is noted in order, for `life`.
"""

import asyncio
from random import Random
from typing import Final

from google.protobuf.message import Message

from hanse.agent.cluster.simulated import SimulatedCluster
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.runtime import Agent
from hanse.kit.stream import StreamClosed
from hanse.model.errors import Unavailable
from hanse.model.ids import JobId, PoolName
from hanse.model.lifecycle import JobState
from hanse.store import keys
from hanse.store.contract import Event, EventKind, ModRevisionIs, Txn
from tests.scenarios.setting import Setting
from tests.sim.cluster import FaultyCluster
from tests.sim.loop import Actor, SimClock, SimLoop
from tests.sim.parts import SUMMARY_INTERVAL_S
from tests.sim.weather import Answer
from tests.sim.world import REPLICA_NONE, AgentProcess, LinkEnd, PoolSite, World

DIAL_S: Final = 0.05
CALL_DEADLINE_S: Final = 10.0
INSIST_S: Final = 0.5
INSIST_MAX_S: Final = 120.0


class StoryWorld(World):
    """See the module."""

    def __init__(self, loop: SimLoop, setting: Setting, rng: Random) -> None:
        super().__init__(loop, setting.swarm, setting, rng)
        self.setting = setting
        self.cut_pools: dict[PoolName, None] = {}
        self.lives: dict[JobId, list[JobState]] = {}
        self._dials: dict[PoolName, int] = {}

    async def begin(self) -> None:
        """Settings, then every process whose pool is not absent."""
        settings = self.setting.settings()
        await self.store.apply(Txn(tuple(ModRevisionIs(s.key, 0) for s in settings), settings), Actor("operator"))
        for replica in self.replicas:
            self.ensure_replica(replica)
        for pool in self.pools:
            if pool.name not in self.setting.absent:
                self.ensure_agent(pool)

    def site(self, pool: str) -> PoolSite:
        """A pool by name. Raises KeyError."""
        return {site.name: site for site in self.pools}[PoolName(pool)]

    def start_agent(self, site: PoolSite) -> None:
        """Start an agent with the levels of its pool, also if there is one."""
        site.runs += 1
        actor = Actor(f"agent-{site.name}.{site.runs}")
        process = AgentProcess(actor)
        site.agents.append(process)
        port = FaultyCluster(
            SimulatedCluster(site.cluster), site.engine, actor, self.weather, self.cluster_checks, self.story
        )
        config = AgentConfig(
            site.name,
            region=self.setting.regions[site.name],
            cost=self.setting.costs[site.name],
            levels=self.setting.levels[site.name],
            summary_min_interval_s=SUMMARY_INTERVAL_S,
        )
        clock, rng = SimClock(self.loop, actor), Random(f"{self.rng.random()}")
        agent = Agent(config, port, lambda: self._dial_from(site, actor), self._bus(actor), clock, rng)
        process.task = self.loop.spawn(actor, agent.run(), name=actor.name)
        process.task.add_done_callback(
            lambda task: self._ended(process, task, lambda: self._agent_ended(site, process))
        )

    async def _dial_from(self, site: PoolSite, client: Actor) -> LinkEnd:
        """Pools spread over the replicas that run, in order; each dial of a pool goes to the next one."""
        await asyncio.sleep(DIAL_S)
        up = [process for replica in self.replicas if (process := replica.process) is not None]
        if not up or site.name in self.cut_pools:
            raise StreamClosed(REPLICA_NONE)
        dials = self._dials[site.name] = self._dials.get(site.name, -1) + 1
        process = up[(self.pools.index(site) + dials) % len(up)]
        connection = self.network.connect(client, process.actor, site.name)
        assert process.replica is not None
        self.loop.spawn(process.actor, process.replica.serve_link(connection.far), name="serve-link")
        return connection.near

    def cut(self, pool: PoolName) -> None:
        """The pool's link breaks, and no new one is made."""
        self.cut_pools[pool] = None
        clients = [agent.actor for agent in self.site(pool).agents]
        for connection in self.network.open():
            if connection.client in clients:
                connection.break_off()

    def stall(self, pool: PoolName, span_s: float) -> None:
        """What is said to the pool's agent arrives late; what it says itself does not."""
        clients = [agent.actor for agent in self.site(pool).agents]
        for connection in self.network.open():
            if connection.client in clients:
                connection._back.stall(span_s)

    def join(self, pool: PoolName) -> None:
        """Links are made again."""
        self.cut_pools.pop(pool, None)

    # ---- calls ----------------------------------------------------------------------------------------------

    async def ask(self, method: str, request: Message) -> Message:
        """A call that is repeated until somebody answers. Raises HanseError: a refusal."""
        until_s = self.loop.time() + INSIST_MAX_S
        while True:
            try:
                return await self.call(method, request, CALL_DEADLINE_S)
            except (Unavailable, TimeoutError) as error:
                if self.loop.time() > until_s:
                    raise Unavailable(f"nobody answered {method} within {INSIST_MAX_S:.0f} s") from error
                await asyncio.sleep(INSIST_S)

    def _serve(self, method: str, request: Message, answer: Answer[Message]) -> None:
        """The first replica that runs answers."""
        process = next((p for site in self.replicas if (p := site.process) is not None), None)
        if process is None or process.replica is None:
            answer.give(None, Unavailable("no server answers"))
            return
        copy = type(request).FromString(request.SerializeToString(deterministic=True))
        self.loop.spawn(process.actor, self._handle(process.replica, method, copy, answer), name=method)

    # ---- hooks ----------------------------------------------------------------------------------------------

    def changed(self, revision: int, events: tuple[Event, ...]) -> None:
        """The store made a revision."""
        super().changed(revision, events)
        for event in events:
            if event.kv.key.startswith(keys.STATES) and event.kind is EventKind.PUT:
                job = keys.job_of(event.kv.key)
                self.lives.setdefault(job, []).append(self.view.states[job])

    def verdict(self) -> None:
        """Nothing that the checkers watch was broken, and nothing fell over.

        Raises:
            AssertionError: with what was broken, and the last things that happened around it.
        """
        self.store_checks.check_acknowledged()
        for who, what, error in self.loop.failures:
            self.court.accuse("crash", f"{who}: {what}: {error!r}")
        found = self.court.violation
        if found is not None:
            lines = "\n".join(self.story.told(found.about, lines_max=40))
            raise AssertionError(f"{found.invariant}: {found.text}\n{lines}")
