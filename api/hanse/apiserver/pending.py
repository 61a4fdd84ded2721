"""How many jobs wait in a queue, roughly: the limit that keeps one tenant from filling the store.

There is no counter in the store, since every submission would write it. A replica counts a queue's pending records
now and then, and adds what it accepts itself in between. What other replicas accept shows at the next count, so the
limit may be passed by what they take in RECOUNT_S; it is a fence, not a quota.
"""

from dataclasses import dataclass
from typing import Final

from hanse.kit.clock import Clock
from hanse.model.ids import QueueUid
from hanse.model.lifecycle import LIVE, STATE_BYTES, State
from hanse.model.queue import Queue
from hanse.store import keys
from hanse.store.contract import RANGE_ITEMS_MAX, Store, key_after, prefix_end

RECOUNT_S: Final = 60.0
RECOUNT_WHEN_FULL_S: Final = 1.0
STATE_BYTE: Final = 1
"""Where a state record has its state; see `lifecycle.encode_state`."""


@dataclass(frozen=True, slots=True)
class Census:
    """Jobs of a queue by what they are; `exact` is false where counting stopped at a limit."""

    pending: int = 0
    live: int = 0
    ended: int = 0
    exact: bool = True


@dataclass(slots=True)
class _Known:
    pending: int
    counted_s: float


class PendingCounts:
    """Says how many more jobs a queue takes."""

    def __init__(self, store: Store, clock: Clock, *, pending_max: int) -> None:
        self._store = store
        self._clock = clock
        self._max = pending_max
        self._known: dict[QueueUid, _Known] = {}

    def most(self, queue: Queue) -> int:
        """How many jobs may wait in the queue; 0 for any number."""
        limits = [limit for limit in (self._max, queue.limits.pending_jobs_max) if limit]
        return min(limits, default=0)

    async def room(self, of: Queue) -> int | None:
        """How many more jobs may wait in the queue; None for any number."""
        most, queue = self.most(of), of.uid
        if not most:
            return None
        known = self._known.get(queue)
        age_s = self._clock.monotonic() - known.counted_s if known else 0.0
        full = known is not None and known.pending >= most
        if known is None or age_s > (RECOUNT_WHEN_FULL_S if full else RECOUNT_S):
            census = await count(self._store, queue)
            known = self._known[queue] = _Known(census.pending, self._clock.monotonic())
        return max(0, most - known.pending)

    def accepted(self, queue: QueueUid, jobs: int) -> None:
        """Jobs of this replica's own that are in the store now."""
        if queue in self._known:
            self._known[queue].pending += jobs


async def count(store: Store, queue: QueueUid, *, jobs_max: int = 0) -> Census:
    """Count the jobs of a queue by their records; stops after about `jobs_max`, 0 for never."""
    start, end, revision = keys.states(queue), prefix_end(keys.states(queue)), 0
    pending = live = seen = 0
    while True:
        page = await store.range(start, end, limit=RANGE_ITEMS_MAX, at_revision=revision)
        numbers = [kv.value[STATE_BYTE] for kv in page.items if len(kv.value) == STATE_BYTES]
        pending += numbers.count(State.PENDING)
        live += sum(numbers.count(state) for state in LIVE)
        seen += len(numbers)
        if not page.more or (jobs_max and seen >= jobs_max):
            return Census(pending, live, seen - pending - live, exact=not page.more)
        start, revision = key_after(page.items[-1].key), page.revision
