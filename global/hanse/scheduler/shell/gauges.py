"""What a replica tells of its state when somebody asks: pending jobs, sessions, and the pools as it knows them.

Replicas that share a process add up what is each one's own, and say the same of the pools.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.ids import PoolName
from hanse.scheduler.core.facts import SummaryFacts
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.committer import Committer
from hanse.scheduler.shell.cycle import Cycle
from hanse.scheduler.shell.session import Session
from hanse.scheduler.shell.states import States


class Gauges:
    """Tells the gauges of one replica; `streams` gives the streams that it serves now."""

    def __init__(
        self,
        world: World,
        states: States,
        committer: Committer,
        cycle: Cycle,
        clock: Clock,
        *,
        nonce: str,
        streams: Callable[[], Sequence[Session]],
    ) -> None:
        self._world = world
        self._states = states
        self._committer = committer
        self._cycle = cycle
        self._clock = clock
        self._nonce = nonce
        self._streams = streams

    def observe(self) -> None:
        """Tell them all."""
        streams = self._streams()
        metrics.SESSIONS.add(len(streams))
        metrics.REPORTS_WAITING.add(sum(len(session.book) for session in streams))
        metrics.ROOTS_HELD.add(len(self._world.held_roots(self._nonce)))
        metrics.PENDING_JOBS.add(len(self._states.pending) + len(self._states.held))
        metrics.SETTLING.add(self._committer.settling)
        for reason, classes in Counter(self._cycle.backlog.reasons()).items():
            metrics.PENDING_CLASSES.add(classes, reason.name)
        for name in self._world.pool_names():
            summary = self._world.ledger(name).summary
            if summary is not None:
                self._tell_pool(name, summary)

    def _tell_pool(self, name: PoolName, summary: SummaryFacts) -> None:
        metrics.SUMMARY_AGE.set(self._clock.monotonic() - summary.received_s, name)
        for flavor in summary.shape.flavors:
            free = summary.shape.free_gpus(flavor)
            metrics.POOL_GPUS.set(free, name, flavor, "free")
            metrics.POOL_GPUS.set(summary.shape.gpus(flavor) - free, name, flavor, "used")
        metrics.POOL_NODES.set(summary.usable_nodes, name, "usable")
        metrics.POOL_NODES.set(summary.nodes - summary.usable_nodes, name, "unusable")
        metrics.POOL_GANGS.set(summary.held_gangs, name, "held")
        metrics.POOL_GANGS.set(summary.started_gangs, name, "started")
        metrics.POOL_GANGS.set(summary.stopping_gangs, name, "stopping")
