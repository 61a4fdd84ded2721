"""What the command remembers between runs: the job that was submitted last, server by server.

It lies in `$HANSE_STATE_DIR`, or in `hanse` below `$XDG_STATE_HOME` or `~/.local/state`, as one JSON object in a file
named `last`. It is a comfort, never truth: if it cannot be read or written, `last` means the server's newest job.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

STATE_VARIABLE: Final = "HANSE_STATE_DIR"
SERVERS_MAX: Final = 32


def state_dir(environment: Mapping[str, str]) -> Path:
    """The folder."""
    named = environment.get(STATE_VARIABLE)
    if named:
        return Path(named)
    base = environment.get("XDG_STATE_HOME")
    return (Path(base) if base else Path(environment.get("HOME", "~")).expanduser() / ".local/state") / "hanse"


def read_last(folder: Path, server: str) -> str:
    """Id of the job that was submitted last to a server; "" if that is not known."""
    return _read(folder).get(server, "")


def write_last(folder: Path, server: str, job: str) -> None:
    """Remember a job. What cannot be remembered is forgotten: the submission itself has succeeded."""
    jobs = _read(folder)
    jobs.pop(server, None)
    newest = [*jobs.items(), (server, job)][-SERVERS_MAX:]
    written = folder / f"last.{os.getpid()}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        written.write_text(json.dumps(dict(newest)), encoding="utf-8")
        written.replace(folder / "last")


def _read(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / "last").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(server): job for server, job in found.items() if isinstance(job, str)}
