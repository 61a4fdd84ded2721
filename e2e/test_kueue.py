"""What Kueue makes of a manifest is what the project reads in it: pod sets, minima and topology."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml

from e2e.agreement import MANIFESTS
from e2e.api_objects import add_crds, add_namespace, create, wait
from e2e.control_plane import ControlPlane, control_plane
from e2e.controllers import JOBSET, KUEUE, MPI_OPERATOR, RAY, TRAINER, TRAINING_OPERATOR, controllers
from e2e.modules import documents
from hanse.manifests import convert
from hanse.model.job import PodSet

QUEUE: Final = "kueue.x-k8s.io/queue-name"
WORKLOADS: Final = "/apis/kueue.x-k8s.io/v1beta2/namespaces"
URGENT: Final = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1_000,
}
"""Named by a manifest; without it Kueue makes no Workload."""

RUN_POLICY: Final = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")


@pytest.fixture(scope="module")
def kueue() -> Iterator[ControlPlane]:
    """Kueue with every kind that it knows. It counts objects that wait; nobody needs to make their pods."""
    with control_plane() as plane:
        for kind in (MPI_OPERATOR, RAY, TRAINER):
            add_crds(plane, kind.definitions())
        with controllers(plane, [JOBSET, TRAINING_OPERATOR, KUEUE]):
            create(plane, URGENT, "default")
            yield plane


@pytest.mark.parametrize(
    "manifest",
    "job-kueue jobset pytorch pytorch-elastic tf xgboost paddle jax mpi rayjob rayjob-hosts trainjob".split(),
)
def test_kueue_counts_the_pod_sets_that_were_read(kueue: ControlPlane, manifest: str) -> None:
    add_namespace(kueue, manifest)
    written = [queued(found) for found in documents(MANIFESTS / f"{manifest}.yaml")]
    (job,) = convert(yaml.safe_dump_all(written)).jobs
    for found in written:
        create(kueue, found, manifest)
    assert sorted(map(_told, _pod_sets(kueue, manifest))) == sorted(map(_read, job.spec.pod_sets))


def queued(found: Mapping[str, Any]) -> dict[str, Any]:
    """A job under a queue, and suspended, as Kueue's webhook would make it."""
    if found["kind"].endswith("Runtime"):
        return dict(found)
    labels = {**found["metadata"].get("labels", {}), QUEUE: "team"}
    spec = dict(found["spec"])
    if found["kind"] in RUN_POLICY:
        policy = {key: value for key, value in spec.get("runPolicy", {}).items() if key != "schedulingPolicy"}
        spec["runPolicy"] = {**policy, "suspend": True}
    else:
        spec["suspend"] = True
    return {**found, "metadata": {**found["metadata"], "labels": labels}, "spec": spec}


def _pod_sets(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    path = f"{WORKLOADS}/{namespace}/workloads"
    wait(lambda: plane.call("GET", path)["items"], f"a Workload in {namespace}")
    (workload,) = plane.call("GET", path)["items"]
    found: list[dict[str, Any]] = workload["spec"]["podSets"]
    return found


def _told(pod_set: Mapping[str, Any]) -> tuple[object, ...]:
    """Name, count, least count, levels, slices."""
    wanted = pod_set.get("topologyRequest", {})
    slices = (
        ((wanted["podSetSliceSize"], wanted["podSetSliceRequiredTopology"]),) if "podSetSliceSize" in wanted else ()
    )
    least = pod_set.get("minCount", pod_set["count"])
    return (pod_set["name"], pod_set["count"], least, wanted.get("required", ""), wanted.get("preferred", ""), slices)


def _read(pod_set: PodSet) -> tuple[object, ...]:
    topology = pod_set.topology
    slices = tuple((layer.size, layer.level) for layer in topology.slices)
    return (pod_set.name, pod_set.count, pod_set.min_count, topology.required, topology.preferred, slices)
