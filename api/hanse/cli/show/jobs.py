"""Jobs as a table: the newest first, what each does, where it is or why it waits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import counted, duration, first_few, number
from hanse.cli.paper import Paper, joined
from hanse.cli.show.words import reason_words, state_of, state_tone, state_word
from hanse.cli.table import Cell, Column, table
from hanse.model.lifecycle import State

if TYPE_CHECKING:
    from hanse.api.v1.job_pb2 import Job, Placement

POOLS_NAMED_MAX: Final = 2
ID_FROM_COLUMNS: Final = 110

_COLUMNS: Final = (
    Column("name", cut=1),
    Column("queue", cut=1),
    Column("state"),
    Column("pods", right=True),
    Column("where or why", cut=2),
    Column("age", right=True),
)


def jobs_page(jobs: "Sequence[Job]", paper: Paper, now_ms: int, *, hidden: int = 0) -> str:
    """The table.

    Args:
        hidden: jobs that match and are not in it.
    """
    if not jobs:
        return "no such jobs; `hanse jobs --all` shows ended ones too\n"
    with_ids = paper.width >= ID_FROM_COLUMNS or not paper.cut
    columns = [*_COLUMNS, Column("id")] if with_ids else _COLUMNS
    rows = [[*_row(job, now_ms), job.id][: len(columns)] for job in jobs]
    more = [f"{number(hidden)} more; `--limit 0` shows all"] if hidden else []
    return joined([*table(columns, rows, paper), *more])


def _row(job: "Job", now_ms: int) -> Sequence[Cell]:
    status = job.status
    pods = sum(part.pods for part in status.placement)
    return (
        job.name,
        job.queue,
        (state_word(status.state), state_tone(status.state)),
        number(pods) if pods else "",
        whereabouts(job),
        duration(max(0, now_ms - status.submitted_ms)),
    )


def whereabouts(job: "Job") -> str:
    """Where a job is, or was, or why it is nowhere."""
    status = job.status
    why = reason_words(status.reason)
    if state_of(status.state) is State.PENDING:
        return why
    where = first_few([part.pool for part in status.placement], POOLS_NAMED_MAX)
    told = where if not why or why == "completed" else f"{why}, {where}" if where else why
    return f"{told} (attempt {status.attempt})" if status.attempt > 1 else told


def placed_in(part: "Placement") -> str:
    """`512 pods in 1 block, 32 racks, 512 hosts`."""
    domains = ", ".join(counted(use.count, use.level) for use in part.domains if use.count)
    pods = counted(part.pods, "pod")
    return f"{pods} in {domains}" if domains else pods
