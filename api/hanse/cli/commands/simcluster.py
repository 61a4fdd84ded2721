"""`hanse sim-cluster`: simulated clusters as a process of their own, which outlives agents and schedulers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.services import (
    ConfigOption,
    FirstLineOption,
    LogFormatOption,
    LogLevelOption,
    SetOption,
    run_process,
    settings_of_process,
)
from hanse.cli.session import Session, session_of

if TYPE_CHECKING:
    from hanse.simcluster.cluster import SimCluster
    from hanse.up.sim_settings import SimClusterSettings


def sim_cluster(
    pool: Annotated[
        list[str] | None,
        typer.Option("--pool", metavar="NAME", help="Pool of the fleet; repeatable. [default: all]"),
    ] = None,
    fleet: Annotated[
        Path | None, typer.Option("--fleet", metavar="FILE", help="Fleet file. [default: the demo's]")
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Where to answer. [default: a free port]")
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FOLDER", help="Where pods live on. [default: only in memory]")
    ] = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
    output: FirstLineOption = None,
) -> None:
    """Run simulated clusters, until Ctrl-C or SIGTERM. With --state, pods run on through every restart.

    \b
    hanse sim-cluster --pool iowa-h100 --listen 127.0.0.1:7400 --state iowa
    hanse sim-cluster --fleet fleet.yaml --state clusters
    """
    from hanse.up.sim_settings import SimClusterSettings

    flags = {
        "pools": pool or None,
        "fleet": fleet,
        "listen": listen,
        "state": state,
        "log_level": log_level,
        "log_format": log_format,
    }
    settings = settings_of_process(SimClusterSettings, config, sets, flags)
    run_process(_serve(session_of(None, output), settings), settings)


async def _serve(session: Session, settings: "SimClusterSettings") -> None:
    from hanse.kit.process import settle_memory
    from hanse.simcluster.server import serve

    clusters = _clusters(settings.pools, settings.fleet, settings.state)

    def ready(address: str) -> None:
        settle_memory()
        names = sorted(clusters)
        told = f"simulates {', '.join(names)} at {address}; Ctrl-C ends it\n"
        session.say_next({"address": address, "pools": names}, lambda paper: told)

    await serve(settings.listen, clusters, ready=ready)


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
