"""Commands in a job's pods: what they read and write, over one stream that is never repeated."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import grpc

from hanse.api.v1 import job_service_pb2 as pb
from hanse.client.calls import Connection

INPUT_BYTES_MAX: Final = 32_768
"""Of one piece of standard input; a larger one is cut into several."""


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """How large the caller's terminal is now."""

    rows: int
    columns: int


Input: TypeAlias = bytes | TerminalSize
ExecCall: TypeAlias = "grpc.aio.StreamStreamMultiCallable[pb.ExecJobRequest, pb.ExecJobResponse]"


async def run_command(
    connection: Connection, method: ExecCall, start: pb.ExecStart, stdin: AsyncIterable[Input] | bytes | None
) -> AsyncIterator[pb.ExecJobResponse]:
    """What the command writes, as it comes; the last response has its exit code.

    Raises (while iterated):
        HanseError
    """
    call = method(metadata=connection.metadata)
    feeding = asyncio.create_task(_feed(call, start, stdin), name="exec-stdin")
    try:
        async for response in call:
            yield response
    except grpc.aio.AioRpcError as error:
        raise connection.error(error) from None
    finally:
        feeding.cancel()
        call.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def _feed(
    call: "grpc.aio.StreamStreamCall[pb.ExecJobRequest, pb.ExecJobResponse]",
    start: pb.ExecStart,
    stdin: AsyncIterable[Input] | bytes | None,
) -> None:
    """Write the requests; what the call ends with is told by whoever reads it."""
    try:
        await call.write(pb.ExecJobRequest(start=start))
        async for value in _pieces(stdin):
            await call.write(value)
        await call.write(pb.ExecJobRequest(stdin_end=True))
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
        return


async def _pieces(stdin: AsyncIterable[Input] | bytes | None) -> AsyncIterator[pb.ExecJobRequest]:
    async for value in _inputs(stdin):
        if isinstance(value, TerminalSize):
            size = pb.TerminalSize(rows=value.rows, columns=value.columns)
            yield pb.ExecJobRequest(size=size)
        else:
            for at in range(0, len(value), INPUT_BYTES_MAX):
                yield pb.ExecJobRequest(stdin=value[at : at + INPUT_BYTES_MAX])


async def _inputs(stdin: AsyncIterable[Input] | bytes | None) -> AsyncIterator[Input]:
    if isinstance(stdin, bytes):
        yield stdin
    elif stdin is not None:
        async for value in stdin:
            yield value
