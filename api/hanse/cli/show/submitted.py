"""What became of a submission, of a cancellation, and of an operator's file."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hanse.cli.paper import Paper, Tone, joined
from hanse.cli.show.jobs import placed_in
from hanse.cli.show.words import ended, reason_words, state_of, state_tone, state_word
from hanse.cli.table import Cell, Column, table
from hanse.model.lifecycle import State

if TYPE_CHECKING:
    from hanse.api.v1.config_service_pb2 import AppliedObject
    from hanse.api.v1.job_pb2 import Job
    from hanse.api.v1.job_service_pb2 import SubmittedJob

_OUTCOMES: Final = {1: ("created", Tone.GOOD), 2: ("updated", Tone.GOOD), 3: ("unchanged", Tone.DIM)}


def accepted_page(jobs: "Sequence[SubmittedJob]", paper: Paper) -> str:
    """A line for each accepted job, and what to do next."""
    lines = [f"accepted {paper.paint(job.name, Tone.STRONG)}  queue {job.queue}  {job.id}" for job in jobs]
    return joined([*lines, paper.paint("`hanse explain last` says where it goes, or why it waits", Tone.DIM)])


def state_line(job: "Job", paper: Paper) -> str:
    """`llama3-70b-training is PLACED in iowa-h100: 512 pods in 1 block, 512 hosts`."""
    status = job.status
    state = paper.paint(state_word(status.state), state_tone(status.state))
    where = "; ".join(f"{part.pool}: {placed_in(part)}" for part in status.placement)
    why = f" ({reason_words(status.reason)})" if status.reason else ""
    told = f"{job.name} is {state}{why}"
    there = where and state_of(status.state) is not State.PENDING and not ended(status.state)
    return f"{told} in {where}" if there else told


def waiting_page(job: "Job", paper: Paper) -> str:
    """A job that waits, with what decides about its turn."""
    status = job.status
    priority = f"{status.priority_class} ({status.priority})" if status.priority_class else str(status.priority)
    return joined([f"{state_line(job, paper)}, queue {job.queue}, priority {priority}"])


def retried_page(job: "Job", paper: Paper) -> str:
    """The new job, which it tries again, and what to do next."""
    accepted = f"accepted {paper.paint(job.name, Tone.STRONG)}  queue {job.queue}  {job.id}"
    next_ = paper.paint("`hanse explain last` says where it goes, or why it waits", Tone.DIM)
    return joined([accepted, f"  tries again {job.retry_of}", next_])


def states_page(jobs: "Sequence[Job]", paper: Paper) -> str:
    """A line for each job."""
    return joined(state_line(job, paper) for job in jobs)


def applied_page(results: "Sequence[AppliedObject]", paper: Paper) -> str:
    """What became of each object of a file."""
    if not results:
        return "nothing to apply\n"
    rows: list[list[Cell]] = [[one.kind.replace("_", " "), one.name, _outcome(one)] for one in results]
    return joined(table([Column("kind"), Column("name", cut=1), Column("outcome")], rows, paper))


def _outcome(one: "AppliedObject") -> Cell:
    return _OUTCOMES.get(one.outcome, ("refused", Tone.BAD))
