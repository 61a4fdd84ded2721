"""The shape of a pool's free capacity: one tree per node group over one table of host classes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hanse.model.ids import FlavorName
from hanse.model.placement import Level
from hanse.shape.domains import Branch, Leaf, Node, census
from hanse.shape.lens import Ladder, Table, ladder


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes with one list of levels. The root stands for the group itself and is no domain of any level."""

    levels: tuple[Level, ...]
    root: Branch
    rungs: Ladder = field(init=False, repr=False, compare=False)  # the levels, ready for look-up

    def __post_init__(self) -> None:
        object.__setattr__(self, "rungs", ladder(self.levels))


@dataclass(frozen=True, slots=True)
class Cell:
    """One lowest domain of a picture.

    Attributes:
        whole_hosts: hosts all of whose GPUs are free.
    """

    hosts: int
    whole_hosts: int
    free_gpus: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Row:
    """One coarsest domain of a picture: its lowest domains, fullest of whole hosts first."""

    levels: tuple[Level, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Free capacity of one pool.

    Attributes:
        clipped_hosts: hosts of which less is shown than is free; 0 means the shape is exact.
    """

    groups: tuple[Group, ...]
    table: Table
    clipped_hosts: int = 0

    @property
    def exact(self) -> bool:
        """Whether nothing was rounded down."""
        return self.clipped_hosts == 0

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels of the first group: the only one in most pools."""
        return self.groups[0].levels if self.groups else ()

    @property
    def flavors(self) -> tuple[FlavorName, ...]:
        """Flavors of the pool's host classes, sorted."""
        return tuple(sorted({cls.flavor for cls in self.table.classes}))

    @property
    def key(self) -> tuple[bytes, ...]:
        """Equal for equal free capacity over one table."""
        return tuple([group.root.key for group in self.groups])

    def hosts(self, flavor: FlavorName | None = None) -> int:
        """Usable hosts, those without a free GPU included."""
        return sum(hosts for c, _, hosts in self._bins() if self._of(c, flavor))

    def free_gpus(self, flavor: FlavorName | None = None) -> int:
        """Free accelerators."""
        return sum(free * hosts for c, free, hosts in self._bins() if self._of(c, flavor))

    def gpus(self, flavor: FlavorName | None = None) -> int:
        """Accelerators of usable hosts, free or not."""
        return sum(self.table.classes[c].gpus * h for c, _, h in self._bins() if self._of(c, flavor))

    def whole_hosts(self, flavor: FlavorName | None = None) -> int:
        """Hosts with accelerators, all of them free."""
        return sum(h for c, free, h in self._bins() if self._of(c, flavor) and self._whole(c, free))

    def largest_whole(self, level: str, flavor: FlavorName | None = None) -> int:
        """The most wholly free hosts in one domain of a level (key or alias); 0 if no group has the level."""
        best = 0
        for group in self.groups:
            depth = group.rungs.find(level)
            if depth is not None:
                best = max([best, *self._whole_at(group.root, depth, flavor)])
        return best

    def picture(self) -> tuple[Row, ...]:
        """One row per coarsest domain, one cell per lowest one, copies spelled out; in canonical order."""
        rows: list[Row] = []
        for group in self.groups:
            for kid, copies in group.root.kids:
                cells = sorted(self._cells(kid), key=lambda c: (-c.whole_hosts, -c.free_gpus, -c.gpus))
                rows.extend([Row(group.levels, tuple(cells))] * copies)
        return tuple(rows)

    def _bins(self) -> Iterator[tuple[int, int, int]]:
        for group in self.groups:
            for (c, free), hosts in census(group.root).items():
                yield c, free, hosts

    def _of(self, c: int, flavor: FlavorName | None) -> bool:
        return flavor is None or self.table.classes[c].flavor == flavor

    def _whole(self, c: int, free: int) -> bool:
        return 0 < self.table.classes[c].gpus == free

    def _whole_at(self, node: Node, depth: int, flavor: FlavorName | None) -> list[int]:
        if isinstance(node, Leaf):
            wholes = [h for c, free, h in node.bins if self._of(c, flavor) and self._whole(c, free)]
            return [sum(wholes)] if depth < 0 else [min(1, sum(wholes))]
        if depth < 0:
            return [sum(h for (c, free), h in census(node).items() if self._of(c, flavor) and self._whole(c, free))]
        return [n for kid, _ in node.kids for n in self._whole_at(kid, depth - 1, flavor)]

    def _cells(self, node: Node) -> list[Cell]:
        if isinstance(node, Branch):
            return [cell for kid, copies in node.kids for cell in self._cells(kid) * copies]
        full = [(self.table.classes[c].gpus, free, hosts) for c, free, hosts in node.bins]
        return [
            Cell(
                hosts=node.hosts,
                whole_hosts=sum(h for g, free, h in full if 0 < g == free),
                free_gpus=sum(free * h for _, free, h in full),
                gpus=sum(g * h for g, _, h in full),
            )
        ]
