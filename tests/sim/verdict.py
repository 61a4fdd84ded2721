"""What the checkers say: the first violation ends a run."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.sim.story import Story


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold. `invariant`: its id (S1 … L4), or what else is wrong (`crash`, `stuck`)."""

    invariant: str
    text: str
    about: tuple[str, ...]
    at_s: float


class Court:
    """Where checkers report. It must not raise: a checker runs inside of calls that product code would catch."""

    def __init__(self, story: Story, now_s: Callable[[], float], stop: Callable[[], None]) -> None:
        self._story = story
        self._now_s = now_s
        self._stop = stop
        self.violation: Violation | None = None

    def accuse(self, invariant: str, text: str, *about: str) -> None:
        """Something is wrong. Only the first accusation counts: the others follow from it."""
        if self.violation is None:
            self.violation = Violation(invariant, text, about, self._now_s())
            self._story.note(f"VIOLATION {invariant}: {text}", *about, who="checker")
            self._stop()
