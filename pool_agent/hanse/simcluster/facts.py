"""What happened to pods: the entries of the pod log.

Facts follow from the inputs, but an auditor must not have to trust the engine's arithmetic twice, and reads them
in order from any position. `seq` is the cluster's version right after the fact.
"""

from collections.abc import Sequence
from enum import IntEnum, unique
from typing import Final, NamedTuple

import msgspec

from hanse.simcluster.inputs import EpochId, GangId, HeldSet

FACTS_BATCH_MAX: Final = 1_000  # facts that a reader gives at once, more or less


@unique
class FactKind(IntEnum):
    """Numbers of hanse.sim.v1.PodLogKind."""

    UNSPECIFIED = 0
    CLAIMED = 1
    STARTED = 2
    CHANGED = 3
    STOPPING = 4
    ENDED = 5
    LOST = 6
    NODES_FAILED = 7
    NODES_RESTORED = 8


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """The pods of one gang by phase, the first thing that went wrong, and which of several sets have ended."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    stopping: int = 0
    missing: int = 0
    exit_code: int = 0
    reason: str = ""
    infrastructure: bool = False
    ended_sets: tuple[str, ...] = ()

    @property
    def occupying(self) -> int:
        """Pods that occupy a node."""
        return self.pending + self.running + self.stopping


class Fact(msgspec.Struct, frozen=True, array_like=True):
    """One entry; what does not apply to its kind is empty."""

    seq: int
    at_ms: int
    kind: int
    gang: GangId | None = None
    counts: Counts | None = None
    sets: tuple[HeldSet, ...] = ()
    epoch: EpochId | None = None
    nodes: bytes = b""
    reason: str = ""


class FactBatch(NamedTuple):
    """Facts in order, and the names of the nodes that they name by index."""

    names: Sequence[str]
    facts: list[Fact]
