"""Keeps the store's history as long as it is promised, and no longer.

Every replica does it; compacting twice to nearly the same revision costs nothing. The revision to compact to is one
that was the store's `history_s` ago, so a watch can always be resumed from as far back.

A replica that has run for that long knows it by itself, on its own monotonic clock. Until then it goes by marks in
the store, a time and a revision each, of which all replicas together write one for each tenth of `history_s`. Without
them a federation whose replicas are started again every few minutes would never compact. They are times of somebody's
wall clock: while that is wrong by as much, history is shorter than promised, and somebody lists again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final

from hanse.kit.clock import Clock
from hanse.store import keys
from hanse.store.contract import Compacted, KeyValue, ModRevisionIs, Put, Store, StoreUnavailable, Txn
from hanse.store.schema import HistoryMark, HistoryValue, decode, encode

log = logging.getLogger(__name__)

ROUNDS: Final = 10
"""The history is cut in this many steps, so it is at most a tenth longer than promised."""

MARKS_MAX: Final = 2 * ROUNDS


async def keep_history(store: Store, clock: Clock, history_s: float) -> None:
    """Compact until cancelled."""
    seen: deque[int] = deque()
    while True:
        try:
            await _round(store, clock, history_s, seen)
        except Compacted:
            pass  # another replica was quicker
        except StoreUnavailable as error:
            log.warning("compact_unavailable", extra={"cause": str(error)})
        await asyncio.sleep(history_s / ROUNDS)


async def _round(store: Store, clock: Clock, history_s: float, seen: deque[int]) -> None:
    read = await store.read([keys.HISTORY])
    found, now_ms = read.items.get(keys.HISTORY), clock.now_ms()
    marks = decode(found.value, HistoryValue).marks if found is not None else []
    seen.append(read.revision)
    until = seen.popleft() if len(seen) > ROUNDS else known_until(marks, now_ms - int(history_s * 1000))
    if until:
        await store.compact(until)
    kept = marked(marks, HistoryMark(now_ms, read.revision), every_ms=int(history_s * 1000 / ROUNDS))
    if kept is not None:
        await _write(store, found, kept)


async def _write(store: Store, found: KeyValue | None, marks: list[HistoryMark]) -> None:
    """Somebody else's mark, or one that is lost, is as good: the next round looks again."""
    guard = ModRevisionIs(keys.HISTORY, found.mod_revision if found is not None else 0)
    await store.transact(Txn((guard,), (Put(keys.HISTORY, encode(HistoryValue(marks))),)))


def known_until(marks: Sequence[HistoryMark], time_ms: int) -> int:
    """The newest revision that was the store's by that time, as far as the marks tell; 0 if they do not."""
    return max((mark.revision for mark in marks if mark.at_ms <= time_ms), default=0)


def marked(marks: Sequence[HistoryMark], mark: HistoryMark, *, every_ms: int) -> list[HistoryMark] | None:
    """The marks with one more, None while the newest is younger than half of the time between two.

    One from the future is of a clock that was wrong, and is left out.
    """
    past = [one for one in marks if one.at_ms <= mark.at_ms]
    if past and len(past) == len(marks) and mark.at_ms - past[-1].at_ms < every_ms // 2:
        return None
    return [*past, mark][-MARKS_MAX:]
