"""Waiting for jobs, with the wait made visible: on a terminal, a line says how far they are, and why not further."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import counted, duration
from hanse.cli.session import Session
from hanse.cli.show.words import ended, reason_words, state_of, state_word
from hanse.model.errors import NotFound, Unavailable
from hanse.model.lifecycle import State

if TYPE_CHECKING:
    from hanse.api.v1.job_pb2 import Job
    from hanse.client import AsyncClient, Until

REDRAW_S: Final = 1.0


async def wait_for_jobs(
    client: "AsyncClient",
    ids: Sequence[str],
    until: "Until",
    *,
    session: Session,
    timeout_s: float | None = None,
) -> "list[Job]":
    """The jobs, in order, as soon as each has come so far, or has ended another way.

    Raises:
        Unavailable: reason WAIT_TIMEOUT, or nobody answers.
    """
    jobs: dict[str, Job] = {}
    try:
        with _progress(session, until.value, jobs, len(ids)) as changed:
            async with asyncio.timeout(timeout_s):
                await _follow(client, ids, until, jobs, changed)
    except TimeoutError:
        raise _timed_out(jobs, until, timeout_s or 0.0) from None
    except asyncio.CancelledError:
        session.note("nothing was cancelled, the wait has ended; `hanse wait last` goes on with it")
        raise
    return [await _as_it_is(client, job_id, jobs) for job_id in ids]


async def _follow(
    client: "AsyncClient",
    ids: Sequence[str],
    until: "Until",
    jobs: "dict[str, Job]",
    changed: Callable[[], None],
) -> None:
    from hanse.api.v1.job_service_pb2 import JOB_EVENT_KIND_REMOVED
    from hanse.client.waiting import far_enough

    left = set(ids)
    async for response in client.watch_jobs(job_ids=ids, snapshot=True):
        for event in response.events:
            if event.kind == JOB_EVENT_KIND_REMOVED:
                left.discard(event.job.id)
                continue
            jobs[event.job.id] = event.job
            if far_enough(event.job.status.state, until):
                left.discard(event.job.id)
        changed()
        if not left:
            return


async def _as_it_is(client: "AsyncClient", job_id: str, jobs: "Mapping[str, Job]") -> "Job":
    """The whole job; what was last seen of it if it is no longer kept."""
    try:
        return await client.job(job_id)
    except NotFound:
        if job_id not in jobs:
            raise
        return jobs[job_id]


def _timed_out(jobs: "Mapping[str, Job]", until: "Until", timeout_s: float) -> Unavailable:
    late = [job for job in jobs.values() if not _came_so_far(job, until)]
    who = late[0].name if len(late) == 1 else counted(len(late), "job")
    again = late[0].name if late else "last"
    verb = "is" if len(late) == 1 else "are"
    return Unavailable(
        f"{who} {verb} not {until.value} after {timeout_s:g} s; nothing was cancelled, see `hanse explain {again}`",
        reason="WAIT_TIMEOUT",
    )


def _came_so_far(job: "Job", until: "Until") -> bool:
    from hanse.client.waiting import far_enough

    return far_enough(job.status.state, until)


def ended_badly(job: "Job") -> bool:
    """The job has ended, and not by success."""
    return ended(job.status.state) and state_of(job.status.state) is not State.SUCCEEDED


def progress_line(jobs: "Sequence[Job]", total: int, until: str, waited_ms: int) -> str:
    """`train waits: shape · 12 s`, or how many of several have come how far."""
    if total == 1 and jobs:
        status = jobs[0].status
        why = f": {reason_words(status.reason)}" if status.reason else ""
        told = f"{jobs[0].name} is {state_word(status.state)}{why}"
    else:
        words = [state_word(job.status.state) for job in jobs]
        told = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "waiting for the server"
    return f"{told} · until {until} · {duration(waited_ms)}"


@contextmanager
def _progress(session: Session, until: str, jobs: "Mapping[str, Job]", total: int) -> Iterator[Callable[[], None]]:
    """A line that follows the jobs, redrawn when told to and every second; on a terminal only."""
    if not sys.stderr.isatty() or session.machine:
        yield lambda: None
        return
    from rich.console import Console
    from rich.status import Status

    loop = asyncio.get_running_loop()
    began = loop.time()
    spinner = "dots" if session.notes_paper.unicode else "line"
    status = Status("", console=Console(stderr=True, highlight=False, markup=False), spinner=spinner)

    def redraw() -> None:
        waited_ms = int((loop.time() - began) * 1_000)
        status.update(session.notes_paper.write(progress_line(list(jobs.values()), total, until, waited_ms)))

    with status:
        ticking = asyncio.create_task(_every_second(redraw), name="progress")
        try:
            yield redraw
        finally:
            ticking.cancel()


async def _every_second(redraw: Callable[[], None]) -> None:
    while True:
        redraw()
        await asyncio.sleep(REDRAW_S)
