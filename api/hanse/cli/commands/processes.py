"""`hanse global` and `hanse agent`: the processes of a real federation, one command each."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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

if TYPE_CHECKING:
    from hanse.up.agent_settings import AgentSettings
    from hanse.up.global_settings import GlobalSettings


def global_replica(
    store: Annotated[
        str | None, typer.Option("--store", metavar="etcd://HOST:PORT,…|sqlite:PATH", help="Where all is kept.")
    ] = None,
    bus: Annotated[
        str | None, typer.Option("--bus", metavar="mqtt://HOST:PORT", help="Carries summaries. [default: none]")
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Where to answer. [default: 127.0.0.1:7311]")
    ] = None,
    advertise: Annotated[
        str | None, typer.Option("--advertise", metavar="HOST:PORT", help="As others reach it. [default: --listen]")
    ] = None,
    console: Annotated[
        str | None, typer.Option("--console", metavar="HOST:PORT", help="A page for browsers. [default: none]")
    ] = None,
    replica: Annotated[
        str | None, typer.Option("--replica", metavar="NAME", help="Its name, kept. [default: the host's]")
    ] = None,
    federation: Annotated[
        str | None, typer.Option("--federation", metavar="NAME", help="Whose store this is. [default: hanse]")
    ] = None,
    no_scheduler: Annotated[bool, typer.Option("--no-scheduler", help="Serve the API and links only.")] = False,
    no_api: Annotated[bool, typer.Option("--no-api", help="Schedule and serve links only.")] = False,
    tokens_file: Annotated[
        Path | None, typer.Option("--tokens-file", metavar="FILE", help="Who may call. [default: everybody here]")
    ] = None,
    access_file: Annotated[
        Path | None, typer.Option("--access-file", metavar="FILE", help="Who may do what. [default: all, or nothing]")
    ] = None,
    peer_token_file: Annotated[
        Path | None, typer.Option("--peer-token-file", metavar="FILE", help="Token to show to other replicas.")
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
    """Run one global replica: API, scheduler, and links of agents. As many as you like share a store.

    \b
    hanse global --store etcd://10.0.0.1:2379,10.0.0.2:2379 --bus mqtt://10.0.0.5:1883 --listen 127.0.0.1:7311
    hanse global --config global.yaml --set lease_ttl_s=15
    """
    from hanse.up.global_settings import GlobalSettings

    flags = {
        "store": store,
        "bus": bus,
        "listen": listen,
        "advertise": advertise,
        "console": console,
        "replica": replica,
        "federation": federation,
        "scheduler": False if no_scheduler else None,
        "api": False if no_api else None,
        "tokens_file": tokens_file,
        "access_file": access_file,
        "peer_token_file": peer_token_file,
        "otlp": otlp,
        "prometheus": prometheus,
        "trace_ratio": trace_ratio,
        "log_level": log_level,
        "log_format": log_format,
    }
    settings = settings_of_process(GlobalSettings, config, sets, flags)
    run_process(_global(session_of(None, output), settings), settings)


async def _global(session: Session, settings: "GlobalSettings") -> None:
    import random

    from hanse.kit.clock import SystemClock
    from hanse.up.global_process import replica_name, run_global

    name = replica_name(settings.replica)

    def listening(address: str, console: str) -> None:
        value = {"address": address, "replica": name, "console": console}
        page = f", console at {console}" if console else ""
        session.say_next(value, lambda paper: f"replica {name} at {address}{page}; Ctrl-C ends it\n")

    await run_global(settings, SystemClock(), random.Random(), listening)


def agent(
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="kubeconfig:PATH|in-cluster|sim:ADDR", help="The cluster.")
    ] = None,
    pool: Annotated[
        list[str] | None, typer.Option("--pool", metavar="NAME", help="Its pool; repeatable: an agent for each.")
    ] = None,
    replicas: Annotated[
        str | None, typer.Option("--global", metavar="HOST:PORT,…", help="Every global replica; one is attached to.")
    ] = None,
    bus: Annotated[
        str | None, typer.Option("--bus", metavar="mqtt://HOST:PORT", help="Carries summaries. [default: none]")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Token to show to the replicas.")
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
    """Run the agent of a cluster, beside the cluster: it dials out, and places what is bound to its pool.

    \b
    hanse agent --cluster kubeconfig:iowa.yaml --pool iowa-h100 --global 10.0.0.1:7311,10.0.0.2:7311
    hanse agent --cluster sim:127.0.0.1:7400 --pool iowa-h100 --global 127.0.0.1:7311,127.0.0.1:7312
    """
    from hanse.up.agent_settings import AgentSettings

    flags = {
        "cluster": cluster,
        "pools": pool or None,
        "replicas": replicas,
        "bus": bus,
        "token_file": token_file,
        "otlp": otlp,
        "prometheus": prometheus,
        "trace_ratio": trace_ratio,
        "log_level": log_level,
        "log_format": log_format,
    }
    settings = settings_of_process(AgentSettings, config, sets, flags)
    run_process(_agent(session_of(None, output), settings), settings)


async def _agent(session: Session, settings: "AgentSettings") -> None:
    import random

    from hanse.kit.clock import SystemClock
    from hanse.up.agent_process import run_agents

    names = [pool.name for pool in settings.pools]

    def running() -> None:
        told = f"agent of {', '.join(names)}; Ctrl-C ends it, and nothing that runs\n"
        session.say_next({"pools": names}, lambda paper: told)

    await run_agents(settings, SystemClock(), random.Random(), running)
