"""What is used of domains, and what that costs."""

from collections.abc import Callable
from enum import IntEnum, unique
from typing import TYPE_CHECKING, NamedTuple

from hanse.shape.lens import Lens

if TYPE_CHECKING:
    from hanse.shape.capacity import Cap

Cost = tuple[int, ...]  # counts at 1, 2, … levels below and hosts, then summed fits of the same


class Take:
    """What is used of one domain: hosts of a lowest domain, children of any other. Equal if these are.

    Args:
        all_of: for everything that a domain holds, which is written down only when somebody asks: the domain.

    Attributes:
        lens: of a lowest domain of which all hosts are used that hold a pod, the lens that says how many; if it is
            known.
    """

    __slots__ = ("_all_of", "_hosts", "_kids", "lens")

    def __init__(
        self,
        hosts: tuple[tuple[int, int, int], ...] = (),
        kids: "tuple[tuple[int, int, Take], ...]" = (),
        all_of: "Callable[[], Cap] | None" = None,
        lens: Lens | None = None,
    ) -> None:
        self._all_of = all_of
        self._hosts: tuple[tuple[int, int, int], ...] | None = hosts if all_of is None else None
        self._kids: tuple[tuple[int, int, Take], ...] | None = kids if all_of is None else None
        self.lens = lens

    @property
    def hosts(self) -> tuple[tuple[int, int, int], ...]:
        """(index of the bin, hosts, pods on each of them)."""
        if self._hosts is None:
            assert self._all_of is not None
            self._hosts = tuple([(i, n, most) for most, n, i, _, _ in self._all_of().hist])
        return self._hosts

    @property
    def kids(self) -> "tuple[tuple[int, int, Take], ...]":
        """(index of the child, copies, what each of them gives)."""
        if self._kids is None:
            assert self._all_of is not None
            every = self._all_of().kids if self.lens is None else ()
            self._kids = tuple([(i, n, Take(all_of=_itself(kid))) for i, (kid, n) in enumerate(every) if kid.fit])
        return self._kids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Take) and self.hosts == other.hosts and self.kids == other.kids

    def __hash__(self) -> int:
        return hash((self.hosts, self.kids))

    def __repr__(self) -> str:
        return f"Take({self.hosts!r}, {self.kids!r})"


def _itself(cap: "Cap") -> "Callable[[], Cap]":
    return lambda: cap


@unique
class Proof(IntEnum):
    """What was needed to know that a placement is the cheapest; the largest of all that it is made of."""

    CERTIFICATE = 0
    CLOSED_FORM = 1
    SEARCH = 2


class Found(NamedTuple):
    """A placement of the wanted pods in one domain, and its cost."""

    cost: Cost
    take: Take
    proof: Proof = Proof.CERTIFICATE


def pods_of(take: Take) -> int:
    """Pods of a take."""
    on_hosts = sum([hosts * pods for _, hosts, pods in take.hosts])
    return on_hosts + sum([copies * pods_of(below) for _, copies, below in take.kids])
