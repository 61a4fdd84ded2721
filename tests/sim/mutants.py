"""Deliberate bugs: each rule of the protocol's small print taken out, and a few of the classics.

A bug is a patch of the running product, put in for one run and taken out again; the product itself knows nothing of
it. Each entry says which rule it breaks, and within how many seeds the simulator has to find it: if a bug here gets
through, a checker or a fault is missing, and that is what this table is for.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

Patch = Callable[[ExitStack], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate bug.

    Attributes:
        rule: what it takes out, in the words of the small print.
        seeds: it is found within the first so many seeds.
    """

    name: str
    rule: str
    seeds: int
    patch: Patch


@contextmanager
def applied(mutant: Mutant | None) -> Iterator[None]:
    """The product with the bug, for as long as the context lasts."""
    with ExitStack() as stack:
        if mutant is not None:
            mutant.patch(stack)
        yield


def _swap(stack: ExitStack, owner: Any, name: str, new: object) -> None:  # Any: a module or a class
    """Replace an attribute until the stack unwinds."""
    old = owner.__dict__[name]
    setattr(owner, name, new)
    stack.callback(setattr, owner, name, old)


MUTANTS: Final[dict[str, Mutant]] = {}

__all__ = ["MUTANTS", "AbstractContextManager", "Mutant", "applied", "replace"]
