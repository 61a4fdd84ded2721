"""What a pool is desired to run, as the link carries it: complete sets, and changes to them.

A complete set is what the store held at one revision, possibly in several messages; nothing of it counts before its
last message. A change says which bindings are new or different, and which are gone. An *empty* complete set is obeyed
like any other, because it is marked complete; a message that is merely empty says nothing.
"""

from dataclasses import dataclass
from enum import IntEnum, unique

from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import FlavorName


@unique
class DesiredAction(IntEnum):
    """What a binding asks for. The numbers are those of hanse.link.v1.DesiredAction."""

    UNSPECIFIED = 0
    HOLD = 1
    START = 2
    STOP = 3


@dataclass(frozen=True, slots=True)
class BoundSet:
    """One pod set's share of a binding: `count` pods from rank `first_rank` on, charged to `flavor`."""

    name: str
    count: int
    first_rank: int
    flavor: FlavorName


@dataclass(frozen=True, slots=True)
class Binding:
    """One part of one attempt, desired in a pool.

    Attributes:
        create_revision: store revision that created it; gangs are placed in this order.
        revision: store revision that last changed it.
        spec: the job's spec as bytes of hanse.api.v1.JobSpec; empty with STOP. It stays bytes until it is needed,
            because most messages about a binding are about one that is placed already.
        parts: of the whole attempt.
        order: place among the bindings of one create_revision: the planner's order.
    """

    key: GangKey
    create_revision: int
    revision: int
    action: DesiredAction
    sets: tuple[BoundSet, ...] = ()
    spec: bytes = b""
    trace: str = ""
    parts: int = 1
    order: int = 0

    @property
    def pods(self) -> int:
        """Pods of this part."""
        return sum(s.count for s in self.sets)


@dataclass(frozen=True, slots=True)
class Desired:
    """One message: a piece of a complete set (from `complete_begin` to `complete_end`), or a change.

    `recovering`: until a message says otherwise, nothing is placed or started that is not in the cluster (P15).
    """

    epoch: Epoch
    revision: int
    complete_begin: bool = False
    complete_end: bool = False
    bindings: tuple[Binding, ...] = ()
    removed: tuple[GangKey, ...] = ()
    recovering: bool = False
