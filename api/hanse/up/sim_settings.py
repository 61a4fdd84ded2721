"""What `hanse sim-cluster` can be told."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from hanse.up.settings import COMMON_FLAGS, ProcessSettings, Texts, setting


class SimClusterSettings(ProcessSettings):
    """Simulated clusters, one or more of them, at one address."""

    COMMAND: ClassVar[str] = "sim-cluster"
    FLAGS: ClassVar[Mapping[str, str]] = {
        **COMMON_FLAGS,
        "fleet": "--fleet",
        "pools": "--pool",
        "listen": "--listen",
        "state": "--state",
    }

    fleet: Path | None = setting(None, "Fleet file. None: the demo's.", why="Something to look at.")
    pools: Texts = setting(
        (), "Pools of the fleet that are simulated here. Empty: all.", why="One process is enough."
    )
    listen: str = setting(
        "127.0.0.1:0",
        "HOST:PORT to answer at, on the loopback; port 0 takes a free one.",
        why="A simulated cluster has no credentials: whoever reaches it may fail every node.",
    )
    state: Path | None = setting(
        None,
        "Folder in which pods live on. None: they are kept in memory, and end with the process.",
        why="What is left in folders should be asked for.",
    )
