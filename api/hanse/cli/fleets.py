"""Fleet files, read so that a refusal names the file and the line as it does for every other file."""

from pathlib import Path

from hanse.cli.failures import Failure
from hanse.model.errors import InvalidArgument
from hanse.up.fleet import Fleet, load_fleet, read_fleet


def read_fleet_file(path: Path | None) -> Fleet:
    """The fleet of a file, or the demo's.

    Raises:
        Failure: the file cannot be read, or is no fleet.
    """
    if path is None:
        return load_fleet()
    try:
        text = path.read_bytes()
    except OSError as error:
        why = error.strerror or "it cannot be opened"
        raise Failure(InvalidArgument(f"{path} cannot be read: {why}", reason="FILE_UNREADABLE")) from None
    try:
        return read_fleet(text)
    except InvalidArgument as error:
        raise Failure(error, file=str(path)) from None
