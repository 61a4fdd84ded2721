"""What one of our pods is doing, and whose fault its end is."""

from typing import Any

import pytest

from hanse.agent.cluster.port import PodPhase
from tests.unit.agent_cluster.objects import seen


@pytest.mark.parametrize(
    ("facts", "phase"),
    [
        pytest.param({"gated": True}, PodPhase.PENDING, id="gated"),
        pytest.param({"node_name": "n0"}, PodPhase.PENDING, id="bound"),
        pytest.param({"node_name": "n0", "phase": "Running"}, PodPhase.RUNNING, id="running"),
        pytest.param({"node_name": "n0", "phase": "Unknown"}, PodPhase.RUNNING, id="nobody knows, so it may run"),
        pytest.param({"node_name": "n0", "phase": "Running", "deleted": True}, PodPhase.STOPPING, id="told to go"),
        pytest.param({"node_name": "n0", "deleted": True}, PodPhase.STOPPING, id="bound, then told to go"),
        pytest.param({"deleted": True}, PodPhase.FAILED, id="told to go before it had a node"),
        pytest.param({"node_name": "n0", "phase": "Succeeded", "deleted": True}, PodPhase.SUCCEEDED, id="succeeded"),
        pytest.param({"node_name": "n0", "phase": "Failed"}, PodPhase.FAILED, id="failed"),
    ],
)
def test_phases(facts: dict[str, Any], phase: PodPhase) -> None:
    assert seen(**facts).phase is phase


def exited(code: int, reason: str = "Error", *, at: str = "2026-01-01T00:00:01Z") -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}
    return {"containerStatuses": [{"name": "main", "state": state}]}


def disrupted(reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "why"}]}


@pytest.mark.parametrize(
    ("facts", "exit_code", "reason", "infrastructure"),
    [
        pytest.param({"status": exited(17)}, 17, "Error", False, id="its program failed"),
        pytest.param({"status": exited(137, "OOMKilled")}, 137, "OOMKilled", False, id="it took too much memory"),
        pytest.param(
            {"status": {"reason": "DeadlineExceeded", **exited(137)}}, 0, "DeadlineExceeded", False, id="too long"
        ),
        pytest.param(
            {"status": {"reason": "OutOfnvidia.com/gpu", "message": "none left"}},
            0,
            "OutOfnvidia.com/gpu: none left",
            True,
            id="the kubelet had no room",
        ),
        pytest.param(
            {"status": {**disrupted("DeletionByTaintManager"), **exited(143)}, "deleted": True},
            0,
            "DeletionByTaintManager: why",
            True,
            id="evicted",
        ),
        pytest.param({"status": exited(143), "deleted": True}, 0, "", False, id="told to go"),
        pytest.param({"node_name": "", "phase": "Pending", "deleted": True}, 0, "", False, id="never ran"),
    ],
)
def test_whose_fault_an_end_is(facts: dict[str, Any], exit_code: int, reason: str, infrastructure: bool) -> None:
    pod = seen(**{"node_name": "n0", "phase": "Failed", **facts})
    assert pod.ended
    assert (pod.ending.exit_code, pod.ending.reason, pod.ending.infrastructure) == (exit_code, reason, infrastructure)
    assert pod.status().reason == reason


UNSCHEDULABLE = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/8 nodes"}]
}


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        pytest.param({}, "Unschedulable: 0/8 nodes", id="refused"),
        pytest.param({"gated": True}, "", id="gated"),
        pytest.param({"node_name": "n0"}, "", id="bound after all"),
        pytest.param({"deleted": True}, "", id="told to go"),
    ],
)
def test_what_the_scheduler_says(facts: dict[str, Any], refusal: str) -> None:
    assert seen(status=UNSCHEDULABLE, **facts).refusal == refusal


def test_our_gate_is_found_among_others() -> None:
    assert (seen(gated=True).gate, seen(gated=True).gated) == (1, True)
    assert (seen().gate, seen().gated) == (-1, False)
