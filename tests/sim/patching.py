"""Patches of running code that undo themselves."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

Patch = Callable[[ExitStack], None]


def swap(stack: ExitStack, owner: Any, name: str, new: object) -> None:  # Any: a module or a class
    """Replace an attribute of a module or class until the stack unwinds."""
    old = vars(owner)[name]
    setattr(owner, name, new)
    stack.callback(setattr, owner, name, old)


def original(owner: Any, name: str) -> Any:  # Any: whatever is there, as it stands in its module or class
    """What an attribute is now, before `swap`."""
    return vars(owner)[name]
