"""`hanse whoami`, `hanse can`, `hanse token`: who one is, what one may do, and tokens of a small site."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.failures import Failure
from hanse.cli.options import OutputOption, ServerOption
from hanse.cli.session import session_of
from hanse.model.errors import PermissionDenied

if TYPE_CHECKING:
    from hanse.api.v1.access_service_pb2 import CheckAccessResponse, WhoAmIResponse
    from hanse.client import AsyncClient

TOKEN_BYTES = 32


def whoami(server: ServerOption = None, output: OutputOption = None) -> None:
    """Show as whom the server knows you, and what you may do where.

    \b
    hanse whoami
    hanse whoami -o json | jq -r .principal
    """
    from hanse.cli.show.access import whoami_page
    from hanse.wire.json import message_to_json

    session = session_of(server, output)

    async def work(client: "AsyncClient") -> "WhoAmIResponse":
        return await client.who_am_i()

    found = session.ask(work)
    session.say(message_to_json(found), lambda paper: whoami_page(found, paper))


def can(
    verb: Annotated[str, typer.Argument(metavar="VERB", help="What: submit, cancel, exec, cordon, …")],
    queue: Annotated[str, typer.Argument(metavar="[QUEUE]", help="Where; without it in the whole federation.")] = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Say whether you may do something, or which role is missing; exits with 1 if you may not.

    \b
    hanse can submit research
    hanse can cordon
    """
    from hanse.cli.show.access import can_line
    from hanse.wire.json import message_to_json

    session = session_of(server, output)

    async def work(client: "AsyncClient") -> "CheckAccessResponse":
        return await client.can(verb, queue)

    found = session.ask(work)
    if not found.allowed and not session.machine:
        raise Failure(PermissionDenied(f"no: {found.message}", reason="ROLE_MISSING"))
    session.say(message_to_json(found), lambda paper: can_line(found))
    if not found.allowed:
        raise typer.Exit(1)


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom it stands for.")],
    groups: Annotated[str, typer.Option("--groups", metavar="GROUP,…", help="Groups that they are in.")] = "",
    output: OutputOption = None,
) -> None:
    """Make a token, and the line for it in a replica's tokens file, which holds its digest alone. Asks no server.

    \b
    hanse token ana --groups vision,staff
    hanse token ana -o json | jq -r .line >> tokens
    """
    import secrets

    from hanse.apiserver.credentials import hashed, parse_tokens

    session = session_of(None, output)
    made = secrets.token_urlsafe(TOKEN_BYTES)
    line = " ".join(word for word in (name, hashed(made), groups) if word)
    parse_tokens(line, path="NAME")
    session.say(
        {"token": made, "line": line},
        lambda paper: f"token, for {name} alone:     {made}\nline, for the tokens file:  {line}\n",
    )
