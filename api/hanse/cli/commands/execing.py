"""`hanse exec`: a command in one pod of a job, through its pool's agent. Its exit code is the command's."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.options import JobArgument, ServerOption
from hanse.cli.session import session_of

if TYPE_CHECKING:
    from hanse.client import AsyncClient


def exec_(
    name: JobArgument,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="What to run; no shell in between.")],
    rank: Annotated[int, typer.Option("--rank", metavar="N", help="Rank of the pod within its set.")] = 0,
    pod_set: Annotated[str, typer.Option("--pod-set", metavar="NAME", help="Its pod set. [default: the first]")] = "",
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="The command reads this one's input.")] = False,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="It has a terminal: this one.")] = False,
    server: ServerOption = None,
) -> None:
    """Run a command in a pod of a job, and end with its exit code.

    \b
    hanse exec last -- nvidia-smi
    hanse exec llama3 --rank 511 -it -- bash
    """
    session = session_of(server, None)
    raise typer.Exit(session.ask(lambda client: _exec(client, name, command, rank, pod_set, stdin=stdin, tty=tty)))


async def _exec(
    client: "AsyncClient", name: str, command: list[str], rank: int, pod_set: str, *, stdin: bool, tty: bool
) -> int:
    from hanse.cli.naming import find_job
    from hanse.cli.terminal import inputs, raw

    found = await find_job(client, name)
    own = tty and sys.stdin.isatty()
    read = inputs(sys.stdin.fileno(), sized=own) if stdin else None
    code = 0
    with raw(sys.stdin.fileno() if own and stdin else None):
        async for response in client.exec(found.id, command, pod_set=pod_set, rank=rank, stdin=read, tty=tty):
            _write(response.stdout, response.stderr)
            if response.HasField("exit_code"):
                code = response.exit_code
    return code


def _write(stdout: bytes, stderr: bytes) -> None:
    for stream, data in ((sys.stdout, stdout), (sys.stderr, stderr)):
        if data:
            stream.buffer.write(data)
            stream.buffer.flush()
