"""`hanse wait` and `hanse watch`: until a job is so far, or as long as somebody looks."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.commands.submitting import Until
from hanse.cli.completing import complete_jobs
from hanse.cli.failures import EXIT_DONE, EXIT_FAILED
from hanse.cli.options import JobArgument, OutputOption, QueueOption, ServerOption, TimeoutOption
from hanse.cli.session import Session, session_of

if TYPE_CHECKING:
    from hanse.api.v1.job_pb2 import Job
    from hanse.client import AsyncClient


def wait(
    name: JobArgument,
    until: Annotated[
        Until, typer.Option("--for", metavar="placed|running|done", help="How far the job shall have come.")
    ] = Until.DONE,
    timeout: TimeoutOption = None,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Wait for a job. Fails if it ends badly, or if the time runs out.

    \b
    hanse wait last && echo trained
    hanse wait llama3 --for running --timeout 600
    """
    session = session_of(server, output)

    async def waited(client: "AsyncClient") -> "Job":
        from hanse.cli.naming import find_job
        from hanse.cli.waiting import wait_for_jobs
        from hanse.client.waiting import parse_until

        found = await find_job(client, name)
        done = await wait_for_jobs(client, [found.id], parse_until(until.value), session=session, timeout_s=timeout)
        return done[0]

    one = session.ask(waited)

    from hanse.cli.show.submitted import states_page
    from hanse.cli.waiting import ended_badly
    from hanse.wire.json import job_to_json

    session.say(job_to_json(one), lambda paper: states_page([one], paper))
    raise typer.Exit(EXIT_FAILED if ended_badly(one) else EXIT_DONE)


def watch(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="One job, until it ends. [default: all]", autocompletion=complete_jobs),
    ] = None,
    queue: QueueOption = "",
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Follow jobs as they change, one line for each change.

    \b
    hanse watch
    hanse watch last
    hanse watch --queue research -o json | jq -r .name
    """
    session = session_of(server, output)
    session.ask(lambda client: _watch(client, session, name or "", queue))


async def _watch(client: "AsyncClient", session: Session, name: str, queue: str) -> None:
    from hanse.api.v1.job_service_pb2 import JOB_EVENT_KIND_REMOVED, JOB_EVENT_KIND_SNAPSHOT
    from hanse.cli.naming import find_job
    from hanse.cli.show.words import ended

    await client.server_info()  # a watch is patient with a server that goes away, and need not be with none
    ids = [(await find_job(client, name, queue=queue)).id] if name else []
    async for response in client.watch_jobs(queue=queue, job_ids=ids, snapshot=True):
        for event in response.events:
            old = event.kind == JOB_EVENT_KIND_SNAPSHOT and ended(event.job.status.state)
            if event.kind != JOB_EVENT_KIND_REMOVED and (ids or not old):
                _say_change(session, event.job)
            if ids and (event.kind == JOB_EVENT_KIND_REMOVED or ended(event.job.status.state)):
                return


def _say_change(session: Session, job: "Job") -> None:
    from hanse.cli.show.changes import change_line
    from hanse.wire.json import job_to_json

    session.say_next(job_to_json(job) if session.machine else {}, lambda paper: change_line(job, paper) + "\n")
