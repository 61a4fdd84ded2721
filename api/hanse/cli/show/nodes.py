"""Where exactly: the nodes of a job, gathered by the domain above the host, as bars with their ranks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hanse.cli.amounts import counted, number, ranges
from hanse.cli.bars import FULL
from hanse.cli.paper import Paper, Tone
from hanse.cli.table import Cell, Column, table

if TYPE_CHECKING:
    from hanse.api.v1.job_pb2 import JobStatus, NodePlacement

BAR_CELLS_MAX: Final = 32


@dataclass(slots=True)
class _Domain:
    """The nodes of one pod set in one domain."""

    pool: str
    pod_set: str
    path: str
    hosts: set[str] = field(default_factory=set)
    ranks: list[int] = field(default_factory=list)


def node_lines(status: "JobStatus", paper: Paper, *, rows_max: int = 0) -> list[str]:
    """A table with a row for each domain.

    Args:
        rows_max: show so many rows and count the rest; 0 for all.
    """
    if not status.nodes:
        return [f"  {_nothing(status)}"]
    domains = _domains(status.nodes)
    shown = domains[:rows_max] if rows_max else domains
    columns = _columns(domains)
    most = max(len(one.hosts) for one in domains)
    lines = table(columns, [_row(one, columns, most) for one in shown], paper, indent=2)
    rest = domains[len(shown) :]
    if rest:
        hosts = sum(len(one.hosts) for one in rest)
        lines.append(f"  … {counted(len(rest), 'domain')} more with {counted(hosts, 'host')}")
    if status.pools_silent:
        lines.append(f"  did not answer in time: {', '.join(status.pools_silent)}")
    return lines


def _nothing(status: "JobStatus") -> str:
    if status.pools_silent:
        return f"no node is known: {', '.join(status.pools_silent)} did not answer in time"
    return "it is on no node now" if not status.placement else "its agents name no node"


def _domains(nodes: "Iterable[NodePlacement]") -> list[_Domain]:
    """In order of pool, pod set and first rank."""
    found: dict[tuple[str, str, str], _Domain] = {}
    for node in nodes:
        path = "/".join(node.path)
        one = found.setdefault((node.pool, node.pod_set, path), _Domain(node.pool, node.pod_set, path))
        one.hosts.add(node.name)
        one.ranks.extend(node.ranks)
    return sorted(found.values(), key=lambda one: (one.pool, one.pod_set, min(one.ranks, default=0)))


def _columns(domains: Sequence[_Domain]) -> list[Column]:
    """Pool and pod set are columns only if there are several."""
    several_pools = len({one.pool for one in domains}) > 1
    several_sets = len({one.pod_set for one in domains}) > 1
    return [
        Column("pool" if several_pools else ""),
        Column("set" if several_sets else ""),
        Column("domain"),
        Column("hosts", right=True),
        Column(""),
        Column("ranks", cut=1),
    ]


def _row(one: _Domain, columns: Sequence[Column], most: int) -> Sequence[Cell]:
    cells = len(one.hosts) if most <= BAR_CELLS_MAX else max(1, len(one.hosts) * BAR_CELLS_MAX // most)
    return (
        one.pool if columns[0].title else "",
        one.pod_set if columns[1].title else "",
        one.path or "no domain",
        number(len(one.hosts)),
        (FULL * cells, Tone.GOOD),
        ranges(one.ranks),
    )
