"""S9: what an agent says of its capacity, against its cluster.

Under faults an agent may know less than its cluster (watches lag), so only one direction can be judged at every step,
and it is the one that matters: it never offers what is taken. At the moment a summary leaves, its free GPUs are at
most all GPUs minus those of every gang that its `observed_revision` covers: the ones whose records the cluster has,
and, judged as soon as it is known, the ones that it will hold later under the same epoch (P10: observed means placed
or refused, not received). At rest the figures must be exact.
"""

from dataclasses import dataclass, field

from hanse.link.v1 import link_pb2
from hanse.model.ids import PoolName
from hanse.simcluster.engine import Engine
from hanse.simcluster.inputs import EpochId, Hold
from tests.sim import rooms
from tests.sim.fleet import GPU
from tests.sim.liveness import Unsettled
from tests.sim.verdict import Court

SUMMARIES_KEPT_MAX = 64


@dataclass(slots=True)
class _Said:
    """One summary: what it left free, and what the cluster's records leave at most."""

    summary: link_pb2.Summary
    at_most: int


@dataclass(slots=True)
class _Pool:
    said: list[_Said] = field(default_factory=list)


class SummaryChecks:
    """Fed by the links: every summary as it leaves its agent."""

    def __init__(self, court: Court) -> None:
        self._accuse = court.accuse
        self._pools: dict[PoolName, _Pool] = {}

    def said(self, engine: Engine, summary: link_pb2.Summary) -> None:
        """An agent of this cluster has sent a summary."""
        if EpochId(summary.epoch.incarnation, summary.epoch.revision) != engine.claim.epoch:
            return
        pool = self._pools.setdefault(PoolName(summary.pool), _Pool())
        taken = sum(
            rooms.held_by(gang).get(GPU, 0)
            for gang in engine.gangs.values()
            if gang.hold.revision <= summary.observed_revision
        )
        said = _Said(summary, all_gpus(engine) - taken)
        pool.said = [*pool.said[-SUMMARIES_KEPT_MAX:], said]
        self._judge(said)

    def held(self, engine: Engine, hold: Hold) -> None:
        """The cluster holds a gang: every summary that claimed to have placed it must have counted it."""
        pool = self._pools.setdefault(PoolName(engine.spec.name), _Pool())
        for said in pool.said:
            epoch = said.summary.epoch
            same_epoch = EpochId(epoch.incarnation, epoch.revision) == engine.claim.epoch
            if same_epoch and said.summary.observed_revision >= hold.revision:
                said.at_most -= gpus_of(hold)
                self._judge(said)

    def _judge(self, said: _Said) -> None:
        summary = said.summary
        if summary.free_gpus > said.at_most:
            what = (
                f"{summary.pool} offered {summary.free_gpus} GPUs as of revision {summary.observed_revision},"
                f" at most {said.at_most} were free then (P10)"
            )
            self._accuse("S9", what, summary.pool)

    def at_rest(self, engines: list[Engine]) -> Unsettled | None:
        """The newest summary of every pool is exact, once nothing of ours runs."""
        for engine in engines:
            pool = PoolName(engine.spec.name)
            said = self._pools.get(pool, _Pool()).said
            if not said:
                return Unsettled("S9", f"{pool} has said nothing of its capacity", (pool,))
            summary = said[-1].summary
            figures = (
                summary.gpus,
                summary.free_gpus,
                summary.held_gangs,
                summary.started_gangs,
                summary.stopping_gangs,
            )
            expected = (*usable_gpus(engine), 0, 0, 0)
            if figures != expected:
                what = f"{pool} says (GPUs, free, held, started, stopping) = {figures}, its cluster {expected}"
                return Unsettled("S9", what, (pool,))
        return None


def gpus_of(hold: Hold) -> int:
    """GPUs of all pods of a record."""
    return sum(held.resources.get(GPU, 0) * (len(held.nodes) // 4) for held in hold.sets)


def all_gpus(engine: Engine) -> int:
    """GPUs of a cluster in which nothing is broken."""
    return sum(rooms.whole(engine, node).get(GPU, 0) for node in range(len(engine.nodes)))


def usable_gpus(engine: Engine) -> tuple[int, int]:
    """GPUs of nodes that take work, and those that nothing uses."""
    total = free = 0
    for node in range(len(engine.nodes)):
        if rooms.usable(engine, node):
            gpus = rooms.offered(engine, node).get(GPU, 0)
            total += gpus
            free += max(0, gpus - rooms.foreign(engine, node).get(GPU, 0))
    return total, free
