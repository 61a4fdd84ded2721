"""The certificates of a replica: its own, kept new, and those that it signs, if it has an authority's key.

Clusters that join ask on a port of their own: they have no certificate yet, and the port of the API and the links
asks everybody for one.
"""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import grpc

from hanse.apiserver.serving import bind
from hanse.apiserver.trust import Joining
from hanse.kit.clock import Clock
from hanse.kit.tls import Identity, TlsFiles
from hanse.kit.trust.asking import checked_request
from hanse.kit.trust.authority import Authority, read_authority
from hanse.kit.trust.files import Issued, check_time, read_certificates
from hanse.kit.trust.renewing import Ask, AskReplicas, Renewer
from hanse.kit.trust.shown import Shown
from hanse.link.v1 import join_pb2_grpc
from hanse.model.errors import InvalidArgument
from hanse.scheduler.shell.join_service import JOIN_CALLS_MAX, JOIN_MESSAGE_BYTES_MAX, JoinService
from hanse.store.contract import Store
from hanse.up.global_settings import GlobalSettings

JOIN_HANDSHAKE_MAX_S: Final = 5
JOIN_CONNECTION_MAX_S: Final = 30
JOIN_CONNECTION_IDLE_MAX_S: Final = 10
JOIN_STOP_GRACE_S: Final = 1.0
ADVICE: Final = "make a new one with `hanse ca issue`, or have cert-manager renew it, and start again"

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", JOIN_MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", JOIN_HANDSHAKE_MAX_S * 1_000),
    ("grpc.max_connection_age_ms", JOIN_CONNECTION_MAX_S * 1_000),
    ("grpc.max_connection_age_grace_ms", JOIN_CONNECTION_IDLE_MAX_S * 1_000),
    ("grpc.max_connection_idle_ms", JOIN_CONNECTION_IDLE_MAX_S * 1_000),
)


def opened_authority(settings: GlobalSettings, clock: Clock) -> Authority | None:
    """The authority by which this replica signs, None if it signs nothing; its own certificate is good.

    Raises:
        InvalidArgument: the files, or what is said of them, cannot be used.
        FailedPrecondition: reason CERTIFICATE_EXPIRED.
    """
    check_time(settings.tls, now_ms=clock.now_ms(), advice=ADVICE)
    cert, key = settings.authority_cert_file, settings.authority_key_file
    if cert is None and key is None:
        if settings.join_listen:
            raise _missing("join_listen", "whoever joins gets a certificate; name authority_cert_file and its key")
        return None
    if cert is None or key is None:
        raise _missing("authority_key_file", "authority_cert_file and authority_key_file go together")
    if settings.tls_cert_file is None or settings.tls_ca_file is None:
        raise _missing("authority_cert_file", "who signs certificates asks for them: name the tls files too")
    authority = read_authority(cert, key, settings.tls_ca_file)
    if settings.join_listen and not authority.signs(read_certificates(settings.tls_cert_file)[0]):
        what = f"the certificate {settings.tls_cert_file} is not signed by it, so nobody who joins would believe it"
        raise InvalidArgument(f"{what}; make one with `hanse ca issue`", reason="TLS_INVALID", path=str(cert))
    return authority


def _missing(setting: str, what: str) -> InvalidArgument:
    return InvalidArgument(what, reason="TLS_INVALID", path=setting)


def joining(settings: GlobalSettings, authority: Authority | None, advertised: str) -> Joining | None:
    """How clusters join here; None if they do not.

    Args:
        advertised: HOST:PORT at which others find this replica.
    """
    if authority is None or not settings.join_listen:
        return None
    host, port = advertised.rpartition(":")[0], settings.join_listen.rpartition(":")[2]
    return Joining(authority.pin, settings.join_advertise or f"{host}:{port}")


def own_renewer(
    settings: GlobalSettings,
    authority: Authority | None,
    clock: Clock,
    rng: random.Random,
    replicas: Callable[[], Sequence[str]],
) -> Renewer | None:
    """Who keeps this replica's certificate new; None if nobody of ours does.

    Args:
        replicas: HOST:PORT of the others.
    """
    files = settings.tls
    if files is None or files.cert is None or not settings.tls_renew:
        return None
    ask: Ask = AskReplicas(replicas, files)
    if authority is not None and authority.signs(read_certificates(files.cert)[0]):
        ask = _by_itself(authority, clock, settings.certificate_lifetime_s)
    return Renewer(files, ask, clock, rng)


def _by_itself(authority: Authority, clock: Clock, lifetime_s: float) -> Ask:
    async def ask(request: bytes, identity: Identity, shown: Shown) -> Issued:
        public = checked_request(request, identity)
        return authority.sign(public, identity, now_ms=clock.now_ms(), lifetime_s=lifetime_s, hosts=shown.hosts)

    return ask


@asynccontextmanager
async def strangers_served(
    settings: GlobalSettings,
    authority: Authority | None,
    store: Store,
    clock: Clock,
    replicas: Callable[[], Sequence[str]],
) -> AsyncIterator[None]:
    """Serve the port on which clusters join, if there is one, while the block runs.

    Raises:
        Unavailable: reason ADDRESS_UNUSABLE.
    """
    if authority is None or not settings.join_listen:
        yield
        return
    server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=JOIN_CALLS_MAX)
    service = JoinService(
        store,
        authority,
        clock,
        lifetime_s=settings.certificate_lifetime_s,
        federation=settings.federation,
        replicas=replicas,
    )
    join_pb2_grpc.add_JoinServiceServicer_to_server(service, server)
    shown = TlsFiles(None, settings.tls_cert_file, settings.tls_key_file)
    bind(server, settings.join_listen, shown, path="join_listen", above=authority.certificate)
    await server.start()
    try:
        yield
    finally:
        await server.stop(JOIN_STOP_GRACE_S)
