"""Reports that a replica has not acknowledged: the newest state of each gang, in bounded batches.

A report is a level. A newer one of the same gang replaces it while it waits; one that is under way is not recalled,
and the newer one follows it. A report is kept until it is acknowledged, by whatever replica: after a new attachment
all that was under way is sent again, and so is a batch that nobody answered in time. What was overtaken is not: a
newer report of the same gang may be in effect already, and the gang be gone.

Nobody waits to hear that a gang runs, or has finished, so these reports may gather until something *urgent* goes.
"""

from dataclasses import dataclass
from typing import Final

from hanse.model.fence import GangKey
from hanse.model.report import GangReport, GangStatus

PATIENT: Final = frozenset({GangStatus.RUNNING, GangStatus.FINISHED})


@dataclass(frozen=True, slots=True)
class _Batch:
    reports: tuple[GangReport, ...]
    sent_s: float


class Outbox:
    """Times are the caller's monotonic seconds."""

    def __init__(self) -> None:
        self._waiting: dict[GangKey, GangReport] = {}
        self._urgent: set[GangKey] = set()
        self._sent: dict[int, _Batch] = {}
        self._newest: dict[GangKey, GangReport] = {}  # of each gang, unless it is acknowledged or dropped

    @property
    def waiting(self) -> int:
        """Reports that are to be sent."""
        return len(self._waiting)

    @property
    def urgent(self) -> bool:
        """Whether somebody waits for a report that is to be sent."""
        return bool(self._urgent)

    @property
    def batches_sent(self) -> int:
        """Batches that are under way."""
        return len(self._sent)

    def put(self, report: GangReport) -> None:
        """Report this, instead of what waits for the same gang."""
        self._newest[report.key] = report
        self._wait(report)

    def drop(self, key: GangKey) -> None:
        """Nobody asks for this gang any more."""
        self._waiting.pop(key, None)
        self._urgent.discard(key)
        self._newest.pop(key, None)

    def take(self, sequence: int, *, limit: int, now_s: float) -> tuple[GangReport, ...]:
        """The oldest `limit` waiting reports, now under way as `sequence`."""
        keys = [key for key, _ in zip(self._waiting, range(limit), strict=False)]
        reports = tuple(self._waiting.pop(key) for key in keys)
        self._urgent.difference_update(keys)
        if reports:
            self._sent[sequence] = _Batch(reports, now_s)
        return reports

    def acknowledge(self, sequence: int) -> tuple[GangReport, ...]:
        """These are in effect; empty if the sequence is not under way (any more)."""
        batch = self._sent.pop(sequence, None)
        reports = batch.reports if batch else ()
        for report in reports:
            if self._newest.get(report.key) is report:
                del self._newest[report.key]
        return reports

    def overdue(self, before_s: float) -> bool:
        """Send again what was sent before that time and not acknowledged; whether there was any."""
        late = [sequence for sequence, batch in self._sent.items() if batch.sent_s < before_s]
        for sequence in late:
            self._again(self._sent.pop(sequence))
        return bool(late)

    def restart(self) -> None:
        """A new stream: whatever is under way is to be sent again."""
        batches = list(self._sent.values())
        self._sent.clear()
        for batch in batches:
            self._again(batch)

    def _again(self, batch: _Batch) -> None:
        for report in batch.reports:
            if self._newest.get(report.key) is report:
                self._wait(report)

    def _wait(self, report: GangReport) -> None:
        self._waiting[report.key] = report
        if report.status in PATIENT:
            self._urgent.discard(report.key)
        else:
            self._urgent.add(report.key)
