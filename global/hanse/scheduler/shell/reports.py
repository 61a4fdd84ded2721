"""Turns an agent's reports into moves of jobs, many to a transaction, each fenced by the agent's epoch.

Reports are levels: only the newest of each gang matters, so the book keeps one per gang, and while a transaction is
under way the next batch gathers. Every transaction compares `pools/<pool>/agent` with the stream's epoch (P9): what
a superseded agent says changes nothing. When a guard fails, the jobs that moved are read and decided again, the rest
is sent again at once; an unknown outcome is decided again from what the store then holds, which is safe because a
transition is decided from the state it finds and the state key is always compared.

A batch of reports is acknowledged when each of them is in effect or need not be.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.gang_logs import GangLogs
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import JobId, PoolName
from hanse.model.lifecycle import Ignored, Illegal
from hanse.model.reasons import Reason
from hanse.model.report import GangReport, GangStatus, Reports
from hanse.store import keys
from hanse.store.contract import (
    TXN_OPS_MAX,
    Committed,
    Conflict,
    Guard,
    ModRevisionIs,
    Op,
    Store,
    StoreUnavailable,
    Txn,
    Unknown,
)
from hanse.store.moves import JobView, PlannedMove, WriteId, drop_orphan, event_of, plan_move, read_jobs

log = logging.getLogger(__name__)

REPORTS_PER_TXN_MAX: Final = 40
REPORTS_WAITING_MAX: Final = 50_000
"""Gangs of one pool with a report that is not in effect yet; beyond it the stream is ended and begins anew."""
RETRY_S: Final = 0.5

_ENDING: Final = frozenset({GangStatus.REFUSED, GangStatus.FINISHED, GangStatus.RELEASED})

Refused = Callable[[int, PoolName, Reason], None]


class Superseded(Exception):
    """Another agent has been granted a newer epoch: this stream speaks for nobody."""


class ReportBook:
    """The reports of one stream that are not in effect yet."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        pool: PoolName,
        epoch: Epoch,
        write_id: WriteId,
        refused: Refused,
        logs: GangLogs,
    ) -> None:
        self._store = store
        self._clock = clock
        self._pool = pool
        self._epoch = epoch
        self._write_id = write_id
        self._refused = refused
        self._logs = logs
        self._waiting: dict[GangKey, GangReport] = {}
        self._open: dict[int, set[GangKey]] = {}
        self._arrived = asyncio.Event()
        self.counts: Counter[str] = Counter()

    def put(self, reports: Reports) -> None:
        """Take a batch in; a newer report of a gang replaces an older one.

        Raises:
            Superseded: the reports are of another epoch than this stream's.
        """
        if reports.epoch != self._epoch:
            raise Superseded(f"reports of epoch {reports.epoch} on a stream of epoch {self._epoch}")
        gangs = {report.key for report in reports.reports}
        for report in reports.reports:
            self._waiting[report.key] = report
        if len(self._waiting) > REPORTS_WAITING_MAX:
            raise Superseded("too many reports wait; attach anew")
        self._open[reports.sequence] = gangs
        self._arrived.set()

    async def run(self, acknowledge: Callable[[int], None]) -> None:
        """Bring reports into effect until cancelled.

        Raises:
            Superseded: the epoch is not the pool's any more.
        """
        while True:
            if not self._waiting:
                self._settle_empty(acknowledge)
                self._arrived.clear()
                await self._arrived.wait()
            batch = list(self._waiting.values())[:REPORTS_PER_TXN_MAX]
            try:
                done = await self._commit(batch)
            except StoreUnavailable as error:
                log.warning("reports_unavailable", extra={"pool": self._pool, "cause": str(error)})
                await asyncio.sleep(RETRY_S)
                continue
            self._finish(done, acknowledge)

    def _finish(self, done: Sequence[GangReport], acknowledge: Callable[[int], None]) -> None:
        for report in done:
            if self._waiting.get(report.key) is report:
                del self._waiting[report.key]
        settled = {report.key for report in done}
        for sequence in sorted(self._open):
            left = self._open[sequence] - settled
            self._open[sequence] = left
        self._settle_empty(acknowledge)

    def _settle_empty(self, acknowledge: Callable[[int], None]) -> None:
        for sequence in [s for s in sorted(self._open) if not self._open[s]]:
            del self._open[sequence]
            acknowledge(sequence)

    # ---- one batch -------------------------------------------------------------------------------------------

    async def _commit(self, batch: Sequence[GangReport]) -> list[GangReport]:
        """Bring some reports into effect; those that are, or need not be. The others are tried again."""
        views = await read_jobs(self._store, list(dict.fromkeys(report.job for report in batch)))
        done: list[GangReport] = []
        moves: list[tuple[GangReport, PlannedMove]] = []
        orphans: list[GangReport] = []
        busy: set[JobId] = set()
        for report in batch:
            if report.job in busy:
                continue  # one move of a job in a transaction; the next round takes the other part
            plan = self._plan(views.get(report.job), report)
            if isinstance(plan, PlannedMove):
                moves.append((report, plan))
                busy.add(report.job)
            elif plan:
                orphans.append(report)
            else:
                done.append(report)
        done.extend(await self._send(moves))
        done.extend(await self._drop(orphans))
        return done

    def _plan(self, view: JobView | None, report: GangReport) -> PlannedMove | bool:
        """The move that a report makes; True if only its binding is to be dropped, False if nothing is to be done."""
        if view is None:
            return report.status in _ENDING
        event = event_of(view, report)
        if event is None:
            return False
        plan = plan_move(view, event, now_ms=self._clock.now_ms(), write_id=self._write_id(), report=report)
        match plan:
            case PlannedMove():
                return plan
            case Ignored(_, drop):
                return drop
            case Illegal(why):
                log.error("report_illegal", extra={"job": report.job, "attempt": report.attempt, "why": why})
                return False

    async def _send(self, moves: list[tuple[GangReport, PlannedMove]]) -> list[GangReport]:
        """One transaction; when guards moved, again without the jobs that rest on them."""
        while moves:
            chosen = _within_limits(moves)
            guards: tuple[Guard, ...] = (self._fence(), *(g for _, m in chosen for g in m.guards))
            ops: tuple[Op, ...] = tuple(op for _, m in chosen for op in m.ops)
            outcome = await self._store.transact(Txn(guards, ops))
            match outcome:
                case Committed(revision):
                    for report, move in chosen:
                        self._count(report, move, revision)
                    return [report for report, _ in chosen]
                case Conflict():
                    self._check_fence(outcome)
                    moved = {g.key for g in guards if outcome.current.get(g.key, 0) != g.revision}
                    self.counts["conflicts"] += 1
                    moves = [(r, m) for r, m in chosen if not any(g.key in moved for g in m.guards)]
                case Unknown(cause):
                    log.warning("reports_unknown", extra={"pool": self._pool, "cause": cause})
                    return []
        return []

    async def _drop(self, orphans: Sequence[GangReport]) -> list[GangReport]:
        """Delete bindings that belong to no live attempt (P12)."""
        done: list[GangReport] = []
        for report in orphans:
            key = keys.BindingKey(self._pool, report.job, report.attempt, report.part)
            found = (await self._store.read([key.text])).items.get(key.text)
            if found is None:
                done.append(report)
                continue
            guards, ops = drop_orphan(key, found.mod_revision)
            outcome = await self._store.transact(Txn((self._fence(), *guards), ops))
            if isinstance(outcome, Conflict):
                self._check_fence(outcome)
            if isinstance(outcome, Committed):
                done.append(report)
        return done

    def _fence(self) -> Guard:
        """The pool's agent is still the one that this stream was granted to (P9)."""
        return ModRevisionIs(keys.pool_agent(self._pool), self._epoch.revision)

    def _check_fence(self, conflict: Conflict) -> None:
        current = conflict.current.get(keys.pool_agent(self._pool), 0)
        if current != self._epoch.revision:
            raise Superseded(f"pool {self._pool} has a newer agent (epoch revision {current})")

    def _count(self, report: GangReport, move: PlannedMove, revision: int) -> None:
        self.counts[report.status.name.lower()] += 1
        log.info(
            "job_moved",
            extra={
                **self._logs.fields(report.key),
                "revision": revision,
                "pool": self._pool,
                "report": report.status.name,
                "state": move.state.state.name,
                "reason": move.state.reason.name,
            },
        )
        if report.status is GangStatus.REFUSED:
            self._refused(move.state.class_hash, self._pool, report.reason)


def _within_limits(moves: Sequence[tuple[GangReport, PlannedMove]]) -> list[tuple[GangReport, PlannedMove]]:
    """As many moves as one transaction takes, beside the fence."""
    chosen: list[tuple[GangReport, PlannedMove]] = []
    ops = guards = 1
    for entry in moves:
        ops += len(entry[1].ops)
        guards += len(entry[1].guards)
        if chosen and (ops > TXN_OPS_MAX or guards > TXN_OPS_MAX):
            break
        chosen.append(entry)
    return chosen


__all__ = ["ReportBook", "Superseded"]
