"""One change of one job as one line."""

from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import clock
from hanse.cli.paper import Paper, cut_to
from hanse.cli.show.jobs import whereabouts
from hanse.cli.show.words import state_tone, state_word

if TYPE_CHECKING:
    from datetime import tzinfo

    from hanse.api.v1.job_pb2 import Job

NAME_COLUMNS: Final = 28
STATE_COLUMNS: Final = 9


def change_line(job: "Job", paper: Paper, zone: "tzinfo | None" = None) -> str:
    """`14:02:07  llama3-70b-training  RUNNING  iowa-h100`."""
    status = job.status
    name = cut_to(job.name, NAME_COLUMNS) if paper.cut else job.name
    state = state_word(status.state)
    painted = paper.paint(state, state_tone(status.state)) + " " * (STATE_COLUMNS - len(state))
    at = clock(status.changed_ms or status.submitted_ms, zone)
    return f"{at}  {name:<{NAME_COLUMNS}}  {painted}  {whereabouts(job)}".rstrip()
