"""Under which root a queue's quota is granted."""

import pytest

from hanse.model.ids import QueueName, QueueUid
from hanse.model.queue import Cohort, Queue, cohorts_of, root_of

TREE = {name: Cohort(name, parent) for name, parent in {"low": "mid", "mid": "top", "a": "b", "b": "a"}.items()}


@pytest.mark.parametrize(
    ("cohort", "apart", "path", "root"),
    [
        ("", False, (), "queue.u"),
        ("low", False, ("low", "mid", "top"), "cohort.top"),  # "top" is named and missing: a root all the same
        ("low", True, (), "queue.u"),
        ("b", False, ("b", "a"), "cohort.a"),
        ("a", False, ("a", "b"), "cohort.a"),
        ("gone", False, ("gone",), "cohort.gone"),
    ],
)
def test_the_root_is_the_topmost_cohort_or_the_queue(
    cohort: str, apart: bool, path: tuple[str, ...], root: str
) -> None:
    queue = Queue(QueueUid("u"), QueueName("q"), cohort, apart=apart)
    assert (cohorts_of(queue, TREE), root_of(queue, TREE)) == (path, root)
