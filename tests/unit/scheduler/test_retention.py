"""Which ended jobs leave the store."""

import pytest

from hanse.model.ids import JobId
from hanse.scheduler.core.retention import Ended, Retention

NOW_MS = 1_000_000


def job(number: int) -> JobId:
    return JobId(f"abcdefgh-{number:016d}")


def leaving(ended_s: list[int], *, age_s: float = 1e6, jobs_max: int = 100, candidates: int = 100) -> list[int]:
    """Of jobs that ended so many seconds ago, by number, those that leave."""
    found = Ended(candidates)
    for number, ago_s in enumerate(ended_s):
        found.add(job(number), NOW_MS - ago_s * 1000)
    assert found.total == len(ended_s)
    surplus = found.surplus(age_s=age_s, jobs_max=jobs_max, now_ms=NOW_MS)
    return [int(one.rpartition("-")[2]) for one in surplus]


@pytest.mark.parametrize(
    ("what", "ended_s", "terms", "expected"),
    [
        ("nothing is old or too much", [1, 2, 3], {}, []),
        ("those of the age and above, oldest first", [9, 10, 30, 11], {"age_s": 10}, [2, 3, 1]),
        ("an age of nothing is everything", [0, 5], {"age_s": 0}, [1, 0]),
        ("as many as may be", list(range(10)), {"jobs_max": 10}, []),
        ("one too many: down to nine tenths", list(range(11)), {"jobs_max": 10}, [10, 9]),
        ("none may be", [1, 2], {"jobs_max": 0}, [1, 0]),
        ("by age more than by number", list(range(11)), {"jobs_max": 10, "age_s": 7}, [10, 9, 8, 7]),
        ("a clock that is ahead", [-50, 20], {"age_s": 10}, [1]),
        ("equal times by id", [5, 5, 5], {"jobs_max": 2}, [0, 1]),
        ("only the oldest are remembered", [1, 4, 2, 5, 3], {"age_s": 0, "candidates": 2}, [3, 1]),
        ("the number counts those that are not", [1, 4, 2, 5, 3], {"jobs_max": 4, "candidates": 3}, [3, 1]),
    ],
)
def test_who_leaves(what: str, ended_s: list[int], terms: dict[str, int], expected: list[int]) -> None:
    assert leaving(ended_s, **terms) == expected, what


@pytest.mark.parametrize(("queues", "of", "share"), [(1, 1, 100), (1, 3, 33), (2, 3, 66), (0, 3, 0), (0, 0, 100)])
def test_replicas_share_the_number_by_queues(queues: int, of: int, share: int) -> None:
    assert Retention(jobs_max=100).share(queues, of, orphans=False) == share


@pytest.mark.parametrize(("queues", "share"), [(0, 5), (1, 33)])
def test_who_sees_to_jobs_of_deleted_queues_keeps_some_of_them(queues: int, share: int) -> None:
    assert Retention(jobs_max=100).share(queues, 3, orphans=True) == share
