"""Tokens to join with and revocations, as operators ask for them."""

from dataclasses import replace

import pytest

from hanse.api.v1 import trust_service_pb2 as pb
from hanse.apiserver.trust import Joining, TrustService
from hanse.kit.trust.token import JoinToken, secret_digest
from hanse.model.errors import FailedPrecondition, HanseError, InvalidArgument, NotFound, ResourceExhausted
from hanse.store import joins, keys
from hanse.store.contract import Put, Txn
from hanse.store.schema import BarredValue, JoinTokenValue, LeftValue, decode, encode
from tests.unit.apiserver.stage import CTX, Stage, stage

PIN = "ab" * 32


def signing(on: Stage) -> TrustService:
    found = on.api.trust
    return TrustService(on.store, found._writer, on.api.clock, Joining(PIN, "hanse.example:7312"))


async def test_a_token_is_told_once_and_its_digest_alone_is_kept() -> None:
    async with stage() as on:
        service = signing(on)
        made = await service.create_join_token(CTX, pb.CreateJoinTokenRequest(pool="oslo", ttl_s=120))
        token = JoinToken.read(made.secret)
        assert (token.id, token.pin, made.address) == (made.token.id, PIN, "hanse.example:7312")
        kept = (await on.store.core.read([keys.join_token(token.id)])).items[keys.join_token(token.id)].value
        assert token.secret.encode() not in kept
        assert decode(kept, JoinTokenValue).digest == secret_digest(token.secret)
        assert made.token.expires_ms - made.token.created_ms == 120_000
        listed = await service.list_join_tokens(CTX, pb.ListJoinTokensRequest())
        assert [(one.id, one.pool, one.created_by) for one in listed.tokens] == [(token.id, "oslo", CTX.principal)]
        await service.delete_join_token(CTX, pb.DeleteJoinTokenRequest(id=token.id))
        with pytest.raises(NotFound):
            await service.delete_join_token(CTX, pb.DeleteJoinTokenRequest(id=token.id))


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (pb.CreateJoinTokenRequest(pool=""), "POOL_NAME"),
        (pb.CreateJoinTokenRequest(pool="../state"), "POOL_NAME"),
        (pb.CreateJoinTokenRequest(pool="hanse-global"), "POOL_NAME"),
        (pb.CreateJoinTokenRequest(pool="a" * 65), "POOL_NAME"),
        (pb.CreateJoinTokenRequest(pool="oslo", ttl_s=59), "TTL_INVALID"),
        (pb.CreateJoinTokenRequest(pool="oslo", ttl_s=604_801), "TTL_INVALID"),
        (pb.CreateJoinTokenRequest(pool="oslo", ttl_s=-1), "TTL_INVALID"),
    ],
)
async def test_a_token_that_cannot_be(request_: pb.CreateJoinTokenRequest, reason: str) -> None:
    async with stage() as on:
        with pytest.raises(InvalidArgument) as refused:
            await signing(on).create_join_token(CTX, request_)
        assert refused.value.reason == reason


async def test_who_signs_nothing_and_who_has_left_are_told_what_to_do() -> None:
    async with stage() as on:
        request = pb.CreateJoinTokenRequest(pool="oslo")
        with pytest.raises(FailedPrecondition, match="authority_cert_file"):
            await on.api.trust.create_join_token(CTX, request)
        left = LeftValue("c", 9, 7)
        await on.store.core.transact(Txn((), (Put("pools/oslo/left", encode(left)),)))
        with pytest.raises(FailedPrecondition, match="hanse leave oslo --undo"):
            await signing(on).create_join_token(CTX, request)


async def test_tokens_are_bounded_and_those_that_are_over_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "JOIN_TOKENS_MAX", 2)
    async with stage() as on:
        service, request = signing(on), pb.CreateJoinTokenRequest(pool="oslo")
        for _ in range(2):
            made = await service.create_join_token(CTX, request)
        with pytest.raises(ResourceExhausted):
            await service.create_join_token(CTX, request)
        key = keys.join_token(made.token.id)
        value = decode((await on.store.core.read([key])).items[key].value, JoinTokenValue)
        over = JoinTokenValue(value.digest, value.pool, value.created_ms, value.created_ms - 1)
        await on.store.core.transact(Txn((), (Put(key, encode(over)),)))
        await service.create_join_token(CTX, request)


async def test_what_is_revoked_is_kept_listed_and_taken_back() -> None:
    async with stage() as on:
        service, ann = on.api.trust, replace(CTX, principal="ann")
        by_pool = pb.RevokeCertificatesRequest(identity="hanse://agent/oslo", reason="lost")
        made = await service.revoke_certificates(ann, by_pool)
        assert (made.identity, made.revoked_by, made.reason) == ("hanse://agent/oslo", "ann", "lost")
        await service.revoke_certificates(ann, pb.RevokeCertificatesRequest(serial="00:4F:2A"))
        found = await on.store.core.read([keys.barred("agent", "oslo"), keys.barred_serial("4f2a")])
        until = decode(found.items["barred/agent/oslo"].value, BarredValue).until_ms
        assert (len(found.items), until) == (2, made.until_ms)
        listed = await service.list_revocations(CTX, pb.ListRevocationsRequest())
        assert [(one.identity, one.serial) for one in listed.revocations] == [
            ("hanse://agent/oslo", ""),
            ("", "4f2a"),
        ]
        await service.delete_revocation(CTX, pb.DeleteRevocationRequest(identity="hanse://agent/oslo"))
        with pytest.raises(NotFound):
            await service.delete_revocation(CTX, pb.DeleteRevocationRequest(identity="hanse://agent/oslo"))


@pytest.mark.parametrize(
    ("identity", "serial"),
    [
        ("", ""),
        ("hanse://agent/oslo", "4f"),
        ("hanse://agent/oslo/../x", ""),
        ("oslo", ""),
        ("", "xyz"),
        ("", "/agent/oslo"),
        ("", "f" * 41),
        ("", "0"),
    ],
)
async def test_what_names_nobody_is_not_revoked(identity: str, serial: str) -> None:
    async with stage() as on:
        with pytest.raises(HanseError):
            await on.api.trust.revoke_certificates(
                CTX, pb.RevokeCertificatesRequest(identity=identity, serial=serial)
            )
        assert not (await on.store.core.range(keys.BARRED, keys.BARRED + "~")).items
