"""`hanse up` and `hanse demo`: whole federations with simulated clusters, in this process."""

from pathlib import Path
from typing import Annotated, Final

import typer

from hanse.cli.failures import EXIT_DONE, EXIT_FAILED
from hanse.cli.session import Session, session_of
from hanse.cli.settings import Output

GOES_ON: Final = "Ctrl-C ends it; started again, it goes on where it was"


def up(
    fleet: Annotated[
        Path | None,
        typer.Option("--fleet", metavar="FILE", help="Fleet file. [default: the demo's, with its queues]"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="sqlite:PATH|memory:", help="Where all is kept. [default: user data]"),
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Where to answer. [default: 127.0.0.1:7311]")
    ] = None,
    replicas: Annotated[int, typer.Option("--replicas", metavar="N", help="Schedulers, all active.")] = 1,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", metavar="table|json|yaml", help="Form of the first line.")
    ] = None,
) -> None:
    """Start a federation with simulated clusters, until Ctrl-C or SIGTERM. Started again, it goes on where it was.

    \b
    hanse up
    hanse up --fleet fleet.yaml --store sqlite:hanse.sqlite --replicas 2
    hanse up --listen 127.0.0.1:0 --store memory: -o json
    """
    from hanse.cli.stopping import until_stopped
    from hanse.kit.logs import configure
    from hanse.kit.process import run

    session = session_of(None, output)
    configure()
    run(until_stopped(_up(session, fleet, store, listen, replicas)))


async def _up(session: Session, fleet: Path | None, store: str | None, listen: str | None, replicas: int) -> None:
    import asyncio
    from contextlib import suppress

    from hanse.cli.fleets import read_fleet_file
    from hanse.kit.process import settle_memory
    from hanse.up.harness import federation
    from hanse.up.options import DEFAULT_LISTEN, UpOptions, default_store

    options = UpOptions(
        fleet=read_fleet_file(fleet),
        store=store or default_store(),
        listen=listen or DEFAULT_LISTEN,
        replicas=replicas,
    )
    session.note("starting …")
    async with federation(options) as running:
        settle_memory()
        told = f"up at {running.address} · {running.describe()}\n{GOES_ON}\n"
        value = {"address": running.address, "store": options.store, "replicas": replicas}
        session.say_next(value, lambda paper: told)
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        session.note("stopping …")


def demo(
    once: Annotated[bool, typer.Option("--once", help="End after the story instead of staying up.")] = False,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Where to answer. [default: 127.0.0.1:7311 or free]"),
    ] = None,
    fleet: Annotated[
        Path | None, typer.Option("--fleet", metavar="FILE", help="Another fleet than the demo's.")
    ] = None,
    replicas: Annotated[int, typer.Option("--replicas", metavar="N", help="Schedulers, all active.")] = 2,
) -> None:
    """Tell a story: a federation of more than 10,000 nodes, a gang of 512 pods, where it goes, and why.

    Fails if the gang does not get all of its places.

    \b
    hanse demo
    hanse demo --once
    """
    from hanse.cli.demo.story import Plot, tell_story
    from hanse.cli.stopping import until_stopped
    from hanse.kit.logs import configure
    from hanse.kit.process import run

    session = session_of(None, Output.TABLE)

    plot = Plot(once=once, listen=listen or "", fleet=fleet, replicas=replicas)
    whole: list[bool] = []

    async def told() -> None:
        whole.append(await tell_story(plot, session))

    configure("error")  # a story is no place for warnings
    run(until_stopped(told()))
    raise typer.Exit(EXIT_DONE if whole and whole[0] else EXIT_FAILED)
