"""Where compiled inner loops of placement are put, by a process that has some (see `hanse.kit.native`).

Whether they are here or not, and from when on, changes no answer: each is one function of this package, loop by
loop, down to the choice among equals. So a scheduler that has them and an agent that has not agree on every place.
"""

from collections.abc import Callable
from typing import Any, Final

Kernel = Callable[..., Any]


class Native:
    """Compiled functions, None where Python answers.

    Attributes:
        by_exchanges: of `tightest._by_exchanges`.
        fill: of `heaps.filled`.
        cheapest: of `deal._cheapest`.
        added: of `exact._added`.
        lightest: of `subsets._lightest`.
    """

    __slots__ = ("added", "by_exchanges", "cheapest", "fill", "lightest")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Leaves everything to Python."""
        self.by_exchanges: Kernel | None = None
        self.fill: Kernel | None = None
        self.cheapest: Kernel | None = None
        self.added: Kernel | None = None
        self.lightest: Kernel | None = None


native: Final = Native()
