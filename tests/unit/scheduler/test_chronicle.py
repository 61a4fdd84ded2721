"""The ring of what happened: bounded four ways, read on from a cursor, and honest about what it has dropped."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from hanse.model.ids import JobId, PoolName
from hanse.model.lifecycle import JobState, State
from hanse.model.occurrence import Occurrence, OccurrenceKind, OccurrenceQuery, RingCursor, RingPage
from hanse.scheduler.core.chronicle import Chronicle, RingLimits

ALL = OccurrenceQuery()
START = RingCursor()
SMALL = RingLimits(events_max=6, events_per_job_max=3, events_per_pool_max=2, age_max_s=10.0)


def of_job(job: str, at_ms: int, revision: int = 0) -> Occurrence:
    return Occurrence(at_ms, OccurrenceKind.BOUND, JobId(job), revision=revision or at_ms)


def of_pool(pool: str, at_ms: int) -> Occurrence:
    return Occurrence(at_ms, OccurrenceKind.ATTACHED, pool=PoolName(pool), revision=at_ms)


def ring(events: Iterable[Occurrence] = (), limits: RingLimits = SMALL) -> Chronicle:
    found = Chronicle(nonce="n", now_ms=0, limits=limits)
    for event in events:
        found.add(event, now_ms=event.at_ms)
    return found


def times(page: RingPage) -> list[int]:
    return [event.at_ms for event in page.events]


def test_a_page_holds_what_matches_oldest_first() -> None:
    found = ring([of_job("a", 1), of_pool("a", 2), of_job("b", 3), of_job("a", 4)])
    assert times(found.page(ALL, START, 9)) == [1, 2, 3, 4]
    assert times(found.page(OccurrenceQuery(job=JobId("a")), START, 9)) == [1, 4]
    assert times(found.page(OccurrenceQuery(pool=PoolName("a")), START, 9)) == [2]
    assert times(found.page(OccurrenceQuery(since_ms=3), START, 9)) == [3, 4]
    assert times(found.page(OccurrenceQuery(job=JobId("nobody")), START, 9)) == []


def test_the_newest_are_told_first_and_then_what_comes_next() -> None:
    found = ring([of_job(str(n), n) for n in range(1, 6)])
    page = found.page(ALL, START, 2)
    assert (times(page), page.more) == ([4, 5], True)
    for number in (6, 7, 8):
        found.add(of_job(str(number), number), now_ms=number)
    page = found.page(ALL, page.cursor, 2)
    assert (times(page), page.more) == ([6, 7], True)
    page = found.page(ALL, page.cursor, 2)
    assert (times(page), page.more) == ([8], False)
    assert times(found.page(ALL, page.cursor, 2)) == []


def test_a_cursor_of_another_start_reads_from_the_beginning() -> None:
    assert times(ring([of_job("a", 1)]).page(ALL, RingCursor("another", 99), 9)) == [1]


def test_a_job_that_goes_round_and_round_pushes_out_nobody_else() -> None:
    found = ring([of_job("quiet", 1), *(of_job("busy", n) for n in range(2, 30))])
    assert times(found.page(ALL, START, 99)) == [1, 27, 28, 29]
    page = found.page(OccurrenceQuery(job=JobId("busy")), START, 99)
    assert (times(page), page.since_ms) == ([27, 28, 29], 27)
    assert found.page(ALL, START, 99).since_ms == 0


def test_what_was_dropped_moves_the_time_from_which_it_is_complete() -> None:
    found = ring([of_job(str(n), n) for n in range(1, 10)])
    page = found.page(ALL, START, 99)
    assert (times(page), page.since_ms) == ([4, 5, 6, 7, 8, 9], 4)


def test_what_is_too_old_is_dropped() -> None:
    found = ring([of_pool("p", 1_000), of_job("a", 5_000)])
    found.forget(now_ms=12_000)
    page = found.page(ALL, START, 9)
    assert (times(page), page.since_ms) == ([5_000], 1_001)


def test_a_replica_that_goes_takes_what_it_knew_with_it() -> None:
    found = ring([of_job("a", 1)])
    found.lost(now_ms=7)
    assert found.page(ALL, START, 9).since_ms == 7


def test_the_state_of_a_job_is_kept_as_long_as_anything_of_it() -> None:
    state = JobState(State.RUNNING, attempt=1, priority=0, submit_ms=0, changed_ms=0, class_hash=1)  # type: ignore[arg-type]
    found = ring()
    found.add(of_job("a", 1), now_ms=1, state=state)
    assert found.state(JobId("a")) == state
    for number in range(2, 9):
        found.add(of_job(str(number), number), now_ms=number)
    assert found.state(JobId("a")) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 3_000)), max_size=60))
def test_limits_hold_whatever_comes(steps: list[tuple[str, bool, int]]) -> None:
    found, now_ms = ring(), 0
    for name, is_job, pause_ms in steps:
        now_ms += pause_ms
        found.add(of_job(name, now_ms) if is_job else of_pool(name, now_ms), now_ms=now_ms)
        page = found.page(ALL, START, 99)
        assert len(page.events) <= SMALL.events_max
        assert all(event.at_ms >= now_ms - 10_000 for event in page.events)
        for other in "abc":
            assert len(found.page(OccurrenceQuery(job=JobId(other)), START, 99).events) <= SMALL.events_per_job_max
            assert (
                len(found.page(OccurrenceQuery(pool=PoolName(other)), START, 99).events) <= SMALL.events_per_pool_max
            )
