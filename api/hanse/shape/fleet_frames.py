"""A lowest domain as a column of numbers, for one flavor: what `fleet_rows` puts into a slot.

The numbers are hosts with at least 0, 1, 2, … free GPUs, and the sums of some of these that are asked for most: of
all classes together, and by class layer (a table's first class of the flavor, its second, …). A table with one class
has that one alone. Racks repeat, within a pool and between pools: a content that was seen is not counted again.
"""

from array import array
from itertools import accumulate
from typing import Final, NamedTuple

from hanse.shape.domains import Branch, Leaf

SLOTS: Final = 8
SUMMED: Final = {1: 1, 2: 2, 4: 3}  # GPUs of a pod: which of the sums tells the pods of all hosts
EXTRA: Final = len(SUMMED)
NARROW_MAX: Final = 2**15 - 1  # GPUs of one column that 16 bits can count
_LEAVES_KEPT_MAX: Final = 65_536


class Told(NamedTuple):
    """One lowest domain.

    Attributes:
        cells: 32 bits each: by group of classes, hosts by least free GPUs, then EXTRA sums of these.
        whole: all GPUs are free, those of other flavors as well.
        blended: it has hosts of several class layers.
    """

    cells: bytes
    whole: bool
    blended: bool


class Frame:
    """How hosts of one table are told apart for one flavor.

    Args:
        layer: by class of the table, its class layer; -1 for another flavor.
        gpus: by class of the table.
        layers: class layers.
        full: the most GPUs of a host of the flavor, or more.
    """

    def __init__(self, layer: tuple[int, ...], gpus: tuple[int, ...], layers: int, full: int) -> None:
        self.layer, self.gpus, self.layers, self.full = layer, gpus, layers, full
        self.width = full + 1 + EXTRA
        self.groups = groups_of(layers)
        self._told: dict[bytes, Told] = {}

    def told(self, leaf: Leaf) -> Told:
        """The domain's numbers."""
        found = self._told.get(leaf.key)
        if found is None:
            if len(self._told) >= _LEAVES_KEPT_MAX:
                self._told.clear()
            found = self._told[leaf.key] = self._counted(leaf)
        return found

    def _counted(self, leaf: Leaf) -> Told:
        by_group = [[0] * (self.full + 1) for _ in range(self.groups)]
        seen: set[int] = set()
        for c, free, hosts in leaf.bins:
            layer = self.layer[c]
            if layer >= 0:
                seen.add(layer)
                by_group[0][free] += hosts
                if self.groups > 1:
                    by_group[layer + 1][free] += hosts
        cells = [n for exactly in by_group for n in _summed(exactly)]
        whole = all(free >= self.gpus[c] for c, free, _ in leaf.bins)
        return Told(array("i", cells).tobytes(), whole, len(seen) > 1)

    def has(self, parent: Branch) -> bool:
        """Whether a host below a parent of lowest domains is of the flavor."""
        return any(self.layer[c] >= 0 for low, _ in parent.kids if isinstance(low, Leaf) for c, _, _ in low.bins)

    def is_narrow(self, parents: "list[Branch]") -> bool:
        """Whether 16 bits count the pods of every column of these parents of lowest domains."""
        gpus = max(1, self.full)
        return all(
            parent.hosts * gpus <= NARROW_MAX
            or all(sum([kid.hosts * n for kid, n in eight]) * gpus <= NARROW_MAX for eight in _by_column(parent))
            for parent in parents
        )


def groups_of(layers: int) -> int:
    """Groups of classes that are counted: each layer, and all of them unless there is one."""
    return layers + 1 if layers > 1 else 1


def columns_of(parent: Branch) -> int:
    """How many columns a parent of lowest domains takes."""
    return -(-len(parent.kids) // SLOTS)


def _by_column(parent: Branch) -> list[tuple[tuple[Leaf | Branch, int], ...]]:
    return [parent.kids[at : at + SLOTS] for at in range(0, len(parent.kids), SLOTS)]


def _summed(exactly: list[int]) -> list[int]:
    least = list(accumulate(reversed(exactly)))[::-1]
    return [*least, *[sum(least[gpus::gpus]) for gpus in SUMMED]]
