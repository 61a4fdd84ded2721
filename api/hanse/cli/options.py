"""Options and arguments that several commands share, each described once; the names complete from the server."""

from typing import Annotated, TypeAlias

import typer

from hanse.cli.completing import complete_jobs, complete_pools, complete_queues
from hanse.cli.settings import Output

ServerOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--server", metavar="HOST:PORT", help="Server to ask. [HANSE_SERVER; default: 127.0.0.1:7311]"),
]
OutputOption: TypeAlias = Annotated[
    Output | None,
    typer.Option("--output", "-o", metavar="table|json|yaml", help="Form of it. [HANSE_OUTPUT; default: table]"),
]
JobArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="JOB", help="Id of a job, beginning of its name, or `last`.", autocompletion=complete_jobs
    ),
]
PoolArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="POOL", help="Name of a pool.", autocompletion=complete_pools)
]
QueueArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="QUEUE", help="Name of a queue.", autocompletion=complete_queues)
]
QueueOption: TypeAlias = Annotated[
    str,
    typer.Option("--queue", "-q", metavar="QUEUE", help="Only jobs of this queue.", autocompletion=complete_queues),
]
MoveDeadlineOption: TypeAlias = Annotated[
    str, typer.Option("--deadline", metavar="LENGTH", help="After so long stop what is left, room or not: 30m, 2h.")
]
PoolReasonOption: TypeAlias = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; shown to whoever asks why the pool is not used.")
]
RequestIdOption: TypeAlias = Annotated[
    str, typer.Option("--request-id", metavar="ID", help="The same again with this id does nothing twice.")
]
TimeoutOption: TypeAlias = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", help="Wait no longer; the job goes on.")
]
