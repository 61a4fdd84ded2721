"""Who somebody is for a server, and what they may do there."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hanse.cli.paper import Paper, joined
from hanse.cli.table import Cell, Column, table

if TYPE_CHECKING:
    from hanse.api.v1.access_service_pb2 import CheckAccessResponse, RoleGrant, WhoAmIResponse

_COLUMNS: Final = (Column("role"), Column("where", cut=1))


def whoami_page(found: "WhoAmIResponse", paper: Paper) -> str:
    """The name, the groups, and a line for each role."""
    lines = [found.principal]
    if found.groups:
        lines.append(f"groups   {', '.join(found.groups)}")
    if found.expires_ms:
        at = datetime.fromtimestamp(found.expires_ms / 1_000, UTC)
        lines.append(f"until    {at:%Y-%m-%d %H:%M:%S} UTC")
    if found.unbounded:
        return joined([*lines, "may do everything: this server asks nobody what they may do"])
    if not found.grants:
        return joined([*lines, "has no role; whoever runs the federation gives them in its access policy"])
    return joined([*lines, "", *table(_COLUMNS, list(_rows(found)), paper)])


def _rows(found: "WhoAmIResponse") -> Iterator[tuple[Cell, Cell]]:
    for grant in found.grants:
        yield grant.role, _where(grant)


def _where(grant: "RoleGrant") -> str:
    if grant.cluster:
        return "the whole federation"
    return "every queue" if grant.queue == "*" else f"queue {grant.queue}"


def can_line(found: "CheckAccessResponse") -> str:
    """`yes`, and with what limit."""
    return "yes, with your own jobs\n" if found.own_only else "yes\n"
