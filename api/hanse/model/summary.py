"""What a pool says of its capacity: the shape of what is free, and up to which revision that speaks."""

from dataclasses import dataclass

from hanse.model.fence import Epoch
from hanse.model.ids import PoolName
from hanse.model.placement import Level

SUMMARY_BYTES_MAX = 8_192


@dataclass(frozen=True, slots=True)
class PoolSummary:
    """A pool at one instant of its agent's ledger. Of two, the one with the larger (epoch, sequence) is newer.

    Attributes:
        observed_revision: every binding whose key was created up to here is placed or refused in `shape` (P10).
        shape: free capacity, encoded by hanse.shape.
        empty_shape: capacity of the empty pool, encoded likewise; None if it did not change since this agent's last
            message on the same way.
        gpus, free_gpus: of nodes that take work.
        settings_revision: of the flavors into which both shapes sort their hosts.
    """

    pool: PoolName
    epoch: Epoch
    sequence: int
    observed_revision: int
    published_ms: int
    shape: bytes
    empty_shape: bytes | None = None
    nodes: int = 0
    usable_nodes: int = 0
    held_gangs: int = 0
    started_gangs: int = 0
    stopping_gangs: int = 0
    levels: tuple[Level, ...] = ()
    gpus: int = 0
    free_gpus: int = 0
    settings_revision: int = 0


@dataclass(frozen=True, slots=True)
class KnownSummary:
    """The newest summary of a pool that somebody has, told to somebody who may have a newer one; epoch zero: none."""

    pool: PoolName
    epoch: Epoch = Epoch()
    sequence: int = 0

    def older_than(self, summary: PoolSummary) -> bool:
        """Whether the summary says something new."""
        return (self.epoch, self.sequence) < (summary.epoch, summary.sequence)
