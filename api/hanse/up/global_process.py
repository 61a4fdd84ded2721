"""One global replica as a process: the store, the bus, a replica, the API in front of it, and its agents' links.

The process waits for its store, then listens, and says that it is ready once it has read the store and is a member.
Told to stop, it goes in this order, so that nobody waits for it: no calls and no agents any more; the agents' streams
end, and they attach elsewhere; the lease goes back, and others take its queues; calls in progress get a little time.

It keeps nothing. Killed at any moment and started again under its name it is another replica, of the same name.
"""

import asyncio
import contextlib
import logging
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import grpc

from hanse.apiserver.access.callers import Callers
from hanse.apiserver.server_info import Identity
from hanse.apiserver.services import ApiServices
from hanse.apiserver.serving import serve
from hanse.apiserver.trust import Joining
from hanse.kit.addresses import is_loopback
from hanse.kit.clock import Clock
from hanse.kit.health import HEALTH
from hanse.kit.process import settle_memory
from hanse.kit.tasks import race
from hanse.kit.telemetry import metrics
from hanse.kit.trust.renewing import Renewer, certificates_told
from hanse.kit.version import own_version
from hanse.link.v1 import join_pb2_grpc, link_pb2_grpc, peer_pb2_grpc
from hanse.model.errors import FailedPrecondition, InvalidArgument
from hanse.model.names import SUBDOMAIN_RULE, is_subdomain, quoted
from hanse.scheduler.shell.join_service import RenewService
from hanse.scheduler.shell.link_service import LinkService
from hanse.scheduler.shell.peer_client import GrpcPeers
from hanse.scheduler.shell.peer_service import PeerService
from hanse.scheduler.shell.replica import FederationMismatch
from hanse.store.contract import Store, StoreError
from hanse.up.audit_files import AuditLimits, FileAudit
from hanse.up.audit_settings import opened_audit
from hanse.up.global_access import opened_callers
from hanse.up.global_settings import GlobalSettings
from hanse.up.global_trust import joining, opened_authority, own_renewer, strangers_served
from hanse.up.issuer import opened_issuer
from hanse.up.opening import opened_bus, opened_store
from hanse.up.retention_settings import opened_archive
from hanse.up.seats import Seat
from hanse.up.tokens import read_token

log = logging.getLogger(__name__)

NAME_LOOK_S: Final = 1.0
NAME_LOOKS_MAX: Final = 5
"""Another start of the same name that is seen so often in a row is no trace of the one before this."""

ANYWHERE: Final = frozenset({"0.0.0.0", "[::]", "::"})


async def run_global(
    settings: GlobalSettings, clock: Clock, rng: random.Random, listening: Callable[[str, str], None]
) -> None:
    """Run a replica until cancelled.

    Args:
        listening: called with the address and the console's, "" for none, once calls are answered; they succeed once
            the store answers too.

    Raises:
        HanseError: the settings, the store or the address cannot be used.
    """
    callers = _callers(settings, clock)
    authority = opened_authority(settings, clock)
    name, token, bus = (
        replica_name(settings.replica),
        read_token(settings.peer_token_file),
        opened_bus(settings.bus, _fork(rng)),
    )
    async with AsyncExitStack() as stack:
        stack.enter_context(HEALTH.told_by(lambda: False))  # while the store is waited for
        told = metrics.REGISTRY.observed(lambda: metrics.FILES_UNUSABLE.set(callers.files_unusable()))
        stack.enter_context(told)
        store = await opened_store(settings.store, clock, _fork(rng))
        stack.push_async_callback(store.close)
        peers = GrpcPeers(settings.federation, token=token, tls=settings.tls)
        stack.push_async_callback(peers.close)
        archive = opened_archive(settings.archive_dir, name, clock)
        limits = AuditLimits(settings.audit_file_bytes_max, settings.audit_files_max)
        audit = opened_audit(settings.audit_dir, name, clock, limits)
        if audit is not None:
            await stack.enter_async_context(audit.running())
        seat = Seat(settings.replica_config(name), store, bus, clock, _fork(rng), peers, archive, audit)
        here = joining(settings, authority, _advertised(settings, settings.listen))
        services = await _api(settings, name, store, clock, rng, seat, audit, stack, here)

        def beside(server: grpc.aio.Server) -> None:
            shown = callers.certificates
            links = LinkService(seat, certificates=shown, barred=seat.is_barred)
            link_pb2_grpc.add_LinkServiceServicer_to_server(links, server)
            peers_served = PeerService(lambda: seat.replica, certificates=shown, barred=seat.is_barred)
            peer_pb2_grpc.add_PeerServiceServicer_to_server(peers_served, server)
            renewals = RenewService(
                authority,
                clock,
                lifetime_s=settings.certificate_lifetime_s,
                barred=seat.is_barred,
                left=lambda pool: pool in seat.replica.world.left,
            )
            join_pb2_grpc.add_RenewServiceServicer_to_server(renewals, server)

        serving = await stack.enter_async_context(
            serve(
                services,
                listen=settings.listen,
                callers=callers,
                barred=lambda one: seat.replica.is_barred(one),
                tls=settings.tls,
                beside=beside,
                ready=lambda: seat.ready,
            )
        )
        shown = await _console(settings, services, callers, clock, rng, stack)
        await stack.enter_async_context(strangers_served(settings, authority, store, clock, seat.addresses))
        renewer = own_renewer(settings, authority, clock, _fork(rng), seat.other_addresses)
        told = certificates_told(settings.tls, clock, None if authority is None else authority.ends_ms)
        stack.enter_context(told)
        seat.listens_at(_advertised(settings, serving.address))
        said = {"replica": name, "address": serving.address, "store": store_kind(settings), "console": shown}
        log.info("global_started", extra=said)
        listening(serving.address, shown)
        stack.enter_context(HEALTH.told_by(lambda: seat.ready))
        async with _leaving(seat):
            await race(replica=_sit(seat), attend=_attend(seat), renewal=_renewing(renewer))


async def _renewing(renewer: Renewer | None) -> None:
    await (renewer.run() if renewer is not None else asyncio.Event().wait())


@asynccontextmanager
async def _leaving(seat: Seat) -> AsyncIterator[None]:
    """At the end, agents and queues go before anything else does."""
    try:
        yield
    finally:
        await seat.drain()
        with contextlib.suppress(StoreError):
            await seat.leave()


async def _attend(seat: Seat) -> None:
    """See to the process while its replica runs; raises FailedPrecondition if another one has taken its name."""
    await seat.replica.feed.loaded.wait()
    settle_memory()
    looks = 0
    while looks < NAME_LOOKS_MAX:
        await asyncio.sleep(NAME_LOOK_S)
        looks = looks + 1 if seat.replica.name_is_taken else 0
    name = seat.replica.config.replica
    what = f"another process has started as replica {name}; give each of them a --replica of its own"
    raise FailedPrecondition(what, reason="REPLICA_NAME", path="replica")


async def _sit(seat: Seat) -> None:
    try:
        await seat.run()
    except FederationMismatch as error:
        raise FailedPrecondition(str(error), reason="FEDERATION", path="store") from error


async def _api(
    settings: GlobalSettings,
    name: str,
    store: Store,
    clock: Clock,
    rng: random.Random,
    seat: Seat,
    audit: FileAudit | None,
    stack: AsyncExitStack,
    here: Joining | None,
) -> ApiServices | None:
    if not settings.api:
        return None
    services = ApiServices(
        store,
        identity=Identity(own_version(), store_kind(settings), name),
        clock=clock,
        rng=_fork(rng),
        fleet=seat,
        explainer=seat,
        details=seat,
        events=seat,
        standing=seat,
        audit=audit,
        trail=seat,
        settings=settings.api_settings(),
        joining=here,
    )
    await stack.enter_async_context(services.running())
    return services


async def _console(
    settings: GlobalSettings,
    services: ApiServices | None,
    callers: Callers,
    clock: Clock,
    rng: random.Random,
    stack: AsyncExitStack,
) -> str:
    """Serve the console if it is asked for; its address."""
    if not settings.console:
        return ""
    if services is None:
        raise InvalidArgument("the console shows what the API answers; leave the API in", path="--console")
    from hanse.console.serving import console  # costs time that is spent only where somebody looks

    page = console(services, listen=settings.console, callers=callers, tls=settings.tls, clock=clock, rng=_fork(rng))
    return await stack.enter_async_context(page)


def store_kind(settings: GlobalSettings) -> str:
    """What is shown of a store: its kind, never what is in its address."""
    return settings.store.partition(":")[0]


def replica_name(given: str) -> str:
    """The name of this replica: the given one, or the machine's.

    Raises:
        InvalidArgument: it can be no name.
    """
    name = given or socket.gethostname().lower().rstrip(".")
    if not is_subdomain(name):
        what = f"{quoted(name)} cannot be a replica's name; {SUBDOMAIN_RULE}"
        raise InvalidArgument(what, reason="REPLICA_NAME", path="--replica")
    return name


def _callers(settings: GlobalSettings, clock: Clock) -> Callers:
    """Checked before anything is opened: a mistake here should touch nothing."""
    if settings.tls is not None:
        settings.tls.check(server=True)
    callers = opened_callers(
        listen=_most_open(settings),
        tokens_file=settings.tokens_file,
        access_file=settings.access_file,
        certificates=settings.tls_ca_file is not None,
        encrypted=settings.tls is not None,
        issuer=opened_issuer(settings.oidc_terms, settings.oidc_keys, settings.oidc_ca_file, clock),
        clock=clock,
    )
    if not settings.scheduler and not settings.api:
        raise InvalidArgument("a replica without scheduler and API has nothing to do; leave one in", path="--no-api")
    return callers


def _most_open(settings: GlobalSettings) -> str:
    """Where the replica can be reached from farthest: what decides whether those who come there are trusted."""
    beyond = bool(settings.console) and not is_loopback(settings.console.rpartition(":")[0])
    return settings.console if beyond else settings.listen


def _advertised(settings: GlobalSettings, address: str) -> str:
    """Where the others find this replica."""
    host, _, port = address.rpartition(":")
    return settings.advertise or (f"{socket.gethostname()}:{port}" if host in ANYWHERE else address)


def _fork(rng: random.Random) -> random.Random:
    return random.Random(rng.getrandbits(64))
