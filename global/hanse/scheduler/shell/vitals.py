"""A replica's account of itself, for `hanse status`: sampled every few seconds, so that rates are of a minute."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.version import own_version
from hanse.model.ids import ReplicaId
from hanse.model.vitals import Vitals
from hanse.scheduler.shell.checkup import facts

SAMPLE_EVERY_S: Final = 5.0
WINDOW_S: Final = 60.0


class VitalsKeeper:
    """Samples the counters of one replica.

    Args:
        counts: all that it counts, since its start.
        now: agents, roots, pending jobs, unsettled transactions.
    """

    def __init__(
        self,
        replica: ReplicaId,
        clock: Clock,
        *,
        ready: Callable[[], bool],
        counts: Callable[[], Counter[str]],
        now: Callable[[], tuple[int, int, int, int]],
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._ready = ready
        self._counts = counts
        self._now = now
        self._began_s = clock.monotonic()
        self._samples: deque[tuple[float, Counter[str]]] = deque([(self._began_s, Counter())])

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await asyncio.sleep(SAMPLE_EVERY_S)
            self.sample()

    def sample(self) -> None:
        """Remember the counters as they are; what is older than the window is forgotten, but for one sample."""
        now_s = self._clock.monotonic()
        self._samples.append((now_s, self._counts()))
        while len(self._samples) > 2 and now_s - self._samples[1][0] >= WINDOW_S:
            self._samples.popleft()

    def tell(self) -> Vitals:
        """How the replica is."""
        now_s, counts = self._clock.monotonic(), self._counts()
        since_s, before = self._samples[0]
        agents, roots, pending_jobs, unsettled = self._now()
        return Vitals(
            replica=self._replica,
            ready=self._ready(),
            uptime_s=now_s - self._began_s,
            agents=agents,
            roots=roots,
            pending_jobs=pending_jobs,
            unsettled=unsettled,
            counts=dict(sorted(counts.items())),
            window_s=now_s - since_s,
            lately=dict(sorted((counts - before).items())),
            facts=facts(),
            version=own_version(),
            time_ms=self._clock.now_ms(),
        )
