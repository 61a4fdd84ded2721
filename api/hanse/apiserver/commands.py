"""Commands in pods: which pod, which command, what it reads, and what it wrote in messages."""

import asyncio
import logging
from collections.abc import AsyncIterator

from hanse.api.v1 import job_service_pb2 as pb
from hanse.apiserver.ports import AgentDetails, PodRef
from hanse.model.detail import COMMAND_CHARS_MAX, COMMAND_WORDS_MAX, EXEC_BYTES_MAX, ExecInput
from hanse.model.errors import InvalidArgument, Unavailable

log = logging.getLogger(__name__)

START_DEADLINE_S = 10.0
TERMINAL_MAX = 10_000
"""Lines of a terminal, or characters in one."""


async def started(requests: AsyncIterator[pb.ExecJobRequest]) -> pb.ExecStart:
    """What the first request asks for.

    Raises:
        InvalidArgument: it is none, or asks for no command that can be run.
        Unavailable: it does not come.
    """
    try:
        async with asyncio.timeout(START_DEADLINE_S):
            first = await anext(requests, pb.ExecJobRequest())
    except TimeoutError:
        raise Unavailable(f"no request came within {START_DEADLINE_S:g} s", reason="EXEC_NOT_STARTED") from None
    if first.WhichOneof("body") != "start":
        raise InvalidArgument("the first request says what to run", reason="EXEC_NOT_STARTED", path="start")
    words = first.start.command
    if not words or not words[0]:
        raise InvalidArgument("no command; say what to run", reason="COMMAND_MISSING", path="command")
    if len(words) > COMMAND_WORDS_MAX or sum(map(len, words)) > COMMAND_CHARS_MAX:
        said = f"a command has at most {COMMAND_WORDS_MAX} words and {COMMAND_CHARS_MAX:,} characters; use a script"
        raise InvalidArgument(said, reason="TOO_LARGE", path="command")
    return first.start


async def exec_responses(
    details: AgentDetails,
    pod: PodRef,
    start: pb.ExecStart,
    requests: AsyncIterator[pb.ExecJobRequest],
    *,
    principal: str,
) -> AsyncIterator[pb.ExecJobResponse]:
    """Run the command for a principal; what it writes as messages."""
    said = {"job": pod.job, "pool": pod.pool, "pod_set": pod.pod_set, "rank": pod.rank}
    log.info("exec_asked", extra={**said, "principal": principal, "program": start.command[0]})
    inputs = _inputs(requests) if start.stdin or start.tty else None
    async for piece in details.exec(pod, command=tuple(start.command), tty=start.tty, inputs=inputs):
        yield pb.ExecJobResponse(stdout=piece.stdout, stderr=piece.stderr, exit_code=piece.exit_code)


async def _inputs(requests: AsyncIterator[pb.ExecJobRequest]) -> AsyncIterator[ExecInput]:
    """What the command reads; a caller who sends no more has ended it."""
    async for request in requests:
        match request.WhichOneof("body"):
            case "stdin":
                for at in range(0, len(request.stdin), EXEC_BYTES_MAX):
                    yield ExecInput(request.stdin[at : at + EXEC_BYTES_MAX])
            case "size":
                rows, columns = request.size.rows, request.size.columns
                if 0 < rows <= TERMINAL_MAX and 0 < columns <= TERMINAL_MAX:
                    yield ExecInput(rows=rows, columns=columns)
            case "stdin_end":
                break
            case _:
                continue
    yield ExecInput(end=True)
