"""Deliberate bugs in what runs beside a cluster: records, epochs, releases, summaries."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from hanse.agent.cluster import simulated
from hanse.agent.cluster.simulated import SimulatedCluster
from hanse.agent.core.gang import Gang
from hanse.agent.core.gangs import Gangs
from hanse.agent.core.records import ClusterState, ClusterWrite, HoldGang
from hanse.model.desired import DesiredAction
from hanse.simcluster.engine import Engine
from hanse.simcluster.inputs import Hold
from tests.sim.patching import original, swap

# Any in signatures below: a patch passes arguments through to what it wraps.


def forget_records(stack: ExitStack) -> None:
    """P7: a record whose pods are gone is as good as none, for the agent that lists and for the cluster."""
    state_of, hold = original(simulated, "state_of"), original(Engine, "_hold")

    def with_pods(cluster: Any) -> ClusterState:
        state: ClusterState = state_of(cluster)
        gone = {counts.gang for counts in state.pods if counts.existing == 0}
        return replace(
            state,
            records=tuple(r for r in state.records if r.key not in gone),
            pods=tuple(c for c in state.pods if c.gang not in gone),
        )

    def replacing(self: Engine, change: Hold) -> Any:
        present = self.gangs.get(change.gang)
        if present is not None and present.created and not present.counts.occupying:
            del self.gangs[change.gang]
        return hold(self, change)

    swap(stack, simulated, "state_of", with_pods)
    swap(stack, Engine, "_hold", replacing)


def write_without_epoch(stack: ExitStack) -> None:
    """P8: a write is carried out whoever sends it."""
    write = original(SimulatedCluster, "_write")

    def anybody(self: Any, epoch: Any, ops: Sequence[Any]) -> Any:
        return write(self, self._cluster.engine.claim.epoch, ops)

    swap(stack, SimulatedCluster, "_write", anybody)


def observe_what_is_received(stack: ExitStack) -> None:
    """P10: a summary covers everything that has arrived, placed or not."""
    swap(stack, Gangs, "observed_revision", property(lambda self: self.revision))


def hold_half(stack: ExitStack) -> None:
    """Half a gang is held: the last pod of a set gets no place."""
    prepare = original(simulated, "prepare")

    def halved(cluster: Any, op: ClusterWrite) -> Any:
        if isinstance(op, HoldGang) and len(op.record.sets[0].nodes) > 1:
            first, *others = op.record.sets
            op = HoldGang(replace(op.record, sets=(replace(first, nodes=first.nodes[:-1]), *others)))
        return prepare(cluster, op)

    swap(stack, simulated, "prepare", halved)


def start_at_once(stack: ExitStack) -> None:
    """P15: an agent places and starts what it is told to, whether or not the federation recovers."""
    to_place, prepare = original(Gangs, "to_place"), original(Gangs, "_prepare_start")

    def forgetting(work: Callable[..., Any]) -> Callable[..., Any]:
        def done(self: Gangs, *args: Any) -> Any:
            recovering, self.recovering = self.recovering, False
            try:
                return work(self, *args)
            finally:
                self.recovering = recovering

        return done

    swap(stack, Gangs, "to_place", property(forgetting(to_place.fget)))
    swap(stack, Gangs, "_prepare_start", forgetting(prepare))


def release_at_once(stack: ExitStack) -> None:
    """A gang counts as released as soon as it is told to stop."""
    settle = original(Gang, "settle")

    def hasty(self: Gang, *, now_ms: int) -> None:
        settle(self, now_ms=now_ms)
        if self.action is DesiredAction.STOP and not self.finished and not self.busy:
            self.released = True

    swap(stack, Gang, "settle", hasty)


def give_all_sets_back(stack: ExitStack) -> None:
    """Once one pod set has ended, the places of all sets of its gang are given back."""
    settle_sets = original(Gang, "_settle_sets")

    def hasty(self: Gang, names: tuple[str, ...]) -> None:
        settle_sets(self, names)
        if self.ended and self.record is not None:
            self.ended = frozenset(range(len(self.record.sets)))

    swap(stack, Gang, "_settle_sets", hasty)
