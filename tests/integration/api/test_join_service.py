"""The port for strangers: what a token opens, and what comes of those who have none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from hanse.apiserver.credentials import Credentials
from hanse.apiserver.serving import serve
from hanse.kit.tls import Identity, Kind, TlsFiles, channel
from hanse.kit.trust.asking import checked_request, new_request
from hanse.kit.trust.authority import Authority, begin
from hanse.kit.trust.files import read_shown, write_issued
from hanse.kit.trust.renewing import AskReplicas
from hanse.kit.trust.shown import Barred, nobody_is_barred
from hanse.kit.trust.token import JoinToken, secret_digest
from hanse.link.v1 import join_pb2, join_pb2_grpc
from hanse.model.errors import HanseError
from hanse.scheduler.shell.join_service import JOIN_MESSAGE_BYTES_MAX, REFUSALS_MAX, RenewService
from hanse.store import joins
from hanse.store.memory import MemoryStore
from hanse.store.schema import JoinTokenValue
from hanse.up.global_settings import GlobalSettings
from hanse.up.global_trust import opened_authority, strangers_served
from hanse.up.joining import join
from tests.services.process import free_ports
from tests.unit.scheduler_shell.puppet import CLOCK

HOUR_MS = 3_600_000
OSLO, PARIS = Identity(Kind.AGENT, "oslo"), Identity(Kind.AGENT, "paris")


@dataclass
class Door:
    address: str
    store: MemoryStore
    authority: Authority
    folder: Path

    async def token(self, pool: str = "oslo", *, ttl_ms: int = HOUR_MS) -> JoinToken:
        token, now_ms = JoinToken.new(self.authority.pin), CLOCK.now_ms()
        value = JoinTokenValue(secret_digest(token.secret), pool, created_ms=now_ms, expires_ms=now_ms + ttl_ms)
        await joins.keep(self.store, token.id, value)
        return token

    async def say(self, request: join_pb2.JoinRequest) -> join_pb2.JoinResponse:
        async with channel(self.address, TlsFiles(self.folder / "ca.pem"), ()) as opened:
            return await join_pb2_grpc.JoinServiceStub(opened).Join(request, timeout=10)


def issued(folder: Path, authority: Authority, identity: Identity, *, lifetime_s: float = 3_600) -> TlsFiles:
    """Files of somebody, as `hanse ca issue` writes them."""
    own = folder / f"{identity.name}.pem"
    key, request = new_request(identity)
    public = checked_request(request, identity)
    made = authority.sign(
        public, identity, now_ms=CLOCK.now_ms(), lifetime_s=lifetime_s, hosts=["127.0.0.1"] * (identity.name == "r0")
    )
    files = TlsFiles(folder / "ca.pem", own, own)
    write_issued(files, made, key)
    return files


@asynccontextmanager
async def door(folder: Path) -> AsyncIterator[Door]:
    authority = begin(folder / "ca.pem", folder / "ca-key.pem", "hanse", now_ms=CLOCK.now_ms())
    own = issued(folder, authority, Identity(Kind.REPLICA, "r0"))
    (port,) = free_ports(1)
    settings = GlobalSettings(
        store="sqlite:x",
        tls_ca_file=own.ca,
        tls_cert_file=own.cert,
        tls_key_file=own.key,
        authority_cert_file=folder / "ca.pem",
        authority_key_file=folder / "ca-key.pem",
        join_listen=f"127.0.0.1:{port}",
    )
    store = MemoryStore(CLOCK)
    opened = opened_authority(settings, CLOCK)
    async with strangers_served(settings, opened, store, CLOCK, lambda: ["r0.example:7311"]):
        yield Door(f"127.0.0.1:{port}", store, authority, folder)


async def test_a_cluster_joins_with_what_the_token_says_and_no_more(tmp_path: Path) -> None:
    async with door(tmp_path) as found:
        joined = await join(found.address, (await found.token()).text, "oslo", tmp_path / "oslo")
        assert (joined.federation, joined.replicas) == ("hanse", ("r0.example:7311",))
        assert joined.files.cert is not None
        shown = read_shown(joined.files.cert)
        assert (shown.identity, shown.hosts) == (OSLO, ())
        assert joined.files.cert.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "oslo" / "ca.pem").read_bytes() == (tmp_path / "ca.pem").read_bytes()
        assert not [p for p in (tmp_path / "oslo").iterdir() if p.name.startswith(".")]


async def test_a_token_that_is_replayed_over_or_of_another_pool_gets_nothing(tmp_path: Path) -> None:
    async with door(tmp_path) as found:
        token = await found.token()
        await join(found.address, token.text, "oslo", tmp_path / "oslo")
        other, late = await found.token("paris"), await found.token(ttl_ms=0)
        guess = JoinToken(other.id, JoinToken.new("").secret, other.pin)
        unknown = JoinToken.new(found.authority.pin)
        for text in (token.text, other.text, late.text, guess.text, unknown.text):
            with pytest.raises(HanseError, match="not good for that pool") as refused:
                await join(found.address, text, "oslo", tmp_path / "thief")
            assert refused.value.reason == "TOKEN_REFUSED"
        assert not (tmp_path / "thief").exists()
        await join(found.address, other.text, "paris", tmp_path / "paris")


async def test_who_guesses_is_not_listened_to_and_the_right_token_stays_good(tmp_path: Path) -> None:
    async with door(tmp_path) as found:
        token = await found.token()
        _, request = new_request(OSLO)
        codes = []
        for n in range(REFUSALS_MAX + 3):
            wanted = join_pb2.JoinRequest(pool="oslo", token=token.id, secret=f"{n:048x}", request=request)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await found.say(wanted)
            codes.append(refused.value.code())
        denied, exhausted = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.RESOURCE_EXHAUSTED
        assert codes == [denied] * REFUSALS_MAX + [exhausted] * 3
        assert not (await joins.kept(found.store))[0][1].spent_ms


async def test_a_request_for_another_identity_spends_no_token(tmp_path: Path) -> None:
    async with door(tmp_path) as found:
        token = await found.token()
        for identity in (PARIS, Identity(Kind.REPLICA, "oslo"), Identity(Kind.USER, "ana")):
            _, request = new_request(identity)
            wanted = join_pb2.JoinRequest(pool="oslo", token=token.id, secret=token.secret, request=request)
            with pytest.raises(grpc.aio.AioRpcError, match="only hanse://agent/oslo would be signed"):
                await found.say(wanted)
        assert not (await joins.kept(found.store))[0][1].spent_ms


async def test_a_server_that_does_not_show_the_token_s_authority_never_hears_the_secret(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with door(tmp_path / "other") as impostor, door(tmp_path) as found:
        token = await found.token()
        with pytest.raises(HanseError, match="not the federation's replica") as refused:
            await join(impostor.address, token.text, "oslo", tmp_path / "oslo")
        assert refused.value.reason == "NOT_THE_FEDERATION"
        assert isinstance(
            await joins.spend(
                found.store, token.id, secret_digest(token.secret), pool="oslo", key="k", now_ms=CLOCK.now_ms()
            ),
            joins.Spent,
        )


async def test_what_is_oversized_or_nonsense_is_refused_and_the_port_serves_on(tmp_path: Path) -> None:
    async with door(tmp_path) as found:
        token = await found.token()
        for request in (
            join_pb2.JoinRequest(pool="oslo", request=bytes(JOIN_MESSAGE_BYTES_MAX)),
            join_pb2.JoinRequest(pool="o" * 10_000, token="t", secret="s"),
            join_pb2.JoinRequest(pool="../../etc", token="t", secret="s"),
            join_pb2.JoinRequest(pool="oslo", token="t/../../barred", secret="s" * 100),
            join_pb2.JoinRequest(),
        ):
            with pytest.raises(grpc.aio.AioRpcError):
                await found.say(request)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(found.address.rpartition(":")[2]))
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 100)
        async with asyncio.timeout(10):
            await reader.read()
        writer.close()
        await join(found.address, token.text, "oslo", tmp_path / "oslo")


@asynccontextmanager
async def renewals(
    found: Door, *, barred: Barred = nobody_is_barred, left: tuple[str, ...] = (), signs: bool = True
) -> AsyncIterator[str]:
    own = TlsFiles(found.folder / "ca.pem", found.folder / "r0.pem", found.folder / "r0.pem")
    service = RenewService(
        found.authority if signs else None, CLOCK, lifetime_s=60, barred=barred, left=lambda pool: pool in left
    )
    async with serve(
        None,
        listen="127.0.0.1:0",
        credentials=Credentials({}, certificates=True),
        tls=own,
        beside=lambda server: join_pb2_grpc.add_RenewServiceServicer_to_server(service, server),
    ) as serving:
        yield serving.address


async def renewed(address: str, files: TlsFiles, identity: Identity) -> bytes:
    assert files.cert is not None
    _, request = new_request(identity)
    return (await AskReplicas(lambda: [address], files)(request, identity, read_shown(files.cert))).certificate


async def test_a_certificate_is_renewed_for_the_same_identity_alone(tmp_path: Path) -> None:
    async with door(tmp_path) as found, renewals(found) as address:
        oslo = issued(tmp_path, found.authority, OSLO)
        r0 = TlsFiles(tmp_path / "ca.pem", tmp_path / "r0.pem", tmp_path / "r0.pem")
        new = tmp_path / "new.pem"
        new.write_bytes(await renewed(address, oslo, OSLO))
        assert (read_shown(new).identity, read_shown(new).hosts) == (OSLO, ())
        new.write_bytes(await renewed(address, r0, Identity(Kind.REPLICA, "r0")))
        assert read_shown(new).hosts == ("127.0.0.1",)
        with pytest.raises(HanseError, match="only hanse://agent/oslo would be signed"):
            await renewed(address, oslo, PARIS)
        with pytest.raises(HanseError, match="renewed by whoever made it"):
            await renewed(address, issued(tmp_path, found.authority, Identity(Kind.USER, "ana")), OSLO)


async def test_who_is_revoked_has_left_or_asks_a_replica_that_signs_nothing_is_not_renewed(tmp_path: Path) -> None:
    async with door(tmp_path) as found:
        oslo = issued(tmp_path, found.authority, OSLO)
        async with renewals(found, barred=lambda shown: True) as address:
            with pytest.raises(HanseError, match="is revoked"):
                await renewed(address, oslo, OSLO)
        async with renewals(found, left=("oslo",)) as address:
            with pytest.raises(HanseError, match="pool oslo has left"):
                await renewed(address, oslo, OSLO)
        async with renewals(found, signs=False) as address:
            with pytest.raises(HanseError, match="signs no certificates") as refused:
                await renewed(address, oslo, OSLO)
            assert refused.value.reason == "NO_AUTHORITY"
