"""What an agent says of one part of one attempt: a level, the newest state, never a difference."""

from dataclasses import dataclass
from enum import IntEnum, unique

from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import Attempt, JobId, Part
from hanse.model.placement import LevelUse
from hanse.model.reasons import Reason


@unique
class GangStatus(IntEnum):
    """How far a part is. The numbers are those of hanse.link.v1.Status."""

    UNSPECIFIED = 0
    HELD = 1
    STARTED = 2
    RUNNING = 3
    FINISHED = 4
    REFUSED = 5
    BROKEN = 6
    RELEASED = 7


@dataclass(frozen=True, slots=True)
class GangReport:
    """The newest state of one part.

    Attributes:
        reason, infrastructure, message: why it was refused or broke.
        constraint, wanted, found: of a refusal: which constraint failed, and by how much.
        domains: by level, coarse to fine, once it is placed.
        held_ms, started_ms, running_ms: wall times in milliseconds since 1970, 0 if not reached, or not known any
            more (the agent restarted since): then what was reported before stays true.
    """

    job: JobId
    attempt: Attempt
    part: Part
    status: GangStatus
    reason: Reason = Reason.UNSPECIFIED
    infrastructure: bool = False
    message: str = ""
    constraint: str = ""
    wanted: int = 0
    found: int = 0
    domains: tuple[LevelUse, ...] = ()
    held_ms: int = 0
    started_ms: int = 0
    running_ms: int = 0

    @property
    def key(self) -> GangKey:
        """Of the part."""
        return GangKey(self.job, self.attempt, self.part)


@dataclass(frozen=True, slots=True)
class Reports:
    """A batch of newest states, and the epoch by whose right the agent says so (P9)."""

    epoch: Epoch
    sequence: int
    reports: tuple[GangReport, ...]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The reports of that sequence are in effect, or need not be."""

    sequence: int
