"""`hanse version`: this command's version, and the server's if one answers."""

from typing import TYPE_CHECKING, Final

from hanse.cli.options import OutputOption, ServerOption
from hanse.cli.session import connected, session_of
from hanse.cli.settings import Settings
from hanse.kit.version import own_version
from hanse.model.errors import HanseError

if TYPE_CHECKING:
    from hanse.api.v1.server_service_pb2 import ServerInfo

DEADLINE_S: Final = 2.0


def version(server: ServerOption = None, output: OutputOption = None) -> None:
    """Show the version of this command, and who answers at the server's address. Needs no server.

    \b
    hanse version
    hanse version -o json | jq -r .client
    """
    import asyncio

    from hanse.cli.show.server import version_page
    from hanse.wire.json import message_to_json

    session = session_of(server, output)
    info, why = asyncio.run(_asked(session.settings))
    value = {"client": own_version(), "server": message_to_json(info) if info is not None else None}
    session.say(value, lambda paper: version_page(own_version(), info, why, paper))


async def _asked(settings: Settings) -> "tuple[ServerInfo | None, str]":
    """Who answers, or why nobody does."""
    try:
        async with connected(settings, deadline_s=DEADLINE_S, tries_max=1) as client:
            return await client.server_info(), ""
    except HanseError as error:
        return None, error.message
