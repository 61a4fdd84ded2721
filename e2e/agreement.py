"""Whether pods that real controllers create are those that the project reads in the same manifest.

The manifest is created as its user wrote it, but for a gate in each pod template, which keeps its pods from running
while they are looked at. What a pod asks for is what kube-scheduler counts. Some controllers add containers of their
own to users' pods, which no manifest tells, as an administrator may configure them; those are known by name, and what
they ask for is taken into the comparison as Kubernetes counts it.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from e2e.api_objects import LOOK_EVERY_S, PATIENCE_S, add_namespace, create
from e2e.control_plane import ControlPlane
from e2e.modules import documents
from e2e.pod_sets import counted, gated, is_whole, place_of
from hanse.manifests import ImportedJob, convert
from hanse.model.resources import CPU, parse_quantity
from tests.arch.tree import ROOT

MANIFESTS: Final = ROOT / "e2e" / "manifests"
GATE: Final = "example.com/looked-at"
QUIET_S: Final = 1.0
"""After so long without another pod, all are there that will be."""

ADDED: Final = frozenset({"init-pytorch", "wait-gcs-ready"})
GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
Pod = Mapping[str, Any]


@dataclass(frozen=True)
class Submitted:
    """A manifest on an API server.

    Attributes:
        jobs: as the project reads it.
    """

    plane: ControlPlane
    namespace: str
    jobs: Sequence[ImportedJob]

    @property
    def count(self) -> int:
        return sum(one.count for job in self.jobs for one in job.spec.pod_sets)

    def pods(self) -> list[dict[str, Any]]:
        """As the API server has them."""
        found: list[dict[str, Any]] = self.plane.call("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return found


def submit(plane: ControlPlane, name: str) -> Submitted:
    """Create a manifest's objects in a namespace of its own, gated."""
    path = MANIFESTS / f"{name}.yaml"
    add_namespace(plane, name)
    for found in documents(path):
        create(plane, gated(found, GATE), name)
    return Submitted(plane, name, convert(path.read_text(encoding="utf-8"), filename=path.name).jobs)


def check_agrees(submitted: Submitted) -> None:
    """Wait until as many pods are there as were read, and no more come; then look at each."""
    pods = _settled(submitted)
    asked = counted(submitted.plane.requests_of_pods(), submitted.namespace)
    told = {pod["metadata"]["name"]: _request(pod, asked[pod["metadata"]["name"]]) for pod in pods}
    for index, job in enumerate(submitted.jobs):
        _check_job(job, [pod for pod in pods if _job_index(pod) == index], told)


def _settled(submitted: Submitted) -> list[dict[str, Any]]:
    ends_s = time.monotonic() + PATIENCE_S
    names: list[str] = []
    since_s = time.monotonic()
    while True:
        pods = submitted.pods()
        now_s = time.monotonic()
        if sorted(pod["metadata"]["name"] for pod in pods) != names:
            names, since_s = sorted(pod["metadata"]["name"] for pod in pods), now_s
        there = len(pods) >= submitted.count or now_s > ends_s
        if there and now_s - since_s > QUIET_S:
            assert len(pods) == submitted.count, f"{names}, but {submitted.count} were read"
            return pods
        time.sleep(LOOK_EVERY_S)


def _job_index(pod: Pod) -> int:
    """Which of the jobs that one object becomes."""
    return int(pod["metadata"].get("labels", {}).get(GROUP_INDEX, 0))


def _check_job(job: ImportedJob, pods: Sequence[Pod], told: Mapping[str, "_Request"]) -> None:
    names = [one.name for one in job.spec.pod_sets]
    by_set: dict[str, list[tuple[tuple[int, ...], Pod]]] = {name: [] for name in names}
    for pod in pods:
        name, indices = place_of(pod, names)
        assert name in by_set, f"{pod['metadata']['name']} is of {name}, which is none of {names}"
        by_set[name].append((indices, pod))
    for one in job.spec.pod_sets:
        found = by_set[one.name]
        assert len(found) == one.count, f"{one.name}: {len(found)} pods, read {one.count}"
        assert is_whole([indices for indices, _ in found]), f"{one.name}: {sorted(indices for indices, _ in found)}"
        for _, pod in found:
            request = told[pod["metadata"]["name"]]
            assert request.counted == request.with_added(dict(one.resources)), pod["metadata"]["name"]


@dataclass(frozen=True)
class _Request:
    """What kube-scheduler counts for a pod, and what containers ask for that its controller added."""

    counted: Mapping[str, int]
    added: Sequence[Mapping[str, int]]

    def with_added(self, read: Mapping[str, int]) -> dict[str, int]:
        """What was read, and the largest of the added ones: they run before the others and end."""
        joined = dict(read)
        for container in self.added:
            for resource, amount in container.items():
                joined[resource] = max(joined.get(resource, 0), amount)
        return joined


def _request(pod: Pod, amounts: Mapping[str, int]) -> _Request:
    starting = pod["spec"].get("initContainers", ())
    added = [_amounts(one) for one in starting if one["name"] in ADDED]
    return _Request(amounts, added)


def _amounts(container: Mapping[str, Any]) -> dict[str, int]:
    requests = container.get("resources", {}).get("requests", {})
    return {name: parse_quantity(text, scale=1000 if name == CPU else 1) for name, text in requests.items()}
