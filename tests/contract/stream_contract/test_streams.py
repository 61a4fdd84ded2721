"""One suite over every transport of the link: in one process, over gRPC, and carried with others over gRPC."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import grpc
import pytest

from hanse.agent.shell.dial import Dialer, Lines
from hanse.kit.stream import Stream, StreamClosed, connected_pair
from hanse.link.v1 import link_pb2 as pb
from hanse.link.v1 import link_pb2_grpc
from hanse.scheduler.shell.link_service import LinkService
from hanse.scheduler.shell.session import AgentStream

DEADLINE_S = 10.0

AgentEnd = Stream[pb.AttachRequest, pb.AttachResponse]


@dataclass
class Ends:
    """Both ends of one stream."""

    agent: AgentEnd
    replica: AgentStream


class Waiting:
    """A replica that only takes the stream, and keeps it until the test is over."""

    def __init__(self) -> None:
        self.streams: asyncio.Queue[AgentStream] = asyncio.Queue()
        self.done = asyncio.Event()

    async def serve_link(self, stream: AgentStream) -> None:
        await self.streams.put(stream)
        await self.done.wait()


@pytest.fixture(params=["in-process", "grpc", "carried"])
async def ends(request: pytest.FixtureRequest) -> AsyncIterator[Ends]:
    if request.param == "in-process":
        agent: AgentEnd
        replica: AgentStream
        agent, replica = connected_pair()
        yield Ends(agent, replica)
        return
    server = grpc.aio.server()
    waiting = Waiting()
    link_pb2_grpc.add_LinkServiceServicer_to_server(LinkService(waiting), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    lines = Lines()
    agent = await Dialer([f"127.0.0.1:{port}"], lines=lines if request.param == "carried" else None)()
    async with asyncio.timeout(DEADLINE_S):
        yield Ends(agent, await waiting.streams.get())
    agent.close()
    await lines.close()
    waiting.done.set()
    await server.stop(0)


def up(sequence: int) -> pb.AttachRequest:
    return pb.AttachRequest(heartbeat=pb.Heartbeat(sequence=sequence))


def down(sequence: int) -> pb.AttachResponse:
    return pb.AttachResponse(heartbeat=pb.Heartbeat(sequence=sequence))


async def for_ever(work: Callable[[], Awaitable[object]]) -> None:
    while True:
        await work()


async def test_messages_arrive_once_and_in_order_both_ways(ends: Ends) -> None:
    async def sent() -> None:
        for n in range(500):
            await ends.agent.send(up(n))
            await ends.replica.send(down(n))

    async def received() -> tuple[list[int], list[int]]:
        ups, downs = [], []
        for _ in range(500):
            ups.append((await ends.replica.receive()).heartbeat.sequence)
            downs.append((await ends.agent.receive()).heartbeat.sequence)
        return ups, downs

    async with asyncio.timeout(DEADLINE_S):
        _, (ups, downs) = await asyncio.gather(sent(), received())
    assert ups == list(range(500))
    assert downs == list(range(500))


async def test_after_a_close_both_ends_say_so(ends: Ends) -> None:
    ends.agent.close()
    ends.agent.close()
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(StreamClosed):
            await for_ever(ends.replica.receive)
        with pytest.raises(StreamClosed):
            await for_ever(lambda: ends.agent.send(up(1)))


async def test_a_waiting_receiver_is_woken_by_the_close(ends: Ends) -> None:
    waiting = asyncio.ensure_future(ends.replica.receive())
    await asyncio.sleep(0)
    ends.agent.close()
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(StreamClosed):
            await waiting


async def test_a_sender_waits_for_a_slow_receiver_instead_of_filling_memory(ends: Ends) -> None:
    sent = 0
    payload = pb.AttachRequest(detail_reply=pb.DetailReply(lines=["x" * 100_000]))

    async def flood() -> None:
        nonlocal sent
        while True:
            await ends.agent.send(payload)
            sent += 1

    flooding = asyncio.ensure_future(flood())
    _, pending = await asyncio.wait([flooding], timeout=0.5)
    assert pending, "the sender never waited"
    stuck = sent
    assert stuck < 5_000
    async with asyncio.timeout(DEADLINE_S):
        while sent == stuck:
            await ends.replica.receive()
    flooding.cancel()
    await asyncio.gather(flooding, return_exceptions=True)


async def test_nobody_at_the_address_is_a_closed_stream(unused_tcp_port: int) -> None:
    with pytest.raises(StreamClosed, match="no replica answers"):
        await Dialer([f"127.0.0.1:{unused_tcp_port}"], deadline_s=0.2)()
