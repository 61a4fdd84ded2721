"""`hanse leave`: take a pool out of the federation, and watch it go."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.commands.draining import length_s
from hanse.cli.failures import WrongUse
from hanse.cli.options import MoveDeadlineOption, OutputOption, PoolArgument, PoolReasonOption, ServerOption
from hanse.cli.session import Session, session_of

if TYPE_CHECKING:
    from hanse.api.v1.pool_pb2 import Pool
    from hanse.client import AsyncClient

STANDSTILL_S: Final = 5.0
"""A pool that leaves by force and has said nothing new for so long waits for its agent, or for a vouch."""


def leave(
    name: PoolArgument,
    force: Annotated[
        bool,
        typer.Option("--force", help="It is unreachable: its jobs become LOST. Refused while its agent is there."),
    ] = False,
    vouch_dead: Annotated[
        bool,
        typer.Option(
            "--vouch-dead",
            help="With --force: I vouch that none of its machines runs anything, so start its jobs elsewhere.",
        ),
    ] = False,
    deadline: MoveDeadlineOption = "",
    reason: PoolReasonOption = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let it stay; or let it join again, if it has left.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Order it, and do not watch.")] = False,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Take a pool out of the federation: drain it, and remove it once nothing is bound there.

    A pool that is unreachable for good leaves with --force. Its jobs become LOST; what may still run there stays
    bound, and counts for quota, until its agent comes back and has stopped it. If its machines are dead, --vouch-dead
    says so, and its jobs start elsewhere by their restart policy: they run twice if that is wrong. An agent of a pool
    that has left stops what it runs, and is refused. Ask again at any time: it goes on where it is. Ctrl-C ends the
    watching.

    \b
    hanse leave iowa-h100 --reason "contract ends"
    hanse leave oslo-a100 --force --vouch-dead --reason "burnt down"
    hanse leave iowa-h100 --undo
    """
    session = session_of(server, output)
    if undo and (force or deadline or reason):
        raise WrongUse("hanse leave: --undo goes without --force, --deadline and --reason")
    if vouch_dead and not force:
        raise WrongUse("hanse leave: --vouch-dead goes with --force")
    if force and deadline:
        raise WrongUse("hanse leave: a pool that leaves by force is not drained; leave --deadline out")
    deadline_s = length_s(deadline) if deadline else 0

    async def ordered(client: "AsyncClient") -> "Pool | None":
        if undo:
            return await _stays(client, name)
        found = await client.leave(name, deadline_s=deadline_s, force=force, vouch_dead=vouch_dead, reason=reason)
        return found if no_wait or found.leave.left_ms else await _until_gone(client, found, session)

    found = session.ask(ordered)

    from hanse.cli.paper import joined
    from hanse.cli.show.pool import pool_page
    from hanse.wire.json import message_to_json

    gone = joined([f"{name} may join again" if undo else f"{name} has left the federation"])
    left = found is None or bool(found.leave.left_ms)
    value = message_to_json(found) if found is not None else {"name": name}
    session.say(value, lambda paper: gone if left or found is None else pool_page(found, paper))


async def _stays(client: "AsyncClient", name: str) -> "Pool | None":
    """The pool that stays, None if it had left and may join again."""
    from hanse.model.errors import NotFound

    try:
        return await client.uncordon(name)
    except NotFound as unknown:
        try:
            await client.readmit(name)
        except NotFound:
            raise unknown from None
        return None


async def _until_gone(client: "AsyncClient", found: "Pool", session: Session) -> "Pool | None":
    """A line each time that fewer are left; None once the pool is gone, the pool if it stays, or waits."""
    from hanse.cli.show.pool import leave_words

    told = ""
    async for pool in _news(client, found):
        if pool is None:
            return None
        found = pool
        if not found.HasField("leave"):
            session.note(f"{found.name} does not leave any more")
            return found
        if (words := leave_words(found)) != told:
            session.note(f"{found.name}: {words}")
            told = words
    session.note(f"{found.name}: jobs are LOST; the rest waits for its agent, or for --vouch-dead if it is dead")
    return found


async def _news(client: "AsyncClient", found: "Pool") -> "AsyncIterator[Pool | None]":
    """The pool whenever it changed, None once it is gone. Of one by force that is not dead, until it stands still."""
    import asyncio

    clock = asyncio.get_running_loop().time
    waits = found.leave.force and not found.leave.vouch_dead
    changed_s = clock()
    while True:
        news, first = client.watch_pools(), True
        with suppress(StopAsyncIteration):
            while True:
                try:
                    async with asyncio.timeout_at(changed_s + STANDSTILL_S if waits else None):
                        message = await anext(news)
                except TimeoutError:
                    return
                pool = next((one for one in message.pools if one.name == found.name), None)
                if pool is not None and pool.revision >= found.revision:
                    changed_s = clock()
                    yield pool
                elif found.name in message.removed or (first and pool is None):
                    yield None
                first = False
