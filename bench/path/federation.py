"""The federation that is measured: every part an operating system's process, as in production.

etcd and mosquitto as a distribution brings them, the rest as `hanse up --processes` starts it: replicas, one process
of agents, one of simulated clusters. And the client. etcd writes to the disk of the working folder.
"""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import grpc

from bench.path.load import Load
from bench.path.orders import Begin, Count, Order, answer_of, to_line
from hanse.kit.clock import SystemClock
from hanse.scheduler.core.retention import Retention
from hanse.up.fleet import load_fleet
from hanse.up.processes import Processes, ProcessesOptions, federation_processes
from tests.integration.auditor import Auditor
from tests.services.etcd import EtcdServers
from tests.services.mosquitto import Broker

T = TypeVar("T")

CLIENT: Final = (sys.executable, "-m", "bench.path.client")
ORDER_DEADLINE_S: Final = 300.0
ANSWER_BYTES_MAX: Final = 256 << 20
AUDIT_BYTES_MAX: Final = 256 << 20

JOBS_KEPT_MAX: Final = 1_000_000
"""More than any run submits: what has ended must be there for the auditor."""


class ClientProcess:
    """The client, as the one who gives it orders has it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, order: Order, kind: type[T], *, deadline_s: float = ORDER_DEADLINE_S) -> T:
        """Give an order, and wait for the answer. Raises RuntimeError if the client has died, TimeoutError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(to_line(order))
        async with asyncio.timeout(deadline_s):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the client has died with status {await self._process.wait()}; it says why above")
        return answer_of(line, kind)

    async def end(self) -> None:
        """It ends with its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


@dataclass(frozen=True, slots=True)
class Shape:
    """How many processes of each kind.

    Attributes:
        agents_per_process, clusters_per_process: pools that share a process; 0: all.
        members: of etcd.
        ready_s: how long the start may take.
    """

    replicas: int = 1
    agents_per_process: int = 0
    clusters_per_process: int = 0
    members: int = 1
    ready_s: float = 90.0


@dataclass(frozen=True, slots=True)
class Running:
    """What is measured.

    Attributes:
        pids: of all its processes, by name.
    """

    etcd: EtcdServers
    processes: Processes
    client: ClientProcess
    pids: Mapping[str, int]

    @asynccontextmanager
    async def auditor(self) -> AsyncIterator[Auditor]:
        """Who compares what the client was told with the store and the clusters."""
        options = (("grpc.max_receive_message_length", AUDIT_BYTES_MAX),)
        async with AsyncExitStack() as stack:

            async def channel(address: str) -> grpc.aio.Channel:
                return await stack.enter_async_context(grpc.aio.insecure_channel(address, options=options))

            clusters = [await channel(address) for address in self.processes.clusters]
            yield Auditor(
                await channel(self.processes.address), clusters=clusters, etcd=await channel(self.etcd.endpoints[0])
            )


@asynccontextmanager
async def running(fleet_text: str, load: Load, shape: Shape) -> AsyncIterator[Running]:
    """Started, and stopped when the block ends.

    Raises:
        HanseError, ServerDied: a process does not start; the message says why.
    """
    rng = random.Random(load.seed)
    with (
        TemporaryDirectory(dir=Path.cwd(), prefix=".bench-path-") as name,
        _servers(Path(name), shape.members) as (
            etcd,
            broker,
        ),
    ):
        folder = Path(name)
        fleet_file = folder / "fleet.yaml"
        fleet_file.write_text(fleet_text, encoding="utf-8")
        options = ProcessesOptions(
            fleet=load_fleet(fleet_file),
            fleet_file=fleet_file,
            store=etcd.url,
            bus=broker.url,
            listen="127.0.0.1:0",
            replicas=shape.replicas,
            state=folder / "state",
            agents_per_process=shape.agents_per_process,
            clusters_per_process=shape.clusters_per_process,
            log_level="warning",
            retention=Retention(jobs_max=JOBS_KEPT_MAX),
            ready_s=shape.ready_s,
        )
        async with (
            federation_processes(options, SystemClock(), rng) as processes,
            _client(processes.addresses, load) as client,
        ):
            yield Running(etcd, processes, client, _pids(etcd, broker, processes, client))


@contextmanager
def _servers(folder: Path, members: int) -> Iterator[tuple[EtcdServers, Broker]]:
    etcd, broker = EtcdServers(folder, members=members), Broker(folder)
    try:
        etcd.start()
        broker.process.start()
        yield etcd, broker
    finally:
        broker.process.kill()
        etcd.stop()


@asynccontextmanager
async def _client(addresses: tuple[str, ...], load: Load) -> AsyncIterator[ClientProcess]:
    started = await asyncio.create_subprocess_exec(
        *CLIENT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=ANSWER_BYTES_MAX
    )
    client = ClientProcess(started)
    try:
        await client.ask(Begin(list(addresses), load), Count)
        yield client
    finally:
        await client.end()


def _pids(etcd: EtcdServers, broker: Broker, processes: Processes, client: ClientProcess) -> dict[str, int]:
    servers = {server.name: server.pid for server in (*etcd.members, broker.process)}
    ours = {name: child.pid for name, child in processes.children.items() if child.pid is not None}
    return {**servers, **ours, "client": client.pid}
