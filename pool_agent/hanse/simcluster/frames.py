"""Files of checked records, appended to, that say whether they are whole.

A record is a frame: length, checksum of the payload, checksum of these two, payload. An append is one `write`
call, so a process that is killed leaves a prefix of a frame at the end and nothing else; a machine that stops may
leave zeros there. Both are a *torn tail*, and are cut off. Everything else that does not check is damage, also in
the last record: what was acknowledged is never dropped silently.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zlib import crc32

from hanse.model.errors import Unavailable

_HEAD: Final = struct.Struct("<II")
_CHECK: Final = struct.Struct("<I")
HEAD_BYTES: Final = _HEAD.size + _CHECK.size
FRAME_BYTES_MAX: Final = 1 << 30


def frame(payload: bytes) -> bytes:
    """A payload as a frame."""
    head = _HEAD.pack(len(payload), crc32(payload))
    return b"".join((head, _CHECK.pack(crc32(head)), payload))


class Damaged(Exception):
    """A record does not check; the text says where."""


def frames_in(raw: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """End offset and payload of every whole frame, up to the end or a torn tail. Raises Damaged."""
    view, at = memoryview(raw), 0
    while at < len(raw):
        if len(raw) - at < HEAD_BYTES:
            return
        length, check = _HEAD.unpack_from(raw, at)
        (head_check,) = _CHECK.unpack_from(raw, at + _HEAD.size)
        body = at + HEAD_BYTES
        if crc32(view[at : at + _HEAD.size]) != head_check:
            if any(view[at:]):
                raise Damaged(f"{name}: the record at byte {at} is damaged")
            return
        if body + length > len(raw):
            return
        payload = bytes(view[body : body + length])
        if crc32(payload) != check:
            raise Damaged(f"{name}: the record at byte {at} is damaged")
        at = body + length
        yield at, payload


class AppendFile:
    """A file of frames that is appended to.

    An append that the disk does not take in full is taken back, so that the file always ends in a whole frame.
    """

    def __init__(self, path: Path, size: int) -> None:
        """Open, or create, and cut to `size` bytes. Raises OSError."""
        self.path = path
        self.size = size
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._dirty = False
        os.ftruncate(self._fd, size)

    def append(self, data: bytes) -> None:
        """Add bytes, all or none. Raises Unavailable with a one-line cause."""
        try:
            if self._dirty:
                self._take_back()
            self._dirty = True
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
            self._dirty = False
        except OSError as error:
            self._try_take_back()
            raise Unavailable(
                f"cannot write {self.path}: {os.strerror(error.errno or 0)}; "
                "nothing was done; make room and try again",
                reason="STATE_NOT_WRITABLE",
            ) from error
        self.size += len(data)

    def _take_back(self) -> None:
        os.ftruncate(self._fd, self.size)
        self._dirty = False

    def _try_take_back(self) -> None:
        """Cut a half-written frame off now if possible; else the next append does it first."""
        try:
            self._take_back()
        except OSError:
            self._dirty = True

    def read(self, offset: int, length: int) -> bytes:
        """Bytes from an offset, fewer at the end."""
        return os.pread(self._fd, length, offset)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that it has either the old content or the new one, whatever happens. Raises OSError."""
    fresh = path.with_name(path.name + ".new")
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)  # on a full disk it would keep the room that others need
        raise
