"""How a failure is told: one line on stderr, or one JSON object on stdout, and an exit code.

    0   done
    1   understood, and it failed: the server refused it, a file is wrong, the job ended badly, time ran out
    2   not understood: an unknown option, a missing argument, an address that is none
    3   no Hanse server answers

The line reads `FILE:LINE: PATH: MESSAGE`, with what is known of it. There is never a traceback; a bug is told as one,
and HANSE_DEBUG=1 shows where it is.
"""

import re
from collections.abc import Sequence
from typing import Final

from hanse.model.errors import HanseError

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_INTERRUPTED: Final = 130

DEBUG_VARIABLE: Final = "HANSE_DEBUG"
USAGE_REASON: Final = "USAGE"
UNREACHABLE_REASON: Final = "UNAVAILABLE"
_NOBODY_ANSWERS: Final = frozenset({"SERVER_UNREACHABLE", "DEADLINE_EXCEEDED", "WATCH_ENDED"})
_IN_A_REQUEST: Final = re.compile(r"[a-z_]+")
"""Paths that name a field of a call and nothing that the user has written; programs see them, people do not."""

_NOT_AN_ADDRESS: Final = "SERVER_ADDRESS_INVALID"


class Failure(Exception):
    """A command that failed: what is wrong, and in which file.

    Attributes:
        errors: at least one; the first is the one that JSON shows.
        file: as the user named it, "" if no file is to blame.
    """

    def __init__(self, *errors: HanseError, file: str = "") -> None:
        super().__init__(str(errors[0]))
        self.errors = errors
        self.file = file


class WrongUse(Exception):
    """Arguments that are each right, but not together."""


def exit_code(error: HanseError) -> int:
    """The exit code of a failure."""
    if error.reason in _NOBODY_ANSWERS:
        return EXIT_UNREACHABLE
    return EXIT_USAGE if error.reason == _NOT_AN_ADDRESS else EXIT_FAILED


def line_of(error: HanseError, *, file: str = "") -> str:
    """`llama.yaml:23: spec.replicas: 0 workers; a gang needs at least 1`."""
    place = f"{file or 'line '}{':' if file else ''}{error.line}" if error.line else file
    path = error.path if place or not _IN_A_REQUEST.fullmatch(error.path) else ""
    return ": ".join(part for part in (place, path, error.message) if part)


def lines_of(errors: Sequence[HanseError], *, file: str = "") -> list[str]:
    """One line for each error."""
    return [line_of(error, file=file) for error in errors]


def error_object(error: HanseError) -> dict[str, object]:
    """`{"error": {"reason", "path", "line", "message"}}`; nobody answering is UNAVAILABLE, however it was noticed."""
    reason = UNREACHABLE_REASON if error.reason in _NOBODY_ANSWERS else error.reason
    return _object(reason, error.path, error.line, error.message)


def usage_object(message: str) -> dict[str, object]:
    """The same shape for wrong use."""
    return _object(USAGE_REASON, "", 0, message)


def _object(reason: str, path: str, line: int, message: str) -> dict[str, object]:
    return {"error": {"reason": reason, "path": path, "line": line, "message": message}}
