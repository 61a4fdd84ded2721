"""A whole federation as processes: replicas, agents, simulated clusters; started, supervised and stopped from here.

What `hanse up` does in one process, over the network and through a real store: each part may be killed at any moment,
and comes back. Nothing is passed on but addresses: the processes are started as an operator would start them.

They stop in the order in which they depend on each other: agents, then replicas, then the clusters.
"""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import grpc
import orjson
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from hanse.api.v1 import pool_pb2
from hanse.apiserver.credentials import check_listen
from hanse.client import AsyncClient
from hanse.client.objects import object_of_spec
from hanse.kit.clock import Clock
from hanse.model.errors import InvalidArgument, Unavailable
from hanse.model.ids import PoolName
from hanse.scheduler.core.retention import Retention
from hanse.simcluster.spec import hosts_in
from hanse.up.children import Child, Command
from hanse.up.fleet import Fleet, PoolSpec
from hanse.up.options import CONSOLE_PORT, REPLICAS_MAX, console_listen, default_data

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.1
POOLS_PER_LOOK: Final = 20
"""A look at more pools costs the replica more, and comes less often."""

PROBE_DEADLINE_S: Final = 2.0
SEARCHED_PORTS: Final = 1_000
FREE_PORTS: Final = range(17_311, 30_000)
"""Where ports are looked for: below those that the kernel gives to outgoing connections."""

PYTHON: Final = (sys.executable, "-m", "hanse.cli")


@dataclass(frozen=True, slots=True)
class ProcessesOptions:
    """Settings of a federation of processes.

    Attributes:
        fleet_file: what `fleet` was read from; None for the demo's.
        store: `etcd://…`; a file, `sqlite:PATH`, has one process, and so one replica.
        bus: `mqtt://…`, "" for none.
        listen: HOST:PORT of the first replica; port 0 takes a free one. The others take the next free ones.
        agents_per_process, clusters_per_process: pools whose agents, or simulated clusters, share a process; 0: all
            share one.
        otlp: collector for what the processes tell, "" for none.
        prometheus: HOST:PORT after which each process gets a port to be scraped at; port 0: any; "" for none.
        trace_ratio: share of jobs that are traced; None: as the processes do unless told.
        state: folder of the simulated clusters, the logs, and what is passed to agents.
        retention: how long ended jobs stay in the store.
        archive_dir: where they go then: a folder, "" for one in `state`, `none`.
        audit_dir: where the audit log is, in the same words.
        console: HOST:PORT of the first replica's console, `auto` for the usual port or a free one, "" for none.
        ready_s: how long a start may take before it is given up.
    """

    fleet: Fleet
    fleet_file: Path | None
    store: str
    bus: str
    listen: str
    replicas: int
    state: Path
    agents_per_process: int = 0
    clusters_per_process: int = 0
    log_level: str = "info"
    log_format: str = "text"
    otlp: str = ""
    prometheus: str = ""
    trace_ratio: float | None = None
    retention: Retention = Retention()
    archive_dir: str = ""
    audit_dir: str = ""
    console: str = ""
    ready_s: float = 90.0

    def check(self) -> None:
        """Raises InvalidArgument, FailedPrecondition."""
        check_listen(self.listen, open=True)
        if not 1 <= self.replicas <= REPLICAS_MAX:
            what = f"{self.replicas} replicas; give 1 to {REPLICAS_MAX}"
            raise InvalidArgument(what, reason="REPLICAS", path="--replicas")
        kind = self.store.partition(":")[0]
        if kind == "memory":
            what = "memory: ends with its process; say etcd://HOST:PORT, or sqlite:PATH for one replica"
            raise InvalidArgument(what, reason="STORE", path="--store")
        if kind == "sqlite" and self.replicas > 1:
            what = f"a SQLite file has one process, not {self.replicas}; say etcd://HOST:PORT, or --replicas 1"
            raise InvalidArgument(what, reason="STORE", path="--store")
        if self.agents_per_process < 0 or self.clusters_per_process < 0:
            raise InvalidArgument("give at least 1", reason="AGENTS", path="--agents-per-process")


@dataclass(frozen=True, slots=True)
class Processes:
    """A federation that runs.

    Attributes:
        addresses: of the replicas.
        clusters: addresses of the processes of simulated clusters.
        children: the processes, by name.
        console: address of the console for a browser, "" if there is none.
    """

    options: ProcessesOptions
    addresses: tuple[str, ...]
    clusters: tuple[str, ...]
    children: dict[str, Child]
    console: str = ""

    @property
    def address(self) -> str:
        """Where people reach it."""
        return self.addresses[0]

    def describe(self) -> str:
        """One line about what was started."""
        nodes = sum(hosts_in(group.sizes) for pool in self.options.fleet.pools for group in pool.cluster.groups)
        replicas = f"{len(self.addresses)} replica{'s' if len(self.addresses) != 1 else ''}"
        store = self.options.store.partition(":")[0]
        return (
            f"{len(self.options.fleet.pools)} pools · {nodes:,} nodes · {replicas} · store {store} · "
            f"{len(self.children)} processes, logs in {self.options.state / 'logs'}"
        )


def default_state(store: str) -> Path:
    """Beside a store's file; a folder of the user's data for a store that is elsewhere."""
    kind, _, rest = store.partition(":")
    if kind == "sqlite":
        path = Path(rest).expanduser()
        return path.with_name(path.name + ".processes")
    return Path(default_data()) / "processes"


@asynccontextmanager
async def federation_processes(options: ProcessesOptions, clock: Clock, rng: Random) -> AsyncIterator[Processes]:
    """Start a federation, and stop it when the block ends.

    Raises:
        HanseError: the options cannot be used, or a process does not start; one line that says what to do.
    """
    options.check()
    made = _prepared(options, clock, rng)
    keeping = [asyncio.create_task(child.keep(), name=name) for name, child in made.children.items()]
    try:
        await _up(made, rng)
        yield made
    finally:
        await _stop(made.children)
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)


# ---- what is started ---------------------------------------------------------------------------------------


def _prepared(options: ProcessesOptions, clock: Clock, rng: Random) -> Processes:
    try:
        (options.state / "logs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot use {options.state}: {error.strerror}"
        raise InvalidArgument(what, reason="STATE", path="--state") from None
    host, _, port = options.listen.rpartition(":")
    simulated = tuple(pool for pool in options.fleet.pools if not pool.address)
    shares = _shares(simulated, options.clusters_per_process) or [()]
    ports = free_ports(host, int(port), options.replicas + len(shares) + 1)
    console = _console(options, ports.pop())
    addresses = tuple(f"{host}:{one}" for one in ports[: options.replicas])
    clusters = tuple(f"127.0.0.1:{one}" for one in ports[options.replicas :])
    cluster_of = {pool.name: pool.address for pool in options.fleet.pools}
    cluster_of |= {pool.name: at for share, at in zip(shares, clusters, strict=True) for pool in share}
    commands = [
        *_clusters(options, shares, clusters),
        *(_replica(options, f"r{n}", at, console if n == 0 else "") for n, at in enumerate(addresses)),
        *_agents(options, addresses, cluster_of),
    ]
    told = zip(commands, _scraped_at(options, len(commands)), strict=True)
    commands = [replace(one, arguments=(*one.arguments, *_setting("prometheus", address))) for one, address in told]
    children = {command.name: Child(command, clock, Random(rng.getrandbits(64))) for command in commands}
    return Processes(options, addresses, clusters, children, f"http://{console}" if console else "")


def _console(options: ProcessesOptions, spare: int) -> str:
    """Where the console listens, "" for nowhere; `spare` is a port that is free."""
    host, _, port = console_listen(options.console, options.listen).rpartition(":")
    if port != "auto":
        return f"{host}:{port}" if host else ""
    return f"{host}:{(_free(host, range(CONSOLE_PORT, CONSOLE_PORT + 1), 1) or [spare])[0]}"


def _command(options: ProcessesOptions, name: str, prefix: str, *arguments: str, **variables: str) -> Command:
    """A command of ours; settings that are not for everybody's eyes go into the environment."""
    shared = (
        *("--set", "stop_on_eof=true", "--log-level", options.log_level, "--log-format", options.log_format),
        *_setting("otlp", options.otlp),
        *_setting("trace_ratio", "" if options.trace_ratio is None else str(options.trace_ratio)),
    )
    return Command(
        name,
        (*PYTHON, *arguments, *shared),
        options.state / "logs" / f"{name}.log",
        {f"{prefix}{key.upper()}": value for key, value in variables.items() if value},
    )


def _setting(name: str, value: str) -> tuple[str, ...]:
    return ("--set", f"{name}={value}") if value else ()


def _scraped_at(options: ProcessesOptions, count: int) -> list[str]:
    """Where each process may be scraped: at free ports after the given one, which is this process's own."""
    host, _, port = options.prometheus.rpartition(":")
    if not host or port == "0":
        return [options.prometheus] * count
    return [f"{host}:{one}" for one in free_ports(host, int(port), count + 1)[1:]]


def _replica(options: ProcessesOptions, name: str, address: str, console: str) -> Command:
    arguments = (
        *("global", "--replica", name, "--listen", address),
        *(("--console", console) if console else ()),
        *_setting("archive_dir", options.archive_dir or str(options.state / "archive")),
        *_setting("audit_dir", options.audit_dir or str(options.state / "audit")),
        *_setting("links", ",".join(options.fleet.links)),
        *_setting("retain_terminal_age_s", f"{options.retention.age_s:g}"),
        *_setting("retain_terminal_jobs_max", str(options.retention.jobs_max)),
    )
    return _command(options, name, "HANSE_GLOBAL_", *arguments, store=options.store, bus=options.bus)


def _shares(pools: Sequence[PoolSpec], size: int) -> list[Sequence[PoolSpec]]:
    """The pools of each process; a size of 0 puts all into one."""
    size = size or len(pools)
    return [pools[start : start + size] for start in range(0, len(pools), size)] if pools else []


def _names(kind: str, count: int) -> list[str]:
    return [kind] if count == 1 else [f"{kind}-{number}" for number in range(count)]


def _clusters(
    options: ProcessesOptions, shares: Sequence[Sequence[PoolSpec]], addresses: Sequence[str]
) -> list[Command]:
    fleet = ("--fleet", str(options.fleet_file)) if options.fleet_file is not None else ()
    commands = []
    for name, share, address in zip(_names("clusters", len(shares)), shares, addresses, strict=True):
        arguments = ("sim-cluster", *fleet, "--listen", address, "--state", str(options.state / name))
        pools = tuple(word for pool in share for word in ("--pool", pool.name))
        commands.append(_command(options, name, "HANSE_SIM_CLUSTER_", *arguments, *pools))
    return commands


def _agents(options: ProcessesOptions, addresses: Sequence[str], cluster_of: Mapping[PoolName, str]) -> list[Command]:
    shares = _shares(options.fleet.pools, options.agents_per_process)
    commands = []
    for number, (name, share) in enumerate(zip(_names("agents", len(shares)), shares, strict=True)):
        file = options.state / f"{name}.yaml"
        first = number % len(addresses)
        settings = {
            "cluster": f"sim:{cluster_of[share[0].name]}",
            "replicas": [*addresses[first:], *addresses[:first]],
            "pools": [_pool_settings(pool, cluster_of[pool.name]) for pool in share],
        }
        file.write_bytes(orjson.dumps(settings, option=orjson.OPT_INDENT_2))  # JSON is YAML
        commands.append(_command(options, name, "HANSE_AGENT_", "agent", "--config", str(file), bus=options.bus))
    return commands


def _pool_settings(pool: PoolSpec, cluster: str) -> dict[str, Any]:
    return {
        "name": pool.name,
        "cluster": f"sim:{cluster}",
        "region": pool.region,
        "labels": dict(pool.labels),
        "cost": pool.cost,
        "dialect": pool.dialect,
        "levels": [{"key": level.key, "alias": level.alias} for level in pool.levels],
        "scores": [{"name": one.name, "label": one.label, "weight": one.weight} for one in pool.scores],
    }


def free_ports(host: str, first: int, count: int) -> list[int]:
    """The wanted port and free ones after it; the wanted one is left to whoever binds it, to be told in its words."""
    if not first:
        found = _free(host, FREE_PORTS[os.getpid() % 5_000 :], count)
    else:
        found = [first, *_free(host, range(first + 1, min(first + SEARCHED_PORTS, 65_536)), count - 1)]
    if len(found) < count:
        raise Unavailable(f"no {count} free ports from {first} on; say another --listen", reason="ADDRESS_UNUSABLE")
    return found


def _free(host: str, ports: range, count: int) -> list[int]:
    found: list[int] = []
    for port in ports:
        if len(found) == count:
            break
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            try:
                probe.bind((host.strip("[]"), port))
            except OSError:
                continue
        found.append(port)
    return found


# ---- until it is up ----------------------------------------------------------------------------------------


async def _up(made: Processes, rng: Random) -> None:
    ready_s = made.options.ready_s
    try:
        async with asyncio.timeout(ready_s):
            await _ready(made, rng)
    except TimeoutError:
        raise Unavailable(f"not ready after {ready_s:.0f} s; {_what_is_wrong(made)}", reason="START") from None


async def _ready(made: Processes, rng: Random) -> None:
    """Until every replica is ready, the fleet's settings are in, and every pool is seen by the first replica."""
    for address in made.addresses:
        await _until_serving(made, address)
    async with AsyncClient(made.address, token="") as client:
        await _apply(client, made.options.fleet, rng)
        wanted = {str(pool.name) for pool in made.options.fleet.pools if not pool.address}
        while wanted - {p.name for p in await client.pools() if p.health is pool_pb2.POOL_HEALTH_HEALTHY}:
            _check_starts(made)
            await asyncio.sleep(LOOK_EVERY_S * max(1.0, len(wanted) / POOLS_PER_LOOK))


async def _until_serving(made: Processes, address: str) -> None:
    async with grpc.aio.insecure_channel(address, options=(("grpc.max_reconnect_backoff_ms", 500),)) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        while True:
            try:
                answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=PROBE_DEADLINE_S)
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            except grpc.aio.AioRpcError:
                pass  # it does not listen yet
            _check_starts(made)
            await asyncio.sleep(LOOK_EVERY_S)


def _check_starts(made: Processes) -> None:
    """Raises Unavailable if a process has ended again and again: that will not mend itself."""
    for name, child in made.children.items():
        if child.starts > 3:
            raise Unavailable(f"{name} does not start: {child.last_words()}", reason="START")


def _what_is_wrong(made: Processes) -> str:
    down = [name for name, child in made.children.items() if child.pid is None]
    return f"{', '.join(down)} not running" if down else f"see the logs in {made.options.state / 'logs'}"


async def _apply(client: AsyncClient, fleet: Fleet, rng: Random) -> None:
    """What the fleet file sets up; objects that operators have made beside it stay."""
    objects = [object_of_spec(spec) for spec in fleet.resources]
    for result in await client.apply([getattr(one, one.WhichOneof("object") or "") for one in objects]):
        if result.HasField("error"):
            error = result.error
            what = f"{result.kind} {result.name}: {error.message}"
            raise InvalidArgument(what, reason=error.reason, path=error.path)


# ---- the end -----------------------------------------------------------------------------------------------


async def _stop(children: dict[str, Child]) -> None:
    for kind in ("agents", "r", "clusters"):
        stopping = [child for name, child in children.items() if name.startswith(kind)]
        await asyncio.gather(*(child.stop() for child in stopping))
