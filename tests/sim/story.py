"""What happened: a running hash of everything, and the lines of it that a person wants to read.

The hash is the run's identity: equal seeds must give equal hashes, whatever the hash seed of the interpreter, so it
takes in every line, told or not. Lines are kept in a ring; a violation prints the ones that speak of its subjects.
"""

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.sim.loop import START_S, SimLoop, current_actor

LINES_KEPT_MAX: Final = 60_000
STORY_LINES_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened. `about`: jobs and pools that it speaks of."""

    at_s: float
    who: str
    text: str
    about: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.at_s:9.3f}s  {self.who:<14} {self.text}"


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
