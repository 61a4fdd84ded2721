"""The agent's side of its cluster: one list, one watch, one write at a time, and the core between them.

Rules:

* Nothing is written before a complete desired set was accepted, nor under any epoch but the claimed one. Accepting is
  claim, then list, then the core: what an older agent wrote before the claim is in the list, and what it sends later
  is refused (P8).
* Lists, claims and writes exclude each other, so a list never misses half of a write. Pod counts and changes of the
  desired set come in between; they are levels, and every list starts the watch anew from its own version, so that
  none older than the list comes after it.
* A write that is not answered puts the core in doubt, and only a new claim ends that: the attachment is given up
  (`claim_wanted`), and the link attaches again under a newer epoch. The same when somebody else has claimed the
  cluster.
* Losing the link changes nothing here: what was accepted is carried out, and what runs runs on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import TypeVar

from hanse.agent.cluster.port import (
    PORT_DEADLINE_S,
    WRITE_OPS_MAX,
    Claim,
    ClusterPort,
    ClusterState,
    ClusterUnavailable,
    Epoch,
    Superseded,
    Wanted,
    WatchLost,
)
from hanse.agent.core.dialects import detect_trees
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.fence import Change, CompleteSet
from hanse.agent.core.gangs import Gangs
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.ledger import NodeLedger
from hanse.agent.shell.config import AgentConfig
from hanse.agent.shell.needs import look
from hanse.agent.shell.traces import GangTraces
from hanse.kit.backoff import Backoff
from hanse.kit.clock import Clock
from hanse.kit.tasks import close_iterator, race
from hanse.kit.telemetry import metrics
from hanse.model.ids import NodeName
from hanse.model.placement import Level
from hanse.model.queue import Flavor
from hanse.shape import encode
from hanse.wire.specs import spec_from_bytes

log = logging.getLogger(__name__)

PLACE_SLICE = 64  # gangs that are placed before others get a turn
RESYNC_EARLIEST = 0.5  # of its interval: agents that started together would list together, again and again
ANSWER_GRACE_S = 1.0  # the port keeps PORT_DEADLINE_S itself; this catches one that does not

T = TypeVar("T")


class Pool:
    """See the module.

    Attributes:
        gangs: the core.
        ledger: of the nodes as they were listed last and changed since; None before the first list.
        claim: as it was read, listed or made last.
        epoch: under which the desired set was accepted.
        federation: whose agents claimed the cluster, "" before the first acceptance of this run.
        settings_revision: of the flavors, as the replica told.
        levels, dialect: of most nodes, as of the last list.
        traces: tells the stages of traced jobs.
        to_report, to_publish: set when there may be something to report, or to say in a summary.
        to_report_now: set when somebody waits for a report.
        claim_wanted: set when nothing more can be written under the present claim.
        resyncs, repairs: lists beside those of acceptances, and how many of them found a difference.
    """

    def __init__(self, config: AgentConfig, cluster: ClusterPort, clock: Clock, rng: Random) -> None:
        self.gangs = Gangs(spec_from_bytes)
        self.ledger: NodeLedger | None = None
        self.claim: Claim | None = None
        self.epoch = Epoch()
        self.federation = ""
        self.settings_revision = 0
        self.dialect = config.dialect
        self.levels: tuple[Level, ...] = config.levels or ()
        self.to_report = asyncio.Event()
        self.to_report_now = asyncio.Event()
        self.to_publish = asyncio.Event()
        self.claim_wanted = asyncio.Event()
        self.resyncs = 0
        self.repairs = 0
        self._config = config
        self.traces = GangTraces(config.pool, clock)
        self.cluster = cluster
        self._clock = clock
        self._rng = rng
        self._flavors: tuple[Flavor, ...] = ()
        self._trees: tuple[tuple[Level, ...], ...] = ((),)
        self._labels: dict[NodeName, Mapping[str, str]] = {}
        self._listed_nodes: tuple[NodeFacts, ...] | None = None
        self._version = 0
        self._access = asyncio.Lock()
        self._listed = asyncio.Event()
        self._to_write = asyncio.Event()
        self._to_place = asyncio.Event()

    # ---- asked by the link --------------------------------------------------------------------------------

    async def load(self, turns: AbstractAsyncContextManager[object]) -> None:
        """Find out which levels the cluster has, before anybody is told of it. What it holds is listed once it is
        claimed: only then does it stay true.

        Args:
            turns: held for each try; agents that share a process would otherwise list all at once, each so slowly
                that no list keeps its deadline.
        """
        backoff = Backoff(self._config.cluster_retry, self._rng)
        while True:
            try:
                async with turns, self._access:
                    self._find_levels(await self._answer(self.cluster.nodes()))
                return
            except ClusterUnavailable as error:
                log.warning("cluster_unavailable", extra={"pool": self._config.pool, "cause": str(error)})
                await asyncio.sleep(backoff.delay_s())

    async def read_claim(self) -> Claim:
        """Who may write now. Raises ClusterUnavailable."""
        self.claim = await self._answer(self.cluster.read_claim())
        return self.claim

    def set_flavors(self, flavors: tuple[Flavor, ...], revision: int) -> None:
        """The federation's flavors are these as of a store revision; usage stays with its nodes."""
        news = flavors != self._flavors
        if not news and revision == self.settings_revision:
            return
        self._flavors, self.settings_revision = flavors, revision
        if self.ledger is not None:
            if news:
                self.ledger.inventory = self.ledger.inventory.rebuilt(flavors, self._trees)
            self.gangs.changed = True
            self._poke()

    async def accept(self, federation: str, epoch: Epoch, desired: CompleteSet) -> None:
        """Make the complete set of an attachment the one that counts.

        Raises:
            Superseded: a newer epoch has claimed the cluster, or another federation has.
            ClusterUnavailable: it did not answer; attach anew.
        """
        async with self._access:
            self.gangs.doubt()
            self.claim = await self._answer(self.cluster.claim(federation, epoch, desired.revision))
            self.epoch, self.federation = epoch, federation
            self._take(await self._answer(self.cluster.list()))
            self.claim_wanted.clear()
            self.traces.desired(desired.bindings)
            self._accepted(desired)
        self._poke()

    def accept_again(self, desired: CompleteSet) -> None:
        """A replica sent the complete set once more, under the epoch that has the cluster."""
        self.traces.desired(desired.bindings)
        self._accepted(desired)
        self._poke()

    def _accepted(self, desired: CompleteSet) -> None:
        now_ms = self._clock.now_ms()
        self.gangs.accept(desired.revision, desired.bindings, now_ms=now_ms, recovering=desired.recovering)

    def change(self, change: Change) -> None:
        """The accepted set changed."""
        self.traces.desired(change.bindings, change.removed)
        self.gangs.change(
            change.revision,
            change.bindings,
            change.removed,
            now_ms=self._clock.now_ms(),
            recovering=change.recovering,
        )
        self._poke()

    # ---- its own tasks ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Carry out what is desired until cancelled; after `load`."""
        await race(
            write=self._write_on(),
            place=self._place_on(),
            watch=self._watch_on(),
            tend=self._tend(),
            sync=self._sync(),
        )

    def _poke(self) -> None:
        gangs = self.gangs
        if gangs.to_write:
            self._to_write.set()
        if gangs.to_place:
            self._to_place.set()
        self.look_at_reports()
        if gangs.changed:
            self.to_publish.set()

    def look_at_reports(self) -> None:
        """Wake whoever sends them, if there are some."""
        if self.gangs.outbox.waiting:
            self.to_report.set()
        if self.gangs.outbox.urgent:
            self.to_report_now.set()

    async def _place_on(self) -> None:
        while True:
            await self._to_place.wait()
            self._to_place.clear()
            while self.gangs.to_place:
                wanted = self.gangs.wanted(PLACE_SLICE)
                self._place(await look(self.cluster, self._config.pool, wanted) if wanted else {})
                self._poke()
                await asyncio.sleep(0)

    def _place(self, lacking: Mapping[Wanted, tuple[str, ...]]) -> None:
        pool, begun_s = self._config.pool, self._clock.monotonic()
        turn = self.gangs.place(PLACE_SLICE, now_ms=self._clock.now_ms(), lacking=lacking)
        metrics.PLACEMENT_DURATION.record(self._clock.monotonic() - begun_s, pool)
        metrics.PLACEMENTS.add(turn.placed, pool, "placed")
        metrics.PLACEMENTS.add(len(turn.refused), pool, "refused")
        for reason in turn.refused:
            metrics.AGENT_REFUSALS.add(1, reason.name)

    async def _write_on(self) -> None:
        while True:
            await self._to_write.wait()
            self._to_write.clear()
            more = True
            while more:
                async with self._access:
                    more = await self._write()

    async def _write(self, *, flush: bool = False) -> bool:
        """One write of what there is; whether there was anything."""
        ops = self.gangs.take_ops(WRITE_OPS_MAX, flush=flush)
        if not ops:
            return False
        begun_s = self._clock.monotonic()
        try:
            results = await self._answer(self.cluster.write(self.epoch, ops))
        except (Superseded, ClusterUnavailable) as error:
            outcome = "superseded" if isinstance(error, Superseded) else "in_doubt"
            metrics.WRITE_DURATION.record(self._clock.monotonic() - begun_s, self._config.pool, outcome)
            event = "cluster_superseded" if isinstance(error, Superseded) else "cluster_write_in_doubt"
            log.warning(event, extra={"pool": self._config.pool, "epoch": str(self.epoch), "cause": str(error)})
            self.gangs.doubt()
            self.claim_wanted.set()
            return False
        metrics.WRITE_DURATION.record(self._clock.monotonic() - begun_s, self._config.pool, "done")
        metrics.WRITE_OPERATIONS.add(len(ops), self._config.pool)
        self.gangs.written(results, now_ms=self._clock.now_ms())
        self._poke()
        return True

    async def _watch_on(self) -> None:
        while True:
            await self._listed.wait()
            self._listed.clear()
            ended = await race(listed=self._listed.wait(), watch=self._follow(self._version))
            if ended == "watch":
                await self._relist()

    async def _follow(self, version: int) -> None:
        """Take events in until the watch is lost, in whatever way."""
        batches = self.cluster.watch(version)
        try:
            async for events in batches:
                self.gangs.observe(events, now_ms=self._clock.now_ms())
                self._poke()
        except (WatchLost, ClusterUnavailable) as error:
            metrics.WATCHES_LOST.add(1, self._config.pool)
            log.info("watch_lost", extra={"pool": self._config.pool, "cause": str(error)})
        finally:
            await close_iterator(batches)

    async def _relist(self) -> None:
        """List until it works, so that the watch can begin anew."""
        backoff = Backoff(self._config.cluster_retry, self._rng)
        while not self._listed.is_set():
            try:
                await self._list_anew()
            except ClusterUnavailable as error:
                log.warning("cluster_unavailable", extra={"pool": self._config.pool, "cause": str(error)})
                await asyncio.sleep(backoff.delay_s())
            else:
                await self._listed.wait()  # in doubt nothing was listed: the next claim does it

    async def _sync(self) -> None:
        """A watch may miss something and never know."""
        while True:
            await asyncio.sleep(self._config.resync_s * self._rng.uniform(RESYNC_EARLIEST, 1.0))
            try:
                await self._list_anew()
            except ClusterUnavailable as error:
                log.info("resync_failed", extra={"pool": self._config.pool, "cause": str(error)})

    async def _list_anew(self) -> None:
        """List under the present claim, and repair what differs; nothing while in doubt."""
        async with self._access:
            if self.gangs.doubted:
                return
            state = await self._answer(self.cluster.list())
            before = self._shape()
            surprises = self._take(state)
            self.gangs.reconcile(now_ms=self._clock.now_ms())
            moved = not self.gangs.to_place and self._shape() != before
        self.resyncs += 1
        metrics.RESYNCS.add(1, self._config.pool)
        if surprises or moved:
            self.repairs += 1
            metrics.REPAIRS.add(1, self._config.pool)
            found = {"pool": self._config.pool, "gangs": surprises, "shape": moved}
            log.warning("drift_repaired", extra=found)
        self._poke()

    def _shape(self) -> bytes:
        return encode(self.ledger.inventory.shape()) if self.ledger is not None else b""

    async def _tend(self) -> None:
        """What the cluster would not do is tried again; a newer acceptance is written down, alone if need be."""
        while True:
            await asyncio.sleep(self._config.tend_s)
            self.gangs.retry()
            if self.gangs.acceptance_behind:
                async with self._access:
                    await self._write(flush=True)
            self._poke()

    # ---- lists --------------------------------------------------------------------------------------------

    def _take(self, state: ClusterState) -> int:
        """Build nodes and gangs from a list, and let the watch begin there; returns how many gangs differed."""
        self.ledger = NodeLedger(self._nodes_of(state))
        self.claim, self._version = state.claim, state.version
        surprises = self.gangs.relist(state, self.ledger)
        self._listed.set()
        return surprises

    def _nodes_of(self, state: ClusterState) -> Inventory:
        """The listed nodes, without pods of ours; the very ones that are there if no node has changed."""
        if self.ledger is not None and state.nodes is self._listed_nodes:
            self.ledger.inventory.recount()
            return self.ledger.inventory
        self._listed_nodes = state.nodes
        self._find_levels(state.nodes)
        foreign = dict(state.foreign)
        offered = self.ledger.inventory.offered if self.ledger is not None else {}
        inventory = Inventory(self._flavors, self._trees, offered=offered, scores=self._config.scores)
        for node in state.nodes:
            inventory.set_node(node, foreign.get(node.name))
        return inventory

    def _find_levels(self, nodes: Sequence[NodeFacts]) -> None:
        """Read the levels from the nodes' labels, unless they are given, or the labels are what they were."""
        if self._config.levels is not None:
            self._trees = (self._config.levels,)
            return
        labels = {node.name: node.labels for node in nodes}
        if labels == self._labels:
            return
        self._labels = labels
        trees = detect_trees(nodes)
        self._trees = tuple(tree.levels for tree in trees) or ((),)
        self.levels = self._trees[0]
        self.dialect = self._config.dialect or (trees[0].dialect if trees else "")

    async def _answer(self, call: Awaitable[T]) -> T:
        """The answer of a call; one that does not keep its deadline is unavailable."""
        try:
            async with asyncio.timeout(PORT_DEADLINE_S + ANSWER_GRACE_S):
                return await call
        except TimeoutError:
            raise ClusterUnavailable(f"the cluster did not answer within {PORT_DEADLINE_S:.0f} s") from None
