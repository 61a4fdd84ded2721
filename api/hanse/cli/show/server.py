"""Who answers, and what federation stands behind it."""

from typing import TYPE_CHECKING

from hanse.cli.amounts import counted
from hanse.cli.paper import Paper, joined

if TYPE_CHECKING:
    from hanse.api.v1.server_service_pb2 import ServerInfo


def version_page(own: str, info: "ServerInfo | None", why: str, paper: Paper) -> str:
    """Two lines: this command, and the server or why there is none."""
    if info is None:
        return joined([f"hanse   {own}", f"server  none: {why}"])
    return joined([f"hanse   {own}", f"server  {info.version} · {about_server(info)}"])


def about_server(info: "ServerInfo") -> str:
    """`federation default · store sqlite · 2 replicas`."""
    parts = [f"federation {info.federation}"] if info.federation else []
    parts += [f"store {info.store}"]
    parts += [counted(len(info.replicas), "replica")] if info.replicas else []
    return " · ".join(parts)
