"""Queues: what each owns of each flavor, how much of it is used, and what waits."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import amount, bare_amount, number
from hanse.cli.bars import bar
from hanse.cli.paper import Paper, Tone, joined
from hanse.cli.show.facts import facts
from hanse.cli.table import Cell, Column, table
from hanse.model.resources import GPU_RESOURCES

if TYPE_CHECKING:
    from hanse.api.v1.queue_pb2 import FlavorQuota, Queue

BAR_CELLS: Final = 8

_COLUMNS: Final = (
    Column("queue", cut=1),
    Column("cohort", cut=1),
    Column("flavor"),
    Column("used", right=True),
    Column("of", right=True),
    Column(""),
    Column("waiting", right=True),
    Column("live", right=True),
    Column(""),
)


def queues_page(queues: "Sequence[Queue]", paper: Paper) -> str:
    """The table: a line for each flavor of each queue."""
    if not queues:
        return "no queues; `hanse apply FILE` makes some\n"
    rows = [row for queue in queues for row in _rows(queue)]
    return joined(table(_COLUMNS, rows, paper))


def _rows(queue: "Queue") -> Iterator[Sequence[Cell]]:
    status = queue.status
    more = "" if status.exact else "+"
    head: list[Cell] = [queue.name, queue.cohort]
    tail: list[Cell] = [f"{number(status.pending_jobs)}{more}", f"{number(status.live_jobs)}{more}", _held(queue)]
    for quota in queue.quotas:
        for resource, nominal in _limits(quota):
            used = used_of(queue, quota.flavor, resource)
            yield *head, _flavor(quota, resource), *_share(resource, used, nominal), *tail
            head, tail = ["", ""], ["", "", ""]
    if not queue.quotas:
        yield *head, "none", "", "", "", *tail


def _held(queue: "Queue") -> Cell:
    return ("held", Tone.WAITING) if queue.held else ""


def _limits(quota: "FlavorQuota") -> list[tuple[str, int]]:
    """What is limited, accelerators first; a quota that names nothing limits nothing."""
    return sorted(quota.nominal.items(), key=lambda item: (item[0] not in GPU_RESOURCES, item[0])) or [("", 0)]


def used_of(queue: "Queue", flavor: str, resource: str) -> int:
    """What live attempts of the queue take."""
    return sum(use.used.get(resource, 0) for use in queue.status.used if use.flavor == flavor)


def _flavor(quota: "FlavorQuota", resource: str) -> str:
    return quota.flavor if not resource or resource in GPU_RESOURCES else f"{quota.flavor} {resource}"


def _share(resource: str, used: int, nominal: int) -> tuple[Cell, Cell, Cell]:
    if not resource:
        return "", "unlimited", ""
    share = bar(used, nominal, BAR_CELLS) if nominal else ""
    return bare_amount(resource, used), bare_amount(resource, nominal), share


def queue_page(queue: "Queue", paper: Paper) -> str:
    """One queue."""
    held = f"  {paper.paint('held', Tone.WAITING)}: nothing of it is bound" if queue.held else ""
    return joined([f"{paper.paint(queue.name, Tone.STRONG)}{held}", *facts(list(_facts(queue)), paper)])


def _facts(queue: "Queue") -> Iterator[tuple[str, str]]:
    if queue.cohort:
        yield "cohort", f"{queue.cohort}{', its quota is granted apart' if queue.apart else ''}"
    if queue.holder:
        yield "holder", f"{queue.holder}, while it lives"
    for quota in queue.quotas:
        for resource, nominal in _limits(quota):
            yield quota.flavor, _of(queue, quota.flavor, resource, nominal)
    if not queue.quotas:
        yield "quota", "none: its jobs can use no flavor"
    status = queue.status
    waiting, live, ended = (number(n) for n in (status.pending_jobs, status.live_jobs, status.ended_jobs))
    counts = f"{waiting} waiting, {live} live, {ended} ended"
    yield "jobs", counts if status.exact else f"at least {counts}"
    limits = [
        f"{number(most)} may {what}"
        for most, what in ((queue.limits.pending_jobs_max, "wait"), (queue.limits.running_jobs_max, "run at a time"))
        if most
    ]
    if limits:
        yield "limits", ", ".join(limits)
    if queue.aliases:
        yield "aliases", ", ".join(queue.aliases)
    for key, value in sorted(queue.labels.items()):
        yield "label", f"{key}={value}"


def _of(queue: "Queue", flavor: str, resource: str, nominal: int) -> str:
    if not resource:
        return "unlimited"
    used = used_of(queue, flavor, resource)
    return f"{bar(used, nominal, BAR_CELLS)}  {bare_amount(resource, used)} of {amount(resource, nominal)}"
