"""`hanse jobs`, `job`, `explain`, `cancel`: what there is, what it does, why, and the end of it."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hanse.cli.completing import complete_jobs
from hanse.cli.options import JobArgument, OutputOption, QueueOption, ServerOption
from hanse.cli.session import session_of
from hanse.model.errors import InvalidArgument

if TYPE_CHECKING:
    from hanse.api.v1.explanation_pb2 import Explanation
    from hanse.api.v1.job_pb2 import Job
    from hanse.client import AsyncClient
    from hanse.model.lifecycle import State

JOBS_SHOWN_MAX: Final = 200
PAGE_JOBS: Final = 1_000


def now_ms() -> int:
    """Unix time in milliseconds, for ages."""
    return time.time_ns() // 1_000_000


def jobs(
    queue: QueueOption = "",
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", metavar="STATE", help="Only in this state; may be repeated.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", "-l", metavar="K=V", help="Only with this label; may be repeated.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also jobs that have ended.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="The newest N; 0 for all. [default: 200 in a table]")
    ] = None,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """List jobs, the newest first: what each does, where it is, or why it waits.

    \b
    hanse jobs
    hanse jobs --queue research --state pending
    hanse jobs --all --label team=vision -o json
    """
    session = session_of(server, output)
    states = _states(state or (), everything=everything)
    labels = _labels(label or ())

    async def listed(client: "AsyncClient") -> "list[Job]":
        found = client.jobs(queue=queue, states=states, labels=labels, page_size=PAGE_JOBS)
        return sorted([job async for job in found], key=_newest_first)

    found = session.ask(listed)
    most = limit if limit is not None else 0 if session.machine else JOBS_SHOWN_MAX
    shown = found[:most] if most > 0 else found

    from hanse.cli.show.jobs import jobs_page
    from hanse.wire.json import job_to_json

    value = {"jobs": [job_to_json(job) for job in shown]} if session.machine else {}
    session.say(value, lambda paper: jobs_page(shown, paper, now_ms(), hidden=len(found) - len(shown)))


def _newest_first(job: "Job") -> tuple[int, str]:
    return -job.status.submitted_ms, job.id


def _states(words: Iterable[str], *, everything: bool) -> "list[State]":
    """The states that are asked for; empty for all of them."""
    from hanse.model.lifecycle import TERMINAL, State

    asked = [part for word in words for part in word.split(",") if part]
    if not asked:
        return [] if everything else [one for one in State if one not in TERMINAL and one is not State.UNSPECIFIED]
    return [_state(word) for word in asked]


def _state(word: str) -> "State":
    from hanse.model.lifecycle import State

    known = {one.name: one for one in State if one is not State.UNSPECIFIED}
    found = known.get(word.upper())
    if found is None:
        raise InvalidArgument(
            f"{word!r} is not a state; use {', '.join(known)}", reason="STATE_UNKNOWN", path="--state"
        )
    return found


def _labels(texts: Iterable[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InvalidArgument(f"{text!r} is not KEY=VALUE", reason="LABEL_INVALID", path="--label")
        labels[key] = value
    return labels


def job(
    name: JobArgument,
    nodes: Annotated[bool, typer.Option("--nodes", help="Also its nodes and ranks.")] = False,
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """Show one job: what was asked for, where it is, its life line.

    \b
    hanse job last
    hanse job llama3 --nodes
    hanse job llama3 -o json | jq .placement
    """
    session = session_of(server, output)

    async def found(client: "AsyncClient") -> "Job":
        from hanse.cli.naming import find_job

        one = await find_job(client, name)
        return await client.job(one.id, nodes=True) if nodes else one

    one = session.ask(found)

    from hanse.cli.show.job import job_page
    from hanse.wire.json import job_to_json

    session.say(job_to_json(one), lambda paper: job_page(one, paper, nodes=nodes))


def explain(name: JobArgument, server: ServerOption = None, output: OutputOption = None) -> None:
    """Say why a job waits and what would help, or why it went where it went: every pool, the nearest first.

    \b
    hanse explain last
    hanse explain train-vision -o json | jq '.pools[] | select(.fits | not)'
    """
    session = session_of(server, output)

    async def explained(client: "AsyncClient") -> "tuple[Job, Explanation]":
        from hanse.cli.naming import find_job

        one = await find_job(client, name)
        return one, await client.explain(one.id)

    one, found = session.ask(explained)

    from hanse.cli.show.explanation import explanation_page, places_of
    from hanse.wire.json import message_to_json

    session.say(message_to_json(found), lambda paper: explanation_page(found, places_of(one), paper, now_ms()))


def cancel(
    names: Annotated[
        list[str],
        typer.Argument(metavar="JOB…", help="Ids, beginnings of names, or `last`.", autocompletion=complete_jobs),
    ],
    server: ServerOption = None,
    output: OutputOption = None,
) -> None:
    """End jobs: a waiting one at once, a live one as soon as its pods are gone.

    \b
    hanse cancel last
    hanse cancel train-vision-31 train-vision-32
    """
    session = session_of(server, output)

    async def cancelled(client: "AsyncClient") -> "list[Job]":
        from hanse.cli.naming import find_job

        ids = [(await find_job(client, name)).id for name in names]  # all are known before the first one ends
        return [await client.cancel(one) for one in dict.fromkeys(ids)]

    done = session.ask(cancelled)

    from hanse.cli.show.submitted import states_page
    from hanse.wire.json import job_to_json

    session.say({"jobs": [job_to_json(one) for one in done]}, lambda paper: states_page(done, paper))
