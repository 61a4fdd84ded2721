"""Files that users name: read whole, never further than a manifest may be long, `-` from stdin."""

import sys
from os import SEEK_END
from pathlib import Path
from typing import Final

from hanse.cli.failures import Failure
from hanse.model.errors import InvalidArgument

STDIN: Final = "-"


def read_file(name: str) -> bytes:
    """The bytes of a file.

    Raises:
        InvalidArgument: it cannot be read.
        Failure: it is larger than a manifest may be.
    """
    from hanse.manifests import MANIFEST_BYTES_MAX

    try:
        if name == STDIN:
            text = sys.stdin.buffer.read(MANIFEST_BYTES_MAX + 1)
            size = len(text)
        else:
            text, size = _read(Path(name), MANIFEST_BYTES_MAX + 1)
    except OSError as error:
        why = error.strerror or "it cannot be opened"
        raise InvalidArgument(f"{shown_name(name)} cannot be read: {why}", reason="FILE_UNREADABLE") from None
    if size > MANIFEST_BYTES_MAX:
        raise _too_large(name, size, MANIFEST_BYTES_MAX)
    return text


def _read(path: Path, most: int) -> tuple[bytes, int]:
    """So many bytes at most, and how many there are."""
    with path.open("rb") as file:
        text = file.read(most)
        return text, max(len(text), file.seek(0, SEEK_END) if file.seekable() else 0)


def _too_large(name: str, size: int, most: int) -> Failure:
    known = f"{size:,}" if size > most + 1 else f"more than {most:,}"
    message = f"{known} bytes; a manifest has at most {most:,} bytes; split it"
    return Failure(InvalidArgument(message, reason="TOO_LARGE"), file=shown_name(name))


def shown_name(name: str) -> str:
    """What an error calls the file."""
    return "stdin" if name == STDIN else name
