"""A shape as the ground of `together`, and what a gang takes of it as seats.

Above, pods that are not exact are answered by what they cannot exceed, as everywhere: beside each other they only
share the GPUs of a host.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from hanse.shape.areas import Area, Bin
from hanse.shape.arrangement import Arrangement, arrangement
from hanse.shape.ask import Ask, SetAsk
from hanse.shape.capacity import Cap
from hanse.shape.domains import Branch, Leaf, Node
from hanse.shape.lens import Ladder
from hanse.shape.mixes import Ints, Mask
from hanse.shape.seat import View, views
from hanse.shape.shape import Shape
from hanse.shape.together import Together, in_scope

_NO_ROW: Final[tuple[int, ...]] = ()


class ShapeGround:
    """The free capacity of a shape."""

    def __init__(self, shape: Shape, sets: Sequence[SetAsk]) -> None:
        self._shape = shape
        self._sets = sets

    def ladders(self) -> list[Ladder]:
        """See Ground."""
        return [group.rungs for group in self._shape.groups]

    def views(self, s: SetAsk) -> list[View]:
        """See Ground."""
        return views(self._shape, s)

    def root(self, group: int) -> Node:
        """See Ground."""
        return self._shape.groups[group].root

    def kids(self, place: Node) -> list[tuple[Node, int]]:
        """See Ground."""
        return list(place.kids) if isinstance(place, Branch) else []

    def key(self, place: Node) -> object:
        """See Ground."""
        return place.key

    def bins(self, area: Area[Node]) -> list[Bin]:
        """See Ground; the number is that of the bin in the leaf."""
        assert isinstance(area.place, Leaf)
        out: list[Bin] = []
        for i, (c, free, hosts) in enumerate(area.place.bins):
            alone = tuple([_row(cap, c)[free] if _row(cap, c) else 0 for cap in area.caps])
            if any(alone):
                gpus = free if any(n and s.gpus for n, s in zip(alone, self._sets, strict=True)) else 0
                out.append(Bin(i, hosts, gpus, alone))
        return out

    def holds(self, area: Area[Node], at: Bin, pods: Ints) -> Mask:
        """See Ground."""
        assert isinstance(area.place, Leaf)
        c, free, _ = area.place.bins[at.number]
        gpu = self._shape.table.classes[c].gpu
        each = np.array([s.pod[gpu] if gpu else 0 for s in self._sets], dtype=np.int64)
        used = pods @ each
        held = used <= free
        for i, cap in enumerate(area.caps):
            row = np.array(_row(cap, c) or (0,) * (free + 1), dtype=np.int64)
            left = np.maximum(0, free - used + pods[:, i] * each[i])
            held &= pods[:, i] <= row[left]
        return np.asarray(held)


def _row(cap: Cap | None, c: int) -> tuple[int, ...]:
    """Pods per host of a class by free GPUs; () if the class is no place for the set."""
    return cap.lens.rows[c] if cap is not None and cap.lens is not None else _NO_ROW


def arranged(shape: Shape, ask: Ask) -> Arrangement | bool:
    """The best place for a gang of several sets; True if there is none for certain, False if that is not known."""
    if not in_scope(ask.sets):
        return False
    search = Together(ShapeGround(shape, ask.sets), ask.sets)
    found = search.found()
    if found is None:
        return search.refused and all(shape.table.is_exact(s) for s in ask.sets)
    return arrangement(search, found, ask.sets)
