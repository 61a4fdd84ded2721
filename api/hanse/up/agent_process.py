"""Agents as a process: one pool's in production, many where processes are counted.

Each agent is for itself: its own stream, its own connection to the bus, its own cluster behind the port. What the
streams to one replica say travels together, since messages cost more than what they say. The process holds nothing
that would be missed; killed and started again, its agents rebuild what they know from their clusters.
"""

import asyncio
import logging
import random
import zlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from hanse.agent.cluster.opening import open_cluster
from hanse.agent.cluster.port import ClusterPort
from hanse.agent.shell.dial import Dialer, Lines
from hanse.kit.clock import Clock
from hanse.kit.process import settle_memory
from hanse.kit.tasks import cancelled
from hanse.kit.trust.files import check_time
from hanse.kit.trust.renewing import AskReplicas, Renewer, certificates_told
from hanse.model.errors import InvalidArgument
from hanse.model.names import quoted
from hanse.up.agent_settings import AgentSettings, PoolSettings
from hanse.up.agents import LISTS_AT_ONCE, keep_agent
from hanse.up.opening import opened_bus
from hanse.up.tokens import read_token

log = logging.getLogger(__name__)

ADVICE: Final = "get a new one with `hanse join`, or have cert-manager renew it, and start again"
SETTLE_AFTER_S: Final = 15.0
"""By then the clusters' nodes are in memory, which stay for as long as the process."""


async def run_agents(
    settings: AgentSettings, clock: Clock, rng: random.Random, running: Callable[[], None] = lambda: None
) -> None:
    """Run the agents of all pools until cancelled.

    Args:
        running: called once all are at work; they attach when a replica answers.

    Raises:
        HanseError: the settings cannot be used.
    """
    _check_names(settings)
    token, tls = read_token(settings.token_file), settings.tls
    if tls is not None:
        tls.check(server=False)
        check_time(tls, now_ms=clock.now_ms(), advice=ADVICE)
    addresses = [checked_address(text) for text in settings.replicas]
    bus = opened_bus(settings.bus, random.Random(rng.getrandbits(64)))
    async with AsyncExitStack() as stack:
        tasks: list[asyncio.Task[object]] = []
        turns = asyncio.Semaphore(LISTS_AT_ONCE)
        lines = Lines(deadline_s=settings.dial_deadline_s, token=token, tls=tls) if len(settings.pools) > 1 else None
        if lines is not None:
            stack.push_async_callback(lines.close)
        for number, pool in enumerate(settings.pools, start=first_replica(settings)):
            port = cluster_port(settings, pool, stack, random.Random(rng.getrandbits(64)))
            dial = Dialer(
                addresses, first=number, deadline_s=settings.dial_deadline_s, token=token, tls=tls, lines=lines
            )
            own = random.Random(rng.getrandbits(64))
            work = keep_agent(settings.agent_config(pool), port, dial, bus, clock, own, turns=turns)
            tasks.append(asyncio.create_task(work, name=f"agent-{pool.name}"))
        stack.enter_context(certificates_told(tls, clock))
        if tls is not None and tls.cert is not None and settings.tls_renew:
            ask = AskReplicas(lambda: addresses, tls)
            renewer = Renewer(tls, ask, clock, random.Random(rng.getrandbits(64)))
            tasks.append(asyncio.create_task(renewer.run(), name="agent-renewal"))
        stack.push_async_callback(cancelled, tasks)
        running()
        asyncio.get_running_loop().call_later(SETTLE_AFTER_S, settle_memory)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)


def first_replica(settings: AgentSettings) -> int:
    """Which replica to dial first, by number: another one for each process and pool, or all would be at the first."""
    return zlib.crc32(settings.pools[0].name.encode())


def cluster_port(
    settings: AgentSettings, pool: PoolSettings, stack: AsyncExitStack, rng: random.Random
) -> ClusterPort:
    """The pool's cluster, closed with the stack. Raises InvalidArgument."""
    text = pool.cluster or settings.cluster
    if text.startswith("sim:"):
        checked_address(text.removeprefix("sim:"))
    port = open_cluster(text, pool.name, rng, settings=settings.kubernetes(pool))
    stack.push_async_callback(port.close)
    return port


def checked_address(text: str) -> str:
    """HOST:PORT. Raises InvalidArgument."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536 or any(c in "/@ " for c in host):
        raise InvalidArgument(f"{quoted(text)} is not HOST:PORT", reason="ADDRESS")
    return text


def _check_names(settings: AgentSettings) -> None:
    names = [pool.name for pool in settings.pools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"pool {quoted(twice[0])} is there twice", reason="DUPLICATE_NAME", path="pools")
