"""Links and peers ask for a token wherever the API does; health says whether to send calls, and whether it lives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc  # type: ignore[import-untyped]

from hanse.agent.shell.dial import Dialer
from hanse.apiserver.access.callers import Callers
from hanse.apiserver.access.policy import Binding, Policy
from hanse.apiserver.access.rules import RULES
from hanse.apiserver.access.verbs import Role
from hanse.apiserver.credentials import Credentials, parse_tokens
from hanse.apiserver.serving import LIVENESS, serve
from hanse.kit.stream import StreamClosed
from hanse.link.v1 import link_pb2 as pb
from hanse.link.v1 import link_pb2_grpc, peer_pb2, peer_pb2_grpc
from hanse.scheduler.shell.link_service import LinkService
from hanse.scheduler.shell.session import AgentStream

TOKEN = "sixteen-letters-and-more"
CREDENTIALS = parse_tokens(f"agents {TOKEN}")
PATIENCE_S = 10.0
HELLO = pb.AttachRequest(hello=pb.Hello(pool="p0"))


@dataclass
class Echo:
    """Answers every hello with a welcome that names the pool, until it is told to end the stream."""

    served: int = 0
    again: bool = False  # every hello, not the first alone
    end: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve_link(self, stream: AgentStream) -> None:
        self.served += 1
        first = await stream.receive()
        await stream.send(pb.AttachResponse(welcome=pb.Welcome(replica=first.hello.pool)))
        while self.again:
            first = await stream.receive()
            await stream.send(pb.AttachResponse(welcome=pb.Welcome(replica=first.hello.pool)))
        await self.end.wait()


@asynccontextmanager
async def server(credentials: Credentials, echo: Echo, *, ready: bool = True) -> AsyncIterator[str]:
    def beside(found: grpc.aio.Server) -> None:
        link_pb2_grpc.add_LinkServiceServicer_to_server(LinkService(echo), found)
        nobody = peer_pb2_grpc.PeerServiceServicer()  # type: ignore[abstract]  # answers UNIMPLEMENTED
        peer_pb2_grpc.add_PeerServiceServicer_to_server(nobody, found)

    async with serve(
        None, listen="127.0.0.1:0", credentials=credentials, beside=beside, ready=lambda: ready
    ) as serving:
        yield serving.address


@pytest.mark.parametrize("token", ["", "sixteen-letters-but-others"])
async def test_an_agent_without_the_token_is_told_so_and_reaches_nobody(token: str) -> None:
    echo = Echo()
    async with server(CREDENTIALS, echo) as address:
        stream = await Dialer([address], token=token)()
        with pytest.raises(StreamClosed, match="token"):
            async with asyncio.timeout(PATIENCE_S):
                await stream.receive()
        stream.close()
    assert echo.served == 0


async def test_an_agent_with_the_token_attaches_and_sees_the_end_of_its_stream() -> None:
    echo = Echo()
    async with server(CREDENTIALS, echo) as address:
        stream = await Dialer([address], token=TOKEN)()
        await stream.send(HELLO)
        assert (await stream.receive()).welcome.replica == "p0"
        echo.end.set()
        with pytest.raises(StreamClosed):
            async with asyncio.timeout(PATIENCE_S):
                await stream.receive()
        stream.close()


async def test_a_peer_needs_the_token_too_for_every_kind_of_call() -> None:
    async with server(CREDENTIALS, Echo()) as address, grpc.aio.insecure_channel(address) as channel:
        stub = peer_pb2_grpc.PeerServiceStub(channel)
        for call in (
            stub.FetchSummaries(peer_pb2.FetchSummariesRequest()),
            stub.AskPool(peer_pb2.AskPoolRequest()).read(),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as found:
                await call
            assert found.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.aio.AioRpcError) as found:
            await stub.FetchSummaries(
                peer_pb2.FetchSummariesRequest(), metadata=(("authorization", f"Bearer {TOKEN}"),)
            )
        assert found.value.code() is grpc.StatusCode.UNIMPLEMENTED, "it came through, to a service that does nothing"


async def test_without_credentials_the_door_is_open() -> None:
    async with server(Credentials(), Echo()) as address:
        stream = await Dialer([address])()
        await stream.send(HELLO)
        assert (await stream.receive()).welcome.replica == "p0"
        stream.close()


@pytest.mark.parametrize("ready", [True, False])
async def test_probes_need_no_token_and_tell_ready_from_alive(ready: bool) -> None:
    async with server(CREDENTIALS, Echo(), ready=ready) as address, grpc.aio.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel)

        async def serves(service: str) -> bool:
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

        assert await serves("") is ready
        assert await serves(LIVENESS)


async def test_dead_replicas_cost_no_time_and_a_silent_one_its_deadline() -> None:
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(3_600), "127.0.0.1", 0)
    quiet = "{}:{}".format(*silent.sockets[0].getsockname())
    async with silent, server(Credentials(), Echo()) as address:
        dead = [f"127.0.0.1:{port}" for port in (1, 2, 3)]
        dial = Dialer([*dead, quiet, address], deadline_s=0.5)
        began_s = asyncio.get_running_loop().time()
        for _ in dead:
            with pytest.raises(StreamClosed, match="no replica answers"):
                await dial()
        assert asyncio.get_running_loop().time() - began_s < 0.4
        with pytest.raises(StreamClosed, match=quiet):
            await dial()
        (await dial()).close()


@pytest.mark.parametrize(
    ("who", "code"), [("ann", "PERMISSION_DENIED"), ("nobody", "UNAUTHENTICATED"), ("peer", "UNIMPLEMENTED")]
)
async def test_a_users_token_is_no_replicas(who: str, code: str) -> None:
    async with guarded() as address, grpc.aio.insecure_channel(address) as channel:
        stub = peer_pb2_grpc.PeerServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as found:
            await stub.FetchSummaries(peer_pb2.FetchSummariesRequest(), metadata=shown(who))
        assert found.value.code().name == code


@pytest.mark.parametrize("who", ["ann", "peer", "nobody"])
async def test_who_is_no_agent_attaches_none(who: str) -> None:
    async with guarded() as address:
        stream = await Dialer([address], token=TOKENS.get(who, TOKEN))()
        with pytest.raises(StreamClosed):
            async with asyncio.timeout(PATIENCE_S):
                await stream.receive()
        stream.close()


async def test_an_agents_token_attaches_and_opens_nothing_else() -> None:
    async with guarded() as address:
        stream = await Dialer([address], token=TOKENS["agent"])()
        await stream.send(HELLO)
        assert (await stream.receive()).welcome.replica == "p0"
        stream.close()
        async with grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as found:
                await peer_pb2_grpc.PeerServiceStub(channel).FetchVitals(
                    peer_pb2.FetchVitalsRequest(), metadata=shown("agent")
                )
            assert found.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(("who", "told"), [("nobody", False), ("ann", True)])
async def test_what_is_served_is_told_to_whoever_is_known(who: str, told: bool) -> None:
    async with guarded() as address, grpc.aio.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")]), metadata=shown(who)
        )
        if told:
            answer = await anext(aiter(call))
            assert answer.list_services_response.service
        else:
            with pytest.raises(grpc.aio.AioRpcError) as found:
                await anext(aiter(call))
            assert found.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_service_that_nobody_has_declared_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "hanse.link.v1.PeerService/FetchVitals")
    async with server(Credentials(), Echo()) as address, grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as found:
            await peer_pb2_grpc.PeerServiceStub(channel).FetchVitals(peer_pb2.FetchVitalsRequest())
        assert found.value.code() is grpc.StatusCode.PERMISSION_DENIED


TOKENS = {who: f"token-of-{who}-0123456789" for who in ("ann", "agent", "peer")}
POLICY = Policy(
    (
        Binding(Role.ADMIN, frozenset({"ann"}), frozenset(), cluster=True),
        Binding(Role.AGENT, frozenset({"agent"}), frozenset(), cluster=True),
        Binding(Role.REPLICA, frozenset({"peer"}), frozenset(), cluster=True),
    )
)


def shown(who: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {TOKENS[who]}"),) if who in TOKENS else ()


@asynccontextmanager
async def guarded() -> AsyncIterator[str]:
    """A server where a user, an agent and a replica have tokens of their own."""
    tokens = parse_tokens("\n".join(f"{who} {token}" for who, token in TOKENS.items()))

    def beside(found: grpc.aio.Server) -> None:
        link_pb2_grpc.add_LinkServiceServicer_to_server(LinkService(Echo()), found)
        nobody = peer_pb2_grpc.PeerServiceServicer()  # type: ignore[abstract]  # answers UNIMPLEMENTED
        peer_pb2_grpc.add_PeerServiceServicer_to_server(nobody, found)

    callers = Callers(lambda: tokens, lambda: POLICY)
    async with serve(None, listen="127.0.0.1:0", callers=callers, beside=beside) as serving:
        yield serving.address
