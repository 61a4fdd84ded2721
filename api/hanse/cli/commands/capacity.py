"""`hanse pools`, `pool`, `cordon`, `uncordon`: what there is, how whole it is, and taking it out of service."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.options import OutputOption, PoolArgument, PoolReasonOption, ServerOption
from hanse.cli.session import Session, session_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hanse.api.v1.pool_pb2 import Pool, PoolShape
    from hanse.client import AsyncClient

SHAPES_MAX: Final = 200
"""Pools that are drawn with bars; a table of more has numbers alone."""

SHAPES_AT_ONCE: Final = 16


def pools(server: ServerOption = None, output: OutputOption = None) -> None:
    """List pools: how much each has, how much is free, and how whole that is.

    The bars stand for blocks (the coarsest domains), the most whole first; a full bar is a block that is wholly free.

    \b
    hanse pools
    hanse pools -o json | jq '.pools[] | {name, free_gpus}'
    """
    session = session_of(server, output)

    async def listed(client: "AsyncClient") -> "tuple[list[Pool], dict[str, PoolShape]]":
        found = await client.pools()
        return found, {} if session.machine else await shapes_of(client, found)

    found, shapes = session.ask(listed)

    from hanse.cli.show.pools import pools_page
    from hanse.wire.json import message_to_json

    session.say({"pools": [message_to_json(one) for one in found]}, lambda paper: pools_page(found, shapes, paper))


async def shapes_of(client: "AsyncClient", pools: "Sequence[Pool]") -> "dict[str, PoolShape]":
    """Shapes by name, asked for a few at once; none if there are too many pools, and not of one that has left."""
    import asyncio

    from hanse.model.errors import NotFound

    if len(pools) > SHAPES_MAX:
        return {}
    gate = asyncio.Semaphore(SHAPES_AT_ONCE)

    async def shape_of(name: str) -> "tuple[str, PoolShape | None]":
        async with gate:
            try:
                found = await client.pool(name, shape=True)
            except NotFound:
                return name, None
        return name, found.shape if found.HasField("shape") else None

    found = await asyncio.gather(*(shape_of(pool.name) for pool in pools))
    return {name: shape for name, shape in found if shape is not None}


def pool(
    name: PoolArgument,
    shape: Annotated[bool, typer.Option("--shape", help="Draw its free capacity, and say what still fits.")] = False,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Show one pool: its levels, flavors and health; with --shape its free capacity as a picture.

    \b
    hanse pool iowa-h100
    hanse pool iowa-h100 --shape
    """
    session = session_of(server, output)
    found = session.ask(lambda client: client.pool(name, shape=shape))
    _say(session, found)


def cordon(
    name: PoolArgument,
    reason: PoolReasonOption = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Take no new work in a pool; what runs there runs on.

    \b
    hanse cordon iowa-h100 --reason "network upgrade until 18:00"
    """
    session = session_of(server, output)
    _say(session, session.ask(lambda client: client.cordon(name, reason=reason)))


def uncordon(name: PoolArgument, server: ServerOption = None, output: OutputOption = None) -> None:
    """Take new work in a pool again; of one that is drained, move no more jobs away.

    \b
    hanse uncordon iowa-h100
    """
    session = session_of(server, output)
    _say(session, session.ask(lambda client: client.uncordon(name)))


def _say(session: Session, found: "Pool") -> None:
    from hanse.cli.show.pool import pool_page
    from hanse.wire.json import message_to_json

    session.say(message_to_json(found), lambda paper: pool_page(found, paper))
