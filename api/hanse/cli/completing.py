"""Names for the shell's completion, asked of the server while somebody waits with a finger on the tab key.

So it takes half a second at most, tries once, and completes nothing rather than print an error into the prompt.
"""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from hanse.cli.settings import Settings
    from hanse.client import AsyncClient

DEADLINE_S: Final = 0.5
NAMES_MAX: Final = 200


def complete_jobs(context: typer.Context, incomplete: str) -> list[str]:
    """Names of jobs that begin so, and `last`."""

    async def names(client: "AsyncClient") -> list[str]:
        page = await client.jobs_page(name_prefix=incomplete, page_size=NAMES_MAX)
        return [job.name for job in page.jobs]

    return _fitting(["last", *_asked(context, names)], incomplete)


def complete_pools(context: typer.Context, incomplete: str) -> list[str]:
    """Names of pools that begin so."""

    async def names(client: "AsyncClient") -> list[str]:
        return [pool.name for pool in await client.pools()]

    return _fitting(_asked(context, names), incomplete)


def complete_queues(context: typer.Context, incomplete: str) -> list[str]:
    """Names of queues that begin so."""

    async def names(client: "AsyncClient") -> list[str]:
        return [queue.name for queue in await client.queues()]

    return _fitting(_asked(context, names), incomplete)


def _fitting(names: list[str], incomplete: str) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})[:NAMES_MAX]


def _asked(context: typer.Context, names: "Callable[[AsyncClient], Awaitable[list[str]]]") -> list[str]:
    """The names, or none if the server cannot be asked in time."""
    import asyncio

    from hanse.cli.failures import Failure
    from hanse.cli.settings import settings_of
    from hanse.model.errors import HanseError

    try:
        settings = settings_of(str(context.params.get("server") or ""), None, os.environ)
        return asyncio.run(_quickly(settings, names))
    except (Failure, HanseError, TimeoutError):
        return []


async def _quickly(settings: "Settings", names: "Callable[[AsyncClient], Awaitable[list[str]]]") -> list[str]:
    import asyncio

    from hanse.cli.session import connected

    async with asyncio.timeout(DEADLINE_S), connected(settings, deadline_s=DEADLINE_S, tries_max=1) as client:
        return await names(client)
