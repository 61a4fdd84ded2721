"""A replica as it decides: the product's feed, states, cycle and committer over a store, with a price on decisions.

A decision costs the replica `gang_s` before its plan is sent; what others commit meanwhile is what it may collide
with. Verifying a plan after a conflict has no price: it asks one pool where deciding asks many. Membership and grants
are written once by the bench, one root to every replica. Nothing dies here.

Work never runs out: of every kind of gang some wait in every queue, so no replica waits for users.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from bench.conflicts.fleet import Kind, kinds
from hanse.kit.clock import Clock
from hanse.model.ids import Attempt, ReplicaId, job_id
from hanse.model.lifecycle import JobState, State, encode_state
from hanse.model.queue import Queue
from hanse.scheduler.core.plan import Decision
from hanse.scheduler.core.snapshot import Limits, Snapshot
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.committer import CommitResult, Committer
from hanse.scheduler.shell.cycle import Cycle
from hanse.scheduler.shell.feed import Feed
from hanse.scheduler.shell.states import States
from hanse.scheduler.shell.traces import Traces
from hanse.scheduler.shell.views import Views
from hanse.store import keys
from hanse.store.contract import Op, Put, Store, Txn
from hanse.store.schema import SpecEnvelope, encode_spec
from hanse.store.traces import JobTraces
from hanse.wire.job import spec_to_wire

WAITING_OF_A_KIND: Final = 8
SUBMIT_EVERY_S: Final = 0.02
JOBS_PER_TXN: Final = 40


class PricedCommitter(Committer):
    """A committer whose plans took time to make.

    Attributes:
        gang_s: for each decision.
    """

    gang_s = 0.0

    async def commit(self, snapshot: Snapshot, decisions: Sequence[Decision]) -> CommitResult:
        await asyncio.sleep(self.gang_s * len(decisions))
        return await super().commit(snapshot, decisions)


class Scheduler:
    """One replica.

    Args:
        queue: the one that it serves.
    """

    def __init__(
        self,
        name: ReplicaId,
        nonce: str,
        queue: Queue,
        store: Store,
        clock: Clock,
        rng: Random,
        limits: Limits,
        *,
        gang_s: float,
        interval_s: float,
    ) -> None:
        self.world = World(name)
        self._store, self._clock, self._rng = store, clock, rng
        self._queue = queue
        self._kinds = kinds(queue)
        self._submitted = 0
        self.states = States(store, self.wake)
        self._feed = Feed(store, self.world, clock, self.wake)
        traces = Traces(JobTraces(store), clock)
        self._committer = PricedCommitter(
            store,
            self.world,
            self._feed,
            self.states,
            clock,
            traces,
            Views(),
            nonce=nonce,
            limits=limits,
            write_id=self._write_id,
        )
        self._committer.gang_s = gang_s
        self._cycle = Cycle(
            store,
            self.world,
            self._feed,
            self.states,
            self._committer,
            clock,
            rng,
            traces,
            nonce=nonce,
            limits=limits,
            interval_s=interval_s,
            write_id=self._write_id,
        )

    @property
    def counts(self) -> Counter[str]:
        """All that committer and cycle have counted."""
        return self._committer.counts + self._cycle.counts

    def wake(self) -> None:
        """Something changed."""
        self._cycle.wake()

    def _write_id(self) -> int:
        return self._rng.getrandbits(62) + 1

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._feed.run(), name="feed")
                group.create_task(self._cycle.run(), name="cycle")
                group.create_task(self._submit(), name="users")
        finally:
            await self.states.close()
            await self._committer.close()

    # ---- users -----------------------------------------------------------------------------------------------

    async def _submit(self) -> None:
        while True:
            ops = [op for kind in self._kinds for _ in range(self._short_of(kind)) for op in self._job(kind)]
            for start in range(0, len(ops), 2 * JOBS_PER_TXN):
                await self._store.transact(Txn((), tuple(ops[start : start + 2 * JOBS_PER_TXN])))
            await asyncio.sleep(SUBMIT_EVERY_S)

    def _short_of(self, kind: Kind) -> int:
        return max(0, WAITING_OF_A_KIND - sum(1 for _ in self.states.pending.members(kind.number)))

    def _job(self, kind: Kind) -> Iterator[Op]:
        self._submitted += 1
        job = job_id(self._queue.uid, "bench", str(self._submitted), 0)
        now_ms = self._clock.now_ms()
        state = JobState(State.PENDING, Attempt(0), 0, now_ms, now_ms, kind.number, write_id=self._write_id())
        envelope = SpecEnvelope("bench", "", "", spec_to_wire(kind.spec).SerializeToString(deterministic=True))
        yield Put(keys.spec(job), encode_spec(envelope))
        yield Put(keys.state(job), encode_state(state))
