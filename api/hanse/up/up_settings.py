"""What `hanse up` can be told."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from hanse.scheduler.core.retention import Retention
from hanse.up.audit_settings import audit_setting
from hanse.up.options import DEFAULT_LISTEN, REPLICAS_MAX
from hanse.up.retention_settings import age_setting, archive_setting, jobs_max_setting
from hanse.up.settings import COMMON_FLAGS, TELEMETRY_FLAGS, LogLevel, ProcessSettings, setting


class UpSettings(ProcessSettings):
    """A whole federation with simulated clusters, in one process or in as many as it has parts."""

    COMMAND: ClassVar[str] = "up"
    FLAGS: ClassVar[Mapping[str, str]] = {
        **COMMON_FLAGS,
        **TELEMETRY_FLAGS,
        "fleet": "--fleet",
        "store": "--store",
        "listen": "--listen",
        "console": "--console",
        "replicas": "--replicas",
        "processes": "--processes",
        "bus": "--bus",
        "agents_per_process": "--agents-per-process",
        "state": "--state",
    }
    TRACED_UNLESS_TOLD: ClassVar[float] = 1.0

    fleet: Path | None = setting(None, "Fleet file. None: the demo's.", why="Something to look at.")
    store: str = setting(
        "",
        "Where all is kept: `sqlite:PATH`, `memory:`, or, with processes, `etcd://HOST:PORT,…`. Empty: a file below"
        " the user's data.",
        why="Started again, it goes on where it was.",
    )
    listen: str = setting(
        DEFAULT_LISTEN,
        "HOST:PORT to answer at; port 0 takes a free one. Further replicas take the next free ports.",
        why="Where every command looks for a server.",
    )
    console: str = setting(
        "auto",
        "HOST:PORT at which browsers get the console, `none`, or `auto`: port 7310 beside the API, or a free one if"
        " that is taken.",
        why="Something to look at, on this machine alone.",
    )
    replicas: int = setting(1, "Schedulers, all active.", why="One is enough for a laptop.", ge=1, le=REPLICAS_MAX)
    processes: bool = setting(
        False,
        "Whether each replica, the agents and the simulated clusters are processes of their own.",
        why="One process starts faster and needs no store beside it.",
    )
    bus: str = setting(
        "",
        "With processes: broker that carries summaries, `mqtt://HOST:PORT`. Empty: none.",
        why="Summaries also travel by links and between replicas.",
    )
    agents_per_process: int = setting(
        0,
        "With processes: agents that share one. 0: all share one.",
        why="An agent needs little, a process much.",
        ge=0,
        le=1_000,
    )
    state: Path | None = setting(
        None,
        "With processes: folder of clusters and logs. None: beside a store's file, or below the user's data.",
        why="Found again by itself.",
    )
    retain_terminal_age_s: float = age_setting()
    retain_terminal_jobs_max: int = jobs_max_setting()
    archive_dir: str = archive_setting(
        "beside the store's file, or in the folder of `state`; for a store in memory none"
    )
    audit_dir: str = audit_setting("beside the store's file, or in the folder of `state`; for a store in memory none")
    log_level: LogLevel = setting(
        LogLevel.WARNING,
        "What is logged to stderr: this and worse. Processes log to files, `info` unless this says otherwise.",
        why="Whoever looks at a terminal wants to see what is wrong.",
    )

    def retention(self) -> Retention:
        """What its replicas take from here."""
        return Retention(age_s=self.retain_terminal_age_s, jobs_max=self.retain_terminal_jobs_max)
