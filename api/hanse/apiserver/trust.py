"""TrustService as coroutines on messages: tokens to join with, and certificates that are believed no more."""

import re
from dataclasses import dataclass
from typing import Final

from hanse.api.v1 import trust_service_pb2 as pb
from hanse.apiserver.context import CallContext
from hanse.apiserver.requests import Request
from hanse.apiserver.writes import PlannedWrite, Writer
from hanse.kit.clock import Clock
from hanse.kit.tls import Kind, sole_identity
from hanse.kit.trust.authority import COMMON_NAME_CHARS_MAX, REPLICAS_COMMON_NAME
from hanse.kit.trust.token import JoinToken, secret_digest
from hanse.model.errors import FailedPrecondition, InvalidArgument, NotFound, ResourceExhausted
from hanse.model.ids import PoolName
from hanse.model.names import SUBDOMAIN_RULE, is_subdomain, quoted
from hanse.store import joins, keys
from hanse.store.contract import Delete, KeyValue, ModRevisionIs, Put, Store, prefix_end
from hanse.store.schema import BarredValue, JoinTokenValue, decode, encode

TTL_S_DEFAULT: Final = 3_600
TTL_S_MIN: Final = 60
TTL_S_MAX: Final = 7 * 86_400
REASON_CHARS_MAX: Final = 256
REVOCATIONS_MAX: Final = 10_000

_ID: Final = re.compile(r"[0-9a-f]{12}")
_SERIAL: Final = re.compile(r"[0-9a-f]{1,40}")


@dataclass(frozen=True, slots=True)
class Joining:
    """How clusters join: the pin of the authority that signs for them, and HOST:PORT at which they ask."""

    pin: str
    address: str


class TrustService:
    """The methods of hanse.api.v1.TrustService.

    Args:
        joining: None if this replica signs nothing.
    """

    def __init__(self, store: Store, writer: Writer, clock: Clock, joining: Joining | None = None) -> None:
        self._store = store
        self._writer = writer
        self._clock = clock
        self._joining = joining

    # ---- tokens ----------------------------------------------------------------------------------------------

    async def create_join_token(
        self, ctx: CallContext, request: pb.CreateJoinTokenRequest
    ) -> pb.CreateJoinTokenResponse:
        """Make a token. It is not repeated by its request id: a secret is kept nowhere, so a lost one is made anew.

        Raises:
            FailedPrecondition: reason NO_AUTHORITY or POOL_LEFT.
            InvalidArgument: reason POOL_NAME or TTL_INVALID.
            ResourceExhausted: reason JOIN_TOKENS_MAX.
        """
        joining, ttl_s = self._signs(), request.ttl_s or TTL_S_DEFAULT
        _check_pool(request.pool)
        if not TTL_S_MIN <= ttl_s <= TTL_S_MAX:
            what = f"a token is good for {TTL_S_MIN} to {TTL_S_MAX} s, not for {ttl_s}"
            raise InvalidArgument(what, reason="TTL_INVALID", path="ttl_s")
        await self._check_left(PoolName(request.pool))
        now_ms = self._clock.now_ms()
        if await joins.forget_old(self._store, now_ms=now_ms) >= joins.JOIN_TOKENS_MAX:
            what = f"{joins.JOIN_TOKENS_MAX} tokens wait to be spent; take some back, or let them run out"
            raise ResourceExhausted(what, reason="JOIN_TOKENS_MAX")
        token = JoinToken.new(joining.pin)
        value = JoinTokenValue(
            digest=secret_digest(token.secret),
            pool=request.pool,
            created_ms=now_ms,
            expires_ms=now_ms + ttl_s * 1_000,
            by=ctx.principal,
        )
        await joins.keep(self._store, token.id, value)
        return pb.CreateJoinTokenResponse(
            token=_token_message(token.id, value), secret=token.text, address=joining.address
        )

    async def list_join_tokens(
        self, ctx: CallContext, request: pb.ListJoinTokensRequest
    ) -> pb.ListJoinTokensResponse:
        """Tokens that are good, and those that were spent lately."""
        await joins.forget_old(self._store, now_ms=self._clock.now_ms())
        found = (await joins.kept(self._store))[-joins.JOIN_TOKENS_MAX :]
        return pb.ListJoinTokensResponse(
            tokens=[_token_message(kv.key.removeprefix(keys.TOKENS), value) for kv, value in found]
        )

    async def delete_join_token(
        self, ctx: CallContext, request: pb.DeleteJoinTokenRequest
    ) -> pb.DeleteJoinTokenResponse:
        """Take a token back. Raises NotFound: reason JOIN_TOKEN_NOT_FOUND."""

        async def plan(_: Request) -> PlannedWrite[pb.DeleteJoinTokenResponse]:
            key = keys.join_token(request.id) if _ID.fullmatch(request.id) else ""
            found = (await self._store.read([key])).items.get(key) if key else None
            if found is None:
                what = f"there is no token {request.id[:32]!r}; `hanse join-token` lists them"
                raise NotFound(what, reason="JOIN_TOKEN_NOT_FOUND", path="id")
            return PlannedWrite(
                (ModRevisionIs(key, found.mod_revision),), (Delete(key),), pb.DeleteJoinTokenResponse()
            )

        return await self._writer.write(ctx, "DeleteJoinToken", request, plan, pb.DeleteJoinTokenResponse)

    def _signs(self) -> Joining:
        if self._joining is None:
            what = (
                "this replica signs no certificates; give it authority_cert_file, authority_key_file and join_listen,"
                " or ask one that has them"
            )
            raise FailedPrecondition(what, reason="NO_AUTHORITY")
        return self._joining

    async def _check_left(self, pool: PoolName) -> None:
        read = await self._store.read([keys.pool_config(pool), keys.pool_left(pool)])
        if keys.pool_left(pool) in read.items and keys.pool_config(pool) not in read.items:
            what = f"pool {pool} has left the federation; let it join again first: `hanse leave {pool} --undo`"
            raise FailedPrecondition(what, reason="POOL_LEFT", path="pool")

    # ---- revocations -----------------------------------------------------------------------------------------

    async def revoke_certificates(self, ctx: CallContext, request: pb.RevokeCertificatesRequest) -> pb.Revocation:
        """Believe certificates no more.

        Raises:
            InvalidArgument: reason IDENTITY_INVALID, SERIAL_INVALID or TEXT_TOO_LONG.
            ResourceExhausted: reason REVOCATIONS_MAX.
        """
        key = _barred_key(request.identity, request.serial)
        if len(request.reason) > REASON_CHARS_MAX:
            what = f"the reason has {len(request.reason)} characters; at most {REASON_CHARS_MAX} are kept"
            raise InvalidArgument(what, reason="TEXT_TOO_LONG", path="reason")

        async def plan(_: Request) -> PlannedWrite[pb.Revocation]:
            found = (await self._store.read([key])).items.get(key)
            if found is None:
                await self._check_room()
            now_ms = self._clock.now_ms()
            value = BarredValue(now_ms, now_ms, ctx.principal, request.reason)
            guard = ModRevisionIs(key, found.mod_revision if found is not None else 0)
            return PlannedWrite((guard,), (Put(key, encode(value)),), _revocation(key, value))

        return await self._writer.write(ctx, "RevokeCertificates", request, plan, pb.Revocation)

    async def list_revocations(
        self, ctx: CallContext, request: pb.ListRevocationsRequest
    ) -> pb.ListRevocationsResponse:
        """What is revoked."""
        found = await self._barred()
        return pb.ListRevocationsResponse(
            revocations=[_revocation(kv.key, decode(kv.value, BarredValue)) for kv in found]
        )

    async def delete_revocation(
        self, ctx: CallContext, request: pb.DeleteRevocationRequest
    ) -> pb.DeleteRevocationResponse:
        """Believe certificates again. Raises NotFound: reason REVOCATION_NOT_FOUND."""
        key = _barred_key(request.identity, request.serial)

        async def plan(_: Request) -> PlannedWrite[pb.DeleteRevocationResponse]:
            found = (await self._store.read([key])).items.get(key)
            if found is None:
                raise NotFound("that is not revoked; `hanse revoke` lists what is", reason="REVOCATION_NOT_FOUND")
            guards = (ModRevisionIs(key, found.mod_revision),)
            return PlannedWrite(guards, (Delete(key),), pb.DeleteRevocationResponse())

        return await self._writer.write(ctx, "DeleteRevocation", request, plan, pb.DeleteRevocationResponse)

    async def _check_room(self) -> None:
        if len(await self._barred()) >= REVOCATIONS_MAX:
            what = f"{REVOCATIONS_MAX} revocations are kept; take back those whose certificates are over"
            raise ResourceExhausted(what, reason="REVOCATIONS_MAX")

    async def _barred(self) -> list[KeyValue]:
        found = await self._store.range(keys.BARRED, prefix_end(keys.BARRED), limit=REVOCATIONS_MAX)
        return list(found.items)


def _check_pool(pool: str) -> None:
    what = ""
    if not is_subdomain(pool):
        what = f"{quoted(pool)} is not a pool's name; {SUBDOMAIN_RULE}"
    elif pool == REPLICAS_COMMON_NAME:
        what = f"{pool} is what brokers know replicas by; give the pool another name"
    elif len(pool) > COMMON_NAME_CHARS_MAX:
        what = f"the name has {len(pool)} characters; a certificate has room for {COMMON_NAME_CHARS_MAX}"
    if what:
        raise InvalidArgument(what, reason="POOL_NAME", path="pool")


def _barred_key(identity: str, serial: str) -> str:
    """Where a revocation is kept. Raises InvalidArgument."""
    if bool(identity) is bool(serial):
        what = "name either an identity or a certificate's serial"
        raise InvalidArgument(what, reason="IDENTITY_INVALID", path="identity")
    if serial:
        text = serial.replace(":", "").lower().lstrip("0")
        if not _SERIAL.fullmatch(text):
            what = f"{serial[:64]!r} is no number in hexadecimal, as `openssl x509 -serial` shows it"
            raise InvalidArgument(what, reason="SERIAL_INVALID", path="serial")
        return keys.barred_serial(text)
    found = sole_identity([identity])
    if found is None:
        kinds = ", ".join(f"hanse://{kind}/NAME" for kind in Kind)
        what = f"{identity[:64]!r} is no identity; write one of {kinds}"
        raise InvalidArgument(what, reason="IDENTITY_INVALID", path="identity")
    return keys.barred(found.kind, found.name)


def _token_message(token: str, value: JoinTokenValue) -> pb.JoinToken:
    return pb.JoinToken(
        id=token,
        pool=value.pool,
        created_ms=value.created_ms,
        expires_ms=value.expires_ms,
        created_by=value.by,
        spent_ms=value.spent_ms,
    )


def _revocation(key: str, value: BarredValue) -> pb.Revocation:
    kind, _, name = key.removeprefix(keys.BARRED).partition("/")
    serial = kind == "serial"
    return pb.Revocation(
        identity="" if serial else f"hanse://{kind}/{name}",
        serial=name if serial else "",
        until_ms=0 if serial else value.until_ms,
        revoked_ms=value.at_ms,
        revoked_by=value.by,
        reason=value.reason,
    )
