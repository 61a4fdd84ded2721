"""Deliberate bugs in what runs beside a cluster: records, epochs, releases, summaries."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from hanse.agent.cluster.simulated import SimulatedCluster
from tests.sim.patching import original, swap

# Any in signatures below: a patch passes arguments through to what it wraps.


def write_without_epoch(stack: ExitStack) -> None:
    """P8: a write is carried out whoever sends it."""
    write = original(SimulatedCluster, "_write")

    def anybody(self: Any, epoch: Any, ops: Sequence[Any]) -> Any:
        return write(self, self._cluster.engine.claim.epoch, ops)

    swap(stack, SimulatedCluster, "_write", anybody)
