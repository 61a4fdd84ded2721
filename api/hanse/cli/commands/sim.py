"""`hanse sim fail` and `hanse sim restore`: what happens to machines, on demand, in simulated clusters only."""

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from hanse.cli.options import OutputOption, ServerOption
from hanse.cli.session import Session, session_of

if TYPE_CHECKING:
    from hanse.sim.v1.sim_pb2 import PathResponse

PathArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="POOL/PATH", help="A domain (everything below it) or a node of a pool.")
]


def fail(path: PathArgument, server: ServerOption = None, output: OutputOption = None) -> None:
    """Kill machines of a simulated cluster: their pods are gone at once.

    \b
    hanse sim fail iowa-h100/b7/r03
    hanse sim fail iowa-h100/iowa-b7-r03-h11
    """
    import asyncio

    from hanse.cli import simulated

    session = session_of(server, output)
    pool, inside = simulated.pool_and_path(path)
    _say(session, "failed", asyncio.run(simulated.fail(session.settings.server, pool, inside)))


def restore(path: PathArgument, server: ServerOption = None, output: OutputOption = None) -> None:
    """Bring machines of a simulated cluster back, as new; what ran there stays gone.

    \b
    hanse sim restore iowa-h100/b7/r03
    """
    import asyncio

    from hanse.cli import simulated

    session = session_of(server, output)
    pool, inside = simulated.pool_and_path(path)
    _say(session, "restored", asyncio.run(simulated.restore(session.settings.server, pool, inside)))


def _say(session: Session, done: str, answer: "PathResponse") -> None:
    from hanse.cli.show.fate import fate_page
    from hanse.wire.json import message_to_json

    session.say(message_to_json(answer), lambda paper: fate_page(done, answer, paper))
