"""One process per store file, kept by a lock on a side file.

``flock`` on a file of its own (SQLite's POSIX locks on the database would be dropped by any ``close`` of
that file in the process): the kernel releases it when the process dies, however it dies, so nothing has
to be cleaned up. The file names the holder for the error message only, and is never removed, since
removing a locked file lets two processes each hold "the" lock.
"""

import fcntl
import os
from pathlib import Path

from hanse.store.contract import StoreUnavailable


class FileLock:
    """Held from construction to ``release``; raises ``StoreUnavailable`` at once if somebody else holds
    it."""

    def __init__(self, path: Path) -> None:
        side = path.with_name(path.name + ".lock")
        try:
            self._fd = os.open(side, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreUnavailable(
                f"store {path}: cannot open its lock file {side} ({error.strerror}): "
                "check that the folder exists and is writable"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(self._fd)
            os.close(self._fd)
            raise StoreUnavailable(
                f"store {path} is in use by {holder}: stop that first, or use another file "
                "(one process at a time may open it)"
            ) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


def _holder(fd: int) -> str:
    text = os.pread(fd, 32, 0).decode(errors="replace").strip()
    if not text.isdigit():
        return "another process"
    return "this process already" if int(text) == os.getpid() else f"process {text}"
