"""Keeps agents running, several to a process: what `hanse up` and `hanse agent` share."""

import asyncio
import logging
import random
from typing import Final

from hanse.agent.cluster.port import ClusterPort
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.link import Dial
from hanse.agent.shell.runtime import Agent
from hanse.bus.contract import Bus
from hanse.kit.backoff import Backoff, BackoffPolicy
from hanse.kit.clock import Clock

log = logging.getLogger(__name__)

LISTS_AT_ONCE: Final = 2
"""Clusters that the agents of one process list for the first time at once."""

AGENT_RESTART: Final = BackoffPolicy(first_s=0.2, max_s=10.0)


async def keep_agent(
    config: AgentConfig,
    port: ClusterPort,
    dial: Dial,
    bus: Bus | None,
    clock: Clock,
    rng: random.Random,
    *,
    turns: asyncio.Semaphore,
) -> None:
    """Run an agent; after a bug, another one. It owns no state, so nothing is lost.

    Args:
        turns: of the agents of this process, LISTS_AT_ONCE of them.
    """
    backoff = Backoff(AGENT_RESTART, rng)
    while True:
        try:
            own = random.Random(rng.getrandbits(64))
            await Agent(config, port, dial, bus, clock, own, turns=turns).run()
        except Exception:
            log.exception("agent_failed", extra={"pool": config.pool})
        await asyncio.sleep(backoff.delay_s())
