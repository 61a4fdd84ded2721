"""What the commands share that are processes of a federation: settings from three places, logs, and a stop.

A process prints one line on stdout once it answers, and then nothing: the rest is logs, on stderr.
"""

import os
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from hanse.cli.failures import Failure, WrongUse
from hanse.cli.settings import Output
from hanse.model.errors import InvalidArgument

if TYPE_CHECKING:
    from hanse.up.settings import ProcessSettings

S = TypeVar("S", bound="ProcessSettings")

MISSING: Final = "MISSING"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")

ConfigOption: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings, as YAML; flags and environment win.")
]
SetOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the reference; repeatable."),
]
LogLevelOption: TypeAlias = Annotated[
    str | None, typer.Option("--log-level", metavar="|".join(LOG_LEVELS), help="What is logged. [default: info]")
]
LogFormatOption: TypeAlias = Annotated[
    str | None, typer.Option("--log-format", metavar="|".join(LOG_FORMATS), help="Form of logs. [default: text]")
]
OtlpOption: TypeAlias = Annotated[
    str | None, typer.Option("--otlp", metavar="HOST:PORT", help="Collector for traces and metrics. [default: none]")
]
PrometheusOption: TypeAlias = Annotated[
    str | None, typer.Option("--prometheus", metavar="HOST:PORT", help="Where to be scraped. [default: nowhere]")
]
TraceRatioOption: TypeAlias = Annotated[
    str | None, typer.Option("--trace-ratio", metavar="R", help="Share of jobs to trace. [default: see reference]")
]
FirstLineOption: TypeAlias = Annotated[
    Output | None, typer.Option("--output", "-o", metavar="table|json|yaml", help="Form of the first line.")
]


def settings_of_process(
    model: "type[S]", config: Path | None, sets: list[str] | None, flags: Mapping[str, Any]
) -> "S":
    """The settings of a process; flags that are None were not given.

    Raises:
        WrongUse: a flag cannot be so, or is missing.
        Failure: one line with the variable, or the line of the file.
    """
    from hanse.up.settings import load, pairs

    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return load(model, file=config, flags={**pairs(model, sets or ()), **given}, environment=os.environ)
    except InvalidArgument as error:
        if error.reason == MISSING or error.path.startswith("--"):
            raise WrongUse(f"{error.path}: {error.message}" if error.path else error.message) from None
        raise Failure(error, file=str(config) if error.line and config is not None else "") from None


def run_process(work: Coroutine[object, object, None], settings: "ProcessSettings") -> None:
    """Run until the work ends, or the process is told to stop; telemetry, if any, begins before it and ends after."""
    from hanse.cli.stopping import until_stopped
    from hanse.kit.logs import configure
    from hanse.kit.process import run

    configure(settings.log_level, settings.log_format)
    run(until_stopped(_watched(work, settings), stop_on_eof=settings.stop_on_eof))


async def _watched(work: Coroutine[object, object, None], settings: "ProcessSettings") -> None:
    from hanse.kit.clock import SystemClock
    from hanse.kit.telemetry.running import telemetry

    try:
        async with telemetry(settings.telemetry_config(os.environ), SystemClock()):
            await work
    finally:
        work.close()
