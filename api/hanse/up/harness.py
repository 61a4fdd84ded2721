"""One process with a whole federation: store, bus, replicas, agents, simulated clusters, and the API in front.

The parts are those of production and meet through the same ports; only the transports are of one process. Everything
that must survive lies in the store's file and in the simulated clusters' folders beside it: `kill -9`, start again,
and the federation goes on where it was, while what ran has run on.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from hanse.agent.cluster.simulated import SimulatedCluster
from hanse.agent.cluster.simulated_grpc import GrpcCluster
from hanse.agent.shell.config import AgentConfig
from hanse.api.v1 import config_service_pb2
from hanse.apiserver.access.callers import Callers
from hanse.apiserver.access.policy import TRUSTING
from hanse.apiserver.context import CallContext
from hanse.apiserver.credentials import Credentials
from hanse.apiserver.server_info import Identity
from hanse.apiserver.services import ApiServices
from hanse.apiserver.serving import serve
from hanse.bus.inprocess import InProcessBus
from hanse.client.objects import object_of_spec
from hanse.kit.clock import Clock, SystemClock
from hanse.kit.version import own_version
from hanse.link.v1 import link_pb2_grpc
from hanse.model.errors import FailedPrecondition, InvalidArgument, Unavailable
from hanse.model.ids import PoolName, ReplicaId
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.shell.link_service import LinkService
from hanse.scheduler.shell.replica import FederationMismatch, ReplicaConfig
from hanse.sim.v1 import sim_pb2_grpc
from hanse.simcluster.build import build_cluster
from hanse.simcluster.cluster import SimCluster
from hanse.simcluster.service import SimService
from hanse.store.contract import Store, StoreError
from hanse.store.measured import MeasuredStore
from hanse.store.memory import MemoryStore
from hanse.store.sqlite import SqliteStore
from hanse.up.agents import LISTS_AT_ONCE, keep_agent
from hanse.up.audit_files import FileAudit
from hanse.up.audit_settings import opened_audit
from hanse.up.fleet import Fleet, PoolSpec, load_fleet
from hanse.up.link_costs import links_of
from hanse.up.options import UpOptions
from hanse.up.retention_settings import opened_archive
from hanse.up.seats import Seat, Seats

log = logging.getLogger(__name__)

READY_LOOK_S: Final = 0.02
FLEET_REQUEST_PREFIX: Final = "fleet-file"


@dataclass(frozen=True, slots=True)
class Federation:
    """A federation that runs.

    Attributes:
        address: HOST:PORT of the API.
        services: the API's services, for callers in this process.
        seats: the replicas.
        clusters: the simulated clusters of this process, by pool.
        store_text: which store, for people.
        console: address of the console for a browser, "" if there is none.
    """

    address: str
    services: ApiServices
    seats: tuple[Seat, ...]
    clusters: dict[str, SimCluster]
    store: Store
    store_text: str
    fleet: Fleet
    console: str = ""

    def describe(self) -> str:
        """One line about what was started."""
        nodes = sum(len(c.engine.nodes.names) for c in self.clusters.values())
        replicas = f"{len(self.seats)} replica{'s' if len(self.seats) != 1 else ''}"
        return f"{len(self.fleet.pools)} pools · {nodes:,} nodes · {replicas} · store {self.store_text}"


@asynccontextmanager
async def federation(options: UpOptions, *, clock: Clock | None = None) -> AsyncIterator[Federation]:
    """Start a federation, and stop it when the block ends.

    Raises:
        HanseError: the fleet, the store or the address cannot be used; one line that says what to do.
    """
    clock = clock or SystemClock()
    rng = random.Random(options.seed)
    fleet = options.fleet if isinstance(options.fleet, Fleet) else load_fleet(options.fleet)
    async with AsyncExitStack() as stack:
        store = await _open_store(options, clock, stack)
        clusters = _build_clusters(options, fleet, clock, stack)
        audit = opened_audit(options.audit, "r0", clock)
        if audit is not None:
            await stack.enter_async_context(audit.running())
        seats = await _run_replicas(options, fleet, store, clock, rng, audit, stack)
        services = ApiServices(
            store,
            identity=Identity(own_version(), options.store.partition(":")[0], "r0"),
            clock=clock,
            rng=rng,
            fleet=seats[0],
            explainer=seats[0],
            details=seats[0],
            events=seats[0],
            standing=seats[0],
            audit=audit,
            trail=seats[0],
        )
        await stack.enter_async_context(services.running())
        await _apply_fleet(services, fleet, rng)
        await _run_agents(options, fleet, clusters, Seats(seats), seats, clock, rng, stack)
        await _ready(options, fleet, seats)

        def beside(server: grpc.aio.Server) -> None:
            sim_pb2_grpc.add_SimServiceServicer_to_server(SimService(clusters), server)
            link_pb2_grpc.add_LinkServiceServicer_to_server(LinkService(seats[0]), server)

        serving = await stack.enter_async_context(serve(services, listen=options.listen, beside=beside))
        shown = ""
        if options.console_listen:
            from hanse.console.serving import console  # costs time that is spent only where somebody looks

            page = console(
                services,
                listen=options.console_listen,
                callers=Callers(Credentials, lambda: TRUSTING),
                tls=None,
                clock=clock,
                rng=_fork(rng),
            )
            shown = await stack.enter_async_context(page)
        yield Federation(serving.address, services, seats, clusters, store, options.store, fleet, shown)


# ---- parts ---------------------------------------------------------------------------------------------------


async def _open_store(options: UpOptions, clock: Clock, stack: AsyncExitStack) -> Store:
    path = options.store_path
    if path is None:
        store: Store = MeasuredStore(MemoryStore(clock), clock, "memory")
    else:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            store = MeasuredStore(await SqliteStore.open(path, clock), clock, "sqlite")
        except OSError as error:
            raise InvalidArgument(f"cannot use {path}: {error.strerror}", reason="STORE", path="store") from error
        except StoreError as error:
            raise Unavailable(str(error), reason="STORE", path="store") from error
    stack.push_async_callback(store.close)
    return store


def _build_clusters(options: UpOptions, fleet: Fleet, clock: Clock, stack: AsyncExitStack) -> dict[str, SimCluster]:
    """The simulated clusters of this process, as they were left beside the store's file."""
    folder = _clusters_folder(options.store_path)
    clusters: dict[str, SimCluster] = {}
    for pool in fleet.pools:
        if pool.address:
            continue
        state = folder / str(pool.name) if folder is not None else None
        if state is not None:
            state.parent.mkdir(parents=True, exist_ok=True)
        cluster = build_cluster(pool.cluster, clock, state)
        stack.callback(cluster.close)
        clusters[str(pool.name)] = cluster
    return clusters


def _clusters_folder(store: Path | None) -> Path | None:
    return store.with_name(store.name + ".clusters") if store is not None else None


async def _run_replicas(
    options: UpOptions,
    fleet: Fleet,
    store: Store,
    clock: Clock,
    rng: random.Random,
    audit: FileAudit | None,
    stack: AsyncExitStack,
) -> tuple[Seat, ...]:
    bus, limits = InProcessBus(), Limits(links=links_of(fleet.links))
    seats = tuple(
        Seat(
            ReplicaConfig(
                ReplicaId(f"r{n}"),
                address=options.listen if n == 0 else "",
                retention=options.retention,
                limits=limits,
            ),
            store,
            bus,
            clock,
            _fork(rng),
            archive=opened_archive(options.archive, f"r{n}", clock),
            audit=audit,
        )
        for n in range(options.replicas)
    )
    tasks = [asyncio.create_task(seat.run(), name=f"replica-{n}") for n, seat in enumerate(seats)]
    stack.push_async_callback(_stop, tasks, seats)
    loaded = asyncio.create_task(_all_loaded(seats), name="loaded")
    await asyncio.wait([*tasks, loaded], timeout=options.ready_s, return_when=asyncio.FIRST_COMPLETED)
    loaded.cancel()
    for task in tasks:
        error = task.exception() if task.done() else None
        if isinstance(error, FederationMismatch):
            raise FailedPrecondition(str(error), reason="FEDERATION", path="store") from error
        if error is not None:
            raise Unavailable(f"a replica could not start: {error}", reason="START") from error
    return seats


async def _all_loaded(seats: Sequence[Seat]) -> None:
    for seat in seats:
        await seat.replica.feed.loaded.wait()


async def _stop(tasks: Sequence["asyncio.Task[None]"], seats: Sequence[Seat]) -> None:
    for seat in seats:
        with contextlib.suppress(StoreError):
            await seat.leave()
    await _cancel(tasks)


async def _cancel(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _fork(rng: random.Random) -> random.Random:
    return random.Random(rng.getrandbits(64))


async def _apply_fleet(services: ApiServices, fleet: Fleet, rng: random.Random) -> None:
    """What the fleet file sets up; objects that operators have made beside it stay."""
    request = config_service_pb2.ApplyRequest(
        objects=[object_of_spec(spec) for spec in fleet.resources],
        request_id=f"{FLEET_REQUEST_PREFIX}-{rng.getrandbits(64):016x}",
        atomic=True,
    )
    response = await services.config.apply(CallContext("hanse-up"), request)
    for result in response.results:
        if result.HasField("error"):
            error = result.error
            raise InvalidArgument(
                f"{result.kind} {result.name}: {error.message}", reason=error.reason, path=error.path
            )


async def _run_agents(
    options: UpOptions,
    fleet: Fleet,
    clusters: dict[str, SimCluster],
    seats: Seats,
    replicas: Sequence[Seat],
    clock: Clock,
    rng: random.Random,
    stack: AsyncExitStack,
) -> None:
    bus = replicas[0].bus
    tasks: list[asyncio.Task[None]] = []
    turns = asyncio.Semaphore(LISTS_AT_ONCE)
    for pool in fleet.pools:
        config = _agent_config(pool, options)
        cluster = clusters.get(str(pool.name))
        port = SimulatedCluster(cluster) if cluster is not None else GrpcCluster(pool.address, str(pool.name))
        work = keep_agent(config, port, seats.dial, bus, clock, _fork(rng), turns=turns)
        tasks.append(asyncio.create_task(work, name=f"agent-{pool.name}"))
    stack.push_async_callback(_cancel, tasks)


def _agent_config(pool: PoolSpec, options: UpOptions) -> AgentConfig:
    return AgentConfig(
        pool=PoolName(pool.name),
        region=pool.region,
        labels=pool.labels,
        cost=pool.cost,
        dialect=pool.dialect,
        levels=pool.levels,
        scores=pool.scores,
        summary_min_interval_s=options.summary_interval_s,
    )


async def _ready(options: UpOptions, fleet: Fleet, seats: Sequence[Seat]) -> None:
    """Until the first replica has a summary of every pool that is simulated here unless it has left, and every queue
    has a holder."""
    seat = seats[0]
    wanted = {str(pool.name) for pool in fleet.pools if not pool.address} - seat.replica.world.left
    try:
        async with asyncio.timeout(options.ready_s):
            while True:
                seen = seat.version()
                if wanted <= {p.name for p in seat.pools() if p.shape is not None} and _all_held(seats):
                    return
                await asyncio.wait_for(seat.changed(seen), options.ready_s)
    except TimeoutError:
        ready = {str(p.name) for p in seat.pools() if p.shape is not None}
        missing = ", ".join(sorted(wanted - ready)) or "a holder of every queue"
        raise Unavailable(f"not ready after {options.ready_s:.0f} s: waiting for {missing}", reason="START") from None


def _all_held(seats: Sequence[Seat]) -> bool:
    held = {root for seat in seats for root in seat.replica.world.held_roots(seat.replica.nonce)}
    return set(seats[0].replica.world.roots()) <= held
