"""Following events over breaks: the SDK asks again from where it was, and tells nothing twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from hanse.api.v1 import event_pb2, event_service_pb2, event_service_pb2_grpc
from hanse.client import AsyncClient
from hanse.model.errors import OutOfRange, Unavailable

Request = event_service_pb2.TailEventsRequest
Response = event_service_pb2.TailEventsResponse


def event(at_ms: int, message: str = "") -> event_pb2.Event:
    return event_pb2.Event(at_ms=at_ms, kind=event_pb2.EVENT_KIND_BOUND, job="j", message=message, revision=at_ms)


class Scripted(event_service_pb2_grpc.EventServiceServicer):
    """A server that answers each call as the script says: events, and the code that the call ends with."""

    def __init__(self, *calls: tuple[list[event_pb2.Event], grpc.StatusCode]) -> None:
        self._calls = list(calls)
        self.asked: list[int] = []

    async def TailEvents(  # noqa: N802 - the name is the proto's
        self, request: Request, context: "grpc.aio.ServicerContext[Request, Response]"
    ) -> AsyncIterator[Response]:
        self.asked.append(request.since_ms)
        events, code = self._calls.pop(0)
        yield Response(events=events)
        if code is not grpc.StatusCode.OK:
            await context.abort(code, "as the script says")


@asynccontextmanager
async def client_of(script: Scripted) -> AsyncIterator[AsyncClient]:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    event_service_pb2_grpc.add_EventServiceServicer_to_server(script, server)
    await server.start()
    async with AsyncClient(f"127.0.0.1:{port}") as client:
        yield client
    await server.stop(0)


async def followed(script: Scripted, *, follow: bool = True) -> list[int]:
    async with client_of(script) as client:
        return [one.at_ms async for answer in client.events("j", follow=follow) for one in answer.events]


async def test_a_break_is_passed_over_and_nothing_told_twice() -> None:
    script = Scripted(
        ([event(1), event(5)], grpc.StatusCode.UNAVAILABLE),
        ([event(5), event(5, "another"), event(8)], grpc.StatusCode.OK),
    )
    assert await followed(script) == [1, 5, 5, 8]
    assert script.asked == [0, 5]


async def test_what_is_forgotten_during_a_break_is_missed_and_no_error() -> None:
    script = Scripted(
        ([event(1)], grpc.StatusCode.UNAVAILABLE),
        ([], grpc.StatusCode.OUT_OF_RANGE),
        ([event(1), event(9)], grpc.StatusCode.OK),
    )
    assert await followed(script) == [1, 9]
    assert script.asked == [0, 1, 0]


@pytest.mark.parametrize(
    ("code", "kind"), [(grpc.StatusCode.UNAVAILABLE, Unavailable), (grpc.StatusCode.OUT_OF_RANGE, OutOfRange)]
)
async def test_who_looks_back_only_is_told_of_the_failure(code: grpc.StatusCode, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        await followed(Scripted(([], code)), follow=False)
