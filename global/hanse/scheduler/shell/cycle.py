"""The scheduling loop: when something changed that may help, snapshot, plan in pure code, commit, remember.

The reason why a job waits is written into its state, rate-limited and only when it changes, so that a list can show
it without asking anybody; `explain` never relies on it.
"""

import asyncio
import logging
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.errors import HanseError
from hanse.model.ids import PoolName
from hanse.model.job import JobSpec
from hanse.model.lifecycle import encode_state
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, class_hash, gang_request
from hanse.scheduler.core.backlog import Backlog
from hanse.scheduler.core.pending import PendingJob
from hanse.scheduler.core.plan import run_cycle
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.committer import Committer
from hanse.scheduler.shell.drains import Drains
from hanse.scheduler.shell.feed import Feed
from hanse.scheduler.shell.returns import Returns
from hanse.scheduler.shell.skew import SkewWatch
from hanse.scheduler.shell.specs import read_specs
from hanse.scheduler.shell.states import States
from hanse.scheduler.shell.traces import Traces
from hanse.store import keys
from hanse.store.contract import Committed, Conflict, ModRevisionIs, Put, Store, StoreUnavailable, Txn
from hanse.store.moves import WriteId

log = logging.getLogger(__name__)

REQUESTS_CACHED_MAX: Final = 50_000
"""Request classes whose request is kept in memory."""

SPECS_PER_CYCLE_MAX: Final = 512
"""Specs read before a cycle, for classes that are seen for the first time."""

REASONS_PER_TXN_MAX: Final = 50
REASONS_PAUSE_S: Final = 0.1
"""Reasons are written in transactions of at most REASONS_PER_TXN_MAX, one in REASONS_PAUSE_S."""

PAUSE_MAX_S: Final = 0.05
"""A cycle is followed by a pause as long as itself, but no longer than this. What a cycle costs hardly depends on how
many jobs it decides, nor a transaction on how many keys it has: so under load more jobs come together in one. A cycle
that has decided all it may is followed by the next at once: it was full."""

IDLE_TICK_S: Final = 1.0
"""A cycle is looked into at least this often: summaries age and avoided pools come back without any event."""


class Cycle:
    """Runs cycles for one replica.

    Attributes:
        backlog: what waits for what.
        counts: cycles, decisions, refusals by reason.
        on_look: called before every cycle, and at least once in a tick.
    """

    def __init__(
        self,
        store: Store,
        world: World,
        feed: Feed,
        states: States,
        committer: Committer,
        clock: Clock,
        rng: random.Random,
        traces: Traces,
        *,
        nonce: str,
        limits: Limits,
        interval_s: float,
        write_id: WriteId,
    ) -> None:
        self._store = store
        self._world = world
        self._feed = feed
        self._states = states
        self._committer = committer
        self._clock = clock
        self._rng = rng
        self._traces = traces
        self._nonce = nonce
        self._limits = limits
        self._interval_s = interval_s
        self._write_id = write_id
        self._returns = Returns(self._refused)
        states.on_move = self._returns.look
        states.awaited = self._returns.jobs
        self._skew = SkewWatch(store, states, clock, write_id=write_id)
        self._drains = Drains(store, world, clock, nonce=nonce, limits=limits, write_id=write_id)
        self._wake = asyncio.Event()
        self._took_s = 0.0
        self._caught_up = 0  # roots that it held when it last knew all that waits under them
        self._tell_s = 0.0
        self._telling = False
        self._full = False
        self._requests: OrderedDict[int, GangRequest] = OrderedDict()
        self.backlog = Backlog(world, states.pending)
        self.counts: Counter[str] = Counter()
        self._missing: tuple[PoolName, ...] = ()
        self.on_look: Callable[[], None] = lambda: None

    def wake(self) -> None:
        """Something changed."""
        self._wake.set()

    async def run(self) -> None:
        """Schedule until cancelled. Nothing is decided before the world is loaded and all that waits is known.

        A root that is taken over later holds up nobody: what waits under it joins when it has been read.
        """
        await self._feed.loaded.wait()
        while True:
            await self._pause()
            self.on_look()
            begun_s, self._full = self._clock.monotonic(), False
            try:
                self._follow_roots()
                await self._skew.look()
                await self._drains.look()
                if self._caught_up and len(self._states.pending) and not self._awaits_pools():
                    await self._once()
                    await self._write_reasons()
            except StoreUnavailable as error:
                log.warning("cycle_unavailable", extra={"cause": str(error)})
                await asyncio.sleep(IDLE_TICK_S)
            self._took_s = 0.0 if self._full else self._clock.monotonic() - begun_s

    def _awaits_pools(self) -> bool:
        """Whether a pool is missing since the store was restored: what waits here may run there (P15)."""
        missing = self._world.missing()
        if missing != self._missing:
            self._missing = missing
            log.warning("recovering" if missing else "recovered", extra={"missing": ", ".join(missing)})
        return bool(missing)

    async def _pause(self) -> None:
        """Wait for a reason to look, no shorter than the interval or the last cycle took, so that events coalesce."""
        await asyncio.sleep(max(self._interval_s, min(PAUSE_MAX_S, self._took_s)))
        try:
            async with asyncio.timeout(self._tick_s()):
                await self._wake.wait()
        except TimeoutError:
            pass  # the tick: ages and avoided pools change without an event
        self._wake.clear()

    def _tick_s(self) -> float:
        """How long nothing need happen until the next look: less than a tick while reasons are left to be told."""
        if not self._telling:
            return IDLE_TICK_S
        return max(0.0, min(IDLE_TICK_S, self._tell_s - self._clock.monotonic()))

    def _follow_roots(self) -> None:
        held = self._world.held_roots(self._nonce)
        queues = {uid: f.root for uid, f in self._world.queues.items() if f.root in held}
        self._states.follow(queues)
        if len(held) != self._caught_up and all(map(self._states.loaded, queues)):
            self._caught_up = len(held)
            log.info("caught_up", extra={"roots": len(held), "pending": len(self._states.pending)})

    # ---- one cycle -------------------------------------------------------------------------------------------

    async def _once(self) -> None:
        await self._learn_requests(self.backlog.skip(self._clock.monotonic()))
        now_s, now_ms = self._clock.monotonic(), self._clock.now_ms()
        service = self._states.pending.service(self.backlog.skip(now_s))
        snapshot = self._world.snapshot(now_s=now_s, nonce=self._nonce, avoided=self.backlog.avoided(now_s))
        plan = run_cycle(snapshot, service, self._requests, self._limits, self._rng, self.backlog.before())
        self.counts["cycles"] += 1
        metrics.PLAN_DURATION.record(self._clock.monotonic() - now_s)
        self._traces.planned(now_ms)
        self.backlog.remember(plan, now_s)
        for number, cause in plan.failed.items():
            log.error("class_quarantined", extra={"class": number, "cause": cause})
            metrics.CLASSES_FAILED.add(1)
        if plan.decisions:
            self._returns.send(plan.decisions)
            result = await self._committer.commit(snapshot, plan.decisions)
            self.counts["decisions"] += len(result.committed)
            metrics.DECISIONS.add(len(plan.decisions))
            if result.lost:
                self._wake.set()
        if plan.exhausted:
            self._full = True
            self._wake.set()
        metrics.CYCLE_DURATION.record(self._clock.monotonic() - now_s)

    # ---- requests --------------------------------------------------------------------------------------------

    async def _learn_requests(self, skip: Mapping[int, object]) -> None:
        """Read a spec for each class whose request is not known, first in order of service first."""
        unknown = [c for c in self._states.pending.classes() if c not in self._requests and c not in skip]
        heads = [self._states.pending.head(c) for c in unknown[:SPECS_PER_CYCLE_MAX]]
        if len(unknown) > SPECS_PER_CYCLE_MAX:
            self._wake.set()
        if not heads:
            return
        specs = await read_specs(self._store, [h.job for h in heads])
        for head in heads:
            self._learn(head, specs.get(head.job))

    def _learn(self, head: PendingJob, spec: JobSpec | HanseError | None) -> None:
        if not isinstance(spec, JobSpec):
            cause = str(spec) if isinstance(spec, HanseError) else "its spec is missing"
            log.error("spec_unreadable", extra={"job": head.job, "cause": cause})
            self.backlog.quarantine(head.class_hash, self._clock.monotonic())
            return
        request = gang_request(spec)
        if class_hash(head.queue, request) != head.class_hash:
            log.error("class_mismatch", extra={"job": head.job})
            self.backlog.quarantine(head.class_hash, self._clock.monotonic())
            return
        self._requests[head.class_hash] = request
        while len(self._requests) > REQUESTS_CACHED_MAX:
            self._requests.popitem(last=False)

    # ---- refusals --------------------------------------------------------------------------------------------

    def _refused(self, class_number: int, pool: PoolName, reason: Reason) -> None:
        """A pool's agent refused a job of this class: leave the pool out for it for a while."""
        self.counts[f"refused_{reason.name}"] += 1
        self.backlog.refused(class_number, pool, self._clock.monotonic(), reason)
        self._wake.set()

    # ---- reasons ------------------------------------------------------------------------------------

    async def _write_reasons(self) -> None:
        """Write into states why jobs wait, a few at a time: the slowest of all that a replica does."""
        now_s = self._clock.monotonic()
        if now_s < self._tell_s:
            self._telling = True
            return
        wanted = self.backlog.untold(REASONS_PER_TXN_MAX)
        self._telling = bool(wanted)
        if not wanted:
            return
        self._tell_s = now_s + REASONS_PAUSE_S
        txn = _reasons_txn(wanted, self._write_id())
        outcome = await self._store.transact(txn)
        if isinstance(outcome, Conflict):
            moved = [key for key, revision in outcome.current.items() if (key, revision) not in _guarded(txn)]
            await self._states.refresh([keys.job_of(key) for key in moved])
        self.backlog.told([job for job, _ in wanted], done=isinstance(outcome, Committed))


def _reasons_txn(wanted: Sequence[tuple[PendingJob, Reason]], write_id: int) -> Txn:
    guards = tuple(ModRevisionIs(keys.state(job.job), job.state_revision) for job, _ in wanted)
    ops = tuple(
        Put(keys.state(job.job), encode_state(replace(job.state, reason=reason, write_id=write_id)))
        for job, reason in wanted
    )
    return Txn(guards, ops)


def _guarded(txn: Txn) -> set[tuple[str, int]]:
    return {(guard.key, guard.revision) for guard in txn.guards}
