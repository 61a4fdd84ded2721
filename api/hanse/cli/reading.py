"""Files that users name: read whole, never further than a manifest may be long, `-` from stdin."""

import sys
from pathlib import Path
from typing import Final

from hanse.model.errors import InvalidArgument

STDIN: Final = "-"


def read_file(name: str) -> bytes:
    """The bytes of a file; of a longer one than is allowed, so many that it is refused.

    Raises:
        InvalidArgument: it cannot be read.
    """
    from hanse.manifests import MANIFEST_BYTES_MAX

    try:
        if name == STDIN:
            return sys.stdin.buffer.read(MANIFEST_BYTES_MAX + 1)
        with Path(name).open("rb") as file:
            return file.read(MANIFEST_BYTES_MAX + 1)
    except OSError as error:
        why = error.strerror or "it cannot be opened"
        raise InvalidArgument(f"{shown_name(name)} cannot be read: {why}", reason="FILE_UNREADABLE") from None


def shown_name(name: str) -> str:
    """What an error calls the file."""
    return "stdin" if name == STDIN else name
