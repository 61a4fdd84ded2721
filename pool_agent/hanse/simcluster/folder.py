"""The folder of one simulated cluster: what its files are called, and who may use it.

lock                one process at a time
snapshot            the whole state at one version
log.<first seq>     what came after: batches of inputs, with the facts that came before them
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from hanse.model.errors import FailedPrecondition, Unavailable

_LOG = "log."


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log: the facts from `first_seq` on, up to the next log's."""

    first_seq: int
    path: Path


def snapshot_path(folder: Path) -> Path:
    """Where the snapshot is."""
    return folder / "snapshot"


def log_file(folder: Path, version: int) -> LogFile:
    """The log that begins after a snapshot of this version."""
    return LogFile(version + 1, folder / f"{_LOG}{version + 1}")


def log_files(folder: Path) -> list[LogFile]:
    """The logs of a folder, oldest first."""
    numbered = (path for path in folder.glob(f"{_LOG}*") if path.name.removeprefix(_LOG).isdigit())
    return sorted((LogFile(int(path.name.removeprefix(_LOG)), path) for path in numbered), key=_by_seq)


def _by_seq(log: LogFile) -> int:
    return log.first_seq


def lock(folder: Path) -> int:
    """Take the folder, made if need be, for this process; the descriptor holds it until it is closed.

    Raises:
        FailedPrecondition: another process has it (STATE_IN_USE).
        Unavailable: it cannot be used (STATE_NOT_WRITABLE).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise not_writable(folder, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise FailedPrecondition(
            f"{folder} is in use by another process; stop it, or choose another state folder",
            reason="STATE_IN_USE",
        ) from None
    return fd


def not_writable(path: Path, error: OSError) -> Unavailable:
    """What a file that cannot be written means."""
    return Unavailable(
        f"cannot write {path}: {os.strerror(error.errno or 0)}; make room or change its rights, and try again",
        reason="STATE_NOT_WRITABLE",
    )
