"""`hanse doctor`: looks at an installation and says what is wrong with it, and what to do."""

import os
from typing import TYPE_CHECKING, Final

import typer

from hanse.cli.failures import EXIT_DONE, EXIT_FAILED, Failure
from hanse.cli.options import OutputOption, ServerOption
from hanse.cli.session import Session, connected, papers, session_of
from hanse.cli.settings import Output, Settings

if TYPE_CHECKING:
    from hanse.cli.doctor.gathering import Gathered

DEADLINE_S: Final = 5.0
TLS_VARIABLES: Final = ("HANSE_CA_FILE", "HANSE_CERT_FILE", "HANSE_TLS")


def doctor(server: ServerOption = None, output: OutputOption = None) -> None:
    """Check an installation: what is wrong, and what to do about it.

    It asks what any viewer of the federation may ask. Where nobody answers it says what it can.

    Exit codes: 0 nothing is wrong, 1 something is.

    \b
    hanse doctor
    hanse doctor -o json | jq -r '.findings[] | select(.wrong) | .code'
    """
    import asyncio

    from hanse.cli.doctor.checks import findings
    from hanse.cli.doctor.finding import Finding
    from hanse.cli.show.doctor import doctor_page

    try:
        session = session_of(server, output)
        found = asyncio.run(examined(session.settings))
        told = findings(found)
    except Failure as failure:
        session = Session(Settings(server or "", output or Output.TABLE), *papers())
        what = f"the configuration file cannot be used: {failure}"
        found, told = (
            None,
            [Finding("CONFIG_INVALID", what, "mend it, or set HANSE_CONFIG to another", "reference/cli.md")],
        )
    value = {"server": found.server if found else "", "findings": [one.plain() for one in told]}
    session.say(value, lambda paper: doctor_page(found, told, paper))
    raise typer.Exit(EXIT_FAILED if any(one.wrong for one in told) else EXIT_DONE)


async def examined(settings: Settings) -> "Gathered":
    """What can be known of the installation that the settings lead to. Raises InvalidArgument: no such address."""
    from hanse.cli.doctor.gathering import Gathered, gather
    from hanse.kit.version import own_version

    tls = any(settings.environment().get(name) or os.environ.get(name) for name in TLS_VARIABLES)
    async with connected(settings, deadline_s=DEADLINE_S, tries_max=1) as client:
        return await gather(client, Gathered(own_version(), client.server, tls))
