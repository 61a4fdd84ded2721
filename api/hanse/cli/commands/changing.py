"""`hanse hold`, `release`, `update`, `retry`: what may change while a job waits, and another try of an ended one."""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from hanse.cli.commands.submitting import Until
from hanse.cli.completing import complete_jobs, complete_queues
from hanse.cli.failures import EXIT_DONE, EXIT_FAILED, Failure, WrongUse
from hanse.cli.options import JobArgument, OutputOption, RequestIdOption, ServerOption, TimeoutOption
from hanse.cli.session import Session, session_of
from hanse.cli.state import state_dir, write_last
from hanse.model.errors import HanseError, NotFound

if TYPE_CHECKING:
    from hanse.api.v1.job_pb2 import Job
    from hanse.api.v1.queue_pb2 import Queue
    from hanse.client import AsyncClient

_JobOrNone: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]", help="Id of a job, beginning of its name, or `last`.", autocompletion=complete_jobs
    ),
]
_WholeQueue: TypeAlias = Annotated[
    str,
    typer.Option("--queue", "-q", metavar="QUEUE", help="A whole queue instead.", autocompletion=complete_queues),
]


def hold(
    name: _JobOrNone = None,
    queue: _WholeQueue = "",
    request_id: RequestIdOption = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Put a job that waits on hold, or a queue: nothing of it is bound until it is released. What runs, runs on.

    \b
    hanse hold last
    hanse hold --queue research
    """
    session = session_of(server, output)
    if _names_queue("hold", name, queue):
        _say_queue(session, queue, lambda client: client.hold_queue(queue, request_id=request_id))
    else:
        _say_job(session, name or "", lambda client, job: client.hold(job, request_id=request_id))


def release(
    name: _JobOrNone = None,
    queue: _WholeQueue = "",
    request_id: RequestIdOption = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Let a job, or the jobs of a queue, wait for places again.

    \b
    hanse release last
    hanse release --queue research
    """
    session = session_of(server, output)
    if _names_queue("release", name, queue):
        _say_queue(session, queue, lambda client: client.release_queue(queue, request_id=request_id))
    else:
        _say_job(session, name or "", lambda client, job: client.release(job, request_id=request_id))


def update(
    name: JobArgument,
    priority: Annotated[str, typer.Option("--priority", metavar="CLASS", help="Its new priority class.")],
    request_id: RequestIdOption = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Change the priority class of a job that waits; its place in the queue follows at once.

    \b
    hanse update last --priority urgent
    """

    async def updated(client: "AsyncClient", job: str) -> "Job":
        try:
            return await client.update(job, priority_class=priority, request_id=request_id)
        except NotFound as error:
            if error.path != "priority_class":
                raise
            raise Failure(NotFound(error.message, reason=error.reason, path="--priority")) from None

    _say_job(session_of(server, output), name, updated)


def retry(
    name: JobArgument,
    wait: Annotated[
        Until | None, typer.Option("--wait", metavar="placed|running|done", help="Return when the job is so far.")
    ] = None,
    timeout: TimeoutOption = None,
    request_id: RequestIdOption = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Submit a job that has ended without success once more, as it was: a new job with an id of its own.

    \b
    hanse retry last
    hanse retry train-vision-31 --wait running --timeout 600
    """
    session = session_of(server, output)
    code = session.ask(lambda client: _retry(client, session, name, wait, timeout, request_id))
    raise typer.Exit(code)


async def _retry(
    client: "AsyncClient", session: Session, name: str, wait: Until | None, timeout_s: float | None, request_id: str
) -> int:
    from hanse.cli.naming import find_job
    from hanse.cli.show.submitted import retried_page, states_page
    from hanse.cli.waiting import ended_badly, wait_for_jobs
    from hanse.client.waiting import parse_until
    from hanse.wire.json import job_to_json

    new = await _retried(client, await find_job(client, name), request_id)
    write_last(state_dir(os.environ), client.server, new.id)
    if wait is None:
        session.say(job_to_json(new), lambda paper: retried_page(new, paper))
        return EXIT_DONE
    session.note(f"accepted {new.name}  queue {new.queue}  {new.id}  tries again {new.retry_of}")
    [job] = await wait_for_jobs(client, [new.id], parse_until(wait.value), session=session, timeout_s=timeout_s)
    session.say(job_to_json(job), lambda paper: states_page([job], paper))
    return EXIT_FAILED if ended_badly(job) else EXIT_DONE


async def _retried(client: "AsyncClient", old: "Job", request_id: str) -> "Job":
    """The new job. Typed again with the same request id, a name or `last` means the job that the first call made."""
    try:
        return await client.retry(old.id, request_id=request_id)
    except HanseError as error:
        if not old.retry_of or error.reason != "REQUEST_ID_REUSED":
            raise
    return await client.retry(old.retry_of, request_id=request_id)


def _names_queue(command: str, name: str | None, queue: str) -> bool:
    """Whether a queue is meant. Raises WrongUse: neither or both are named."""
    if bool(name) == bool(queue):
        raise WrongUse(f"hanse {command}: name a JOB, or a queue by --queue; see `hanse {command} --help`")
    return bool(queue)


def _say_job(session: Session, name: str, change: "Callable[[AsyncClient, str], Awaitable[Job]]") -> None:
    """Find the job that is meant, change it, and say how it is then."""

    async def changed(client: "AsyncClient") -> "Job":
        from hanse.cli.naming import find_job

        return await change(client, (await find_job(client, name)).id)

    done = session.ask(changed)

    from hanse.cli.show.submitted import waiting_page
    from hanse.wire.json import job_to_json

    session.say(job_to_json(done), lambda paper: waiting_page(done, paper))


def _say_queue(session: Session, name: str, change: "Callable[[AsyncClient], Awaitable[Queue]]") -> None:
    """Change a queue, and say how it is then."""

    async def changed(client: "AsyncClient") -> "Queue":
        await change(client)
        return await client.queue(name)

    found = session.ask(changed)

    from hanse.cli.show.queues import queue_page
    from hanse.wire.json import message_to_json

    session.say(message_to_json(found), lambda paper: queue_page(found, paper))
