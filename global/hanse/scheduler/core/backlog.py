"""What is remembered between cycles: which classes wait for what, so that a cycle looks only where something changed.

* A class that found no place is skipped until a pool has grown since, or its queue's quota was freed or changed.
* A pool that refused a class is left out for it for AVOID_FIRST_S, doubled with each refusal in a row up to
  AVOID_MAX_S: a shape can be wrong outside its exact class, and that must not become a loop. When a gang leaves the
  pool, the pause ends (after AVOID_FIRST_S at the least), since what a shape cannot see may be free now; not where
  the cluster lacks something that the class needs, since nobody but its owner brings that.
* A class that may find a place although nothing has grown is looked at again every PASSING_LOOK_S, but not before all
  others had their turn: a cycle may be too short for all, and the memory for requests too small.
* A class whose planning raised is left out for QUARANTINE_S, so that one bad request stops nobody else.

The walk over what waits happens only when one of these may have changed; an idle backlog of any size costs nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from hanse.model.ids import PoolName
from hanse.model.reasons import Reason
from hanse.scheduler.core.pending import PendingJob, PendingSet
from hanse.scheduler.core.plan import Plan
from hanse.scheduler.core.verdicts import Blocked
from hanse.scheduler.core.world import World

AVOID_FIRST_S: Final = 1.0
AVOID_MAX_S: Final = 60.0
QUARANTINE_S: Final = 60.0
PASSING_LOOK_S: Final = 1.0
"""Classes that wait for something which passes by itself (a refusal, an old summary) are looked at this often."""

PASSING_LOOK_MAX_S: Final = 30.0
"""They are looked at after so long even if every cycle since has left classes unseen."""

_PASSING: Final = frozenset(
    {Reason.REFUSED, Reason.NEEDS, Reason.LAGGING, Reason.STALE, Reason.DETACHED, Reason.CORDONED}
)


@dataclass(slots=True)
class _Avoided:
    refusals: int
    since_s: float
    until_s: float
    released: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A class that found no place.

    Attributes:
        passing: it may find one although nothing has grown.
        round, looked_s: when it was looked at.
    """

    blocked: Blocked
    quota_stamp: int
    passing: bool
    round: int
    looked_s: float


class Backlog:
    """The memory of one replica's cycles."""

    def __init__(self, world: World, pending: PendingSet) -> None:
        self._world = world
        self._pending = pending
        self._waiting: dict[int, _Waiting] = {}
        self._avoided: dict[tuple[int, PoolName], _Avoided] = {}
        self._quarantined: dict[int, float] = {}
        self._skip: dict[int, object] = {}
        self._seen: tuple[int, int, int] = (-1, -1, -1)
        self._round = 0  # a cycle that has seen every class there was to see ends one
        self._passing = False  # whether some class waits for what passes by itself
        self._look_s = 0.0
        self._untold: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def reason(self, class_hash: int) -> Reason | None:
        """Why a class waits, as far as the last cycles know."""
        found = self._waiting.get(class_hash)
        return found.blocked.reason if found is not None else None

    def reasons(self) -> Iterator[Reason]:
        """Why each class that waits does."""
        return (waiting.blocked.reason for waiting in self._waiting.values())

    def untold(self, limit: int) -> list[tuple[PendingJob, Reason]]:
        """At most `limit` jobs whose state does not carry the reason for which their class waits."""
        self._untold.update(self._pending.joined)
        self._pending.joined.clear()
        found: list[tuple[PendingJob, Reason]] = []
        for number in list(self._untold):
            reason = self.reason(number)
            wrong = (j for j in self._pending.members(number) if j.state.reason is not reason)
            if reason is not None:
                found.extend((job, reason) for job in islice(wrong, limit - len(found)))
            if len(found) == limit:
                return found
            del self._untold[number]
        return found

    def told(self, jobs: Iterable[PendingJob], *, done: bool) -> None:
        """Whether the reasons of these jobs were written; if not, they stay untold."""
        if not done:
            self._untold.update((job.class_hash, None) for job in jobs)

    def skip(self, now_s: float) -> Mapping[int, object]:
        """Classes that cannot have a place now."""
        heard = self._world.heard if self._passing else 0
        seen = (self._world.growth, self._world.freed, heard)
        if seen != self._seen or now_s >= self._look_s:
            self._seen = seen
            self._look_s = now_s + PASSING_LOOK_S
            self._look(now_s)
        return self._skip

    def _look(self, now_s: float) -> None:
        self._quarantined = {c: until for c, until in self._quarantined.items() if until > now_s}
        avoided = {c for c, _ in self.avoided(now_s)}
        skip: dict[int, object] = dict(self._quarantined)
        for number, waiting in list(self._waiting.items()):
            head = self._pending.head_or_none(number)
            if head is None:
                del self._waiting[number]
                continue
            grown = self._world.growth > waiting.blocked.stamp
            freed = waiting.blocked.quota_bound and self._world.quota_stamp(head.queue) != waiting.quota_stamp
            passed = waiting.passing and number not in avoided and self._is_due(waiting, now_s)
            if not grown and not freed and not passed:
                skip[number] = waiting
        self._skip = skip
        self._passing = any(waiting.passing for waiting in self._waiting.values())

    def _is_due(self, waiting: _Waiting, now_s: float) -> bool:
        """Whether all others had their turn since: else those that are served first would be looked at for ever."""
        return waiting.round != self._round or now_s - waiting.looked_s >= PASSING_LOOK_MAX_S

    def before(self) -> dict[int, Blocked]:
        """Classes that wait for capacity alone: they ask only pools that have grown since."""
        return {
            number: waiting.blocked
            for number, waiting in self._waiting.items()
            if number not in self._skip and not waiting.blocked.quota_bound and not waiting.passing
        }

    def remember(self, plan: Plan, now_s: float) -> None:
        """Take in what a cycle found. To be called in the same step as the cycle."""
        for decision in plan.decisions:
            self._waiting.pop(decision.job.class_hash, None)
            self._skip.pop(decision.job.class_hash, None)
        for number, blocked in plan.blocked.items():
            passing = any(v.reason in _PASSING for v in blocked.verdicts)
            stamp = self._world.quota_stamp(self._pending.head(number).queue)
            waiting = _Waiting(blocked, stamp, passing, self._round, now_s)
            self._waiting[number] = self._skip[number] = waiting
            self._passing = self._passing or passing
            self._untold[number] = None
        for number in plan.failed:
            self.quarantine(number, now_s)
        self._round += not plan.exhausted and not plan.unread

    def quarantine(self, class_hash: int, now_s: float) -> None:
        """Leave a class out for a while: its request cannot be read, or planning it raised."""
        self._quarantined[class_hash] = now_s + QUARANTINE_S
        self._skip[class_hash] = None

    def refused(self, class_hash: int, pool: PoolName, now_s: float, reason: Reason = Reason.REFUSED) -> None:
        """A pool's agent refused a job of this class: it lacks what the class NEEDS, or for anything else."""
        known = self._avoided.get((class_hash, pool))
        refusals = known.refusals + 1 if known is not None else 1
        pause_s = min(AVOID_MAX_S, AVOID_FIRST_S * 2.0 ** min(refusals - 1, 30))
        released = self._world.released.get(pool, 0)
        self._avoided[class_hash, pool] = _Avoided(refusals, now_s, now_s + pause_s, released, reason)
        self._look_s = 0.0

    def avoided(self, now_s: float) -> dict[tuple[int, PoolName], Reason]:
        """Pools that are left out for a class, and why: NEEDS or REFUSED. A refusal is forgotten AVOID_MAX_S after
        its pause has ended."""
        for entry in [e for e, a in self._avoided.items() if a.until_s + AVOID_MAX_S < now_s]:
            del self._avoided[entry]
        found = ((entry, a) for entry, a in self._avoided.items() if self._is_avoided(entry[1], a, now_s))
        return {entry: Reason.NEEDS if a.reason is Reason.NEEDS else Reason.REFUSED for entry, a in found}

    def _is_avoided(self, pool: PoolName, avoided: _Avoided, now_s: float) -> bool:
        if now_s < avoided.since_s + AVOID_FIRST_S:
            return True
        still = avoided.reason is Reason.NEEDS or self._world.released.get(pool, 0) == avoided.released
        return now_s < avoided.until_s and still
