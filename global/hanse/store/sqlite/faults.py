"""What SQLite's errors mean to a caller: one line that says what to do, and whether the commit may have
happened.

A commit in WAL mode writes its frames, the last one marked as the commit, and then syncs the file. An
error before the last frame is complete leaves nothing that a recovery would accept. An error of the sync,
or after it, may leave a whole transaction in the file that this process does not see and a recovery after
a crash would: that, and only that, is an *unknown* outcome.
"""

import sqlite3
from pathlib import Path
from typing import Final

from hanse.store.contract import StoreFull, StoreUnavailable

_ADVICE: Final = {
    "SQLITE_FULL": "the disk is full: free some space, writes then resume by themselves",
    "SQLITE_IOERR_WRITE": "the disk refused a write (full, over a size limit or broken): free some space or check it",
    "SQLITE_READONLY": "the file is read-only: make it and its folder writable",
    "SQLITE_CANTOPEN": "the file cannot be opened: check that its folder exists and may be read and written",
    "SQLITE_CORRUPT": "the file is damaged: restore it from a backup",
    "SQLITE_NOTADB": "the file is not a SQLite database, or is damaged: check the path or restore it from a backup",
    "SQLITE_BUSY": "another program holds the file: close it (no other program may open it while Hanse runs)",
    "SQLITE_PERM": "access to the file is denied: check its permissions",
    "SQLITE_NOMEM": "the process is out of memory",
}

_AMBIGUOUS: Final = ("SQLITE_IOERR", "SQLITE_NOMEM")
_NOT_AMBIGUOUS: Final = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_READ", "SQLITE_IOERR_SHORT_READ")


def unavailable(error: sqlite3.Error, path: Path) -> StoreUnavailable:
    """One line: the file, what is wrong, what to do, SQLite's own words."""
    name = _name(error)
    advice = next((text for prefix, text in _ADVICE.items() if name.startswith(prefix)), "the file cannot be used")
    kind = StoreFull if name.startswith("SQLITE_FULL") else StoreUnavailable
    return kind(f"store {path}: {advice} ({name}: {error})")


def is_ambiguous(error: sqlite3.Error) -> bool:
    """Whether a transaction that ended with this error may come back after a crash."""
    name = _name(error)
    return name.startswith(_AMBIGUOUS) and name not in _NOT_AMBIGUOUS


def _name(error: sqlite3.Error) -> str:
    """SQLite's extended code; errors of Python's own module (closed connection, bad value) have none."""
    return getattr(error, "sqlite_errorname", "") or type(error).__name__
