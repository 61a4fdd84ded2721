"""Who is let in by a certificate, as what, and that files may be renewed under a server that runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from hanse.agent.shell.dial import Dialer, Lines
from hanse.apiserver.credentials import Credentials, parse_tokens
from hanse.apiserver.serving import serve
from hanse.client import AsyncClient
from hanse.kit.stream import StreamClosed
from hanse.kit.tls import TlsFiles, channel
from hanse.kit.trust.shown import Barred, Shown, nobody_is_barred
from hanse.link.v1 import link_pb2 as pb
from hanse.link.v1 import link_pb2_grpc, peer_pb2, peer_pb2_grpc
from hanse.model.errors import HanseError, InvalidArgument
from hanse.scheduler.shell.link_service import LinkService
from hanse.scheduler.shell.peer_service import PeerService
from tests.integration.api.test_door import PATIENCE_S, Echo
from tests.services.authority import Authority
from tests.unit.apiserver.stage import stage

TOKEN = "sixteen-letters-and-more"
SHORT = timedelta(seconds=4)
OCEAN_S = 0.1


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def server(
    tls: TlsFiles, echo: Echo | None = None, *, tokens: str = "", barred: Barred = nobody_is_barred
) -> AsyncIterator[str]:
    """The API and links, at whose door certificates are asked for."""

    def beside(found: grpc.aio.Server) -> None:
        links = LinkService(echo or Echo(), certificates=True, barred=barred)
        link_pb2_grpc.add_LinkServiceServicer_to_server(links, found)
        service = PeerService(lambda: pytest.fail("nobody should come so far"), certificates=True, barred=barred)
        peer_pb2_grpc.add_PeerServiceServicer_to_server(service, found)

    found = parse_tokens(tokens).principals if tokens else {}
    async with (
        stage() as on,
        serve(
            on.api,
            listen="127.0.0.1:0",
            credentials=Credentials(found, certificates=True),
            barred=barred,
            tls=tls,
            beside=beside,
        ) as serving,
    ):
        yield serving.address


async def first_answer(address: str, tls: TlsFiles | None, pool: str, *, carried: bool = False) -> pb.AttachResponse:
    lines = Lines(tls=tls, deadline_s=PATIENCE_S)
    stream = await Dialer([address], tls=tls, deadline_s=PATIENCE_S, lines=lines if carried else None)()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await stream.send(pb.AttachRequest(hello=pb.Hello(pool=pool)))
            return await stream.receive()
    finally:
        stream.close()
        await lines.close()


@pytest.mark.parametrize("carried", [False, True])
async def test_an_agent_speaks_for_the_pool_of_its_certificate_and_no_other(
    authority: Authority, *, carried: bool
) -> None:
    oslo = authority.issue("oslo", "hanse://agent/oslo")
    async with server(authority.issue("r0", "hanse://replica/r0")) as address:
        assert (await first_answer(address, oslo, "oslo", carried=carried)).welcome.replica == "oslo"
        refused = (await first_answer(address, oslo, "paris", carried=carried)).refusal
        assert (refused.reason, refused.retry) == ("NOT_YOUR_POOL", False)
        assert "of the agent of oslo, not of 'paris'" in refused.message


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("uri", ["", "hanse://user/ana", "hanse://replica/r1", "hanse://agent/"])
async def test_who_is_no_agent_attaches_none(authority: Authority, uri: str, *, carried: bool) -> None:
    async with server(authority.issue("r0", "hanse://replica/r0")) as address:
        with pytest.raises(StreamClosed, match="an agent attaches with one of hanse://agent/POOL"):
            await first_answer(address, authority.issue("other", uri), "oslo", carried=carried)


@pytest.mark.parametrize("carried", [False, True])
async def test_a_certificate_that_is_revoked_loses_its_stream_and_gets_no_new_one(
    authority: Authority, *, carried: bool
) -> None:
    oslo, revoked = authority.issue("oslo", "hanse://agent/oslo"), set[str]()
    seen: list[Shown] = []

    def barred(shown: Shown) -> bool:
        seen.append(shown)
        return shown.serial in revoked

    echo = Echo(again=True)
    async with server(authority.issue("r0", "hanse://replica/r0"), echo, barred=barred) as address:
        lines = Lines(tls=oslo, deadline_s=PATIENCE_S)
        stream = await Dialer([address], tls=oslo, deadline_s=PATIENCE_S, lines=lines if carried else None)()
        for _ in range(2):
            await stream.send(pb.AttachRequest(hello=pb.Hello(pool="oslo")))
            assert (await stream.receive()).welcome.replica == "oslo"
        assert {(str(one.identity), one.hosts) for one in seen} == {("agent oslo", ("127.0.0.1",))}
        revoked.add(seen[0].serial)
        await stream.send(pb.AttachRequest(heartbeat=pb.Heartbeat(sequence=1)))
        with pytest.raises(StreamClosed):
            async with asyncio.timeout(PATIENCE_S):
                await stream.receive()
        stream.close()
        await lines.close()
        with pytest.raises(StreamClosed, match=f"serial {seen[0].serial} is revoked; `hanse join` gets a new one"):
            await first_answer(address, oslo, "oslo", carried=carried)
        assert (await first_answer(address, authority.issue("new", "hanse://agent/oslo"), "oslo")).HasField("welcome")


async def test_a_replica_whose_certificate_is_revoked_asks_nothing(authority: Authority) -> None:
    async with (
        server(authority.issue("r0", "hanse://replica/r0"), barred=lambda shown: True) as address,
        channel(address, authority.issue("r1", "hanse://replica/r1"), ()) as opened,
    ):
        with pytest.raises(grpc.aio.AioRpcError, match="is revoked") as found:
            await peer_pb2_grpc.PeerServiceStub(opened).FetchSummaries(peer_pb2.FetchSummariesRequest())
    assert found.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("uri", ["", "hanse://user/ana", "hanse://agent/oslo"])
async def test_only_a_replica_asks_as_one(authority: Authority, uri: str) -> None:
    files = authority.issue("other", uri)
    async with (
        server(authority.issue("r0", "hanse://replica/r0")) as address,
        channel(address, files, ()) as opened,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as found:
            await peer_pb2_grpc.PeerServiceStub(opened).FetchSummaries(peer_pb2.FetchSummariesRequest())
    assert found.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_user_is_known_by_the_certificate_and_others_are_told_what_is_missing(authority: Authority) -> None:
    async with server(authority.issue("r0", "hanse://replica/r0"), tokens=f"bob {TOKEN}") as address:
        async with AsyncClient(address, token="", tls=authority.issue("ana", "hanse://user/ana")) as client:
            assert await client.queues()
        async with AsyncClient(address, token=TOKEN, tls=authority.issue("nobody")) as client:
            assert await client.queues()
        for uri in ("hanse://agent/oslo", "hanse://replica/r1", ""):
            files = authority.issue("other", uri)
            async with AsyncClient(address, token="" if uri == "" else TOKEN, tls=files) as client:
                with pytest.raises(HanseError) as found:
                    await client.queues()
            assert found.value.reason == "UNAUTHENTICATED"


@pytest.mark.parametrize("strange", ["no certificate", "of another authority", "in clear"])
async def test_strangers_do_not_get_through_the_handshake(authority: Authority, tmp_path: Path, strange: str) -> None:
    other = Authority(tmp_path, "other").issue("stolen", "hanse://agent/oslo")
    files = {
        "no certificate": TlsFiles(authority.ca),
        "of another authority": TlsFiles(authority.ca, other.cert, other.key),
        "in clear": None,
    }[strange]
    echo = Echo()
    async with server(authority.issue("r0", "hanse://replica/r0"), echo) as address:
        with pytest.raises(StreamClosed):
            await first_answer(address, files, "oslo")
    assert echo.served == 0


async def test_a_server_of_another_authority_is_not_believed(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    async with server(other.issue("r0", "hanse://replica/r0")) as address:
        with pytest.raises(StreamClosed, match="no replica answers"):
            await first_answer(address, authority.issue("oslo", "hanse://agent/oslo"), "oslo")


async def test_files_are_renewed_under_a_server_that_runs_and_open_streams_live_on(authority: Authority) -> None:
    """Certificates that last seconds: the stream outlives its own, a new one needs the renewed."""
    mine = authority.issue("r0", "hanse://replica/r0", lifetime=SHORT)
    agent = authority.issue("oslo", "hanse://agent/oslo", lifetime=SHORT)
    echo = Echo()
    async with server(mine, echo) as address:
        stream = await Dialer([address], tls=agent, deadline_s=PATIENCE_S)()
        await stream.send(pb.AttachRequest(hello=pb.Hello(pool="oslo")))
        assert (await stream.receive()).welcome.replica == "oslo"
        async with asyncio.timeout(PATIENCE_S + SHORT.total_seconds()):
            while await _lets_in(address, agent):  # noqa: ASYNC110 - until the certificates are over
                await asyncio.sleep(0.2)
        authority.issue("r0", "hanse://replica/r0")
        authority.issue("oslo", "hanse://agent/oslo")
        assert (await first_answer(address, agent, "oslo")).welcome.replica == "oslo"
        echo.end.set()
        with pytest.raises(StreamClosed, match="ended"):
            async with asyncio.timeout(PATIENCE_S):
                await stream.receive()
        stream.close()


async def _lets_in(address: str, files: TlsFiles) -> bool:
    try:
        await first_answer(address, files, "oslo")
    except StreamClosed:
        return False
    return True


async def test_files_that_are_half_written_leave_the_old_ones(authority: Authority) -> None:
    mine = authority.issue("r0", "hanse://replica/r0")
    agent = authority.issue("oslo", "hanse://agent/oslo")
    async with server(mine) as address:
        assert mine.cert is not None
        mine.cert.write_text("half of a certifi")
        assert (await first_answer(address, agent, "oslo")).welcome.replica == "oslo"


@pytest.mark.parametrize("missing", ["key", "cert"])
def test_a_file_that_is_not_there_is_named(authority: Authority, missing: str) -> None:
    files = authority.issue("r0", "hanse://replica/r0")
    gone = getattr(files, missing)
    gone.unlink()
    with pytest.raises(InvalidArgument) as found:
        files.check(server=True)
    assert (found.value.reason, found.value.path) == ("TLS_INVALID", str(gone))


async def test_an_agent_reaches_replicas_from_afar(authority: Authority) -> None:
    """A handshake takes three ways there and back; each way takes as long as across an ocean."""
    oslo = authority.issue("oslo", "hanse://agent/oslo")
    async with server(authority.issue("r0", "hanse://replica/r0")) as address, afar(address) as there:
        assert (await first_answer(there, oslo, "oslo")).welcome.replica == "oslo"


@asynccontextmanager
async def afar(address: str) -> AsyncIterator[str]:
    """The same server, behind a long line."""
    host, _, port = address.rpartition(":")
    lines: list[asyncio.Task[None]] = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65_536):
                await asyncio.sleep(OCEAN_S)
                writer.write(piece)
        writer.close()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        lines.extend((asyncio.create_task(carry(reader, back)), asyncio.create_task(carry(there, writer))))

    listening = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)
