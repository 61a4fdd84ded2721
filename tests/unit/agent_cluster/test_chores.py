"""What is to be done about pods, and how they are counted meanwhile."""

from dataclasses import replace
from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.chores import Delete, GiveUp, Remove, Ungate, Wish, chores
from hanse.agent.cluster.kubernetes.counting import Underway, counts_of
from hanse.agent.cluster.kubernetes.names import PodKey
from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.kubernetes.verdicts import own_pod_of
from hanse.agent.cluster.port import PodCounts
from tests.unit.agent_cluster.objects import EPOCH, GANG, LATER, SET, own, record, seen
from tests.unit.agent_cluster.test_verdicts import UNSCHEDULABLE, exited

HELD = Stored(record("n0", "n1", started=False))
STARTED = Stored(record("n0", "n1"), "jobs")
COMPLETE = Stored(record("n0", "n1"), "jobs", EPOCH)
STOPPED = Stored(record("n0", "n1"), "jobs", EPOCH, True, 30)
CUT_OFF = Stored(record("n0", "n1"), "jobs", None, True, 30)

GATED: dict[str, Any] = {"gated": True}
LATE: dict[str, Any] = {"gated": True, "epoch": LATER}
BOUND: dict[str, Any] = {"node_name": "n0"}
RUNNING: dict[str, Any] = {"node_name": "n0", "phase": "Running"}
LEAVING: dict[str, Any] = {**RUNNING, "deleted": True}
DONE: dict[str, Any] = {"node_name": "n0", "phase": "Succeeded"}
REFUSED: dict[str, Any] = {"status": UNSCHEDULABLE}
NEVER_RAN: dict[str, Any] = {"deleted": True, "gated": True}


@pytest.mark.parametrize(
    ("stored", "facts", "expected"),
    [
        pytest.param(STARTED, GATED, None, id="a gang that is being created waits for all of its pods"),
        pytest.param(COMPLETE, GATED, Ungate, id="a complete gang may run"),
        pytest.param(COMPLETE, LATE, Remove, id="a pod that was not counted in goes"),
        pytest.param(COMPLETE, RUNNING, None, id="what runs, runs"),
        pytest.param(COMPLETE, LEAVING, None, id="what somebody ended, ends"),
        pytest.param(COMPLETE, DONE, None, id="what has ended stays"),
        pytest.param(COMPLETE, NEVER_RAN, None, id="what somebody ended before it ran stays"),
        pytest.param(STOPPED, RUNNING, Delete, id="a stopped gang ends"),
        pytest.param(STOPPED, GATED, Delete, id="also where it never ran"),
        pytest.param(STOPPED, LEAVING, None, id="it is told once"),
        pytest.param(STOPPED, DONE, None, id="what has ended stays until it is forgotten"),
        pytest.param(CUT_OFF, GATED, Remove, id="what was only prepared goes without a trace"),
        pytest.param(None, GATED, Remove, id="a leftover without a record never runs"),
        pytest.param(None, RUNNING, None, id="pods without a record are for the agent to judge"),
        pytest.param(None, DONE, None, id="also finished ones"),
    ],
)
def test_chores(stored: Stored | None, facts: dict[str, Any], expected: type | None) -> None:
    found = list(chores(stored, [seen(**facts)], wish=None, lost=lambda _: False, refused=lambda _: True))
    assert [type(chore) for chore in found] == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("stored", "facts", "gives_up"),
    [
        pytest.param(COMPLETE, RUNNING, True, id="running"),
        pytest.param(STOPPED, LEAVING, True, id="ending, which nobody there will do"),
        pytest.param(None, RUNNING, True, id="without a record"),
        pytest.param(COMPLETE, DONE, False, id="ended before"),
        pytest.param(COMPLETE, GATED, False, id="not there yet"),
    ],
)
def test_pods_of_a_lost_node_are_given_up(stored: Stored | None, facts: dict[str, Any], gives_up: bool) -> None:
    found = list(chores(stored, [seen(**facts)], wish=None, lost=lambda _: True, refused=lambda _: False))
    assert (Remove in map(type, found)) is gives_up


@pytest.mark.parametrize("overdue", [False, True])
def test_a_pod_that_the_scheduler_refuses_is_given_up_after_a_while(overdue: bool) -> None:
    found = chores(COMPLETE, [seen(**REFUSED)], wish=None, lost=lambda _: False, refused=lambda _: overdue)
    assert [type(chore) for chore in found] == ([GiveUp] if overdue else [])


def test_wishes_count_where_there_is_no_record() -> None:
    pods = [seen(0, **RUNNING), seen(1, **DONE)]

    def found(wish: Wish, stored: Stored | None = None) -> list[type]:
        return [type(c) for c in chores(stored, pods, wish=wish, lost=lambda _: False, refused=lambda _: False)]

    assert found(Wish(grace_s=5)) == [Delete]
    assert found(Wish(forget=True)) == [Remove, Remove]
    assert found(Wish(forget=True), COMPLETE) == []


@pytest.mark.parametrize(
    ("stored", "start", "expected"),
    [
        pytest.param(HELD, None, PodCounts(GANG), id="held"),
        pytest.param(STARTED, None, PodCounts(GANG), id="cut off: the agent repeats the order"),
        pytest.param(STARTED, Underway(), PodCounts(GANG, pending=2), id="under way"),
        pytest.param(
            STARTED,
            Underway("quota"),
            PodCounts(GANG, failed=2, reason="quota", infrastructure=True),
            id="refused behind the write",
        ),
        pytest.param(CUT_OFF, Underway(), PodCounts(GANG), id="stopped before it was complete"),
        pytest.param(
            COMPLETE,
            None,
            PodCounts(GANG, pending=1, missing=1, reason="PodGone", infrastructure=True),
            id="one is missing",
        ),
    ],
)
def test_counts_of_a_gated_pod(stored: Stored, start: Underway | None, expected: PodCounts) -> None:
    assert counts_of(GANG, stored, [seen(**GATED)], start) == expected


def test_a_late_pod_does_not_hide_that_one_is_missing() -> None:
    counts = counts_of(GANG, COMPLETE, [seen(0, **RUNNING), seen(1, **LATE)], None)
    assert (counts.running, counts.pending, counts.missing) == (1, 0, 1)


def test_sets_that_have_ended_are_named() -> None:
    """Others are not: they run, are gated still, or nobody knows yet whether all of the gang was created."""
    places = replace(record("n0").sets[0], name="driver"), record("n0", "n1").sets[0]
    stored = replace(COMPLETE, record=replace(COMPLETE.record, sets=places))
    driver = own_pod_of(PodKey(GANG, "driver", 0), own(0, **DONE))
    pods = [driver, seen(0, **DONE), seen(1, **RUNNING)]
    assert counts_of(GANG, stored, pods, None).ended_sets == ("driver",)
    assert counts_of(GANG, stored, pods[1:], None).ended_sets == ("driver",)
    assert counts_of(GANG, stored, [driver, seen(0, **DONE), seen(1, **LEAVING)], None).ended_sets == ("driver",)
    assert counts_of(GANG, stored, [driver, *(seen(rank, **DONE) for rank in (0, 1))], None).ended_sets == (
        "driver",
        SET,
    )
    assert counts_of(GANG, replace(stored, complete=None), pods, Underway()).ended_sets == ()
    assert counts_of(GANG, COMPLETE, [seen(rank, **DONE) for rank in (0, 1)], None).ended_sets == ()


def failed_at(second: int, code: int) -> dict[str, Any]:
    return {"node_name": "n0", "phase": "Failed", "status": exited(code, at=f"2026-01-01T00:00:0{second}Z")}


def test_the_first_failure_is_told() -> None:
    counts = counts_of(GANG, COMPLETE, [seen(0, **failed_at(2, 9)), seen(1, **failed_at(1, 17))], None)
    assert (counts.failed, counts.exit_code, counts.reason, counts.infrastructure) == (2, 17, "Error", False)


def test_pods_without_a_record_are_counted_unless_they_were_only_prepared() -> None:
    counts = counts_of(GANG, None, [seen(0, **RUNNING), seen(1, **GATED)], None)
    assert (counts.running, counts.existing, counts.missing) == (1, 1, 0)
