"""Which ended jobs leave the store. Pure.

An ended job is kept for `age_s` after its end, so that whoever asked for it can look, and fewer of them are kept when
there are more than `jobs_max`: the oldest go first. Beyond the limit the number is brought some way below it, so that
at a steady rate the store is walked through once for thousands of jobs that end, and not for each.

A walk hands over every ended job that it meets. Only the oldest are remembered, at most `candidates_max`, so that a
walk costs the same memory whatever the store holds; what is left over is met by the next walk.
"""

import heapq
from dataclasses import dataclass
from typing import Final

from hanse.model.ids import JobId

LOW_WATER: Final = 0.9
"""Once the limit on the number is passed, so much of it is left."""

ORPHANS_SHARE: Final = 0.05
"""Of the limit on the number, for jobs of deleted queues; so much may be kept beyond it."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long ended jobs stay in the store.

    Attributes:
        age_s: after its end a job stays for this time, in seconds.
        jobs_max: ended jobs of the whole federation that stay, whatever their age; replicas share it by queues.
        drop_per_s: jobs that one replica drops in a second, so that commits never wait for it.
    """

    age_s: float = 86_400.0
    jobs_max: int = 200_000
    drop_per_s: int = 2_000

    def share(self, queues: int, of: int, *, orphans: bool) -> int:
        """Ended jobs that a replica keeps which sees to so many queues of all; `orphans`: and to what belongs to
        queues that are gone, of which it keeps a few even if it has no queue."""
        share = self.jobs_max if of <= queues else self.jobs_max * queues // of
        return max(share, int(self.jobs_max * ORPHANS_SHARE)) if orphans else share


class Ended:
    """The ended jobs that one walk has met.

    Attributes:
        total: how many there were.
    """

    def __init__(self, candidates_max: int) -> None:
        self._max = candidates_max
        self._oldest: list[tuple[int, JobId]] = []  # a heap, the youngest first: times are negative
        self.total = 0

    def add(self, job: JobId, ended_ms: int, *, candidate: bool = True) -> None:
        """One more; one that is no candidate only counts."""
        self.total += 1
        if not candidate:
            return
        if len(self._oldest) < self._max:
            heapq.heappush(self._oldest, (-ended_ms, job))
        elif -ended_ms > self._oldest[0][0]:
            heapq.heapreplace(self._oldest, (-ended_ms, job))

    def surplus(self, *, age_s: float, jobs_max: int, now_ms: int) -> list[JobId]:
        """What is to leave, the oldest first; of more than could be remembered, as many as were."""
        oldest = sorted(self._oldest, key=lambda one: (-one[0], one[1]))
        too_many = self.total - int(jobs_max * LOW_WATER) if self.total > jobs_max else 0
        until_ms = now_ms - int(age_s * 1000)
        return [job for at, (ended, job) in enumerate(oldest) if at < too_many or -ended <= until_ms]
