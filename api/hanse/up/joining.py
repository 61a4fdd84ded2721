"""`hanse join`, the cluster's side: from a token to files that an agent shows.

Nothing is believed that the token does not vouch for. What the replica shows at first is looked at for the authority
whose pin is in the token; the secret is said only over a second connection, on which that authority is the one that
is believed, and the replica's name is checked. The key is made here and stays here.
"""

import asyncio
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from hanse.kit.tls import Identity, Kind, TlsFiles
from hanse.kit.trust.asking import new_request
from hanse.kit.trust.authority import pins_of
from hanse.kit.trust.files import AUTHORITIES_FILE, Issued, read_shown, write_issued
from hanse.kit.trust.token import JoinToken
from hanse.link.v1 import join_pb2, join_pb2_grpc
from hanse.model.errors import InvalidArgument, PermissionDenied, ResourceExhausted, Unavailable
from hanse.model.names import SUBDOMAIN_RULE, is_subdomain, quoted

DEADLINE_S: Final = 10.0
TRIES: Final = 5
"""A call whose answer is lost is repeated with the same key, for which the token is still good."""

RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Joined:
    """What a cluster has got.

    Attributes:
        files: the authorities; the certificate and its key, in one file.
        replicas: HOST:PORT of each that is alive.
    """

    files: TlsFiles
    federation: str
    replicas: tuple[str, ...]


async def join(address: str, token_text: str, pool: str, folder: Path) -> Joined:
    """Get the certificate of a pool's agent, and write it.

    Raises:
        InvalidArgument: reason TOKEN_INVALID, POOL_NAME or FILE.
        PermissionDenied: reason TOKEN_REFUSED or NOT_THE_FEDERATION.
        Unavailable, ResourceExhausted: try again.
    """
    token = JoinToken.read(token_text)
    if not is_subdomain(pool):
        what = f"{quoted(pool)} is not a pool's name; {SUBDOMAIN_RULE}"
        raise InvalidArgument(what, reason="POOL_NAME", path="--pool")
    authority = pins_of(await _shown_by(address)).get(token.pin)
    if authority is None:
        what = f"{address} does not show the authority that the token names; it is not the federation's replica"
        raise PermissionDenied(what, reason="NOT_THE_FEDERATION")
    key, request = new_request(Identity(Kind.AGENT, pool))
    wanted = join_pb2.JoinRequest(pool=pool, token=token.id, secret=token.secret, request=request)
    answer = await _asked(address, authority, wanted)
    own = folder / f"{pool}.pem"
    files = TlsFiles(folder / AUTHORITIES_FILE, own, own)
    write_issued(files, Issued(answer.certificate, answer.authorities), key)
    return Joined(files, answer.federation, tuple(answer.replicas))


def still_good(pool: str, folder: Path) -> bool:
    """Whether a pool's certificate is there, and not over."""
    try:
        shown = read_shown(folder / f"{pool}.pem")
    except InvalidArgument:
        return False
    return shown.identity == Identity(Kind.AGENT, pool) and shown.ends_ms > time.time_ns() // 1_000_000


async def _asked(address: str, authority: bytes, request: join_pb2.JoinRequest) -> join_pb2.JoinResponse:
    credentials = grpc.ssl_channel_credentials(authority)
    for number in range(1, TRIES + 1):
        async with grpc.aio.secure_channel(address, credentials) as channel:
            try:
                return await join_pb2_grpc.JoinServiceStub(channel).Join(request, timeout=DEADLINE_S)
            except grpc.aio.AioRpcError as error:
                said = error.details() or error.code().name
                match error.code():
                    case grpc.StatusCode.PERMISSION_DENIED:
                        raise PermissionDenied(said, reason="TOKEN_REFUSED") from None
                    case grpc.StatusCode.RESOURCE_EXHAUSTED:
                        raise ResourceExhausted(f"{address}: {said}", reason="JOIN_REFUSED") from None
                    case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.UNIMPLEMENTED:
                        raise InvalidArgument(f"{address}: {said}", reason="JOIN_REFUSED") from None
                    case _ if number == TRIES:
                        what = f"{address} does not answer as {address.rpartition(':')[0]}: {said}"
                        raise Unavailable(what, reason="JOIN_UNANSWERED") from None
        await asyncio.sleep(RETRY_S)
    raise AssertionError("the last try returns or raises")


async def _shown_by(address: str) -> Sequence[bytes]:
    """The certificates that a server shows, in DER. Nothing is said to it but that. Raises Unavailable."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidArgument(f"{quoted(address)} is not HOST:PORT", reason="ADDRESS", path="ADDRESS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(DEADLINE_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
    except (OSError, TimeoutError) as error:
        what = f"cannot reach {address} ({error or 'it says nothing'}); name the address that `hanse join-token` told"
        raise Unavailable(what, reason="JOIN_UNANSWERED") from None
    try:
        return _chain(writer.get_extra_info("ssl_object"))
    finally:
        writer.transport.abort()


def _chain(shown: Any) -> list[bytes]:  # Any: public since Python 3.13 only; before, the object beneath has it
    found = shown if hasattr(shown, "get_unverified_chain") else shown._sslobj
    chain = found.get_unverified_chain() or []
    return [one if isinstance(one, bytes) else ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in chain]
