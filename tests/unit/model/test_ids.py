"""Ids of jobs: stable over repetitions, apart from each other, in the order of their request."""

import pytest

from hanse.model.ids import JOBS_PER_REQUEST_MAX, QueueUid, is_job_id, job_id, queue_of, queue_uid

QUEUE = queue_uid("me", "r1", "team")


def test_a_repeated_request_names_the_same_jobs_and_another_does_not() -> None:
    assert job_id(QUEUE, "me", "r2", 7) == job_id(QUEUE, "me", "r2", 7)
    assert len({job_id(QUEUE, p, r, i) for p in ("me", "you") for r in ("r2", "r3") for i in range(40)}) == 160


def test_jobs_of_a_request_sort_as_they_were_written() -> None:
    ids = [
        job_id(QUEUE, "me", "r2", index) for index in (0, 1, 9, 31, 32, 33, 1_023, 1_024, JOBS_PER_REQUEST_MAX - 1)
    ]
    assert ids == sorted(ids)


def test_an_id_leads_to_its_queue() -> None:
    job = job_id(QUEUE, "me", "r2", 0)
    assert is_job_id(job)
    assert queue_of(job) == QUEUE


@pytest.mark.parametrize("text", ["", "team", "abcdefgh-short", "abcdefgh-0123456789abcde!"])
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_job_id(text)


def test_more_jobs_than_an_index_counts_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="at most"):
        job_id(QueueUid("abcdefgh"), "me", "r", JOBS_PER_REQUEST_MAX)
