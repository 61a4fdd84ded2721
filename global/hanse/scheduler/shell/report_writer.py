"""Brings the reports of all agents of a replica into effect, many to a transaction.

Agents report a few gangs at a time, and a transaction costs as much for two keys as for forty. So one writer serves
all streams: while its transactions are under way, the next reports gather, whichever pool they come from. A
transaction carries the fence of every pool that it speaks for. When a guard fails, the reports that rest on it are
decided again from what the store then holds, the rest is sent again at once; an unknown outcome is decided again too,
which is safe because a transition is decided from the state it finds and the state key is always compared. For the
same reason a move may rest on what this replica remembers of the job (`views`), and nothing but a move.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hanse.kit.clock import Clock
from hanse.kit.telemetry import metrics
from hanse.model.ids import JobId
from hanse.model.lifecycle import Ignored, Illegal
from hanse.model.report import GangReport, GangStatus
from hanse.scheduler.core.world import World
from hanse.scheduler.shell.counting import count_usage, moved_of, tell_report_conflict
from hanse.scheduler.shell.reports import ReportBook, Waiting
from hanse.scheduler.shell.traces import Traces
from hanse.scheduler.shell.views import Views
from hanse.store import keys
from hanse.store.contract import (
    TXN_OPS_MAX,
    Committed,
    Conflict,
    Guard,
    Op,
    Store,
    StoreUnavailable,
    Txn,
    Unknown,
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

log = logging.getLogger(__name__)

REPORTS_PER_TXN_MAX: Final = 40
WRITERS: Final = 3
"""Transactions under way at once."""
WORTH_ANOTHER: Final = 20
"""Reports for which another transaction is begun while one is under way: fewer wait for its end, since it would only
split into small ones what one can carry."""
RETRY_S: Final = 0.5

_ENDING: Final = frozenset({GangStatus.REFUSED, GangStatus.FINISHED, GangStatus.RELEASED})


@dataclass(frozen=True, slots=True)
class _Entry:
    """A report and the book it was taken from."""

    book: ReportBook
    waiting: Waiting

    @property
    def report(self) -> GangReport:
        return self.waiting.report


_Move = tuple[_Entry, PlannedMove]


class ReportWriter:
    """Serves the books of all streams of one replica.

    Attributes:
        counts: reports in effect by status, conflicts, unknown outcomes.
    """

    def __init__(
        self, store: Store, world: World, clock: Clock, traces: Traces, views: Views, *, write_id: WriteId
    ) -> None:
        self._store = store
        self._world = world
        self._views = views
        self._traces = traces
        self._clock = clock
        self._write_id = write_id
        self._books: list[ReportBook] = []
        self._busy: set[JobId] = set()
        self._arrived = asyncio.Event()
        self.counts: Counter[str] = Counter()

    def join(self, book: ReportBook) -> None:
        """Serve this book from now on."""
        self._books.append(book)

    def leave(self, book: ReportBook) -> None:
        """The book's stream has ended."""
        self._books.remove(book)

    def wake(self) -> None:
        """There may be something to do."""
        self._arrived.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(self._work(), name=f"reports-{number}")

    async def _work(self) -> None:
        while True:
            entries = self._take()
            if len(entries) < (WORTH_ANOTHER if self._busy else 1):
                self._arrived.clear()
                await self._arrived.wait()
                continue
            jobs = {entry.report.job for entry in entries}
            self._busy |= jobs
            try:
                done = await self._commit(entries)
            except StoreUnavailable as error:
                log.warning("reports_unavailable", extra={"cause": str(error)})
                await asyncio.sleep(RETRY_S)
                done = []
            finally:
                self._busy -= jobs
                self._arrived.set()
            for entry in done:
                entry.book.settle([entry.waiting])

    def _take(self) -> list[_Entry]:
        """The next reports, from every book in turn; the book that was first is last the next time."""
        entries: list[_Entry] = []
        taken = set(self._busy)
        for book in self._books:
            if book.running:
                found = book.take(REPORTS_PER_TXN_MAX - len(entries), taken)
                taken.update(waiting.report.job for waiting in found)
                entries.extend(_Entry(book, waiting) for waiting in found)
            if len(entries) == REPORTS_PER_TXN_MAX:
                break
        self._books.append(self._books.pop(0)) if self._books else None
        return entries

    # ---- one batch -------------------------------------------------------------------------------------------

    async def _commit(self, batch: Sequence[_Entry]) -> list[_Entry]:
        """Bring some reports into effect; those that are, or need not be. The others are tried again."""
        done: list[_Entry] = []
        moves, unsure = self._remembered(batch)
        orphans: list[_Entry] = []
        views = await read_jobs(self._store, [entry.report.job for entry in unsure]) if unsure else {}
        for entry in unsure:
            _tell_forged(views.get(entry.report.job), entry)
            plan = self._plan(views.get(entry.report.job), entry)
            if isinstance(plan, PlannedMove):
                moves.append((entry, plan))
            elif plan:
                orphans.append(entry)
            else:
                done.append(entry)
        done.extend(await self._send(moves))
        done.extend(await self._drop(orphans))
        return done

    def _remembered(self, batch: Sequence[_Entry]) -> tuple[list[_Move], list[_Entry]]:
        """The moves that rest on what is remembered, and the reports that need a look into the store."""
        moves: list[_Move] = []
        unsure: list[_Entry] = []
        for entry in batch:
            view = self._views.get(entry.report.job)
            plan = self._plan(view, entry) if view is not None else None
            if isinstance(plan, PlannedMove):
                moves.append((entry, plan))
            else:
                unsure.append(entry)
        return moves, unsure

    def _plan(self, view: JobView | None, entry: _Entry) -> PlannedMove | bool:
        """The move that a report makes; True if only its binding is to be dropped, False if nothing is to be done."""
        report = entry.report
        if view is None:
            return report.status in _ENDING
        if not _is_its_own(view, entry):
            return report.status in _ENDING  # whatever its own pool holds of it belongs to no live attempt
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
                log.error("report_illegal", extra={**entry.book.logs.fields(report.key), "why": why})
                return False

    async def _send(self, moves: list[_Move]) -> list[_Entry]:
        """Transactions of these moves; when guards moved, again without the reports that rest on them."""
        done: list[_Entry] = []
        while moves:
            chosen = _within_limits(moves)
            rest = moves[len(chosen) :]
            fences = list({entry.book.pool: entry.book.fence() for entry, _ in chosen}.values())
            guards: tuple[Guard, ...] = (*fences, *(g for _, m in chosen for g in m.guards))
            ops: tuple[Op, ...] = tuple(op for _, m in chosen for op in m.ops)
            outcome = await self._store.transact(Txn(guards, ops))
            match outcome:
                case Committed(revision):
                    for entry, move in chosen:
                        self._views.keep(move.view(revision))
                        self._count(entry, move, revision)
                    done.extend(entry for entry, _ in chosen)
                    moves = rest
                case Conflict():
                    self.counts["conflicts"] += 1
                    tell_report_conflict(moved_of(guards, outcome), len(chosen))
                    still = _still_resting(chosen, guards, outcome)
                    kept = {move.job for _, move in still}
                    self._views.forget(move.job for _, move in chosen if move.job not in kept)
                    moves = still + rest
                case Unknown(cause):
                    self.counts["unknown"] += 1
                    self._views.forget(move.job for _, move in chosen)
                    log.warning("reports_unknown", extra={"reports": len(chosen), "cause": cause})
                    moves = rest
        return done

    async def _drop(self, orphans: Sequence[_Entry]) -> list[_Entry]:
        """Delete bindings that belong to no live attempt (P12)."""
        done: list[_Entry] = []
        for entry in orphans:
            report = entry.report
            key = keys.BindingKey(entry.book.pool, report.job, report.attempt, report.part)
            found = (await self._store.read([key.text])).items.get(key.text)
            if found is None:
                done.append(entry)
                continue
            guards, ops = drop_orphan(key, found.mod_revision)
            outcome = await self._store.transact(Txn((entry.book.fence(), *guards), ops))
            if isinstance(outcome, Conflict):
                entry.book.check_fence(outcome)
            if isinstance(outcome, Committed):
                done.append(entry)
        return done

    def _count(self, entry: _Entry, move: PlannedMove, revision: int) -> None:
        report = entry.report
        self.counts[report.status.name.lower()] += 1
        metrics.REPORTS.add(1, report.status.name)
        if report.status is GangStatus.REFUSED:
            metrics.REFUSALS.add(1, report.reason.name)
        count_move(move.before, move.state)
        count_usage(move, self._world)
        self._traces.moved(entry.book.pool, report, entry.waiting.heard_ms, move, revision)
        if not log.isEnabledFor(logging.INFO):
            return
        log.info(
            "job_moved",
            extra={
                **entry.book.logs.fields(report.key),
                "revision": revision,
                "pool": entry.book.pool,
                "report": report.status.name,
                "state": move.state.state.name,
                "reason": move.state.reason.name,
            },
        )


def _is_its_own(view: JobView, entry: _Entry) -> bool:
    """Whether the part that is reported is bound in the pool whose agent reports it, as far as it is bound at all."""
    report, pool = entry.report, entry.book.pool
    if report.attempt != view.state.attempt or not view.state.state.live:
        return True
    part = view.parts.get(report.part)
    return part is not None and part.key.pool == pool


def _tell_forged(view: JobView | None, entry: _Entry) -> None:
    """Say so if a report is about a part that is bound elsewhere, or that no attempt has."""
    report, pool = entry.report, entry.book.pool
    if view is None or _is_its_own(view, entry):
        return
    if report.part in view.parts or report.part >= len(view.state.pools):
        metrics.FORGERIES.add(1, "report")
        said = {"pool": pool, "forgery": "report", "cause": f"a report of {report.key}"}
        log.warning("message_refused", extra=said)


def _still_resting(chosen: Sequence[_Move], guards: Sequence[Guard], conflict: Conflict) -> list[_Move]:
    """The moves of a transaction that did not pass, none of whose guards moved and whose stream is not superseded."""
    moved = moved_of(guards, conflict)
    books = {entry.book.pool: entry.book for entry, _ in chosen}
    live = {pool for pool, book in books.items() if book.check_fence(conflict)}
    return [
        (entry, move)
        for entry, move in chosen
        if entry.book.pool in live and not any(guard.key in moved for guard in move.guards)
    ]


def _within_limits(moves: Sequence[_Move]) -> list[_Move]:
    """As many moves as one transaction takes, with a fence for each."""
    chosen: list[_Move] = []
    ops = guards = 0
    for entry in moves:
        ops += len(entry[1].ops)
        guards += len(entry[1].guards) + 1
        if chosen and (ops > TXN_OPS_MAX or guards > TXN_OPS_MAX):
            break
        chosen.append(entry)
    return chosen
