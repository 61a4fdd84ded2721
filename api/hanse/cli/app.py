"""The list of commands, in the groups in which the help shows them."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from hanse.cli.commands import (
    applying,
    asking,
    auditing,
    authority,
    batching,
    bundling,
    capacity,
    changing,
    completion,
    converting,
    doctoring,
    draining,
    events,
    execing,
    federation,
    importing,
    jobs,
    joining,
    leaving,
    logs,
    processes,
    queues,
    restoring,
    sim,
    simcluster,
    status,
    submitting,
    usage,
    version,
    watching,
)
from hanse.cli.session import put
from hanse.kit.version import own_version

COMPLETE_VARIABLE: Final = "_HANSE_COMPLETE"

GROUPS: Final = {
    "Jobs": (
        "submit",
        "sbatch",
        "jobs",
        "job",
        "explain",
        "wait",
        "watch",
        "events",
        "logs",
        "exec",
        "hold",
        "release",
        "update",
        "cancel",
        "retry",
        "convert",
    ),
    "Capacity": ("pools", "pool", "cordon", "uncordon", "drain", "leave", "queues", "queue", "apply", "import"),
    "Federations": (
        "status",
        "usage",
        "doctor",
        "support-bundle",
        "demo",
        "up",
        "global",
        "agent",
        "restored",
        "sim",
        "sim-cluster",
    ),
    "Access": ("whoami", "can", "token", "audit", "join-token", "join", "revoke", "ca"),
    "This command": ("completion", "version"),
}


class Grouped(TyperGroup):
    """Shows its commands in groups, in an order that tells what they are for."""

    def list_commands(self, ctx: Any) -> list[str]:  # Any: Typer gives its context class no public name
        return [name for names in GROUPS.values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(self._rows(ctx, names))

    def _rows(self, ctx: Any, names: Iterable[str]) -> list[tuple[str, str]]:
        found = ((name.ljust(11), self.get_command(ctx, name)) for name in names)
        return [(name, found.get_short_help_str(64)) for name, found in found if found is not None]


app = typer.Typer(
    name="hanse",
    cls=Grouped,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _hanse(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version of this command.")] = False,
) -> None:
    """Run gangs of pods on a federation of clusters.

    \b
    hanse submit llama3-70b.yaml --wait placed
    hanse explain last
    hanse pools

    Exit codes: 0 done, 1 failed or refused, 2 wrong use, 3 no server answers.
    """
    if show_version:
        put(f"hanse {own_version()}\n")
    elif context.invoked_subcommand is None:
        put(f"{context.get_help()}\n")


_sim = typer.Typer(rich_markup_mode=None)


@_sim.callback(invoke_without_command=True)
def _sim_help(context: typer.Context) -> None:
    """Make machines of simulated clusters fail, and come back.

    \b
    hanse sim fail iowa-h100/b7/r03
    hanse sim restore iowa-h100/b7/r03
    """
    if context.invoked_subcommand is None:
        put(f"{context.get_help()}\n")


_sim.command("fail")(sim.fail)
_sim.command("restore")(sim.restore)
app.add_typer(_sim, name="sim")

_ca = typer.Typer(rich_markup_mode=None)


@_ca.callback(invoke_without_command=True)
def _ca_help(context: typer.Context) -> None:
    """Make an authority for a federation that brings none, and certificates by it.

    \b
    hanse ca init
    hanse ca issue hanse://replica/r0 --host r0.example
    """
    if context.invoked_subcommand is None:
        put(f"{context.get_help()}\n")


_ca.command("init")(authority.init)
_ca.command("issue")(authority.issue)
app.add_typer(_ca, name="ca")

_COMMANDS: Final[Mapping[str, Callable[..., None]]] = {
    "submit": submitting.submit,
    "sbatch": batching.sbatch,
    "jobs": jobs.jobs,
    "job": jobs.job,
    "explain": jobs.explain,
    "wait": watching.wait,
    "watch": watching.watch,
    "events": events.events,
    "logs": logs.logs,
    "exec": execing.exec_,
    "hold": changing.hold,
    "release": changing.release,
    "update": changing.update,
    "cancel": jobs.cancel,
    "retry": changing.retry,
    "convert": converting.convert,
    "pools": capacity.pools,
    "pool": capacity.pool,
    "cordon": capacity.cordon,
    "uncordon": capacity.uncordon,
    "drain": draining.drain,
    "leave": leaving.leave,
    "queues": queues.queues,
    "queue": queues.queue,
    "apply": applying.apply,
    "import": importing.import_,
    "status": status.status,
    "usage": usage.usage,
    "doctor": doctoring.doctor,
    "support-bundle": bundling.support_bundle,
    "demo": federation.demo,
    "up": federation.up,
    "global": processes.global_replica,
    "agent": processes.agent,
    "restored": restoring.restored,
    "join-token": joining.join_token,
    "join": joining.join,
    "revoke": joining.revoke,
    "sim-cluster": simcluster.sim_cluster,
    "completion": completion.completion,
    "audit": auditing.audit,
    "whoami": asking.whoami,
    "can": asking.can,
    "token": asking.token,
    "version": version.version,
}
_AS_GIVEN: Final = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""For a command that takes the options of another one: they reach it as words, in order."""

for _name, _command in _COMMANDS.items():
    app.command(_name, context_settings=_AS_GIVEN if _name == "sbatch" else None)(_command)


def command() -> TyperGroup:
    """The app as the parser that runs it."""
    from typer.main import get_command

    if COMPLETE_VARIABLE in os.environ:
        from hanse.cli.scripts import prepare_completion

        prepare_completion()
    built = get_command(app)
    assert isinstance(built, TyperGroup)
    return built
