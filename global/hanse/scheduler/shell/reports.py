"""The reports of one agent's stream that are not in effect yet.

Reports are levels: only the newest of each gang matters, so the book keeps one per gang. A batch is acknowledged when
each of its reports is in effect or need not be, or when a newer one of the same gang is. Every transaction that a
report makes compares `pools/<pool>/agent` with the stream's epoch (P9): what a superseded agent says changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hanse.kit.gang_logs import GangLogs
from hanse.kit.telemetry import metrics
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import JobId, PoolName
from hanse.model.report import GangReport, Reports
from hanse.store import keys
from hanse.store.contract import Conflict, Guard, ModRevisionIs

log = logging.getLogger(__name__)

REPORTS_WAITING_MAX: Final = 50_000
"""Gangs of one pool with a report that is not in effect yet; beyond it the stream is ended and begins anew."""


class Superseded(Exception):
    """Another agent has been granted a newer epoch: this stream speaks for nobody."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A report, the number of the batch that brought it, and when that was."""

    report: GangReport
    sequence: int
    heard_ms: int


class ReportBook:
    """One stream's reports.

    Args:
        arrived: called when there is something to take.
    """

    def __init__(self, *, pool: PoolName, epoch: Epoch, logs: GangLogs, arrived: Callable[[], None]) -> None:
        self.pool = pool
        self.logs = logs
        self._epoch = epoch
        self._arrived = arrived
        self._waiting: dict[GangKey, Waiting] = {}
        self._open: dict[int, set[GangKey]] = {}
        self._acknowledge: Callable[[int], None] | None = None
        self._ended: asyncio.Future[None] | None = None

    async def run(self, acknowledge: Callable[[int], None]) -> None:
        """Have reports brought into effect until cancelled.

        Raises:
            Superseded: the epoch is not the pool's any more.
        """
        self._acknowledge = acknowledge
        self._ended = asyncio.get_running_loop().create_future()
        self._arrived()
        try:
            await self._ended
        finally:
            self._acknowledge = None

    @property
    def running(self) -> bool:
        """Whether the stream is there: nothing is taken from a book whose stream has ended."""
        return self._acknowledge is not None and self._ended is not None and not self._ended.done()

    def put(self, reports: Reports, *, now_ms: int) -> None:
        """Take a batch in; a newer report of a gang replaces an older one.

        Raises:
            Superseded: the reports are of another epoch than this stream's.
        """
        if reports.epoch != self._epoch:
            metrics.FENCED.add(1, "epoch")
            raise Superseded(f"reports of epoch {reports.epoch} on a stream of epoch {self._epoch}")
        for report in reports.reports:
            self._waiting[report.key] = Waiting(report, reports.sequence, now_ms)
        if len(self._waiting) > REPORTS_WAITING_MAX:
            raise Superseded("too many reports wait; attach anew")
        self._open[reports.sequence] = {report.key for report in reports.reports}
        self._settle_empty()
        self._arrived()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, limit: int, busy: Iterable[JobId]) -> list[Waiting]:
        """At most `limit` reports, none of a busy job, and one of each job: a transaction moves a job once."""
        taken: dict[JobId, Waiting] = {}
        for key, waiting in self._waiting.items():
            if len(taken) == limit:
                break
            if key.job not in busy:
                taken.setdefault(key.job, waiting)
        return list(taken.values())

    def settle(self, done: Iterable[Waiting]) -> None:
        """These reports are in effect, or need not be."""
        for entry in done:
            key = entry.report.key
            if self._waiting.get(key) is entry:
                del self._waiting[key]
            for sequence, gangs in self._open.items():
                if sequence <= entry.sequence:
                    gangs.discard(key)
        self._settle_empty()

    def _settle_empty(self) -> None:
        for sequence in [s for s in sorted(self._open) if not self._open[s]]:
            del self._open[sequence]
            if self._acknowledge is not None:
                self._acknowledge(sequence)

    def fence(self) -> Guard:
        """The pool's agent is still the one that this stream was granted to (P9)."""
        return ModRevisionIs(keys.pool_agent(self.pool), self._epoch.revision)

    def check_fence(self, conflict: Conflict) -> bool:
        """Whether the fence held in a transaction that did not pass; if not, the stream ends."""
        current = conflict.current.get(keys.pool_agent(self.pool), self._epoch.revision)
        if current == self._epoch.revision:
            return True
        metrics.FENCED.add(1, "guard")
        log.warning("reports_fenced", extra={"pool": self.pool, "epoch": str(self._epoch), "newer": current})
        self.end(Superseded(f"pool {self.pool} has a newer agent (epoch revision {current})"))
        return False

    def end(self, error: Exception) -> None:
        """The stream cannot go on."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)
