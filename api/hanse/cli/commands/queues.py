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
    holder: Annotated[
        str,
        typer.Option(
            "--holder",
            metavar="REPLICA",
            help="Give it, and all under its cohort, to this replica; `any` takes it back.",
        ),
    ] = "",
    apart: Annotated[
        bool, typer.Option("--apart", help="With --holder: the queue alone, with the quota that it owns.")
    ] = False,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Show one queue, hold it, release it, or give it to another holder.

    The holder is the replica that admits the queue's jobs. One that is named has it for as long as it lives; no job
    stops or starts by that.

    \b
    hanse queue research
    hanse queue research --hold
    hanse queue research --holder r2 --apart
    """
    if hold + release + bool(holder) > 1:
        raise WrongUse("hanse queue: --hold, --release and --holder do not go together")
    if apart and holder in ("", "any"):
        raise WrongUse("hanse queue: --apart goes with --holder REPLICA")
    session = session_of(server, output)

    async def asked(client: "AsyncClient") -> "Queue":
        if hold:
            await client.hold_queue(name)
        elif release:
            await client.release_queue(name)
        elif holder:
            await client.give_queue(name, "" if holder == "any" else holder, apart=apart)
        return await client.queue(name)

    found = session.ask(asked)

    from hanse.cli.show.queues import queue_page
    from hanse.wire.json import message_to_json

    session.say(message_to_json(found), lambda paper: queue_page(found, paper))
