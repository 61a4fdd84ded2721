"""A federation of real processes, each of which a test may start, kill, freeze and stop: etcd, a broker, replicas,
agents, simulated clusters. Every part keeps its address and its data, so that a restart is one."""

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from hanse.client import AsyncClient
from tests.integration.auditor import Auditor
from tests.services.etcd import EtcdServers, etcd_servers
from tests.services.mosquitto import Broker
from tests.services.process import ServerProcess, free_ports

PROBE_TIMEOUT_S = 1.0
HANSE = (sys.executable, "-m", "hanse.cli")
LOGS_KEPT = os.environ.get("HANSE_TEST_LOGS", "")
"""A folder for the logs of processes, to look into after a failure."""


@dataclass
class Parts:
    """The processes of one federation.

    Attributes:
        addresses: of the replicas.
        clusters: address of the simulated clusters.
        brokers: of the bus, if there is one.
    """

    addresses: tuple[str, ...]
    clusters: str
    etcd: EtcdServers
    replicas: tuple[ServerProcess, ...]
    agents: tuple[ServerProcess, ...]
    sim: ServerProcess
    brokers: tuple[ServerProcess, ...] = ()

    @property
    def all(self) -> tuple[ServerProcess, ...]:
        """In the order in which they are started."""
        return (*self.etcd.members, *self.brokers, self.sim, *self.replicas, *self.agents)

    def start(self) -> None:
        """Start what does not run, and wait until it answers; agents last, so that they are spread over replicas."""
        idle = [part for part in self.all if not part.running]
        for wave in ([p for p in idle if p not in self.agents], [p for p in idle if p in self.agents]):
            for part in wave:
                part.launch()
            for part in wave:
                part.wait_ready()

    def stop(self) -> None:
        for part in reversed(self.all):
            part.kill()

    def client(self, replica: int = 0) -> AsyncClient:
        """The SDK at one replica."""
        return AsyncClient(self.addresses[replica], token="")

    @asynccontextmanager
    async def channels(self) -> AsyncIterator[list[grpc.aio.Channel]]:
        """To every replica; a connection that fails is tried again at once."""
        options = (("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200))
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(grpc.aio.insecure_channel(address, options=options))
                for address in self.addresses
            ]

    @asynccontextmanager
    async def auditor(self) -> AsyncIterator[Auditor]:
        """Who compares all sources."""
        async with (
            grpc.aio.insecure_channel(self.addresses[0]) as replica,
            grpc.aio.insecure_channel(self.clusters) as clusters,
            grpc.aio.insecure_channel(self.etcd.endpoints[0]) as etcd,
        ):
            yield Auditor(replica, clusters=[clusters], etcd=etcd)


@contextmanager
def federation(
    folder: Path,
    fleet: Path,
    pools: Sequence[str],
    *,
    replicas: int = 2,
    broker: Broker | None = None,
    variables: dict[str, str] | None = None,
    all_parts: bool = False,
) -> Iterator[Parts]:
    """Started with etcd of one member, one process of agents for every two pools, and stopped at the end.

    Args:
        broker: of the bus; None for a federation without one.
        variables: environment of the replicas and agents.
        all_parts: and of the simulated clusters.
    """
    logs = Path(LOGS_KEPT or folder)
    logs.mkdir(parents=True, exist_ok=True)
    ports = free_ports(replicas + 1)
    addresses = tuple(f"127.0.0.1:{port}" for port in ports[:replicas])
    clusters = f"127.0.0.1:{ports[-1]}"
    bus = "" if broker is None else broker.url
    more = {"HANSE_GLOBAL_BUS": bus, "HANSE_AGENT_BUS": bus, **(variables or {})}
    with etcd_servers() as etcd:
        parts = Parts(
            addresses=addresses,
            clusters=clusters,
            etcd=etcd,
            replicas=tuple(_replica(f"r{n}", logs, etcd.url, a, more) for n, a in enumerate(addresses)),
            agents=tuple(
                _agents(f"agents-{n // 2}", logs, pools[n : n + 2], addresses, clusters, more)
                for n in range(0, len(pools), 2)
            ),
            sim=_clusters(logs, fleet, clusters, folder / "clusters", more if all_parts else {}),
            brokers=() if broker is None else (broker.process,),
        )
        try:
            parts.start()
            yield parts
        finally:
            parts.stop()


def _replica(name: str, folder: Path, store: str, address: str, variables: dict[str, str]) -> ServerProcess:
    command = [*HANSE, "global", "--store", store, "--replica", name, "--listen", address, "--log-format", "json"]
    return ServerProcess(name, command, folder, ready=lambda: serves(address, ""), env=variables)


def _agents(
    name: str, folder: Path, pools: Sequence[str], addresses: Sequence[str], clusters: str, variables: dict[str, str]
) -> ServerProcess:
    named = [word for pool in pools for word in ("--pool", pool)]
    attach = ["--global", ",".join(addresses), "--cluster", f"sim:{clusters}"]
    command = [*HANSE, "agent", *named, *attach, "--log-format", "json"]
    return ServerProcess(name, command, folder, ready=lambda: True, env=variables)


def _clusters(folder: Path, fleet: Path, address: str, state: Path, variables: dict[str, str]) -> ServerProcess:
    command = [*HANSE, "sim-cluster", "--fleet", str(fleet), "--listen", address, "--state", str(state)]
    ready = partial(serves, address, "hanse.sim.v1.SimService")
    return ServerProcess("clusters", command, folder, ready=ready, env=variables)


def serves(address: str, service: str) -> bool:
    """Whether a server says that it serves."""
    with grpc.insecure_channel(address) as channel:
        try:
            request = health_pb2.HealthCheckRequest(service=service)
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=PROBE_TIMEOUT_S)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def lines(part: ServerProcess, folder: Path, event: str) -> list[dict[str, object]]:
    """Log lines of one event."""
    text = (Path(LOGS_KEPT or folder) / f"{part.name}.log").read_text(encoding="utf-8")
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in found if line.get("event") == event]
