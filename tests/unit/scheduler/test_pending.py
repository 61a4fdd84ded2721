"""Pending jobs in columns and as objects: whoever asks sees no difference."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from hanse.model.ids import Attempt, JobId, QueueUid
from hanse.model.lifecycle import JobState, State, encode_state
from hanse.model.state_columns import records
from hanse.scheduler.core.pending import PendingJob, PendingSet, pending_job
from hanse.scheduler.core.waiting_rows import WaitingRows

QUEUES = (QueueUid("abcdefgh"), QueueUid("ijklmnop"))


def jobs(rng: Random, queue: QueueUid, count: int) -> list[PendingJob]:
    classes = [QUEUES.index(queue) * 10 + n for n in range(4)]
    found: list[PendingJob] = []
    for number in range(count):
        at_ms = rng.randrange(5)
        state = JobState(State.PENDING, Attempt(0), rng.choice((0, 0, 5, -3)), at_ms, at_ms, rng.choice(classes))
        found.append(pending_job(JobId(f"{queue}-{number:016}"), queue, state, 100 + number))
    return found


def in_rows(found: list[PendingJob]) -> WaitingRows:
    return WaitingRows(
        found[0].queue,
        np.array([one.job for one in found], np.bytes_),
        records([encode_state(one.state) for one in found]),
        np.array([one.state_revision for one in found], np.int64),
    )


def both(rng: Random) -> tuple[PendingSet, PendingSet, list[PendingJob]]:
    """The same jobs as objects and in columns."""
    objects, columns, every = PendingSet(), PendingSet(), list[PendingJob]()
    for queue in QUEUES:
        own = jobs(rng, queue, 30)
        columns.load(in_rows(own))
        for one in own:
            objects.put(one)
        every += own
    return objects, columns, every


def seen(pending: PendingSet) -> list[object]:
    service = pending.service({})
    walk = [one.job if (one := service.next()) is not None else None for _ in range(len(pending) + 1)]
    classes = list(pending.classes())
    return [
        len(pending),
        walk,
        classes,
        [list(pending.members(c)) for c in classes],
        [pending.head(c) for c in classes],
    ]


def changed(one: PendingJob, *, priority: int, revision: int) -> PendingJob:
    state = JobState(State.PENDING, Attempt(1), priority, one.state.submit_ms, 9, one.class_hash)
    return pending_job(one.job, one.queue, state, revision)


STEPS: dict[str, Callable[[PendingSet, PendingJob, int], None]] = {
    "remove": lambda pending, one, number: pending.remove(one.job),
    "touch": lambda pending, one, number: pending.put(
        changed(one, priority=one.state.priority, revision=1_000 + number)
    ),
    "raise": lambda pending, one, number: pending.put(changed(one, priority=number % 7, revision=1_000 + number)),
}


@pytest.mark.parametrize("seed", range(5))
def test_columns_and_objects_agree_after_any_changes(seed: int) -> None:
    rng = Random(seed)
    objects, columns, every = both(rng)
    assert seen(objects) == seen(columns)
    for number in range(80):
        step, one = STEPS[rng.choice(sorted(STEPS))], rng.choice(every)
        for pending in (objects, columns):
            step(pending, one, number)
        assert seen(objects) == seen(columns)
        assert all(objects.get(j.job) == columns.get(j.job) for j in every)
        for job in (j.job for j in every if j.job in objects):
            assert objects.queue_positions(job) == columns.queue_positions(job)
    for pending in (objects, columns):
        pending.remove_queue(QUEUES[0])
    assert seen(objects) == seen(columns)


def test_a_class_that_is_dropped_has_no_further_turn() -> None:
    _, columns, every = both(Random(1))
    service = columns.service({})
    first = service.next()
    assert first is not None
    service.drop_class(first.class_hash)
    rest = [one for one in iter(service.next, None) if one.class_hash == first.class_hash]
    assert not rest
    skipped = columns.service({first.class_hash: None})
    left = list(iter(skipped.next, None))
    assert len(left) == sum(one.class_hash != first.class_hash for one in every)


def test_a_walk_can_be_made_again_from_its_beginning() -> None:
    _, columns, every = both(Random(1))
    service = columns.service({})
    walked = [service.next() for _ in range(10)]
    again = service.afresh()
    assert [again.next() for _ in range(10)] == walked
    assert len(list(iter(service.next, None))) == len(every) - 10


def test_all_classes_that_are_loaded_have_joined() -> None:
    _, columns, every = both(Random(1))
    assert set(columns.joined) == {one.class_hash for one in every}


def test_a_record_that_names_a_class_of_another_queue_is_served_all_the_same() -> None:
    mine, damaged = jobs(Random(1), QUEUES[0], 1)[0], jobs(Random(1), QUEUES[1], 1)[0]
    state = JobState(State.PENDING, Attempt(0), 0, 1, 1, mine.class_hash)
    pending = PendingSet()
    pending.load(in_rows([mine]))
    pending.load(in_rows([pending_job(damaged.job, damaged.queue, state, 5)]))
    assert {one.job for one in pending.members(mine.class_hash)} == {mine.job, damaged.job}


def test_an_unknown_class_has_no_head() -> None:
    assert PendingSet().head_or_none(7) is None
    with pytest.raises(KeyError):
        PendingSet().head(7)
