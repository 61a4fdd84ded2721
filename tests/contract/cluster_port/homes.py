"""Where the suite gets its clusters from. A new adapter adds one home; the tests stay as they are.

A home is one cluster of NODES equal hosts with GPUS_PER_NODE GPUs each, nothing on them, and the ways in which fate
and other people act on it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import grpc

from hanse.agent.cluster.port import ClusterPort, PodRun
from hanse.agent.cluster.simulated import SimulatedCluster
from hanse.agent.cluster.simulated_grpc import GrpcCluster
from hanse.kit.clock import SystemClock
from hanse.model.beside import Need
from hanse.model.devices import DeviceGroup
from hanse.model.resources import Resources
from hanse.sim.v1 import sim_pb2_grpc
from hanse.simcluster.build import build_cluster
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.inputs import AddForeign, FailNodes, MarkNodes, RemoveForeign, RestoreNodes, pack
from hanse.simcluster.programs import EXIT_ENV, RUNTIME_ENV
from hanse.simcluster.service import SimService
from hanse.simcluster.spec import ClusterSpec, GroupLevel, NodeGroup, Timing, uniform

NODES: Final = 8
GPUS_PER_NODE: Final = 8
GPU: Final = "nvidia.com/gpu"
FOR_LONG_S: Final = 600
LEVELS: Final = ("example.com/rack", "kubernetes.io/hostname")
HOST: Final = Resources({GPU: GPUS_PER_NODE, "cpu": 96_000, "memory": 1 << 40, "pods": 110})
DEVICES: Final = (DeviceGroup("0", "pci0000:00", 4, 1), DeviceGroup("1", "pci0000:80", 4))
POD: Final = Resources({GPU: GPUS_PER_NODE, "cpu": 8_000, "memory": 1 << 36})
SMALL_POD: Final = Resources({GPU: 1, "cpu": 1_000, "memory": 1 << 30})


class ClusterHome(Protocol):
    """One cluster under test."""

    def port(self) -> ClusterPort:
        """A port of its own for one agent."""
        ...

    def run(self, pod_set: str, *, seconds: float, exit_code: int = 0) -> PodRun:
        """A program that runs so long and exits so."""
        ...

    async def fail(self, node: str) -> None:
        """The machine dies."""
        ...

    async def restore(self, node: str) -> None:
        """It comes back."""
        ...

    async def unready(self, node: str) -> None:
        """It says of itself that it takes no work now."""
        ...

    async def cordon(self, node: str) -> None:
        """An operator keeps new work away."""
        ...

    async def add_foreign(self, name: str, node: str, resources: Resources) -> None:
        """Somebody else starts a pod."""
        ...

    async def remove_foreign(self, name: str) -> None:
        """It ends."""
        ...

    async def withhold(self, needs: Sequence[Need]) -> None:
        """These are not there."""
        ...

    async def provide(self, need: Need) -> None:
        """Somebody creates it."""
        ...

    async def restart(self) -> None:
        """What keeps the cluster's state ends and starts again; ports that were handed out may break."""
        ...

    @property
    def durable(self) -> bool:
        """Whether the cluster's state outlives `restart`."""
        ...

    @property
    def whole_sessions(self) -> bool:
        """Whether commands in pods are told the end of what they read, and we how they end that fail."""
        ...


def spec() -> ClusterSpec:
    """Two racks of four hosts; everything is quick."""
    levels = (GroupLevel(LEVELS[0], "rack", "r"), GroupLevel(LEVELS[1], "host", "h"))
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    group = NodeGroup("node", levels, uniform((2, NODES // 2)), HOST, labels, devices=DEVICES)
    return ClusterSpec("pool", (group,), Timing(start=20, start_jitter=20, stop=40, tick=5))


class SimulatedHome:
    """A simulated cluster of this process, in memory or in a folder."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.cluster: SimCluster = build_cluster(spec(), SystemClock(), folder)

    @property
    def durable(self) -> bool:
        return self._folder is not None

    @property
    def whole_sessions(self) -> bool:
        return True

    def port(self) -> ClusterPort:
        return SimulatedCluster(self.cluster)

    def run(self, pod_set: str, *, seconds: float, exit_code: int = 0) -> PodRun:
        env = ((RUNTIME_ENV, str(seconds)), (EXIT_ENV, str(exit_code)))
        return PodRun(pod_set, "example.com/train:1", ("python", "train.py"), (), env)

    async def fail(self, node: str) -> None:
        self.cluster.operate(FailNodes(pack(self.cluster.nodes_below(node))))

    async def restore(self, node: str) -> None:
        self.cluster.operate(RestoreNodes(pack(self.cluster.nodes_below(node))))

    async def unready(self, node: str) -> None:
        self.cluster.operate(MarkNodes(pack(self.cluster.nodes_below(node)), ready=False))

    async def cordon(self, node: str) -> None:
        self.cluster.operate(MarkNodes(pack(self.cluster.nodes_below(node)), cordoned=True))

    async def add_foreign(self, name: str, node: str, resources: Resources) -> None:
        nodes = pack(self.cluster.nodes_below(node))
        self.cluster.operate(AddForeign(name, nodes, dict(resources)))

    async def remove_foreign(self, name: str) -> None:
        self.cluster.operate(RemoveForeign(name))

    async def withhold(self, needs: Sequence[Need]) -> None:
        engine = self.cluster.engine
        engine.spec = replace(engine.spec, lacks=tuple(str(need) for need in needs))

    async def provide(self, need: Need) -> None:
        engine = self.cluster.engine
        engine.spec = replace(engine.spec, lacks=tuple(lack for lack in engine.spec.lacks if lack != str(need)))

    async def restart(self) -> None:
        self.cluster.close()
        self.cluster = build_cluster(spec(), SystemClock(), self._folder)

    def close(self) -> None:
        self.cluster.close()


class GrpcHome(SimulatedHome):
    """The same cluster behind a server; agents are elsewhere, operators are not."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clusters = {self.cluster.name: self.cluster}
        self.address = ""
        self._ports: list[GrpcCluster] = []

    def port(self) -> ClusterPort:
        self._ports.append(GrpcCluster(self.address, self.cluster.name))
        return self._ports[-1]

    async def restart(self) -> None:
        await super().restart()
        self.clusters[self.cluster.name] = self.cluster

    async def close_ports(self) -> None:
        for port in self._ports:
            await port.close()


@asynccontextmanager
async def grpc_home(folder: Path) -> AsyncIterator[GrpcHome]:
    home = GrpcHome(folder)
    server = grpc.aio.server()
    sim_pb2_grpc.add_SimServiceServicer_to_server(SimService(home.clusters), server)
    home.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield home
    finally:
        await home.close_ports()
        home.close()
        await server.stop(None)
