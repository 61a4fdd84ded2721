"""`hanse events`: what happened to a job, to a pool, or to all, and what happens."""

import re
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.commands.jobs import now_ms
from hanse.cli.completing import complete_jobs, complete_pools
from hanse.cli.failures import WrongUse
from hanse.cli.options import OutputOption, ServerOption
from hanse.cli.session import Session, session_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hanse.api.v1.event_service_pb2 import TailEventsResponse
    from hanse.client import AsyncClient

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO: Final = re.compile(r"(?:\d+[smhd])+")


def events(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]", help="Id of a job, beginning of its name, or `last`.", autocompletion=complete_jobs
        ),
    ] = None,
    pool: Annotated[
        str, typer.Option("--pool", metavar="POOL", help="Of this pool.", autocompletion=complete_pools)
    ] = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens; of a job, until it has ended.")
    ] = False,
    since: Annotated[
        str, typer.Option("--since", metavar="AGO|TIME", help="None before: as 10m, 1h30m, 2026-11-30T14:00:00Z.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="The newest N of the past.")] = 100,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Tell what happened, in order: to a job, to a pool, or to all.

    Servers remember the newest of it, in memory; of a job its own record keeps the main steps.

    \b
    hanse events last
    hanse events --pool iowa-h100 --since 1h
    hanse events -f -o json | jq -r .message
    """
    session = session_of(server, output)
    if name and pool:
        raise WrongUse("hanse events: a JOB and --pool do not go together")
    since_ms = moment_ms(since, now_ms()) if since else 0

    async def told(client: "AsyncClient") -> None:
        from hanse.cli.naming import find_job

        job = (await find_job(client, name)).id if name else ""
        answers = client.events(job, pool=pool, since_ms=since_ms, tail_events=limit, follow=follow)
        await (_follow(session, answers) if follow else _tell(session, answers))

    session.ask(told)


def moment_ms(text: str, now_ms_: int, *, option: str = "--since") -> int:
    """The Unix time that a user means: so long ago, or a time; without a zone it is the local one.

    Raises:
        WrongUse: it is neither.
    """
    if _AGO.fullmatch(text):
        ago_ms = sum(int(number) * _UNITS_MS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))
        return max(1, now_ms_ - ago_ms)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError):
        raise WrongUse(
            f"{option}: {text!r} is neither a length nor a time; write 10m, 1h30m, or 2026-11-30T14:00:00Z"
        ) from None


async def _tell(session: Session, answers: "AsyncIterator[TailEventsResponse]") -> None:
    """The past as one answer."""
    from hanse.cli.show.events import events_page
    from hanse.wire.json import message_to_json

    async for answer in answers:
        session.say(message_to_json(answer), lambda paper, answer=answer: events_page(answer, paper))  # type: ignore[misc]
        _note_missing(session, answer)


async def _follow(session: Session, answers: "AsyncIterator[TailEventsResponse]") -> None:
    """Each event by itself, as soon as it is known."""
    from hanse.cli.show.events import event_line
    from hanse.wire.json import event_to_json

    silent: list[str] = []
    async for answer in answers:
        for event in answer.events:
            session.say_next(event_to_json(event), lambda paper, event=event: f"{event_line(event, paper)}\n")  # type: ignore[misc]
        if list(answer.replicas_silent) != silent:
            silent = list(answer.replicas_silent)
            _note_missing(session, answer)


def _note_missing(session: Session, answer: "TailEventsResponse") -> None:
    from hanse.cli.amounts import clock

    if answer.older_left_out:
        session.note("older events are left out; `--limit` shows more")
    if answer.replicas_silent:
        who = ", ".join(answer.replicas_silent)
        session.note(f"partial: {who} did not answer, and what only it remembers is missing")
    if not answer.events:
        session.note(f"all that happened since {clock(answer.remembered_since_ms)} is remembered")
