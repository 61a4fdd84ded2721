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

AGENT_RESTART: Final = BackoffPolicy(first_s=0.2, max_s=10.0)


async def keep_agent(
    config: AgentConfig, port: ClusterPort, dial: Dial, bus: Bus | None, clock: Clock, rng: random.Random
) -> None:
    """Run an agent; after a bug, another one. It owns no state, so nothing is lost."""
    backoff = Backoff(AGENT_RESTART, rng)
    while True:
        try:
            await Agent(config, port, dial, bus, clock, random.Random(rng.getrandbits(64))).run()
        except Exception:
            log.exception("agent_failed", extra={"pool": config.pool})
        await asyncio.sleep(backoff.delay_s())
