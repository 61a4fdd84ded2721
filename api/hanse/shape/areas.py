"""The domains of a pool as all sets of one gang see them, for `together`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from hanse.shape.ask import SetAsk
from hanse.shape.capacity import Cap
from hanse.shape.lens import Ladder
from hanse.shape.mixes import Ints, Mask
from hanse.shape.seat import View

P = TypeVar("P")
Census = dict[int, int]  # places by the GPUs that the gang could use there


class Bin(NamedTuple):
    """Hosts of one lowest domain that are alike.

    Attributes:
        number: by which the ground knows them.
        gpus: that the sets could use together on one of them, at the most.
        alone: pods of each set that one of them could hold if it were alone.
    """

    number: int
    hosts: int
    gpus: int
    alone: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Area(Generic[P]):
    """One domain as all sets see it.

    Attributes:
        index: of the child below its parent.
        copies: equal domains.
        depth: its level, 0 for the coarsest; -1 for the root of a group.
        caps: by set, None for a set that the group is no place for.
    """

    group: int
    index: int
    copies: int
    depth: int
    caps: tuple[Cap | None, ...]
    place: P
    _kids: "list[Area[P]] | None" = field(default=None, repr=False)
    _census: list[Census] | None = field(default=None, repr=False)

    @property
    def fits(self) -> tuple[int, ...]:
        """By set, the most pods it could hold if the set were alone."""
        return tuple([0 if cap is None else cap.fit for cap in self.caps])

    @property
    def is_lowest(self) -> bool:
        """Whether there are only hosts below."""
        return any(cap is not None and cap.height == 1 for cap in self.caps)


class Ground(Protocol[P]):
    """Where the sets of one gang may go: a shape above, counted nodes below."""

    def ladders(self) -> list[Ladder]:
        """The levels of every group."""
        ...

    def views(self, s: SetAsk) -> list[View]:
        """What a set sees of every group that is a place for it."""
        ...

    def root(self, group: int) -> P:
        """The root of a group."""
        ...

    def kids(self, place: P) -> list[tuple[P, int]]:
        """The children of a domain with their copies, in the order of those of its capacity."""
        ...

    def bins(self, area: "Area[P]") -> list[Bin]:
        """The hosts of a lowest domain that can hold a pod of some set."""
        ...

    def holds(self, area: "Area[P]", at: Bin, pods: Ints) -> Mask:
        """Which rows of `pods`, by set, one host of a bin can hold; slices aside."""
        ...

    def key(self, place: P) -> object:
        """Equal for domains that hold the same."""
        ...


def counted(entries: Sequence[tuple[int, int]]) -> Census:
    """Places by their GPUs, from (GPUs, places); those without any are left out."""
    out: Census = {}
    for gpus, many in entries:
        if gpus:
            out[gpus] = out.get(gpus, 0) + many
    return out


def total(census: Census) -> int:
    """GPUs of all of them."""
    return sum([gpus * many for gpus, many in census.items()])
