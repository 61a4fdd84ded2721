"""`hanse queues` and `hanse queue`: what each owns, what is used of it, what waits; holding and releasing."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.failures import WrongUse
from hanse.cli.options import OutputOption, QueueArgument, ServerOption
from hanse.cli.session import session_of

if TYPE_CHECKING:
    from hanse.api.v1.queue_pb2 import Queue
    from hanse.client import AsyncClient


def queues(server: ServerOption = None, output: OutputOption = None) -> None:
    """List queues: what each owns of each flavor, how much of it is used, what waits.

    \b
    hanse queues
    hanse queues -o json | jq '.queues[].status.pending_jobs'
    """
    session = session_of(server, output)
    found = session.ask(lambda client: client.queues(status=True))

    from hanse.cli.show.queues import queues_page
    from hanse.wire.json import message_to_json

    session.say({"queues": [message_to_json(one) for one in found]}, lambda paper: queues_page(found, paper))


def queue(
    name: QueueArgument,
    hold: Annotated[bool, typer.Option("--hold", help="Bind nothing more of it; what is bound goes on.")] = False,
    release: Annotated[bool, typer.Option("--release", help="Bind its jobs again.")] = False,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Show one queue, hold it, or release it.

    \b
    hanse queue research
    hanse queue research --hold
    """
    if hold and release:
        raise WrongUse("hanse queue: --hold and --release do not go together")
    session = session_of(server, output)

    async def asked(client: "AsyncClient") -> "Queue":
        if hold:
            await client.hold_queue(name)
        elif release:
            await client.release_queue(name)
        return await client.queue(name)

    found = session.ask(asked)

    from hanse.cli.show.queues import queue_page
    from hanse.wire.json import message_to_json

    session.say(message_to_json(found), lambda paper: queue_page(found, paper))
