"""Moves the jobs of a drained pool elsewhere, each replica those of the queues that it answers for.

A job leaves by the same order to stop as any other attempt, under one guard more: the pool's settings are those that
say so, so that a drain which was taken back evicts nobody (S7). It waits as PENDING then, keeps its place in the
queue by its age, and its owner's retries are not touched. A job whose policy is not to be started again is left to
run until the deadline, and fails then; without a deadline it runs to its end.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hanse.kit.clock import Clock
from hanse.model.errors import NotFound, Unavailable
from hanse.model.ids import Attempt, JobId, PoolName
from hanse.model.lifecycle import State, Stop
from hanse.model.reasons import Reason
from hanse.scheduler.core.draining import AT_ONCE, OVERDUE_AT_ONCE, Resident, leaving, residents
from hanse.scheduler.core.facts import PoolFacts
from hanse.scheduler.core.snapshot import Limits
from hanse.scheduler.core.world import World
from hanse.store import keys
from hanse.store.contract import ModRevisionIs, Store
from hanse.store.moves import JobView, MoveDone, WriteId, commit_move, read_jobs

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.5
MOVE_PATIENCE_S: Final = 60.0
"""A job that has left and found no place for so long does not hold up the next one any more."""

CANDIDATES_MAX: Final = 16
"""Jobs of a pool that one look asks after, each of every other pool: the cycle waits meanwhile. The next look goes on
behind them, so nobody who may go is hidden by many who may not."""

_ELSEWHERE: Final = frozenset({State.PLACED, State.STARTING, State.RUNNING})


@dataclass(frozen=True, slots=True)
class _Leaving:
    attempt: Attempt
    since_s: float


class Drains:
    """See the module.

    Args:
        nonce: of this start of the replica: roots that are granted to it are its own.
    """

    def __init__(
        self, store: Store, world: World, clock: Clock, *, nonce: str, limits: Limits, write_id: WriteId
    ) -> None:
        self._store = store
        self._world = world
        self._clock = clock
        self._nonce = nonce
        self._limits = limits
        self._write_id = write_id
        self._look_s = 0.0
        self._left: dict[PoolName, dict[JobId, _Leaving]] = {}
        self._next: dict[PoolName, int] = {}  # where the next look begins among the jobs, youngest first

    async def look(self) -> None:
        """Let the next jobs leave; nothing if no pool is drained, or somebody has looked a moment ago."""
        pools = self._world.drained()
        now_s = self._clock.monotonic()
        if not pools or now_s < self._look_s:
            if not pools:
                self._left.clear()
                self._next.clear()
            return
        self._look_s = now_s + LOOK_EVERY_S
        for pool in pools:
            await self._one(pool, now_s)

    async def _one(self, pool: PoolFacts, now_s: float) -> None:
        assert pool.drain is not None
        left = self._left.setdefault(pool.name, {})
        await self._settle(left, now_s)
        overdue = 0 < pool.drain.deadline_ms <= self._clock.now_ms()
        mine = self._world.held_roots(self._nonce)
        here = [
            one
            for one in residents(self._world.ledger(pool.name).bindings())
            if one.job not in left
            and (facts := self._world.queues.get(one.parts[0].queue)) is not None
            and facts.root in mine
        ]
        moving, most = len(left), OVERDUE_AT_ONCE if overdue else AT_ONCE
        if moving >= most:
            return
        first = self._next.get(pool.name, 0)
        first = first if first < len(here) else 0
        self._next[pool.name] = first + CANDIDATES_MAX
        snapshot = self._world.snapshot(now_s=now_s, nonce=self._nonce)
        asked = here[first : first + CANDIDATES_MAX]
        may = leaving(snapshot, self._limits, pool.name, asked, moving=moving, overdue=overdue)
        for one, view in await self._live(may):
            if moving >= most:
                break
            restarts = view.state.requeue_infrastructure
            if (restarts or overdue) and await self._evict(pool, one, State.PENDING if restarts else State.FAILED):
                left[one.job] = _Leaving(one.attempt, now_s)
                self._next[pool.name] = 0
                moving += 1

    async def _settle(self, left: dict[JobId, _Leaving], now_s: float) -> None:
        """Forget those that run elsewhere, have ended, or have waited for long enough."""
        views = await read_jobs(self._store, sorted(left)) if left else {}
        for job, since in list(left.items()):
            view = views.get(job)
            elsewhere = view is not None and view.state.attempt > since.attempt and view.state.state in _ELSEWHERE
            if view is None or view.state.state.terminal or elsewhere or now_s - since.since_s > MOVE_PATIENCE_S:
                del left[job]

    async def _live(self, may: Sequence[Resident]) -> list[tuple[Resident, JobView]]:
        """Those whose attempt in the pool is their newest, and is not ending yet."""
        views = await read_jobs(self._store, [one.job for one in may]) if may else {}
        found = [(one, views[one.job]) for one in may if one.job in views]
        return [
            (one, view)
            for one, view in found
            if view.state.attempt == one.attempt and view.state.state.live and view.state.state is not State.STOPPING
        ]

    async def _evict(self, pool: PoolFacts, one: Resident, target: State) -> bool:
        guard = ModRevisionIs(keys.pool_config(pool.name), pool.revision)
        try:
            moved = await commit_move(
                self._store,
                one.job,
                Stop(target, Reason.DRAINED, one.attempt),
                clock=self._clock,
                write_id=self._write_id,
                guards=(guard,),
            )
        except (NotFound, Unavailable) as error:
            log.info("drain_passed_over", extra={"job": one.job, "pool": pool.name, "cause": str(error)})
            return False
        if isinstance(moved, MoveDone):
            log.info("job_drained", extra={"job": one.job, "attempt": one.attempt, "pool": pool.name})
        return isinstance(moved, MoveDone)
