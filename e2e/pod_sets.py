"""Which pod of a user's object belongs to which pod set, and in which order, by its controller's labels.

A pod's place in its set is a tuple of indices (of a replica and of a pod in it, of a task, of a completion); a set is
whole when these are every tuple below some bounds, each once.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hanse.manifests import ImportedJob

Pod = Mapping[str, Any]
Place = tuple[str, tuple[int, ...]]

COMPLETION: Final = "batch.kubernetes.io/job-completion-index"
JOBSET: Final = "jobset.sigs.k8s.io/"
KUBEFLOW: Final = "training.kubeflow.org/"
LWS: Final = "leaderworkerset.sigs.k8s.io/"
RAY: Final = "ray.io/"
VOLCANO: Final = "volcano.sh/"


def place_of(pod: Pod, sets: Sequence[str]) -> Place:
    """Name of the pod's set and its indices there; none where its kind gives its pods no order.

    Args:
        sets: the names that the job's sets have.
    """
    labels = pod["metadata"].get("labels", {})
    if JOBSET + "replicatedjob-name" in labels:
        return labels[JOBSET + "replicatedjob-name"], _indices(labels, JOBSET + "job-index", COMPLETION)
    if KUBEFLOW + "replica-type" in labels:
        return labels[KUBEFLOW + "replica-type"].lower(), _indices(labels, KUBEFLOW + "replica-index")
    if KUBEFLOW + "job-role" in labels:
        return labels[KUBEFLOW + "job-role"], _indices(labels, KUBEFLOW + "replica-index")
    if LWS + "worker-index" in labels:
        return _of_leader_worker_set(int(labels[LWS + "worker-index"]), sets)
    if RAY + "group" in labels:
        hosts = (RAY + "worker-group-replica-index", RAY + "replica-host-index")
        name = "head" if labels.get(RAY + "node-type") == "head" else labels[RAY + "group"]
        return name, _indices(labels, *hosts) if all(key in labels for key in hosts) else ()
    if VOLCANO + "task-spec" in labels:
        return labels[VOLCANO + "task-spec"], _indices(labels, VOLCANO + "task-index")
    return _plain(labels, sets)


def _plain(labels: Mapping[str, str], sets: Sequence[str]) -> Place:
    return ("main" if "main" in sets else sets[-1]), _indices(labels, COMPLETION)


def _indices(labels: Mapping[str, str], *keys: str) -> tuple[int, ...]:
    return tuple(int(labels[key]) for key in keys if key in labels)


def _of_leader_worker_set(index: int, sets: Sequence[str]) -> Place:
    if "leader" not in sets:
        return sets[0], (index,)
    return ("leader", (0,)) if index == 0 else ("worker", (index - 1,))


def is_whole(indices: Sequence[tuple[int, ...]]) -> bool:
    """Whether every place below some bounds is taken exactly once; pods without an order are whole."""
    if not any(indices):
        return True
    bounds = [max(column) + 1 for column in zip(*indices, strict=True)]
    return sorted(indices) == list(itertools.product(*(range(bound) for bound in bounds)))


def counted(metrics: str, namespace: str) -> dict[str, dict[str, int]]:
    """Pod → resource → amount in the model's units, from kube-scheduler's `/metrics/resources`."""
    found: dict[str, dict[str, int]] = {}
    for labels, value in _samples(metrics, "kube_pod_resource_request"):
        if labels["namespace"] == namespace:
            amount = round(value * 1000) if labels["resource"] == "cpu" else round(value)
            found.setdefault(labels["pod"], {})[labels["resource"]] = amount
    return found


def _samples(text: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    for line in text.splitlines():
        if line.startswith(f"{name}{{"):
            inside, _, value = line[len(name) + 1 :].rpartition("} ")
            pairs = (pair.partition("=") for pair in inside.split(","))
            yield {key: json.loads(quoted) for key, _, quoted in pairs}, float(value)


def gated(value: Any, gate: str) -> Any:
    """An object with a gate in every pod template in it, wherever its kind keeps them."""
    if isinstance(value, list):
        return [gated(item, gate) for item in value]
    if not isinstance(value, dict):
        return value
    inside = {key: gated(item, gate) for key, item in value.items()}
    spec = inside.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        inside["spec"] = {**spec, "schedulingGates": [{"name": gate}]}
    return inside


def pods_of(job: ImportedJob) -> dict[str, tuple[int, dict[str, int]]]:
    """Pod set → how many pods, and what one of them asks for, as the project reads the manifest."""
    return {one.name: (one.count, dict(one.resources)) for one in job.spec.pod_sets}
