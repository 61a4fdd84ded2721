"""`hanse logs`: what one pod of a job wrote, fetched from its pool's agent."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.options import JobArgument, OutputOption, ServerOption
from hanse.cli.session import Session, session_of

if TYPE_CHECKING:
    from hanse.client import AsyncClient


def logs(
    name: JobArgument,
    rank: Annotated[int, typer.Option("--rank", metavar="N", help="Rank of the pod within its set.")] = 0,
    pod_set: Annotated[str, typer.Option("--pod-set", metavar="NAME", help="Its pod set. [default: the first]")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the pod has ended.")] = False,
    tail: Annotated[int, typer.Option("--tail", metavar="N", help="So many lines of the past.")] = 100,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Show what a pod of a job wrote.

    \b
    hanse logs last
    hanse logs llama3 --rank 511 --tail 20 -f
    """
    session = session_of(server, output)
    session.ask(lambda client: _logs(client, session, name, rank=rank, pod_set=pod_set, follow=follow, tail=tail))


async def _logs(
    client: "AsyncClient", session: Session, name: str, *, rank: int, pod_set: str, follow: bool, tail: int
) -> None:
    from hanse.cli.naming import find_job

    found = await find_job(client, name)
    lines = client.logs(found.id, pod_set=pod_set, rank=rank, tail_lines=tail, follow=follow)
    async for line in lines:
        value = {"time_ms": line.time_ms, "text": line.text}
        text = line.text + "\n"
        session.say_next(value, lambda paper, text=text: text)  # type: ignore[misc]
