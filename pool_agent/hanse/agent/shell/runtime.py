"""A pool agent: what `hanse agent` runs, what the embedded federation starts as a task, what the simulator kills.

Three activities that end together: the cluster is served whether a replica is there or not, the link attaches to
whichever replica answers, and summaries go out. The agent keeps nothing of its own: whoever runs next to the cluster
later rebuilds all of it from there. So there is nothing to save at the end, and stopping it stops no pod.

Nothing here reads a clock or draws a number but from its arguments, and there are no threads: equal arguments and an
equal order of events give an equal run.
"""

import logging
from contextlib import AbstractAsyncContextManager, nullcontext
from random import Random

from hanse.agent.cluster.port import ClusterPort
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.link import Dial, Link
from hanse.agent.shell.pool import Pool
from hanse.agent.shell.publisher import Publisher
from hanse.bus.contract import Bus
from hanse.kit.backoff import Backoff
from hanse.kit.clock import Clock
from hanse.kit.native import load_for
from hanse.kit.tasks import race
from hanse.kit.telemetry import metrics

log = logging.getLogger(__name__)

__all__ = ["Agent", "AgentConfig"]


class Agent:
    """One agent of one cluster.

    Args:
        dial: opens a stream to some replica; raises StreamClosed or OSError if none answers.
        bus: None where there is none; summaries then travel on the link alone.
        turns: held while its cluster is listed for the first time; agents of one process share it.
    """

    def __init__(
        self,
        config: AgentConfig,
        cluster: ClusterPort,
        dial: Dial,
        bus: Bus | None,
        clock: Clock,
        rng: Random,
        *,
        turns: AbstractAsyncContextManager[object] | None = None,
    ) -> None:
        instance = f"{rng.getrandbits(64):016x}"
        self.config = config
        self.instance = instance
        self.pool = Pool(config, cluster, clock, rng)
        self._bus = bus
        self._turns = nullcontext() if turns is None else turns
        self._publisher = Publisher(config, self.pool, clock, instance, Backoff(config.reconnect, rng))
        self._link = Link(
            config, dial, instance=instance, pool=self.pool, publisher=self._publisher, clock=clock, rng=rng
        )

    async def run(self) -> None:
        """Serve until cancelled. Leaves the link and the bus, and stops no pod."""
        log.info("agent_started", extra={"pool": self.config.pool, "instance": self.instance})
        await self.pool.load(self._turns)
        if self.pool.ledger is not None:
            load_for(len(self.pool.ledger.inventory))
        parts = {"cluster": self.pool.run(), "link": self._link.run(), "summaries": self._publisher.run()}
        if self._bus is not None:
            parts["bus"] = self._publisher.run_bus(self._bus)
        with metrics.REGISTRY.observed(self._observe):
            await race(**parts)

    def _observe(self) -> None:
        """Tell the gauges."""
        pool, figures = self.config.pool, self.pool.gangs.figures
        metrics.AGENT_ATTACHED.set(int(self._link.attached), pool)
        metrics.AGENT_GANGS.set(figures.held, pool, "held")
        metrics.AGENT_GANGS.set(figures.started, pool, "started")
        metrics.AGENT_GANGS.set(figures.stopping, pool, "stopping")
