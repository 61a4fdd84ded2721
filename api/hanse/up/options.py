"""What a federation is started with."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hanse.model.errors import InvalidArgument
from hanse.scheduler.core.retention import Retention
from hanse.up.fleet import Fleet

DEFAULT_LISTEN: Final = "127.0.0.1:7311"
REPLICAS_MAX: Final = 32
CONSOLE_PORT: Final = 7310


def default_data() -> str:
    """Folder of what is kept unless told otherwise: HANSE_DATA_DIR, or below the user's data."""
    return os.environ.get("HANSE_DATA_DIR") or os.path.join(
        os.environ.get("XDG_DATA_HOME") or os.path.join(Path.home(), ".local", "share"), "hanse"
    )


def default_store() -> str:
    """Where `hanse up` keeps its state unless told otherwise."""
    return f"sqlite:{os.path.join(default_data(), 'up.sqlite')}"


def console_listen(console: str, listen: str) -> str:
    """HOST:PORT of the console; `auto` stands for the host of the API and a port that serving chooses."""
    if console == "auto":
        return f"{listen.rpartition(':')[0]}:auto"
    return "" if console == "none" else console


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Settings of an embedded federation.

    Attributes:
        fleet: a fleet file, or a fleet that is already read; None for the demo's.
        store: `sqlite:PATH`, or `memory:` for a federation that leaves nothing behind.
        listen: HOST:PORT of the API; port 0 takes a free one.
        console: HOST:PORT of the console, `auto` for the usual port or a free one, "" for none.
        replicas: schedulers in this process, all active; the first one serves the API.
        summary_interval_s: agents send at most one summary in this time.
        ready_s: how long a start may take before it is given up.
        seed: of all randomness in the process; None draws one.
        retention: how long ended jobs stay in the store.
        archive_dir: where they go then: a folder, "" for the one beside the store's file, `none`.
        audit_dir: where the audit log is, in the same words.
    """

    fleet: Path | Fleet | None = None
    store: str = field(default_factory=default_store)
    listen: str = DEFAULT_LISTEN
    console: str = ""
    replicas: int = 1
    summary_interval_s: float = 0.5
    ready_s: float = 60.0
    seed: int | None = None
    retention: Retention = Retention()
    archive_dir: str = ""
    audit_dir: str = ""

    @property
    def console_listen(self) -> str:
        """Where the console listens, "" for nowhere."""
        return console_listen(self.console, self.listen)

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= REPLICAS_MAX:
            raise InvalidArgument(
                f"{self.replicas} replicas; give 1 to {REPLICAS_MAX}", reason="REPLICAS", path="replicas"
            )

    @property
    def archive(self) -> str:
        """The folder of the archive, `none` for a store in memory unless one is named. Raises as `store_path`."""
        return self.archive_dir or self._beside(".archive")

    @property
    def audit(self) -> str:
        """The folder of the audit log, `none` for a store in memory unless one is named. Raises as `store_path`."""
        return self.audit_dir or self._beside(".audit")

    def _beside(self, ending: str) -> str:
        path = self.store_path
        return str(path.with_name(path.name + ending)) if path is not None else "none"

    @property
    def store_path(self) -> Path | None:
        """The SQLite file, None for a store in memory.

        Raises:
            InvalidArgument: another kind of store, or no path.
        """
        kind, _, rest = self.store.partition(":")
        if kind == "memory":
            return None
        if kind == "sqlite" and rest:
            return Path(rest).expanduser()
        raise InvalidArgument(
            f"{self.store!r} is no store of one process; say sqlite:PATH or memory:, or add --processes",
            reason="STORE",
            path="store",
        )
