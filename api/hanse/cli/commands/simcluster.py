"""`hanse sim-cluster`: a simulated cluster as a process of its own, which outlives agents and schedulers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.session import Session, session_of
from hanse.cli.settings import Output

if TYPE_CHECKING:
    from hanse.simcluster.cluster import SimCluster


def sim_cluster(
    pool: Annotated[
        list[str] | None,
        typer.Option("--pool", metavar="NAME", help="Pool of the fleet; repeatable. [default: all]"),
    ] = None,
    fleet: Annotated[
        Path | None, typer.Option("--fleet", metavar="FILE", help="Fleet file. [default: the demo's]")
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to answer; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FOLDER", help="Where pods live on. [default: only in memory]")
    ] = None,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", metavar="table|json|yaml", help="Form of the first line.")
    ] = None,
) -> None:
    """Run simulated clusters, until Ctrl-C or SIGTERM. With --state, pods run on through every restart.

    \b
    hanse sim-cluster --pool iowa-h100 --listen 127.0.0.1:7400 --state iowa
    """
    from hanse.kit.logs import configure
    from hanse.kit.process import run

    session = session_of(None, output)
    configure()
    run(_serve(session, tuple(pool or ()), fleet, listen, state))


async def _serve(
    session: Session, pools: tuple[str, ...], fleet: Path | None, listen: str, state: Path | None
) -> None:
    from hanse.cli.stopping import until_stopped
    from hanse.simcluster.server import serve

    clusters = _clusters(pools, fleet, state)

    def ready(address: str) -> None:
        names = sorted(clusters)
        told = f"simulates {', '.join(names)} at {address}; Ctrl-C ends it\n"
        session.say_next({"address": address, "pools": names}, lambda paper: told)

    await until_stopped(serve(listen, clusters, ready=ready))


def _clusters(pools: tuple[str, ...], fleet: Path | None, state: Path | None) -> "dict[str, SimCluster]":
    """The clusters; each keeps its state in a folder of its own below `state`, one alone in `state` itself."""
    from hanse.cli.fleets import read_fleet_file
    from hanse.kit.clock import SystemClock
    from hanse.simcluster.build import build_cluster

    loaded = read_fleet_file(fleet)
    chosen = [loaded.pool(name) for name in pools] if pools else list(loaded.pools)
    clock = SystemClock()
    clusters: dict[str, SimCluster] = {}
    try:
        for one in chosen:
            folder = None if state is None else state if len(chosen) == 1 else state / str(one.name)
            clusters[str(one.name)] = build_cluster(one.cluster, clock, folder)
    except BaseException:
        for cluster in clusters.values():
            cluster.close()
        raise
    return clusters
