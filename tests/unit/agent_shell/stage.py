"""A stage for one agent: a simulated cluster of eight hosts, a puppet that plays the replica, and virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Final

import numpy as np

from hanse.agent.cluster.port import ClusterPort
from hanse.agent.cluster.simulated import SimulatedCluster
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.runtime import Agent
from hanse.agent.shell.session import Uplink
from hanse.bus.contract import Bus
from hanse.kit.stream import Stream, StreamClosed, connected_pair
from hanse.link.v1 import link_pb2 as pb
from hanse.model.attach import Heartbeat, Hello, Refusal, Settings, Welcome
from hanse.model.desired import Binding, BoundSet, Desired, DesiredAction
from hanse.model.detail import DetailReply, DetailRequest, Question
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import (
    JOB_HASH_CHARS,
    QUEUE_UID_CHARS,
    Attempt,
    FlavorName,
    JobId,
    Part,
    PoolName,
    QueueName,
    ReplicaId,
)
from hanse.model.job import JobSpec, PodSet
from hanse.model.queue import Flavor
from hanse.model.report import Acknowledged, GangReport, GangStatus, Reports
from hanse.model.resources import CPU, MEMORY, NVIDIA_GPU, PODS, Resources
from hanse.model.selectors import Operator, Requirement
from hanse.model.summary import PoolSummary
from hanse.shape import Shape, decode
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.engine import Engine
from hanse.simcluster.inputs import FailNodes, pack
from hanse.simcluster.spec import ClusterSpec, GroupLevel, NodeGroup, Timing, uniform
from hanse.wire.job import spec_to_wire
from hanse.wire.link import FromReplica, complete_set, from_agent, to_agent
from tests.sim.loop import SimClock, SimLoop

POOL: Final = PoolName("p0")
HOST: Final = Resources({NVIDIA_GPU: 8, CPU: 64_000, MEMORY: 2**38, PODS: 110})
POD: Final = Resources({NVIDIA_GPU: 8, CPU: 8_000, MEMORY: 2**34})
H100: Final = FlavorName("h100")
FLAVORS: Final = (Flavor(H100, 0, (Requirement("gpu", Operator.IN, ("h100",)),)),)
RACKS: Final = GroupLevel("topology.kubernetes.io/rack", "rack", "r")
HOSTS: Final = GroupLevel("kubernetes.io/hostname", "host", "h")
TIMING: Final = Timing(start=500, run=60_000, stop=400, tick=25)
WAIT_MAX_S: Final = 120.0


def spec_bytes(pods: int) -> bytes:
    spec = JobSpec("train", QueueName("q"), (PodSet("worker", pods, pods, POD),))
    return spec_to_wire(spec).SerializeToString()


def key(job: str = "j", attempt: int = 1) -> GangKey:
    """Of a job whose id begins with that word; a replica takes reports on nothing else."""
    return GangKey(job_id_of(job), Attempt(attempt), Part(0))


def job_id_of(word: str) -> JobId:
    """An id that begins with a word of letters and digits."""
    letters = word.ljust(QUEUE_UID_CHARS + JOB_HASH_CHARS, "0")
    return JobId(f"{letters[:QUEUE_UID_CHARS]}-{letters[QUEUE_UID_CHARS:]}")


class Puppet:
    """Plays the replica: grants epochs, sends the desired set, writes down what it hears."""

    def __init__(self) -> None:
        self.revision = 100
        self.incarnation = 1
        self.federation = "f"
        self.desired: dict[GangKey, Binding] = {}
        self.hellos: list[Hello] = []
        self.batches: list[Reports] = []
        self.summaries: list[PoolSummary] = []
        self.replies: list[DetailReply] = []
        self.heard: list[object] = []
        self.heartbeats = 0
        self.acknowledges = True
        self.silent = False
        self.refusal: Refusal | None = None
        self.streams: list[Stream[pb.AttachResponse, pb.AttachRequest]] = []
        self.epoch = Epoch()
        self._tasks: list[asyncio.Task[None]] = []

    async def dial(self) -> Uplink:
        """What an agent calls."""
        pair: tuple[Uplink, Stream[pb.AttachResponse, pb.AttachRequest]] = connected_pair()
        near, far = pair
        self.streams.append(far)
        self._tasks.append(asyncio.create_task(self._serve(far), name="puppet"))
        return near

    async def _serve(self, stream: Stream[pb.AttachResponse, pb.AttachRequest]) -> None:
        try:
            hello = from_agent(await stream.receive())
            assert isinstance(hello, Hello)
            self.hellos.append(hello)
            if self.refusal is not None:
                await stream.send(to_agent(self.refusal))
                return
            if self.silent:
                return
            await self._welcome(stream)
            while True:
                await self._hear(stream, from_agent(await stream.receive()))
        except StreamClosed:
            return

    async def _welcome(self, stream: Stream[pb.AttachResponse, pb.AttachRequest]) -> None:
        self.revision += 1
        self.epoch = Epoch(self.incarnation, self.revision)
        await stream.send(to_agent(Welcome(self.epoch, self.federation, ReplicaId("r0"))))
        await stream.send(to_agent(Settings(FLAVORS, 1)))
        for message in complete_set(self.epoch, self.revision, self.desired.values()):
            await stream.send(to_agent(message))

    async def _hear(self, stream: Stream[pb.AttachResponse, pb.AttachRequest], said: object) -> None:
        self.heard.append(said)
        match said:
            case Reports() as reports:
                self.batches.append(reports)
                if self.acknowledges:
                    await stream.send(to_agent(Acknowledged(reports.sequence)))
            case PoolSummary() as summary:
                self.summaries.append(summary)
            case DetailReply() as reply:
                self.replies.append(reply)
            case Heartbeat():
                self.heartbeats += 1
                if not self.silent:
                    await stream.send(to_agent(Heartbeat(self.heartbeats)))
            case _:
                raise AssertionError(said)

    # ---- what a test makes it do --------------------------------------------------------------------------

    async def tell(self, value: FromReplica) -> None:
        """Send something on the newest stream."""
        await self.streams[-1].send(to_agent(value))

    def bind(
        self, gang: GangKey, *, pods: int = 2, action: DesiredAction = DesiredAction.START, spec: bytes = b""
    ) -> Binding:
        """Write a binding into the store that is not there."""
        self.revision += 1
        sets = (BoundSet("worker", pods, 0, H100),)
        binding = Binding(gang, self.revision, self.revision, action, sets, spec or spec_bytes(pods))
        self.desired[gang] = binding
        return binding

    async def bound(self, gang: GangKey, *, pods: int = 2, action: DesiredAction = DesiredAction.START) -> None:
        """Bind and tell."""
        binding = self.bind(gang, pods=pods, action=action)
        await self.tell(Desired(self.epoch, self.revision, bindings=(binding,)))

    async def turn(self, gang: GangKey, action: DesiredAction) -> None:
        """Change what is asked of a gang, and tell."""
        self.revision += 1
        spec = b"" if action is DesiredAction.STOP else self.desired[gang].spec
        self.desired[gang] = replace(self.desired[gang], action=action, revision=self.revision, spec=spec)
        await self.tell(Desired(self.epoch, self.revision, bindings=(self.desired[gang],)))

    def answers(self, number: int) -> tuple[DetailReply, ...]:
        """What has come of an answer."""
        return tuple(reply for reply in self.replies if reply.id == number)

    async def drop(self, gang: GangKey) -> None:
        """Delete a binding, and tell."""
        self.revision += 1
        del self.desired[gang]
        await self.tell(Desired(self.epoch, self.revision, removed=(gang,)))

    def cut(self) -> None:
        """The newest stream breaks."""
        self.streams[-1].close()

    def reports(self, gang: GangKey) -> list[GangReport]:
        """Everything that was said of a gang."""
        return [r for batch in self.batches for r in batch.reports if r.key == gang]

    def status(self, gang: GangKey) -> GangStatus:
        """What was said of it last."""
        reports = self.reports(gang)
        return reports[-1].status if reports else GangStatus.UNSPECIFIED

    @property
    def shape(self) -> Shape:
        """Of the newest summary."""
        return decode(self.summaries[-1].shape)


class Stage:
    """One cluster, one puppet, and the agents that a test starts."""

    def __init__(self, loop: SimLoop) -> None:
        group = NodeGroup(
            prefix="n",
            levels=(
                GroupLevel("topology.kubernetes.io/rack", "rack", "r"),
                GroupLevel("kubernetes.io/hostname", "host", "h"),
            ),
            sizes=uniform((4, 2)),
            allocatable=HOST,
            labels={"gpu": "h100"},
        )
        self.loop = loop
        self.clock = SimClock(loop)
        self.engine = Engine(ClusterSpec("p0", (group,), TIMING), uid="c0", now_ms=self.clock.now_ms())
        self.cluster = SimCluster(self.engine, self.clock)
        self.port: ClusterPort = SimulatedCluster(self.cluster)
        self.puppet = Puppet()
        self.config = AgentConfig(POOL, summary_min_interval_s=0.5, labels={"site": "x"}, region="eu")
        self.started = 0

    def agent(
        self, bus: Bus | None = None, port: ClusterPort | None = None, turns: asyncio.Semaphore | None = None
    ) -> Agent:
        """A new run of the agent, not started."""
        self.started += 1
        rng = Random(self.started)
        return Agent(self.config, port or self.port, self.puppet.dial, bus, self.clock, rng, turns=turns)

    def start(self, bus: Bus | None = None, port: ClusterPort | None = None) -> tuple[Agent, asyncio.Task[None]]:
        """A new run of the agent."""
        agent = self.agent(bus, port)
        return agent, asyncio.create_task(agent.run(), name=f"agent-{self.started}")

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait, in virtual time, for something to come true."""
        end_s = self.loop.time() + WAIT_MAX_S
        while not condition():
            assert self.loop.time() < end_s, "it did not come true in time"
            await asyncio.sleep(0.01)

    async def status(self, gang: GangKey, status: GangStatus) -> None:
        """Wait until that is reported of a gang."""
        await self.until(lambda: self.puppet.status(gang) is status)

    async def ask(self, number: int, question: Question) -> tuple[DetailReply, ...]:
        """Ask the agent, and wait for the whole answer."""
        await self.puppet.tell(DetailRequest(number, question))
        await self.until(lambda: any(reply.end for reply in self.puppet.answers(number)))
        return self.puppet.answers(number)

    def fail_nodes(self, *nodes: int) -> None:
        """Hosts die, by number."""
        self.cluster.operate(FailNodes(pack(np.array(nodes, dtype=np.int32)), remove=False))


def play(scene: Callable[[Stage], Awaitable[None]]) -> None:
    """Run a scene in virtual time; nothing of it may be left unseen."""
    loop = SimLoop(Random(7))

    async def main() -> None:
        await scene(Stage(loop))

    try:
        loop.run(main())
        assert loop.failures == []
    finally:
        loop.dispose()


async def stopped(task: asyncio.Task[None]) -> None:
    """Stop an agent as its process manager would."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
