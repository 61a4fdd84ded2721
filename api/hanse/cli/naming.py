"""Which job is meant: an id, the beginning of a name, or `last`.

The server knows ids, names and beginnings that lead to one name. Where it finds several, a name that is written out
wins, and then the only job among them that has not ended; else nobody guesses, and the user sees what there is.
"""

import os
from typing import TYPE_CHECKING, Final

from hanse.cli.show.words import ended, state_word
from hanse.cli.state import read_last, state_dir
from hanse.model.errors import FailedPrecondition, HanseError, NotFound
from hanse.model.names import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hanse.api.v1.job_pb2 import Job
    from hanse.client import AsyncClient

LAST: Final = "last"
CANDIDATES_SHOWN_MAX: Final = 5
CANDIDATES_MAX: Final = 1_000
PAGE_JOBS: Final = 1_000
_AMBIGUOUS: Final = "JOB_AMBIGUOUS"


async def find_job(client: "AsyncClient", text: str, *, queue: str = "") -> "Job":
    """The job that is meant, without its nodes.

    Raises:
        NotFound, FailedPrecondition: there is none, or more than one.
    """
    if text == LAST:
        return await _last(client)
    try:
        return await client.job(text, queue=queue)
    except FailedPrecondition as error:
        if error.reason != _AMBIGUOUS:
            raise
    found: list[Job] = []
    async for job in client.jobs(name_prefix=text, queue=queue, page_size=PAGE_JOBS):
        found.append(job)
        if len(found) == CANDIDATES_MAX:
            break
    return await client.job(choose(text, found).id)


def choose(text: str, jobs: "Sequence[Job]") -> "Job":
    """One of several jobs whose names begin with a text.

    Raises:
        FailedPrecondition: reason JOB_AMBIGUOUS, with candidates.
    """
    exact = [job for job in jobs if job.name == text]
    alive = [job for job in exact or jobs if not ended(job.status.state)]
    if len(exact) == 1:
        return exact[0]
    if len(alive) == 1:
        return alive[0]
    if exact and len({job.queue for job in exact}) == 1:
        return newest(exact)
    raise _ambiguous(text, alive or exact or jobs)


def newest(jobs: "Sequence[Job]") -> "Job":
    """The job that was submitted last."""
    return max(jobs, key=lambda job: (job.status.submitted_ms, job.revision, job.id))


def _ambiguous(text: str, jobs: "Sequence[Job]") -> HanseError:
    latest = sorted(jobs, key=lambda job: -job.status.submitted_ms)[:CANDIDATES_SHOWN_MAX]
    shown = ", ".join(f"{job.name} ({state_word(job.status.state)} in {job.queue}, {job.id})" for job in latest)
    more = f", and {len(jobs) - len(latest)} more" if len(jobs) > len(latest) else ""
    message = f"{quoted(text)} may mean {shown}{more}; write out more of the name, or use an id"
    return FailedPrecondition(message, reason=_AMBIGUOUS, path="job")


async def _last(client: "AsyncClient") -> "Job":
    """The job that was submitted last from here, else the newest on the server."""
    remembered = read_last(state_dir(os.environ), client.server)
    if remembered:
        try:
            return await client.job(remembered)
        except NotFound:  # another federation now answers at this address, or the job is no longer kept
            remembered = ""
    found = None
    async for job in client.jobs(page_size=PAGE_JOBS):
        found = job if found is None else newest([found, job])
    if found is None:
        raise NotFound("there is no last job: nothing was submitted yet", reason="JOB_NOT_FOUND", path="job")
    return await client.job(found.id)
