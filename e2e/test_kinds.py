"""Manifests of the kinds whose controllers run here: their pods are those that the project reads."""

from collections.abc import Iterator

import pytest

from e2e.agreement import check_agrees, submit
from e2e.control_plane import ControlPlane, control_plane
from e2e.controllers import JOBSET, TRAINING_OPERATOR, controllers
from e2e.played import played_controllers

RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "sandboxed"},
    "handler": "sandboxed",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}},
}


@pytest.fixture(scope="module")
def served() -> Iterator[ControlPlane]:
    """A control plane whose controllers make pods of these kinds; no node is there, and none is needed."""
    with control_plane() as plane:
        plane.call("POST", "/apis/node.k8s.io/v1/runtimeclasses", RUNTIME_CLASS)
        with controllers(plane, [JOBSET, TRAINING_OPERATOR]), played_controllers(plane):
            yield plane


@pytest.mark.parametrize(
    "manifest", "job job-pod-level job-kai jobset volcano pytorch pytorch-elastic tf xgboost paddle jax".split()
)
def test_pods_are_those_that_the_manifest_was_read_as(served: ControlPlane, manifest: str) -> None:
    check_agrees(submit(served, manifest))
