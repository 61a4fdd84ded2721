"""The newest of what happened, in bounded memory: a ring of occurrences that knows from when on it is complete.

Four limits hold at once, and each drops the oldest: so many in all, so many of one job, so many of one pool, and
nothing older than an age. One job that goes round and round therefore never pushes out what happened to others. What
is dropped moves the time from which the ring can be trusted (`since_ms`), and with it what a reader is told; what is
dropped because one job or pool has too many moves the time of that one alone. Time is an argument, and it is this
replica's: whoever made an occurrence may have another clock.

Rejected: a file or the store. Events are for people who look back; nothing may ever wait for them, and nothing that
is decided may rest on them.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Final

from hanse.model.ids import JobId
from hanse.model.lifecycle import JobState
from hanse.model.occurrence import Occurrence, OccurrenceQuery, RingCursor, RingPage


@dataclass(frozen=True, slots=True)
class RingLimits:
    """Bounds of a ring.

    Attributes:
        events_max: occurrences in all; one takes about 400 bytes.
        events_per_job_max, events_per_pool_max: of one job, of one pool.
        age_max_s: what was kept longer ago is dropped.
    """

    events_max: int = 50_000
    events_per_job_max: int = 100
    events_per_pool_max: int = 500
    age_max_s: float = 86_400.0


LIMITS: Final = RingLimits()


@dataclass(frozen=True, slots=True)
class _Kept:
    """An occurrence, and when it was kept."""

    at_ms: int
    event: Occurrence


@dataclass(slots=True)
class _Subject:
    """One job or pool: the numbers of its occurrences, since when they are all there, the newest state of a job."""

    numbers: deque[int] = field(default_factory=deque)
    since_ms: int = 0
    state: JobState | None = None


class Chronicle:
    """One replica's ring. `since_ms`: it lacks nothing that this replica could have seen since then; Unix time."""

    def __init__(self, *, nonce: str, now_ms: int, limits: RingLimits = LIMITS) -> None:
        self._nonce = nonce
        self._limits = limits
        self._number = 0
        self._events: OrderedDict[int, _Kept] = OrderedDict()
        self._subjects: dict[str, _Subject] = {}
        self.since_ms = now_ms

    def __len__(self) -> int:
        return len(self._events)

    @property
    def number(self) -> int:
        """Grows with every occurrence."""
        return self._number

    def state(self, job: JobId) -> JobState | None:
        """The newest state that was kept of a job, None if nothing of it is kept."""
        found = self._subjects.get(job)
        return found.state if found is not None else None

    def add(self, occurrence: Occurrence, *, now_ms: int, state: JobState | None = None) -> None:
        """Keep an occurrence, with the state that a job has now; drop what goes beyond a limit."""
        self._number += 1
        name = _subject(occurrence)
        subject = self._subjects.setdefault(name, _Subject())
        subject.state = state or subject.state
        subject.numbers.append(self._number)
        self._events[self._number] = _Kept(now_ms, occurrence)
        most = self._limits.events_per_job_max if occurrence.job else self._limits.events_per_pool_max
        if len(subject.numbers) > most:
            subject.since_ms = self._events.pop(subject.numbers.popleft()).at_ms + 1
        if len(self._events) > self._limits.events_max:
            self._drop_oldest()
        self.forget(now_ms=now_ms)

    def forget(self, *, now_ms: int) -> None:
        """Drop what is too old."""
        oldest_ms = now_ms - int(self._limits.age_max_s * 1_000)
        while self._events and next(iter(self._events.values())).at_ms < oldest_ms:
            self._drop_oldest()

    def lost(self, *, now_ms: int) -> None:
        """Another replica has gone, and with it what it alone had seen."""
        self.since_ms = max(self.since_ms, now_ms)

    def _drop_oldest(self) -> None:
        number, kept = self._events.popitem(last=False)
        self.since_ms = max(self.since_ms, kept.at_ms + 1)
        name = _subject(kept.event)
        subject = self._subjects[name]
        subject.numbers.remove(number)  # the first of them
        if not subject.numbers:
            del self._subjects[name]

    def page(self, query: OccurrenceQuery, cursor: RingCursor, limit: int) -> RingPage:
        """What matches beyond a cursor: of a ring that was not read yet the newest, later what comes next."""
        after = cursor.number if cursor.nonce == self._nonce else 0
        subject = self._subjects.get(_name(query), _NOTHING)
        numbers = reversed(subject.numbers) if _name(query) else reversed(self._events)
        newest_first = (
            (number, self._events[number].event)
            for number in takewhile(lambda number: number > after, numbers)
            if query.holds(self._events[number].event)
        )
        found = list(newest_first) if after else list(islice(newest_first, limit + 1))
        more = len(found) > limit
        taken = found[-limit:] if after else found[:limit]
        number = taken[0][0] if after and more else self._number
        events = tuple(event for _, event in reversed(taken))
        return RingPage(events, RingCursor(self._nonce, number), max(self.since_ms, subject.since_ms), more)


_POOL: Final = "pool/"
_NOTHING: Final = _Subject()


def _subject(occurrence: Occurrence) -> str:
    return occurrence.job or f"{_POOL}{occurrence.pool}"


def _name(query: OccurrenceQuery) -> str:
    """Of the subject that is asked for, "" for all."""
    return query.job or (f"{_POOL}{query.pool}" if query.pool else "")
