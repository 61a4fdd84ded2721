"""What an agent says of one part of one attempt: a level, the newest state, never a difference."""

from dataclasses import dataclass
from enum import IntEnum, unique

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
        held_ms, started_ms, running_ms: wall times in milliseconds since 1970, 0 if not reached.
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
