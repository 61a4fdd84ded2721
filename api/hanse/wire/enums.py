"""Enums on the wire: the model's numbers are the wire's, and a number that is not known is refused, never guessed."""

from enum import IntEnum
from typing import TypeVar

from hanse.model.errors import InvalidArgument

E = TypeVar("E", bound=IntEnum)


def enum_from_wire(kind: type[E], number: int, path: str) -> E:
    """The member of that number.

    Raises:
        InvalidArgument: reason ENUM_UNKNOWN; the sender is newer than this program, or wrong.
    """
    try:
        return kind(number)
    except ValueError:
        known = ", ".join(member.name for member in kind if member.value)
        raise InvalidArgument(
            f"{number} is not known here; use one of {known}", reason="ENUM_UNKNOWN", path=path
        ) from None
