"""Histories of one job by which the search is checked: what some order explains, and what none does."""

import pytest

from tests.sim.histories import ANYTHING, Life, Operation, Seen, linearizable

FOREVER = float("inf")


def seen(life: Life, *, held: bool = False, priority: int = 0) -> Seen:
    return Seen(life, held, priority, revision=1)


SUBMITTED = Operation("SubmitJobs", 0, 1)
HELD = Operation("HoldJob", 2, 3, seen(Life.WAITING, held=True))

EXPLAINED = {
    "a job is read after it was submitted": (SUBMITTED, Operation("GetJob", 2, 3, seen(Life.WAITING))),
    "a read beside a submission may miss it": (SUBMITTED, Operation("GetJob", 0.5, 0.7, "NOT_FOUND")),
    "a submission that nobody heard of took effect": (
        Operation("SubmitJobs", 0, FOREVER),
        Operation("GetJob", 5, 6, seen(Life.WAITING)),
    ),
    "or did not": (Operation("SubmitJobs", 0, FOREVER), Operation("GetJob", 5, 6, "NOT_FOUND")),
    "jobs run and end by themselves": (
        SUBMITTED,
        Operation("GetJob", 2, 3, seen(Life.PLACED)),
        Operation("GetJob", 4, 5, seen(Life.ENDED)),
        Operation("GetJob", 6, 7, "NOT_FOUND"),
    ),
    "a read beside a hold may come before it": (SUBMITTED, HELD, Operation("GetJob", 2.5, 4, seen(Life.WAITING))),
    "a repeated submission makes nothing new": (
        SUBMITTED,
        Operation("GetJob", 2, 3, seen(Life.ENDED)),
        Operation("SubmitJobs", 4, 5),
        Operation("GetJob", 6, 7, seen(Life.ENDED)),
    ),
}

UNEXPLAINED = {
    "an acknowledged job is not found": (
        SUBMITTED,
        Operation("GetJob", 2, 3, "NOT_FOUND"),
        Operation("GetJob", 4, 5, seen(Life.WAITING)),
    ),
    "a read after a hold does not show it": (SUBMITTED, HELD, Operation("GetJob", 4, 5, seen(Life.WAITING))),
    "a hold that nobody asked for is seen": (
        SUBMITTED,
        Operation("GetJob", 2, 3, seen(Life.WAITING, held=True)),
    ),
    "a job on hold is placed": (SUBMITTED, HELD, Operation("GetJob", 4, 5, seen(Life.PLACED))),
    "an ended job runs again": (
        SUBMITTED,
        Operation("GetJob", 2, 3, seen(Life.ENDED)),
        Operation("GetJob", 4, 5, seen(Life.PLACED)),
    ),
    "a cancelled job waits again": (
        SUBMITTED,
        Operation("CancelJob", 2, 3, seen(Life.STOPPING)),
        Operation("GetJob", 4, 5, seen(Life.WAITING)),
    ),
    "a priority is not what was asked for": (
        SUBMITTED,
        Operation("UpdateJob", 2, 3, seen(Life.WAITING, priority=0), wanted=100),
    ),
}


@pytest.mark.parametrize("what", EXPLAINED)
def test_some_order_explains(what: str) -> None:
    assert linearizable(EXPLAINED[what])


@pytest.mark.parametrize("what", UNEXPLAINED)
def test_no_order_explains(what: str) -> None:
    assert not linearizable(UNEXPLAINED[what])


def test_a_history_whose_beginning_is_not_known_may_begin_anywhere() -> None:
    read = Operation("GetJob", 0, 1, seen(Life.STOPPING))
    assert not linearizable([read])
    assert linearizable([read], ANYTHING)
