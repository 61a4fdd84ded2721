"""What the gangs need of the node arrays: places, taken and given back by the key of their gang."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.records import SetPlace
from hanse.model.desired import BoundSet
from hanse.model.fence import GangKey
from hanse.model.ids import NodeName
from hanse.model.placement import LevelUse
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest
from hanse.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Placed:
    """Every pod has a node. `domains`: what the gang uses by level, for people."""

    sets: tuple[SetPlace, ...]
    domains: tuple[LevelUse, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """No pod has a node: which constraint failed, what it needed and what was there."""

    reason: Reason
    message: str = ""
    constraint: str = ""
    wanted: int = 0
    found: int = 0


class Ledger(Protocol):
    """Capacity and who has taken it. All or nothing, in one step, without waiting."""

    def place(self, key: GangKey, request: GangRequest, sets: Sequence[BoundSet]) -> Placed | Unplaced:
        """Take places for the gang; `request.sets[i]` is of `sets[i]`."""
        ...

    def take(self, key: GangKey, sets: tuple[SetPlace, ...]) -> tuple[LevelUse, ...]:
        """Count what the cluster's records say that the gang has, also where it is more than there is."""
        ...

    def give(self, key: GangKey) -> None:
        """The gang has no places any more; one that had none is fine."""
        ...

    def change_node(self, node: NodeFacts, foreign: Resources) -> bool:
        """A node is new or differs; whether that changed any capacity."""
        ...

    def remove_node(self, name: NodeName) -> bool:
        """A node is gone; what gangs have there stays theirs."""
        ...
