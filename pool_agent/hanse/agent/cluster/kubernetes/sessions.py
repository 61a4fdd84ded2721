"""Commands in pods: a session with the kubelet through the API server, over a WebSocket.

Frames carry the number of a channel in front: standard input, output and error, the end, the terminal's size. The end
is a `Status`, which has the exit code among its causes.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final

import msgspec

from hanse.agent.cluster.kubernetes.api import NOT_FOUND, SERVER_ERROR, Api, Refused, Socket
from hanse.agent.cluster.kubernetes.objects import END, Meta, read
from hanse.agent.cluster.port import ClusterUnavailable, ExecInput, ExecOutput
from hanse.kit.tasks import cancelled
from hanse.model.detail import EXEC_BYTES_MAX
from hanse.model.errors import FailedPrecondition, NotFound

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
STATUS: Final = 3
RESIZE: Final = 4
CLOSE: Final = 255

_EXIT_CODE: Final = "ExitCode"
_FAILED: Final = 1


async def run(
    api: Api,
    pod: Meta,
    container: str,
    command: Sequence[str],
    *,
    stdin: AsyncIterator[ExecInput] | None,
    tty: bool,
) -> AsyncGenerator[ExecOutput, None]:
    """See the port's `exec`; the pod runs."""
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/exec"
    query = [("container", container), ("stdout", "true"), *(("command", word) for word in command)]
    query += [("stdin", "true")] if stdin is not None else []
    query += [("tty", "true")] if tty else [("stderr", "true")]
    feeding: list[asyncio.Task[object]] = []
    try:
        async with api.socket(path, query) as socket:
            yield ExecOutput()
            if stdin is not None:
                feeding.append(asyncio.create_task(_feed(socket, stdin), name=f"stdin-{pod.name}"))
            async for output in _outputs(socket, pod.name):
                yield output
    except Refused as refused:
        raise _why(refused, pod.name) from None
    finally:
        await cancelled(feeding)


async def _outputs(socket: Socket, name: str) -> AsyncGenerator[ExecOutput, None]:
    while (frame := await socket.receive()) is not None:
        channel, data = (frame[0], frame[1:]) if frame else (STDOUT, b"")
        if channel == STATUS:
            yield ExecOutput(exit_code=_exit_code(data, name))
            return
        for at in range(0, len(data), EXEC_BYTES_MAX):
            piece = data[at : at + EXEC_BYTES_MAX]
            if channel in (STDOUT, STDERR):
                yield ExecOutput(stdout=piece) if channel == STDOUT else ExecOutput(stderr=piece)
    raise ClusterUnavailable(f"the session with {name} broke off; its command may run on")


async def _feed(socket: Socket, stdin: AsyncIterator[ExecInput]) -> None:
    """Hand inputs on; an end of them that the session cannot express ends nothing."""
    async for value in stdin:
        if value.rows:
            await socket.send(bytes([RESIZE]) + json.dumps({"Width": value.columns, "Height": value.rows}).encode())
        if value.data:
            await socket.send(bytes([STDIN]) + value.data)
        if value.end and socket.closes_channels:
            await socket.send(bytes([CLOSE, STDIN]))


def _exit_code(data: bytes, name: str) -> int:
    try:
        end = read(END, data)
    except (ClusterUnavailable, msgspec.DecodeError):
        raise ClusterUnavailable(f"nobody knows how the command in {name} ended: {data[:100]!r}") from None
    if end.status == "Success":
        return 0
    for cause in end.details.causes:
        if cause.reason == _EXIT_CODE and cause.message.isdecimal():
            return int(cause.message)
    raise FailedPrecondition(f"the command did not run in {name}: {end.message or end.reason or 'no reason given'}")


def _why(refused: Refused, name: str) -> Exception:
    if refused.code == NOT_FOUND:
        return NotFound(f"there is no pod {name} any more")
    if refused.code >= SERVER_ERROR:
        return ClusterUnavailable(f"the kubelet of {name} cannot be reached: {refused}")
    return FailedPrecondition(f"the cluster opens no session with {name}: {refused}")
