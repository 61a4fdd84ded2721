"""Brings pools out of the federation: takes back the jobs of those that leave by force, and removes who is empty.

A pool that leaves in peace is drained (see `drains`). One that leaves by force is unreachable, and what its agent
would have said is missing; what may be done without it depends on what the operator ordered:

* *by force*: each job becomes LOST and its bindings stay, told to stop, until the agent comes back and has released
  them (P12): whatever still runs there counts for quota, and is ended by whoever runs it;
* *vouched*: nothing runs there and nothing will. Each job is stopped and its parts there are released in the agent's
  place, so it starts again elsewhere by its restart policy, or ends as it was about to.

Every such write compares the pool's settings at the revision at which they say so, hence an order that was taken back
takes no more jobs (S7). It stands for the agent's epoch too: an order that is vouched removes that epoch, so that no
agent has a say in between.

The pool's keys go in one transaction that compares the same settings: they take no new binding, and the bindings were
read after them and there was none. From then on the pool has left, and `left` keeps its agent from joining again.

After a restore the store does not know all that runs in a pool, so one that has not come back yet goes only by force
(P15), and by an order of this life of the store: what a backup says of who is dead may not be true any more.

Everything is decided from the state that is found, in one try; what conflicted or was not answered is found by the
next look. One replica sees to a pool, the winner of its name; that there is only one is never relied on.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.ids import PoolName, ReplicaId
from hanse.model.lifecycle import DeclaredLost, Event, State, Stop
from hanse.model.reasons import Reason
from hanse.model.report import GangReport, GangStatus
from hanse.scheduler.core.facts import BindingFacts, PoolFacts
from hanse.scheduler.core.world import World, winner
from hanse.scheduler.shell.counting import count_usage
from hanse.store import keys
from hanse.store.contract import (
    TXN_OPS_MAX,
    Committed,
    Delete,
    Guard,
    ModRevisionIs,
    Op,
    Put,
    Store,
    StoreUnavailable,
    Txn,
    prefix_end,
)
from hanse.store.moves import (
    JobView,
    PlannedMove,
    WriteId,
    count_move,
    drop_orphan,
    event_of,
    plan_move,
    read_jobs,
)
from hanse.store.schema import LeftValue, PoolConfigValue, decode, encode

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.5
TAKEN_AT_ONCE: Final = 64
"""Bindings of a pool that one look takes back."""

HEADS_AT_ONCE: Final = TXN_OPS_MAX - 8
"""Heads that one transaction removes beside the pool's other keys."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What is done with one binding; `outcome`: what is counted."""

    outcome: str
    event: Event | None
    report: GangReport | None = None


class Leaves:
    """See the module."""

    def __init__(
        self, store: Store, world: World, clock: Clock, *, replica: ReplicaId, nonce: str, write_id: WriteId
    ) -> None:
        self._store = store
        self._world = world
        self._clock = clock
        self._replica = replica
        self._nonce = nonce
        self._write_id = write_id
        self._wake = asyncio.Event()
        self._lost: dict[PoolName, set[keys.BindingKey]] = {}  # bindings whose jobs are LOST: only an agent ends them

    def look(self) -> None:
        """Something about pools may have changed."""
        if self._world.leaving():
            self._wake.set()

    async def run(self) -> None:
        """See to the pools that leave, until cancelled."""
        while True:
            await self._wake.wait()
            pools = self._world.leaving()
            if not pools:
                self._wake.clear()
                self._lost.clear()
                continue
            for pool in pools:
                await self._one(pool)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _one(self, pool: PoolFacts) -> None:
        try:
            if not self._is_mine(pool.name):
                return
            bindings = self._world.ledger(pool.name).bindings()
            force = self._by_force(pool)
            if not bindings and (force or pool.name not in self._world.missing()):
                await self._remove(pool)
            elif pool.leave is not None and force:
                await self._take_back(pool, bindings, vouched=pool.leave.vouched)
        except StoreUnavailable as error:
            log.warning("leave_unavailable", extra={"pool": pool.name, "cause": str(error)})

    def _by_force(self, pool: PoolFacts) -> bool:
        """Whether the order by force is of this life of the store."""
        return pool.leave is not None and pool.leave.force and pool.leave.incarnation == self._world.incarnation

    def _is_mine(self, pool: PoolName) -> bool:
        me = self._world.replicas.get(self._replica)
        members = [self._world.replicas[r] for r in sorted(self._world.replicas)]
        return me is not None and me.nonce == self._nonce and winner(f"pool.{pool}", members) == self._replica

    # ---- jobs ------------------------------------------------------------------------------------------------

    async def _take_back(self, pool: PoolFacts, bindings: Sequence[BindingFacts], *, vouched: bool) -> None:
        lost = self._lost.setdefault(pool.name, set())
        if vouched:
            lost.clear()
        left = [key for key in sorted(map(_key, bindings)) if key not in lost][:TAKEN_AT_ONCE]
        views = await read_jobs(self._store, [key.job for key in left]) if left else {}
        for key in left:
            step = _step(views.get(key.job), key, vouched=vouched)
            if step is None:
                lost.add(key)
            elif await self._taken(pool, key, step, views.get(key.job)):
                metrics.LEAVE_TAKEN_BACK.add(1, step.outcome)
                fields = {"job": key.job, "attempt": key.attempt, "pool": pool.name, "outcome": step.outcome}
                log.info("job_taken_back", extra=fields)

    async def _taken(self, pool: PoolFacts, key: keys.BindingKey, step: _Step, view: JobView | None) -> bool:
        """Whether the step is in effect."""
        order = ModRevisionIs(keys.pool_config(pool.name), pool.revision)
        if step.event is None or view is None:
            return await self._dropped(key, order)
        plan = plan_move(view, step.event, now_ms=self._clock.now_ms(), write_id=self._write_id(), report=step.report)
        if not isinstance(plan, PlannedMove):
            return False
        if not isinstance(await self._store.transact(Txn((*plan.guards, order), plan.ops)), Committed):
            return False
        count_move(plan.before, plan.state)
        count_usage(plan, self._world)
        return True

    async def _dropped(self, key: keys.BindingKey, order: Guard) -> bool:
        """A binding of no live attempt is gone (P12)."""
        found = (await self._store.read([key.text])).items.get(key.text)
        if found is None:
            return False
        guards, ops = drop_orphan(key, found.mod_revision)
        return isinstance(await self._store.transact(Txn((*guards, order), ops)), Committed)

    # ---- the pool --------------------------------------------------------------------------------------------

    async def _remove(self, pool: PoolFacts) -> None:
        """Remove a pool's keys, if the store too has no binding there; a few heads at a time, the settings last."""
        bindings, heads = keys.bindings(pool.name), keys.heads(pool.name)
        page = await self._store.range(bindings, prefix_end(bindings), limit=1, keys_only=True)
        if page.items or page.more:
            return
        order = ModRevisionIs(keys.pool_config(pool.name), pool.revision)
        rest = [kv.key for kv in (await self._store.range(heads, prefix_end(heads))).items]
        if len(rest) > HEADS_AT_ONCE:
            await self._store.transact(Txn((order,), tuple(Delete(key) for key in rest[:HEADS_AT_ONCE])))
            return
        last = await self._last(pool, order, rest)
        outcome = await self._store.transact(last) if last is not None else None
        if isinstance(outcome, Committed):
            kind = _kind(pool)
            metrics.POOLS_LEFT.add(1, kind)
            log.info("pool_left", extra={"pool": pool.name, "order": kind, "revision": outcome.revision})

    async def _last(self, pool: PoolFacts, order: Guard, heads: Sequence[str]) -> Txn | None:
        """Nobody speaks for the pool from then on, and its agent is not to register it again."""
        config, left = keys.pool_config(pool.name), keys.pool_left(pool.name)
        going = [keys.pool_agent(pool.name), keys.pool_returned(pool.name), keys.attached(pool.name)]
        read = await self._store.read([config, left, *going])
        if config not in read.items or pool.leave is None:
            return None
        value, leave = decode(read.items[config].value, PoolConfigValue), pool.leave
        note = LeftValue(value.cluster_uid, self._clock.now_ms(), leave.since_ms, leave.force, leave.vouched)
        guards = [
            ModRevisionIs(key, read.items[key].mod_revision if key in read.items else 0) for key in (left, *going)
        ]
        ops: list[Op] = [Delete(key) for key in (*heads, config, *going)]
        return Txn((order, *guards), (*ops, Put(left, encode(note))))


def _kind(pool: PoolFacts) -> str:
    if pool.leave is None or not pool.leave.force:
        return "drained"
    return "vouched" if pool.leave.vouched else "forced"


def _key(binding: BindingFacts) -> keys.BindingKey:
    return keys.BindingKey(binding.pool, binding.job, binding.attempt, binding.part)


def _step(view: JobView | None, key: keys.BindingKey, *, vouched: bool) -> _Step | None:
    """What to do with a binding; None if only its agent can."""
    live = view is not None and view.state.attempt == key.attempt and view.state.state.live
    if view is None or not live:
        return _Step("released", None) if vouched else None
    if not vouched:
        return _Step("lost", DeclaredLost(key.attempt))
    if view.state.state is not State.STOPPING:
        target = State.PENDING if view.state.requeue_infrastructure else State.FAILED
        return _Step("stopped", Stop(target, Reason.POOL_LOST, key.attempt))
    report = GangReport(key.job, key.attempt, key.part, GangStatus.RELEASED)
    return _Step("released", event_of(view, report), report)
