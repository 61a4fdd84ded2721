"""`hanse audit`: who did what, when and why, as every replica has written it down."""

from typing import TYPE_CHECKING, Annotated

import typer

from hanse.cli.commands.events import moment_ms
from hanse.cli.commands.jobs import now_ms
from hanse.cli.completing import complete_jobs
from hanse.cli.options import OutputOption, QueueOption, ServerOption
from hanse.cli.session import session_of
from hanse.model.ids import is_job_id

if TYPE_CHECKING:
    from hanse.api.v1.audit_service_pb2 import AuditRecord
    from hanse.client import AsyncClient

PAGES_MAX = 1_000


def audit(
    since: Annotated[
        str, typer.Option("--since", metavar="AGO|TIME", help="None before: as 10m, 1h30m, 2026-11-30T14:00:00Z.")
    ] = "",
    until: Annotated[str, typer.Option("--until", metavar="AGO|TIME", help="Only before.")] = "",
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="Only what they did.")] = "",
    job: Annotated[
        str,
        typer.Option(
            "--job",
            metavar="JOB",
            help="Only about this job; one that is gone by its id.",
            autocompletion=complete_jobs,
        ),
    ] = "",
    queue: QueueOption = "",
    verb: Annotated[
        str, typer.Option("--verb", metavar="VERB", help="Only this: CancelJob, DrainPool, BOUND, STOPPING, …")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="The newest N.", min=1)] = 100,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Tell who changed what, what was decided and what was evicted, in order, from the audit logs of all replicas.

    \b
    hanse audit --since 1h --user ana
    hanse audit --job last
    hanse audit --verb CancelJob -o json | jq -r .who
    """
    from hanse.cli.show.audit import audit_line
    from hanse.wire.json import message_to_json

    session = session_of(server, output)
    since_ms = moment_ms(since, now_ms()) if since else 0
    before_ms = moment_ms(until, now_ms(), option="--until") if until else 0
    silent: set[str] = set()

    async def work(client: "AsyncClient") -> "list[AuditRecord]":
        from hanse.cli.naming import find_job

        one = job if not job or is_job_id(job) else (await find_job(client, job)).id
        found: list[AuditRecord] = []
        token = ""
        for _ in range(PAGES_MAX):
            page = await client.audit_page(
                since_ms=since_ms,
                before_ms=before_ms,
                who=user,
                job=one,
                queue=queue,
                verb=verb,
                page_size=min(limit, 1_000),
                page_token=token,
            )
            found.extend(page.records)
            silent.update(page.replicas_silent)
            token = page.next_page_token
            if not token or len(found) >= limit:
                break
        return found[:limit]

    records = session.ask(work)
    for record in reversed(records):
        session.say_next(message_to_json(record), lambda paper, record=record: f"{audit_line(record, paper)}\n")  # type: ignore[misc]
    if silent:
        session.note(f"partial: {', '.join(sorted(silent))} did not answer, and what it has written is missing")
    if not records:
        session.note("nothing of that stands in the audit log")
