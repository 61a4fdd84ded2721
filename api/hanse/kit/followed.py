"""A file that is read again whenever it has changed; one that cannot be used leaves what was read before.

Looked at when somebody asks, and not more often than once in a second: no task, no notification that could be lost,
and a mount of Kubernetes, which swaps links, is a change like any other. What is wrong with a new file is told once
for each change of it, in the log and as `trouble`.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from hanse.kit.clock import Clock
from hanse.model.errors import HanseError

LOOK_EVERY_S: Final = 1.0

log = logging.getLogger(__name__)

T = TypeVar("T")
Stamp = tuple[int, int, int]


class Followed(Generic[T]):
    """What a file says.

    Args:
        name: of the file, in the log.
        read: raises HanseError for a file that cannot be used.

    Attributes:
        trouble: what is wrong with the file as it is now, "" if nothing is; the value is then an older one.

    Raises:
        HanseError: the file cannot be used to begin with.
    """

    def __init__(self, path: Path, read: Callable[[Path], T], clock: Clock, *, name: str) -> None:
        self._path = path
        self._read = read
        self._clock = clock
        self._name = name
        self.trouble = ""
        self._seen = _stamp(path)
        self._looked_s = clock.monotonic()
        self._value = read(path)

    def __call__(self) -> T:
        """The newest value that could be read."""
        now_s = self._clock.monotonic()
        if now_s >= self._looked_s + LOOK_EVERY_S:
            self._looked_s = now_s
            stamp = _stamp(self._path)
            if stamp != self._seen:
                self._seen = stamp
                self._renew()
        return self._value

    def look(self) -> str:
        """What is wrong with the file as it is now, "" if nothing is."""
        self()
        return self.trouble

    def _renew(self) -> None:
        try:
            self._value = self._read(self._path)
        except HanseError as error:
            where = f"{error.path}:{error.line}" if error.line else error.path
            self.trouble = f"{where}: {error.message}"
            log.error(
                "followed_file_unusable", extra={"what": self._name, "file": str(self._path), "cause": self.trouble}
            )
            return
        self.trouble = ""
        log.info("followed_file_renewed", extra={"what": self._name, "file": str(self._path)})


def _stamp(path: Path) -> Stamp:
    try:
        stat = path.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size)
