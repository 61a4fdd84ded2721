"""The two tokens by which late and doubled messages are told apart: the epoch of an attachment, the key of a gang."""

from dataclasses import dataclass
from typing import NamedTuple

from hanse.model.ids import Attempt, JobId, Part


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """The fencing token of an attachment: ordered by the store's incarnation, then by the attach's revision."""

    incarnation: int = 0
    revision: int = 0


class GangKey(NamedTuple):
    """One part of one attempt of one job: the identity of a binding, a gang record and its pods.

    A tuple, because it is hashed some dozens of times for every gang, and a tuple does that itself.
    """

    job: JobId
    attempt: Attempt
    part: Part

    def __str__(self) -> str:
        return f"{self.job}/{self.attempt}.{self.part}"
