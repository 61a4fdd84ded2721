"""`hanse restored`: begin a new life of a store that was set back to a backup."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.commands.draining import length_s
from hanse.cli.options import OutputOption
from hanse.cli.session import session_of

if TYPE_CHECKING:
    from hanse.scheduler.shell.recovery import NewLife

WAIT: Final = "60s"


def restored(
    store: Annotated[
        str, typer.Option("--store", metavar="etcd://HOST:PORT,…|sqlite:PATH", help="What was restored.")
    ],
    wait: Annotated[
        str, typer.Option("--wait", metavar="LENGTH", help="How long leases of replicas that have ended may last.")
    ] = WAIT,
    output: OutputOption = None,
) -> None:
    """Tell a store that it was set back to a backup, after the restore and before any replica starts.

    What was bound after the backup may still run, and the store knows nothing of it. In its new life nothing is bound
    or started before every pool has come back and has stopped what is not desired. `hanse status` says which pools
    are waited for; one whose machines are dead leaves with --force --vouch-dead.

    \b
    hanse restored --store etcd://10.0.0.1:2379,10.0.0.2:2379
    """
    import asyncio

    from hanse.cli.paper import joined

    found = asyncio.run(_begun(store, length_s(wait, "--wait")))
    session = session_of(None, output)
    pools = ", ".join(found.pools) or "none"
    lines = [
        f"life {found.incarnation} of the store begins; start every replica now",
        f"pools that have to come back before anything is bound: {pools}",
    ]
    value = {"incarnation": found.incarnation, "pools": list(found.pools)}
    session.say(value, lambda paper: joined(lines))


async def _begun(url: str, wait_s: float) -> "NewLife":
    import random

    from hanse.kit.clock import SystemClock
    from hanse.scheduler.shell.recovery import begin_new_life
    from hanse.up.opening import opened_store

    store = await opened_store(url, SystemClock(), random.Random())
    try:
        return await begin_new_life(store, wait_s=wait_s)
    finally:
        await store.close()
