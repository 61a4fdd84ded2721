"""What is to be done about what is left of gangs, and how gangs are counted before their pods are known."""

from dataclasses import replace
from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.chores import Delete, Remove, Wish, leftover_chores
from hanse.agent.cluster.kubernetes.counting import Underway, counts_of
from hanse.agent.cluster.kubernetes.stored import Root, Stored
from hanse.agent.cluster.port import PodCounts
from tests.unit.agent_cluster.objects import GANG, record, seen

JOB = Root("batch/v1", "Job", "train", "root")
HELD = Stored(record("n0", "n1", started=False))
STARTED = Stored(record("n0", "n1"), "jobs")
LAUNCHED = replace(STARTED, roots=(JOB,))
RUNS = LAUNCHED.letting({(0, 0): "uid-0", (0, 1): "uid-1"})
STOPPED = replace(RUNS, stopped=True, grace_s=30)
CUT_OFF = replace(STARTED, stopped=True, grace_s=30)

GATED: dict[str, Any] = {"gated": True}
BOUND: dict[str, Any] = {"node_name": "n0"}
RUNNING: dict[str, Any] = {"node_name": "n0", "phase": "Running"}
LEAVING: dict[str, Any] = {**RUNNING, "deleted": True}
DONE: dict[str, Any] = {"node_name": "n0", "phase": "Succeeded"}
FORGET = Wish(forget=True)
END = Wish(grace_s=5)


@pytest.mark.parametrize(
    ("wish", "facts", "lost", "expected"),
    [
        pytest.param(None, RUNNING, False, None, id="pods without a record are for the agent to judge"),
        pytest.param(None, DONE, False, None, id="also finished ones"),
        pytest.param(None, RUNNING, True, Remove, id="those of a lost node are given up"),
        pytest.param(END, RUNNING, False, Delete, id="told to end"),
        pytest.param(END, LEAVING, False, None, id="it is told once"),
        pytest.param(END, DONE, False, None, id="what has ended stays until it is forgotten"),
        pytest.param(FORGET, RUNNING, False, Remove, id="forgotten"),
        pytest.param(FORGET, DONE, False, Remove, id="forgotten and finished"),
        pytest.param(FORGET, GATED, False, None, id="what never ran goes with what made it"),
    ],
)
def test_what_is_left_of_a_gang(wish: Wish | None, facts: dict[str, Any], lost: bool, expected: type | None) -> None:
    found = list(leftover_chores(wish, [seen(**facts)], lost=lambda _: lost))
    assert [type(chore) for chore in found] == ([] if expected is None else [expected])


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
        pytest.param(CUT_OFF, Underway(), PodCounts(GANG), id="stopped before anything made its pods"),
    ],
)
def test_counts_of_a_gated_pod(stored: Stored, start: Underway | None, expected: PodCounts) -> None:
    assert counts_of(GANG, stored, [seen(**GATED)], start) == expected


def test_pods_without_a_record_are_counted_unless_they_were_only_prepared() -> None:
    counts = counts_of(GANG, None, [seen(0, **RUNNING), seen(1, **GATED)], None)
    assert (counts.running, counts.existing, counts.missing) == (1, 1, 0)
