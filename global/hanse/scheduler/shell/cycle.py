"""The scheduling loop: when something changed that may help, snapshot, plan in pure code, commit, remember.

A request class that did not fit is not looked at again before something grew that it waits for: capacity of a
pool, or quota of its queue. A pool that refused a class is left out for it for a growing while, or until its capacity
grows: what the shape says can be wrong outside its exact class, and must not become a loop.

The reason why a job waits is written into its state, rate-limited and only when it changes, so that a list can show
it without asking anybody; `explain` never relies on it.
"""

import asyncio
import logging
import random
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from hanse.kit.clock import Clock
from hanse.model.errors import HanseError
from hanse.model.ids import JobId, PoolName
from hanse.model.job import JobSpec
from hanse.model.lifecycle import State as JobStateName
from hanse.model.lifecycle import Stop, encode_state
from hanse.model.reasons import Reason
from hanse.model.request import GangRequest, class_hash, gang_request
from hanse.scheduler.core.pending import PendingJob
from hanse.scheduler.core.plan import Blocked, Plan, run_cycle
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.committer import Committer
from hanse.scheduler.shell.feed import Feed
from hanse.scheduler.shell.specs import read_specs
from hanse.scheduler.shell.states import States
from hanse.store import keys
from hanse.store.contract import ModRevisionIs, Put, Store, StoreUnavailable, Txn
from hanse.store.moves import WriteId, commit_move

log = logging.getLogger(__name__)

REQUESTS_CACHED_MAX: Final = 50_000
"""Request classes whose request is kept in memory."""

SPECS_PER_CYCLE_MAX: Final = 512
"""Specs read before a cycle, for classes that are seen for the first time."""

REASONS_PER_CYCLE_MAX: Final = 64
"""Reasons written after a cycle."""

AVOID_FIRST_S: Final = 1.0
AVOID_MAX_S: Final = 60.0
"""A pool that refused a class is left out for it for AVOID_FIRST_S, doubled with each refusal up to AVOID_MAX_S."""

IDLE_TICK_S: Final = 1.0
"""A cycle is looked into at least this often: summaries age and avoided pools come back without any event."""

QUARANTINE_S: Final = 60.0
"""A class whose planning raised is left out for this long, so that one bad request stops nobody else."""


_PASSING: Final = frozenset({Reason.REFUSED, Reason.LAGGING, Reason.STALE, Reason.DETACHED, Reason.CORDONED})
"""Verdicts that may end without any pool's capacity growing: such a class asks every pool again."""


@dataclass(slots=True)
class _Avoided:
    refusals: int
    until_s: float
    grown: int


class Cycle:
    """Runs cycles for one replica.

    Attributes:
        blocked: by class, why it does not fit and what was looked at.
        counts: cycles, decisions, refusals by reason.
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
        self._nonce = nonce
        self._limits = limits
        self._interval_s = interval_s
        self._write_id = write_id
        self._wake = asyncio.Event()
        self._requests: OrderedDict[int, GangRequest] = OrderedDict()
        self._avoided: dict[tuple[int, PoolName], _Avoided] = {}
        self._quarantined: dict[int, float] = {}
        self._quota_seen: dict[int, int] = {}
        self.blocked: dict[int, Blocked] = {}
        self.counts: Counter[str] = Counter()

    def wake(self) -> None:
        """Something changed."""
        self._wake.set()

    async def run(self) -> None:
        """Schedule until cancelled. Nothing is decided before the world is loaded."""
        await self._feed.loaded.wait()
        while True:
            await self._pause()
            try:
                self._follow_roots()
                await self._stop_skewed()
                if len(self._states.pending):
                    await self._once()
            except StoreUnavailable as error:
                log.warning("cycle_unavailable", extra={"cause": str(error)})
                await asyncio.sleep(IDLE_TICK_S)

    async def _pause(self) -> None:
        """Wait for a reason to look, and no shorter than the interval, so that events coalesce."""
        await asyncio.sleep(self._interval_s)
        try:
            async with asyncio.timeout(IDLE_TICK_S):
                await self._wake.wait()
        except TimeoutError:
            pass  # the tick: ages and avoided pools change without an event
        self._wake.clear()

    def _follow_roots(self) -> None:
        held = self._world.held_roots(self._nonce)
        self._states.follow({uid: f.root for uid, f in self._world.queues.items() if f.root in held})

    # ---- one cycle -------------------------------------------------------------------------------------------

    async def _once(self) -> None:
        skip = self._skipped()
        await self._learn_requests(skip)
        snapshot = self._world.snapshot(now_s=self._clock.monotonic(), nonce=self._nonce, avoided=self._avoided_now())
        plan = run_cycle(snapshot, self._states.pending.service(skip), self._requests, self._limits, self._rng)
        self.counts["cycles"] += 1
        self._remember(plan)
        if plan.decisions:
            result = await self._committer.commit(snapshot, plan.decisions)
            self.counts["decisions"] += len(result.committed)
            if result.lost:
                self._wake.set()
        if plan.exhausted:
            self._wake.set()
        await self._write_reasons(plan)

    def _skipped(self) -> dict[int, object]:
        """Classes that wait for something that has not grown, or are in quarantine."""
        now_s = self._clock.monotonic()
        self._quarantined = {c: until for c, until in self._quarantined.items() if until > now_s}
        pending = set(self._states.pending.classes())
        self.blocked = {c: b for c, b in self.blocked.items() if c in pending}
        self._quota_seen = {c: s for c, s in self._quota_seen.items() if c in pending}
        avoided = {c for c, _ in self._avoided_now()}
        skip: dict[int, object] = dict(self._quarantined)
        for number, blocked in self.blocked.items():
            queue = self._states.pending.head(number).queue
            may_help = self._world.may_help(queue, blocked, self._quota_seen.get(number, 0))
            passing = any(v.reason in _PASSING for v in blocked.verdicts)
            if not may_help and (not passing or number in avoided):
                skip[number] = blocked
        return skip

    def _waits_for_capacity(self, number: int, blocked: Blocked) -> bool:
        """Whether nothing but a pool's growth can help the class, so that only pools that grew are asked."""
        other = blocked.quota_bound or any(v.reason in _PASSING for v in blocked.verdicts)
        return not other and number in self._requests

    def _remember(self, plan: Plan) -> None:
        for decision in plan.decisions:
            self.blocked.pop(decision.job.class_hash, None)
        for number, blocked in plan.blocked.items():
            self.blocked[number] = blocked
            self._quota_seen[number] = self._world.quota_stamp(self._states.pending.head(number).queue)
        for number, cause in plan.failed.items():
            log.error("class_quarantined", extra={"class": number, "cause": cause})
            self._quarantined[number] = self._clock.monotonic() + QUARANTINE_S
            self.counts["quarantined"] += 1

    # ---- requests --------------------------------------------------------------------------------------------

    async def _learn_requests(self, skip: dict[int, object]) -> None:
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
            self._quarantined[head.class_hash] = self._clock.monotonic() + QUARANTINE_S
            return
        request = gang_request(spec)
        if class_hash(head.queue, request) != head.class_hash:
            log.error("class_mismatch", extra={"job": head.job})
            self._quarantined[head.class_hash] = self._clock.monotonic() + QUARANTINE_S
            return
        self._requests[head.class_hash] = request
        while len(self._requests) > REQUESTS_CACHED_MAX:
            self._requests.popitem(last=False)

    # ---- refusals --------------------------------------------------------------------------------------------

    def refused(self, class_number: int, pool: PoolName, reason: Reason) -> None:
        """A pool's agent refused a job of this class: leave it out for a while, or until it grows."""
        self.counts[f"refused_{reason.name}"] += 1
        known = self._avoided.get((class_number, pool))
        refusals = known.refusals + 1 if known is not None else 1
        pause_s = min(AVOID_MAX_S, AVOID_FIRST_S * 2.0 ** (refusals - 1))
        grown = self._world.ledger(pool).grown
        self._avoided[class_number, pool] = _Avoided(refusals, self._clock.monotonic() + pause_s, grown)
        self._wake.set()

    def _avoided_now(self) -> Iterable[tuple[int, PoolName]]:
        now_s = self._clock.monotonic()
        for entry in [e for e, a in self._avoided.items() if a.until_s + AVOID_MAX_S < now_s]:
            del self._avoided[entry]
        return [entry for entry, a in self._avoided.items() if a.until_s > now_s]

    # ---- reasons and skew ------------------------------------------------------------------------------------

    async def _write_reasons(self, plan: Plan) -> None:
        """Write why the head of each blocked class waits, where that changed."""
        wanted: list[tuple[PendingJob, Reason]] = []
        for number, blocked in plan.blocked.items():
            head = self._states.pending.head_or_none(number)
            if head is not None and head.state.reason is not blocked.reason:
                wanted.append((head, blocked.reason))
        for job, reason in wanted[:REASONS_PER_CYCLE_MAX]:
            key = keys.state(job.job)
            state = replace(job.state, reason=reason, write_id=self._write_id())
            # One by one: a conflict of one must not cost the others, and the next cycle tries again anyway.
            await self._store.transact(
                Txn((ModRevisionIs(key, job.state_revision),), (Put(key, encode_state(state)),))
            )

    async def _stop_skewed(self) -> None:
        """Split gangs whose parts did not all start in time stop everywhere (S2)."""
        now_ms = self._clock.now_ms()
        late: list[JobId] = [
            job
            for job, state in self._states.starting.items()
            if now_ms - state.changed_ms > self._limits.start_skew_max_s * 1000
        ]
        for job in late:
            log.warning("start_skew", extra={"job": job})
            await commit_move(
                self._store,
                job,
                Stop(JobStateName.PENDING, Reason.START_SKEW),
                clock=self._clock,
                write_id=self._write_id,
            )
