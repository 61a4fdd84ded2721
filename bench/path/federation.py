"""The federation that is measured: every part an operating system's process, as in production.

etcd and mosquitto as a distribution brings them, the rest as `hanse up --processes` starts it: replicas, one process
of agents, one of simulated clusters. And the client. etcd writes to the disk of the working folder.
"""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

import grpc

from bench.path.load import Load
from bench.path.orders import Begin, Count, Order, answer_of, to_line
from hanse.kit.clock import SystemClock
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


class ClientProcess:
    """The client, as the one who gives it orders has it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, order: Order, kind: type[T]) -> T:
        """Give an order, and wait for the answer. Raises RuntimeError if the client has died, TimeoutError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(to_line(order))
        async with asyncio.timeout(ORDER_DEADLINE_S):
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
        async with (
            grpc.aio.insecure_channel(self.processes.address, options=options) as replica,
            grpc.aio.insecure_channel(self.processes.clusters, options=options) as clusters,
            grpc.aio.insecure_channel(self.etcd.endpoints[0], options=options) as etcd,
        ):
            yield Auditor(replica, clusters=[clusters], etcd=etcd)


@asynccontextmanager
async def running(fleet_text: str, load: Load, *, replicas: int, agents_per_process: int) -> AsyncIterator[Running]:
    """Started, and stopped when the block ends.

    Raises:
        HanseError, ServerDied: a process does not start; the message says why.
    """
    rng = random.Random(load.seed)
    with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-path-") as name, _servers(Path(name)) as (etcd, broker):
        folder = Path(name)
        fleet_file = folder / "fleet.yaml"
        fleet_file.write_text(fleet_text, encoding="utf-8")
        options = ProcessesOptions(
            fleet=load_fleet(fleet_file),
            fleet_file=fleet_file,
            store=etcd.url,
            bus=broker.url,
            listen="127.0.0.1:0",
            replicas=replicas,
            state=folder / "state",
            agents_per_process=agents_per_process,
            log_level="warning",
        )
        async with (
            federation_processes(options, SystemClock(), rng) as processes,
            _client(processes.addresses, load) as client,
        ):
            yield Running(etcd, processes, client, _pids(etcd, broker, processes, client))


@contextmanager
def _servers(folder: Path) -> Iterator[tuple[EtcdServers, Broker]]:
    etcd, broker = EtcdServers(folder), Broker(folder)
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
