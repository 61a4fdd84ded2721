"""Summaries: when one is due, what it says, and by which ways it goes.

A summary is read from the ledger in one instant, together with the observed revision. Changes are collected for
`summary_min_interval_s`; without any there is a heartbeat. The same message goes up the link, if there is one, and
into the bus, where the last one is retained; the bus is slower than the ledger at times, and then sees only the
newest. While a write is in doubt, or the cluster belongs to somebody else, nothing is said.

Before a refusal is reported, a summary of what the agent saw goes up the same stream (`fresh`), so that whoever reads
the refusal plans with it.
"""

import asyncio
import logging
from dataclasses import replace
from typing import Final

from hanse.agent.core.ledger import NodeLedger
from hanse.agent.shell.config import SUMMARY_INTERVAL_LEAST_S, AgentConfig
from hanse.agent.shell.pool import Pool
from hanse.bus.contract import Bus, BusConnection, BusError, Will
from hanse.kit.backoff import Backoff
from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.fence import Epoch
from hanse.model.summary import PoolSummary
from hanse.shape import Shape, encode
from hanse.wire.summary import GONE, PRESENT, capacity_topic, presence_topic, summary_to_bytes, summary_topic

log = logging.getLogger(__name__)

BUS_GOODBYE_DEADLINE_S: Final = 2.0


class Publisher:
    """See the module.

    Attributes:
        latest: the newest summary, with the empty shape; None before the first.
    """

    def __init__(self, config: AgentConfig, pool: Pool, clock: Clock, instance: str, retry: Backoff) -> None:
        self.latest: PoolSummary | None = None
        self._config = config
        self._pool = pool
        self._clock = clock
        self._instance = instance
        self._retry = retry
        self._epoch = Epoch()
        self._sequence = 0
        self._last_s = float("-inf")
        self._empty: Shape | None = None
        self._empty_bytes = b""
        self._readers: list[asyncio.Event] = []

    def subscribe(self) -> asyncio.Event:
        """An event that is set whenever there is a newer summary."""
        reader = asyncio.Event()
        self._readers.append(reader)
        return reader

    def unsubscribe(self, reader: asyncio.Event) -> None:
        """The reader is gone."""
        self._readers.remove(reader)

    def publish(self) -> None:
        """Make a summary now, unless there is nothing that can be said."""
        self._last_s = self._clock.monotonic()
        self._pool.to_publish.clear()
        if self._pool.gangs.accepted and not self._pool.gangs.doubted and self._pool.ledger is not None:
            self.latest = self._make(self._pool.ledger)
            metrics.SUMMARIES_MADE.add(1, self._config.pool)
            for reader in self._readers:
                reader.set()

    async def fresh(self) -> None:
        """What was placed or refused until now is in the newest summary."""
        delay_s = self._last_s + SUMMARY_INTERVAL_LEAST_S - self._clock.monotonic()
        if self._pool.gangs.changed and delay_s > 0:
            await asyncio.sleep(delay_s)
        if self._pool.gangs.changed:
            self.publish()

    async def run(self) -> None:
        """Publish whenever it is due, until cancelled."""
        while True:
            await asyncio.sleep(max(0.0, self._due_s() - self._clock.monotonic()))
            try:
                async with asyncio.timeout(self._config.summary_heartbeat_s):
                    await self._pool.to_publish.wait()
            except TimeoutError:
                self._pool.to_publish.set()
            if self._clock.monotonic() >= self._due_s():
                self.publish()

    def _due_s(self) -> float:
        return self._last_s + self._config.summary_min_interval_s

    def _make(self, ledger: NodeLedger) -> PoolSummary:
        """What the ledger says now."""
        pool, gangs = self._pool, self._pool.gangs
        if pool.epoch != self._epoch:
            self._epoch, self._sequence = pool.epoch, 0
        self._sequence += 1
        gangs.changed = False
        empty = ledger.inventory.empty_shape()
        if empty is not self._empty:
            self._empty, self._empty_bytes = empty, encode(empty)
        figures, nodes = gangs.figures, ledger.node_figures
        return PoolSummary(
            pool=self._config.pool,
            epoch=self._epoch,
            sequence=self._sequence,
            observed_revision=gangs.observed_revision,
            published_ms=self._clock.now_ms(),
            shape=encode(ledger.inventory.shape()),
            empty_shape=self._empty_bytes,
            nodes=nodes.nodes,
            usable_nodes=nodes.usable,
            held_gangs=figures.held,
            started_gangs=figures.started,
            stopping_gangs=figures.stopping,
            levels=pool.levels,
            gpus=nodes.gpus,
            free_gpus=nodes.free_gpus,
            settings_revision=pool.settings_revision,
        )

    # ---- the bus ------------------------------------------------------------------------------------------

    async def run_bus(self, bus: Bus) -> None:
        """Keep the newest summary on the bus, until cancelled. From its first summary on, the pool is present."""
        news = self.subscribe()
        while True:
            await news.wait()
            try:
                await self._keep(bus, news)
            except BusError as error:
                log.info("bus_unavailable", extra={"pool": self._config.pool, "cause": str(error)})
            await asyncio.sleep(self._retry.delay_s())
            news.set()

    async def _keep(self, bus: Bus, news: asyncio.Event) -> None:
        federation, pool = self._pool.federation, self._config.pool
        will = Will(presence_topic(federation, pool), GONE, retain=True)
        connection = await bus.connect(f"hanse-agent-{pool}-{self._instance}", will=will)
        try:
            await connection.publish(will.topic, PRESENT, retain=True)
            await self._follow(connection, news, federation)
        except asyncio.CancelledError:
            await self._say_goodbye(connection, will)
            raise
        finally:
            await connection.close()

    async def _follow(self, connection: BusConnection, news: asyncio.Event, federation: str) -> None:
        """Publish the newest summary, and the empty shape whenever that is another one."""
        pool, told = self._config.pool, b""
        while True:
            await news.wait()
            news.clear()
            summary = self.latest
            if summary is None:
                continue
            if summary.empty_shape is not None and summary.empty_shape != told:
                capacity = replace(summary, shape=b"")
                await connection.publish(capacity_topic(federation, pool), summary_to_bytes(capacity), retain=True)
                told = summary.empty_shape
            bare = summary_to_bytes(replace(summary, empty_shape=None))
            await connection.publish(summary_topic(federation, pool), bare, retain=True)
            self._retry.reset()

    async def _say_goodbye(self, connection: BusConnection, will: Will) -> None:
        """A connection that is closed has no will, and the agent goes all the same."""
        try:
            async with asyncio.timeout(BUS_GOODBYE_DEADLINE_S):
                await connection.publish(will.topic, GONE, retain=True)
        except (BusError, TimeoutError) as error:
            log.info("bus_goodbye_failed", extra={"pool": self._config.pool, "cause": str(error)})
