"""`hanse drain`: move the jobs of a pool elsewhere, and watch them go."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.failures import WrongUse
from hanse.cli.options import MoveDeadlineOption, OutputOption, PoolArgument, PoolReasonOption, ServerOption
from hanse.cli.session import Session, session_of

if TYPE_CHECKING:
    from hanse.api.v1.pool_pb2 import Pool
    from hanse.client import AsyncClient

_LENGTH: Final = re.compile(r"(?:\d{1,6}[smhd])+")
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def drain(
    name: PoolArgument,
    deadline: MoveDeadlineOption = "",
    reason: PoolReasonOption = "",
    undo: Annotated[bool, typer.Option("--undo", help="Move no more jobs away, and take new work again.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Order it, and do not watch.")] = False,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Take no new work in a pool, move its jobs elsewhere one by one, and watch until it is empty.

    A job leaves when another pool has room for it, the youngest first, and starts there by its restart policy; its
    retries are not touched. One that is not to be started again runs to its end, or to the deadline, and fails then.
    Ctrl-C ends the watching, not the drain.

    \b
    hanse drain iowa-h100 --deadline 2h --reason "new switches"
    hanse drain iowa-h100 --undo
    """
    session = session_of(server, output)
    if undo and (deadline or reason):
        raise WrongUse("hanse drain: --undo goes without --deadline and --reason")
    deadline_s = length_s(deadline) if deadline else 0

    async def ordered(client: "AsyncClient") -> "Pool":
        if undo:
            return await client.uncordon(name)
        found = await client.drain(name, deadline_s=deadline_s, reason=reason)
        return found if no_wait else await _until_empty(client, found, session)

    found = session.ask(ordered)

    from hanse.cli.show.pool import pool_page
    from hanse.wire.json import message_to_json

    session.say(message_to_json(found), lambda paper: pool_page(found, paper))


def length_s(text: str, flag: str = "--deadline") -> int:
    """Seconds that a user means by `90s`, `30m`, `1d6h` after a flag.

    Raises:
        WrongUse: it is no length.
    """
    if not _LENGTH.fullmatch(text):
        raise WrongUse(f"{flag}: {text!r} is not a length; write 90s, 30m or 1d6h")
    return sum(int(number) * _UNITS_S[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))


async def _until_empty(client: "AsyncClient", found: "Pool", session: Session) -> "Pool":
    """A line each time that fewer are left; ends when none is, or somebody has taken the drain back."""
    from hanse.cli.show.pool import drain_words

    told = ""
    while True:
        async for news in client.watch_pools():
            found = next((pool for pool in news.pools if pool.name == found.name), found)
            if not found.HasField("drain"):
                session.note(f"{found.name} is not drained any more")
                return found
            words = drain_words(found)
            if words != told:
                session.note(f"{found.name}: {words}")
                told = words
            if not found.gangs:
                return found
