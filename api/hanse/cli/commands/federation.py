"""`hanse up` and `hanse demo`: whole federations with simulated clusters, in this process or in many."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.failures import EXIT_DONE, EXIT_FAILED
from hanse.cli.services import (
    ConfigOption,
    FirstLineOption,
    LogFormatOption,
    LogLevelOption,
    OtlpOption,
    PrometheusOption,
    SetOption,
    TraceRatioOption,
    run_process,
    settings_of_process,
)
from hanse.cli.session import Session, session_of
from hanse.cli.settings import Output

if TYPE_CHECKING:
    from hanse.up.up_settings import UpSettings

GOES_ON: Final = "Ctrl-C ends it; started again, it goes on where it was"


def up(
    fleet: Annotated[
        Path | None,
        typer.Option("--fleet", metavar="FILE", help="Fleet file. [default: the demo's, with its queues]"),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="sqlite:PATH|…", help="Where all is kept. [default: user data]"),
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Where to answer. [default: 127.0.0.1:7311]")
    ] = None,
    console: Annotated[
        str | None,
        typer.Option("--console", metavar="HOST:PORT|none", help="A page for browsers. [default: port 7310]"),
    ] = None,
    replicas: Annotated[
        str | None, typer.Option("--replicas", metavar="N", help="Schedulers, all active. [default: 1]")
    ] = None,
    processes: Annotated[
        bool, typer.Option("--processes", help="Every part a process of its own, started again if it ends.")
    ] = False,
    bus: Annotated[
        str | None, typer.Option("--bus", metavar="mqtt://HOST:PORT", help="With processes: carries summaries.")
    ] = None,
    agents_per_process: Annotated[
        str | None, typer.Option("--agents-per-process", metavar="N", help="With processes. [default: all in one]")
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FOLDER", help="With processes: clusters and logs.")
    ] = None,
    config: ConfigOption = None,
    sets: SetOption = None,
    otlp: OtlpOption = None,
    prometheus: PrometheusOption = None,
    trace_ratio: TraceRatioOption = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
    output: FirstLineOption = None,
) -> None:
    """Start a federation with simulated clusters, until Ctrl-C or SIGTERM. Started again, it goes on where it was.

    \b
    hanse up
    hanse up --fleet fleet.yaml --store sqlite:hanse.sqlite --replicas 2
    hanse up --processes --store etcd://127.0.0.1:2379 --bus mqtt://127.0.0.1:1883 --replicas 3
    hanse up --listen 127.0.0.1:0 --store memory: -o json
    """
    from hanse.up.up_settings import UpSettings

    flags = {
        "fleet": fleet,
        "store": store,
        "listen": listen,
        "console": console,
        "replicas": replicas,
        "processes": processes or None,
        "bus": bus,
        "agents_per_process": agents_per_process,
        "state": state,
        "otlp": otlp,
        "prometheus": prometheus,
        "trace_ratio": trace_ratio,
        "log_level": log_level,
        "log_format": log_format,
    }
    settings = settings_of_process(UpSettings, config, sets, flags)
    session = session_of(None, output)
    run_process(_up_processes(session, settings) if settings.processes else _up(session, settings), settings)


async def _up(session: Session, settings: "UpSettings") -> None:
    from hanse.cli.fleets import read_fleet_file
    from hanse.kit.process import settle_memory
    from hanse.up.harness import federation
    from hanse.up.options import UpOptions, default_store

    options = UpOptions(
        fleet=read_fleet_file(settings.fleet),
        store=settings.store or default_store(),
        listen=settings.listen,
        console=settings.console,
        replicas=settings.replicas,
        retention=settings.retention(),
        archive_dir=settings.archive_dir,
        audit_dir=settings.audit_dir,
    )
    session.note("starting …")
    async with federation(options) as running:
        settle_memory()
        value = {
            "address": running.address,
            "store": options.store,
            "replicas": options.replicas,
            "console": running.console,
        }
        told = f"up at {running.address} · {running.describe()}\n{console_line(running.console)}{GOES_ON}\n"
        await _stay_up(session, value, told)


async def _up_processes(session: Session, settings: "UpSettings") -> None:
    import os
    import random

    from hanse.cli.fleets import read_fleet_file
    from hanse.kit.clock import SystemClock
    from hanse.up.options import default_store
    from hanse.up.processes import ProcessesOptions, default_state, federation_processes

    store = settings.store or default_store()
    telemetry = settings.telemetry_config(os.environ)
    options = ProcessesOptions(
        fleet=read_fleet_file(settings.fleet),
        fleet_file=settings.fleet,
        store=store,
        bus=settings.bus,
        listen=settings.listen,
        console=settings.console,
        replicas=settings.replicas,
        state=settings.state or default_state(store),
        agents_per_process=settings.agents_per_process,
        log_level=settings.log_level if "log_level" in settings.model_fields_set else "info",
        log_format=settings.log_format,
        otlp=telemetry.otlp,
        prometheus=telemetry.prometheus,
        trace_ratio=telemetry.trace_ratio,
        retention=settings.retention(),
        archive_dir=settings.archive_dir,
        audit_dir=settings.audit_dir,
    )
    session.note("starting …")
    async with federation_processes(options, SystemClock(), random.Random()) as running:
        value = {
            "address": running.address,
            "store": shown_store(store),
            "replicas": options.replicas,
            "clusters": running.clusters[0],
            "state": str(options.state),
            "console": running.console,
        }
        told = f"up at {running.address} · {running.describe()}\n{console_line(running.console)}{GOES_ON}\n"
        await _stay_up(session, value, told)


def console_line(address: str) -> str:
    """Where to look, "" for nowhere."""
    return f"console: {address}\n" if address else ""


async def _stay_up(session: Session, value: object, told: str) -> None:
    """Say the first line, and nothing more until the process is told to stop."""
    import asyncio
    from contextlib import suppress

    session.say_next(value, lambda paper: told)
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    session.note("stopping …")


def shown_store(store: str) -> str:
    """A store's address without what opens it."""
    before, at, after = store.rpartition("@")
    return f"{before.partition('://')[0]}://{after}" if at else store


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
