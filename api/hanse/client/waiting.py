"""Until when to wait for a job: which states are far enough. Pure."""

from enum import Enum, unique
from typing import Final

from hanse.model.errors import InvalidArgument
from hanse.model.lifecycle import TERMINAL, State


@unique
class Until(Enum):
    """How far a job shall have come. One that ended another way has come as far as it ever will."""

    PLACED = "placed"
    RUNNING = "running"
    DONE = "done"


_ENOUGH: Final = {
    Until.PLACED: frozenset({State.PLACED, State.STARTING, State.RUNNING}) | TERMINAL,
    Until.RUNNING: frozenset({State.RUNNING}) | TERMINAL,
    Until.DONE: TERMINAL,
}


def parse_until(text: "str | Until") -> Until:
    """Raises InvalidArgument for another word than placed, running, done."""
    if isinstance(text, Until):
        return text
    try:
        return Until(text)
    except ValueError:
        raise InvalidArgument(
            f"{text!r} is not something to wait for; use placed, running or done",
            reason="UNTIL_INVALID",
            path="until",
        ) from None


def far_enough(state: int, until: Until) -> bool:
    """Whether a job in this state need not be waited for any longer."""
    return state in _ENOUGH[until]
