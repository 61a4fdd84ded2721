"""What pools say of their capacity, by whichever way it comes: their agent's stream, the bus, or another replica.

Every summary carries its place in the order of all summaries of its pool, so the newest wins whatever way it took,
and one that comes twice is known before it is decoded. The empty pool's shape comes with a summary or alone, and is
decoded once for as long as it stays the same.

On the bus everybody who may publish could say anything: a summary counts under the topic of its own pool, and under
an epoch that the store says was granted.

Of pools whose agent is attached here the newest summary is kept as it came, for other replicas to fetch.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from hanse.bus.contract import Bus, BusError, BusMessage
from hanse.kit.clock import Clock
from hanse.kit.native import load_for
from hanse.kit.telemetry import metrics
from hanse.model.errors import HanseError
from hanse.model.ids import PoolName
from hanse.model.summary import KnownSummary, PoolSummary
from hanse.scheduler.core.facts import SummaryFacts, SummaryOrder
from hanse.scheduler.core.world import World
from hanse.shape import Shape, ShapeError, decode
from hanse.wire.summary import pool_of_topic, pool_topics, summary_from_bytes

log = logging.getLogger(__name__)

BUS_RETRY_S: Final = 2.0
POOL_CHARS_SHOWN: Final = 64
EARLY_MAX: Final = 4_096
"""Summaries of epochs that this replica does not know yet: the attach is on its way by the store, or it is forged."""


class Summaries:
    """Takes summaries into one replica's world.

    Args:
        took: called when something new was taken.
    """

    def __init__(self, world: World, clock: Clock, federation: str, took: Callable[[], None]) -> None:
        self._world = world
        self._clock = clock
        self._federation = federation
        self._took = took
        self._newest: dict[PoolName, PoolSummary] = {}
        self._empty: dict[PoolName, tuple[bytes, Shape]] = {}
        self._early: dict[tuple[PoolName, str], PoolSummary] = {}

    # ---- from agents, and for other replicas -----------------------------------------------------------------

    def take_from_agent(self, summary: PoolSummary) -> None:
        """A summary came by the agent's own stream, on which an empty shape that did not change is left out."""
        before = self._newest.get(summary.pool)
        if summary.empty_shape is None and before is not None:
            self._newest[summary.pool] = replace(summary, empty_shape=before.empty_shape)
        else:
            self._newest[summary.pool] = summary
        self.take(summary)

    def forget(self, pool: PoolName) -> None:
        """The agent of the pool has left."""
        self._newest.pop(pool, None)

    def newer_than(self, known: Iterable[KnownSummary]) -> list[PoolSummary]:
        """Newer summaries than these, of pools whose agent is attached here."""
        found = [(one, self._newest.get(one.pool)) for one in known]
        return [summary for one, summary in found if summary is not None and one.older_than(summary)]

    # ---- into the world --------------------------------------------------------------------------------------

    def take(self, summary: PoolSummary) -> None:
        """A summary came, by whatever way."""
        order = _order(summary)
        known = self._world.ledger(summary.pool).summary
        if known is not None and order <= known.order:
            return  # it came the other way already
        try:
            facts = self._facts(summary, order)
        except ShapeError as error:
            log.warning("summary_unreadable", extra={"pool": summary.pool, "cause": str(error)})
            return
        load_for(summary.nodes)
        if self._world.accept_summary(summary.pool, facts):
            metrics.SUMMARIES.add(1)
            self._took()

    def take_capacity(self, summary: PoolSummary) -> None:
        """The shape of the empty pool came alone."""
        try:
            shape = self._empty_shape(summary)
        except ShapeError as error:
            log.warning("capacity_unreadable", extra={"pool": summary.pool, "cause": str(error)})
            return
        if shape is not None and self._world.accept_empty(summary.pool, _order(summary), shape):
            self._took()

    def _facts(self, summary: PoolSummary, order: SummaryOrder) -> SummaryFacts:
        return SummaryFacts(
            order=order,
            observed_revision=summary.observed_revision,
            received_s=self._clock.monotonic(),
            published_ms=summary.published_ms,
            shape=decode(summary.shape),
            empty_shape=self._empty_shape(summary),
            nodes=summary.nodes,
            usable_nodes=summary.usable_nodes,
            gpus=summary.gpus,
            free_gpus=summary.free_gpus,
            held_gangs=summary.held_gangs,
            started_gangs=summary.started_gangs,
            stopping_gangs=summary.stopping_gangs,
            settings_revision=summary.settings_revision,
        )

    def _empty_shape(self, summary: PoolSummary) -> Shape | None:
        data = summary.empty_shape
        if not data:
            return None
        known = self._empty.get(summary.pool)
        if known is None or known[0] != data:
            known = self._empty[summary.pool] = (data, decode(data))
        return known[1]

    # ---- from the bus ----------------------------------------------------------------------------------------

    async def follow(self, bus: Bus, client_id: str) -> None:
        """Take what the bus brings while there is one, until cancelled."""
        while True:
            try:
                await self._read(bus, client_id)
            except BusError as error:
                log.warning("bus_unavailable", extra={"cause": str(error)})
            await asyncio.sleep(BUS_RETRY_S)

    async def _read(self, bus: Bus, client_id: str) -> None:
        connection = await bus.connect(client_id)
        try:
            subscription = await connection.subscribe(pool_topics(self._federation))
            async for message in subscription:
                self._hear(message)
        finally:
            await connection.close()

    def _hear(self, message: BusMessage) -> None:
        pool, kind = pool_of_topic(message.topic) or (PoolName(""), "")
        if kind not in ("summary", "capacity") or not message.payload:
            return
        try:
            summary = summary_from_bytes(message.payload)
        except HanseError as error:
            log.warning("summary_refused", extra={"topic": message.topic, "cause": str(error)})
            return
        if summary.pool != pool:
            self._refused("topic", kind, pool, f"it is of pool {summary.pool[:POOL_CHARS_SHOWN]!r}")
        elif summary.epoch.revision <= self._world.revision:
            self._take_granted(summary, kind)
        elif len(self._early) < EARLY_MAX or (pool, kind) in self._early:
            self._early[pool, kind] = summary

    def look(self) -> None:
        """The world has come further: what claimed an epoch that this replica did not know is looked at again."""
        for (pool, kind), summary in list(self._early.items()):
            if summary.epoch.revision <= self._world.revision:
                del self._early[pool, kind]
                self._take_granted(summary, kind)

    def _take_granted(self, summary: PoolSummary, kind: str) -> None:
        """Take one, unless it claims an epoch that nobody was granted, so as to be newer than whatever is true."""
        if summary.epoch.revision > self._world.agents.get(summary.pool, 0):
            self._refused("epoch", kind, summary.pool, f"its epoch {summary.epoch} was never granted")
        elif kind == "summary":
            self.take(summary)
        else:
            self.take_capacity(summary)

    @staticmethod
    def _refused(forgery: str, kind: str, pool: PoolName, cause: str) -> None:
        metrics.FORGERIES.add(1, forgery)
        fields = {"pool": pool[:POOL_CHARS_SHOWN], "kind": kind, "forgery": forgery, "cause": cause}
        log.warning("summary_refused", extra=fields)


def _order(summary: PoolSummary) -> SummaryOrder:
    return SummaryOrder(summary.epoch.incarnation, summary.epoch.revision, summary.sequence)
