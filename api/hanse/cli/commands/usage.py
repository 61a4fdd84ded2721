"""`hanse usage`: what queues, users, flavors and pools used of accelerators, and what that costs."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from hanse.cli.commands.jobs import now_ms
from hanse.cli.completing import complete_queues
from hanse.cli.failures import WrongUse
from hanse.cli.options import ServerOption
from hanse.cli.session import put, session_of
from hanse.cli.settings import Output


class UsageForm(StrEnum):
    """Forms of the report."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


def usage(
    month: Annotated[str, typer.Option("--month", metavar="YYYY-MM", help="Of this month. [default: this one]")] = "",
    since: Annotated[str, typer.Option("--since", metavar="DAY", help="From this day on, as 2026-11-03.")] = "",
    until: Annotated[
        str, typer.Option("--until", metavar="DAY", help="Until the end of this day. [default: now]")
    ] = "",
    by: Annotated[
        str, typer.Option("--by", metavar="WHAT", help="Told apart by queue, user, flavor, pool: one or several.")
    ] = "queue",
    queue: Annotated[
        str, typer.Option("--queue", "-q", metavar="QUEUE", help="Of this queue.", autocompletion=complete_queues)
    ] = "",
    server: ServerOption = None,
    output: Annotated[
        UsageForm | None,
        typer.Option(
            "--output", "-o", metavar="table|json|yaml|csv", help="Form of it. [HANSE_OUTPUT; default: table]"
        ),
    ] = None,
) -> None:
    """Tell how many GPU-hours were used, by whom and where, and what they cost at the price of the pools.

    An attempt uses its places from the moment in which it is bound until they are free. Months and days are those of
    UTC. Whole months are exact. Of single days only jobs count that the servers still hold; what is missing is told.

    \b
    hanse usage
    hanse usage --month 2026-11 --by queue,user
    hanse usage --since 2026-11-03 --until 2026-11-09 --by pool,flavor
    hanse usage --month 2026-11 --by queue,user,flavor,pool -o csv > 2026-11.csv
    """
    from hanse.cli.show.usage import usage_csv, usage_object, usage_page

    start_ms, end_ms, title = window_of(month, since, until, now_ms())
    dimensions = dimensions_of(by)
    session = session_of(server, None if output is None or output is UsageForm.CSV else Output(output.value))
    found = session.ask(lambda client: client.usage(start_ms, end_ms, by=dimensions, queue=queue))
    if output is UsageForm.CSV:
        put(usage_csv(found, dimensions))
        return
    value = usage_object(found, dimensions, start_ms)
    session.say(value, lambda paper: usage_page(found, dimensions, title, paper))


def dimensions_of(text: str) -> list[str]:
    """What `--by` names, in its order. Raises WrongUse."""
    known = ("queue", "user", "flavor", "pool")
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    for name in names:
        if name not in known or names.count(name) > 1:
            raise WrongUse(f"--by: {name!r} is not one of {', '.join(known)}, or is named twice")
    return names


def window_of(month: str, since: str, until: str, now_ms_: int) -> tuple[int, int, str]:
    """First and last moment of what is asked for, in Unix milliseconds (the end is 0 for now), and its name.

    Raises:
        WrongUse: not a month, not a day, or both.
    """
    if month and (since or until):
        raise WrongUse("hanse usage: --month does not go together with --since and --until")
    if until and not since:
        raise WrongUse("--until: from which day on? add --since DAY")
    if since:
        start, end = _day("--since", since), _day("--until", until) + timedelta(days=1) if until else None
        if end is not None and end <= start:
            raise WrongUse(f"--until: {until} lies before {since}")
        return _ms(start), _ms(end) if end else 0, f"{since} to {until or 'now'}"
    start = _month(month) if month else _month(f"{datetime.fromtimestamp(now_ms_ / 1_000, UTC):%Y-%m}")
    end = (start + timedelta(days=32)).replace(day=1)
    return _ms(start), _ms(end), f"{start:%Y-%m}"


def _month(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        raise WrongUse(f"--month: {text!r} is not a month; write it as 2026-11") from None


def _day(option: str, text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise WrongUse(f"{option}: {text!r} is not a day; write it as 2026-11-03") from None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000
