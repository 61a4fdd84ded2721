"""A federation in which every part is a process of its own, and every connection goes through a relay.

Three members of etcd, a broker, replicas, one agent and one simulated cluster for each pool. Each process that talks
to another has relays of its own for it, so that one direction between any two can be held back. Where this machine
allows it, the disks of etcd and of the clusters are small file systems that can be filled, and the clocks of replicas
and agents can be stepped; what it does not allow is named in `missing`.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from hanse.client import AsyncClient
from tests.integration.auditor import Auditor
from tests.integration.parts import serves
from tests.services.etcd import EtcdServers
from tests.services.mosquitto import Broker
from tests.services.process import ServerProcess, data_folder, free_ports
from tests.services.proxy import Relay

HANSE: Final = (sys.executable, "-m", "hanse.cli")
MEMBERS: Final = 3
ETCD_DISK: Final = "400m"
CLUSTER_DISK: Final = "48m"
FAKETIME: Final = "/usr/lib/*/faketime/libfaketimeMT.so.1"
QUICK_RECONNECT: Final = (("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 500))


@dataclass
class Site:
    """See the module.

    Attributes:
        addresses: of the replicas themselves, past all relays.
        clusters: of the simulated clusters, likewise.
        relays: by (who talks, to whom): `("r0", "m1")`, `("a3", "r0")`, `("r0", "broker")`.
        disks: folders that can be filled, by process.
        clocks: files that step a process's clock, by process.
        missing: kinds of fault that this machine does not allow, and why.
    """

    etcd: EtcdServers
    broker: Broker
    addresses: tuple[str, ...]
    clusters: tuple[str, ...]
    pools: tuple[str, ...]
    replicas: list[ServerProcess] = field(default_factory=list)
    agents: list[ServerProcess] = field(default_factory=list)
    sims: list[ServerProcess] = field(default_factory=list)
    relays: dict[tuple[str, str], Relay] = field(default_factory=dict)
    disks: dict[str, Path] = field(default_factory=dict)
    clocks: dict[str, Path] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def all(self) -> list[ServerProcess]:
        """In the order in which they are started."""
        return [*self.etcd.members, self.broker.process, *self.sims, *self.replicas, *self.agents]

    async def start(self) -> None:
        """Start what does not run, and wait until it answers; agents last."""
        idle = [part for part in self.all if not part.running]
        for wave in ([p for p in idle if p not in self.agents], [p for p in idle if p in self.agents]):
            for part in wave:
                part.launch()
            for part in wave:
                await part.wait_ready_async()

    def stop(self) -> None:
        for part in reversed(self.all):
            part.kill()

    def client(self, replica: int = 0) -> AsyncClient:
        """The SDK at one replica."""
        return AsyncClient(self.addresses[replica], token="")

    @asynccontextmanager
    async def channels(self) -> AsyncIterator[list[grpc.aio.Channel]]:
        """To every replica."""
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(_channel(address)) for address in self.addresses]

    @asynccontextmanager
    async def auditor(self) -> AsyncIterator[Auditor]:
        """Who compares all sources."""
        async with AsyncExitStack() as stack:
            replica, etcd = _channel(self.addresses[0]), _channel(self.etcd.endpoints[0])
            clusters = [await stack.enter_async_context(_channel(address)) for address in self.clusters]
            await stack.enter_async_context(replica)
            await stack.enter_async_context(etcd)
            yield Auditor(replica, clusters=clusters, etcd=etcd)


def _channel(address: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, options=QUICK_RECONNECT)


@asynccontextmanager
async def site(folder: Path, fleet: Path, pools: tuple[str, ...], *, replicas: int) -> AsyncIterator[Site]:
    """Started, and stopped at the end. Logs are left in `folder`."""
    with data_folder() as data:
        found = _built(folder, data, fleet, pools, replicas)
        with _small_disks(found, data):
            try:
                for relay in found.relays.values():
                    await relay.start()
                await found.start()
                yield found
            finally:
                found.stop()
                await asyncio.gather(*(relay.close() for relay in found.relays.values()))


def _built(folder: Path, data: Path, fleet: Path, pools: tuple[str, ...], replicas: int) -> Site:
    ports = iter(free_ports(replicas + len(pools) + (replicas + len(pools)) * (MEMBERS + replicas + 4)))
    found = Site(
        etcd=EtcdServers(data, members=MEMBERS),
        broker=Broker(folder),
        addresses=tuple(f"127.0.0.1:{next(ports)}" for _ in range(replicas)),
        clusters=tuple(f"127.0.0.1:{next(ports)}" for _ in pools),
        pools=pools,
    )
    library = next(iter(Path("/").glob(FAKETIME.removeprefix("/"))), None)
    if library is None:
        found.missing["clock"] = "faketime is not installed: run `make chaos` as root, or `apt-get install faketime`"

    def relay(who: str, whom: str, target: str) -> str:
        made = found.relays[who, whom] = Relay(f"{who}-{whom}", next(ports), target)
        return made.address

    def clock(name: str) -> dict[str, str]:
        if library is None:
            return {}
        file = found.clocks[name] = data / f"clock-{name}"
        file.write_text("+0")
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
        }

    for n, address in enumerate(found.addresses):
        name = f"r{n}"
        store = ",".join(relay(name, f"m{m}", endpoint) for m, endpoint in enumerate(found.etcd.endpoints))
        bus = relay(name, "broker", f"127.0.0.1:{found.broker.port}")
        command = [
            *(*HANSE, "global", "--store", f"etcd://{store}", "--bus", f"mqtt://{bus}", "--replica", name),
            *("--listen", address, "--advertise", relay("peers", name, address), "--log-format", "json"),
        ]
        ready = lambda address=address: serves(address, "")  # noqa: E731
        found.replicas.append(ServerProcess(name, command, folder, ready=ready, env=clock(name)))
    for n, (pool, address) in enumerate(zip(pools, found.clusters, strict=True)):
        state = data / f"s{n}"
        command = [
            *(*HANSE, "sim-cluster", "--fleet", str(fleet), "--pool", pool),
            *("--listen", address, "--state", str(state)),
        ]
        ready = lambda address=address: serves(address, "hanse.sim.v1.SimService")  # noqa: E731
        found.sims.append(ServerProcess(f"s{n}", command, folder, ready=ready))
        name = f"a{n}"
        at = ",".join(relay(name, f"r{r}", replica) for r, replica in enumerate(found.addresses))
        bus = relay(name, "broker", f"127.0.0.1:{found.broker.port}")
        command = [
            *(*HANSE, "agent", "--pool", pool, "--global", at, "--bus", f"mqtt://{bus}"),
            *("--cluster", f"sim:{relay(name, f's{n}', address)}", "--log-format", "json"),
        ]
        found.agents.append(ServerProcess(name, command, folder, ready=lambda: True, env=clock(name)))
    return found


@contextmanager
def _small_disks(found: Site, data: Path) -> Iterator[None]:
    """The data of etcd's members and of the clusters, each on a file system of its own, as far as it may be."""
    with contextlib.ExitStack() as stack:
        for names, size in (
            ([f"m{n}" for n in range(MEMBERS)], ETCD_DISK),
            ([f"s{n}" for n in range(len(found.sims))], CLUSTER_DISK),
        ):
            for name in names:
                folder = data / name
                folder.mkdir(mode=0o700)
                command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "hanse-chaos", str(folder)]
                mounted = subprocess.run(command, capture_output=True, text=True, check=False)
                if mounted.returncode:
                    found.missing["disk"] = f"no file system may be mounted here: {mounted.stderr.strip()}"
                    break
                stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
                found.disks[name] = folder
        yield
