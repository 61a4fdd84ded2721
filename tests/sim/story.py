"""What happened: a running hash of everything, and the lines of it that a person wants to read.

The hash is the run's identity: equal seeds must give equal hashes, whatever the hash seed of the interpreter, so it
takes in every line, told or not. Lines are kept in a ring; a violation prints the ones that speak of its subjects.
"""

import hashlib
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.sim.loop import START_S, SimLoop, current_actor

LINES_KEPT_MAX: Final = 60_000
STORY_LINES_MAX: Final = 60
_RECORD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened. `about`: jobs and pools that it speaks of."""

    at_s: float
    who: str
    text: str
    about: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.at_s:9.3f}s  {self.who:<14} {self.text}"


class LogTeller(logging.Handler):
    """Puts what the product logs into the story, beside what it did."""

    def __init__(self, story: "Story") -> None:
        super().__init__()
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        fields = {key: value for key, value in vars(record).items() if key not in _RECORD_FIELDS}
        about = (str(fields[key]) for key in ("job", "pool") if key in fields)
        said = " ".join(f"{key}={value}" for key, value in fields.items())
        self._story.aside(f"    log {record.getMessage()} {said}", *about)


class Story:
    """Notes what happens, in order."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._digest = hashlib.blake2b(digest_size=16)
        self._lines: deque[Line] = deque(maxlen=LINES_KEPT_MAX)

    def note(self, text: str, *about: str, who: str = "") -> None:
        """One line; `who` is the acting process unless said otherwise."""
        line = Line(self._loop.time() - START_S, who or current_actor().name, text, about)
        self._lines.append(line)
        self._digest.update(f"{line.at_s!r} {line.who} {text}\n".encode())

    def aside(self, text: str, *about: str) -> None:
        """A line that is told and not hashed: what the product logs."""
        self._lines.append(Line(self._loop.time() - START_S, current_actor().name, text, about))

    def digest(self) -> str:
        """The hash of everything so far, with the number of steps that it took."""
        final = self._digest.copy()
        final.update(f"steps {self._loop.steps}".encode())
        return final.hexdigest()

    def lines(self) -> Iterable[Line]:
        """Everything that is kept, oldest first."""
        return iter(self._lines)

    def told(self, about: Iterable[str], *, lines_max: int = STORY_LINES_MAX) -> list[str]:
        """The newest lines that speak of any of these, oldest first; with no subjects, the newest of all."""
        subjects = frozenset(about)
        wanted = [line for line in self._lines if not subjects or subjects.intersection(line.about)]
        return [str(line) for line in wanted[-lines_max:]]
