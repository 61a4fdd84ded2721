"""Nodes and usage, read from API objects."""

from typing import Any

import pytest

from hanse.agent.cluster.kubernetes.facts import is_silent, node_facts, usage_of, uses_node
from hanse.model.resources import Resources
from hanse.model.selectors import Effect, Taint
from tests.unit.agent_cluster.objects import node, pod


def test_a_node_is_told_in_full() -> None:
    facts = node_facts(node("n1", spec={"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}))
    assert facts.name == "n1"
    assert facts.labels == {"kubernetes.io/hostname": "n1"}
    assert facts.taints == (Taint("k", "v", Effect.NO_EXECUTE),)
    assert facts.allocatable == Resources({"cpu": 7_500, "memory": 64 << 30, "nvidia.com/gpu": 4, "pods": 110})
    assert (facts.ready, facts.cordoned, facts.healthy) == (True, False, True)


@pytest.mark.parametrize(
    ("told", "ready", "healthy", "silent"),
    [
        pytest.param({"ready": "False"}, False, True, False, id="not ready"),
        pytest.param({"ready": "Unknown"}, False, True, True, id="silent"),
        pytest.param({"deleted": True}, False, True, False, id="being removed"),
        pytest.param({"conditions": {"DiskPressure": "True"}}, True, False, False, id="under pressure"),
        pytest.param({"conditions": {"DiskPressure": "False"}}, True, True, False, id="not under pressure"),
        pytest.param({"conditions": {"SomethingElse": "True"}}, True, True, False, id="somebody else's condition"),
    ],
)
def test_the_state_of_a_node(told: dict[str, Any], ready: bool, healthy: bool, silent: bool) -> None:
    facts = node_facts(node(**told))
    assert (facts.ready, facts.healthy, is_silent(node(**told))) == (ready, healthy, silent)


def test_a_cordoned_node_says_so() -> None:
    assert node_facts(node(spec={"unschedulable": True})).cordoned


def container(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **more: str) -> Any:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container()]}, {}, id="nothing asked"),
        pytest.param(
            {"containers": [container({"cpu": "1"}), container({"cpu": "500m", "memory": "1Gi"})]},
            {"cpu": 1_500, "memory": 1 << 30},
            id="containers add up",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"}, {"cpu": "4", "nvidia.com/gpu": "2"})]},
            {"cpu": 1_000, "nvidia.com/gpu": 2},
            id="a limit is a request where there is none",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "3"})]},
            {"cpu": 3_000},
            id="an init container that needs more",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "1"}, restartPolicy="Always"), container({"cpu": "500m"})],
            },
            {"cpu": 2_000},
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1"})],
                "initContainers": [container({"cpu": "1"}, restartPolicy="Always"), container({"cpu": "4"})],
            },
            {"cpu": 5_000},
            id="an init container beside a sidecar",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "overhead": {"cpu": "250m"}},
            {"cpu": 1_250},
            id="overhead comes on top",
        ),
        pytest.param(
            {
                "containers": [container({"cpu": "1", "nvidia.com/gpu": "1"})],
                "resources": {"requests": {"cpu": "3"}},
            },
            {"cpu": 3_000, "nvidia.com/gpu": 1},
            id="amounts of the whole pod replace the sum that they name",
        ),
    ],
)
def test_a_pod_uses_what_kubernetes_counts(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert usage_of(pod(spec=spec)) == Resources({**expected, "pods": 1})


@pytest.mark.parametrize(
    ("node_name", "phase", "deleted", "uses"),
    [
        pytest.param("", "Pending", False, False, id="waiting"),
        pytest.param("n0", "Pending", False, True, id="bound"),
        pytest.param("n0", "Running", True, True, id="terminating"),
        pytest.param("n0", "Succeeded", False, False, id="succeeded"),
        pytest.param("n0", "Failed", True, False, id="failed and terminating"),
    ],
)
def test_when_a_pod_uses_its_node(node_name: str, phase: str, deleted: bool, uses: bool) -> None:
    meta = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    assert uses_node(pod(meta, {"nodeName": node_name}, {"phase": phase})) is uses


def test_what_is_no_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="quantity"):
        usage_of(pod(spec={"containers": [container({"cpu": "many"})]}))
