"""Files of whole lines: what is added is on the disk when the call returns, and half a line is never read as one.

A crash can leave half a line at the end; whoever writes next cuts it off. A file has one writer at a time, who holds
a lock on it. Rejected: compressing as we go. A torn compressed file is harder to mend than a torn line, and a nightly
`gzip` of yesterday's file does the same.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

import orjson

TAIL_BYTES: Final = 1 << 16
FILE_MODE: Final = 0o640
"""They hold what users wrote; other users of the machine need not read it."""


def append_lines(path: Path, data: bytes) -> int:
    """Add whole lines; what a crash has left of one is cut off first; the size of the file then.

    Raises:
        OSError: nothing was added. BlockingIOError: another process writes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = _mended(file)
        try:
            _write_all(file, data, size)
            os.fsync(file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)
    if not size:
        _sync_folder(path.parent)
    return size + len(data)


def _mended(file: int) -> int:
    """The size of the file once it ends in a whole line: half a line is cut off, the end of a whole one is added."""
    size, end = _whole_bytes(file), os.fstat(file).st_size
    if size == end:
        return size
    try:
        orjson.loads(os.pread(file, end - size, size))
    except orjson.JSONDecodeError:
        os.ftruncate(file, size)
        return size
    os.pwrite(file, b"\n", end)
    return end + 1


def _whole_bytes(file: int) -> int:
    """How far lines with an end go in an open file."""
    end = os.fstat(file).st_size
    while end:
        start = max(0, end - TAIL_BYTES)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _write_all(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _sync_folder(folder: Path) -> None:
    """So that the file's name is on the disk too."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
