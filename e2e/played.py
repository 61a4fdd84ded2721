"""Volcano's and KAI's controllers, played: they are not served as Go modules.

CRDs are our own and permissive: any spec is kept as it is written. Volcano's job controller makes a PodGroup and
the pods of a Job, and tells the Job's phase; KAI's pod grouper makes a PodGroup for pods of one owner and names it on
each of them. Names, labels and annotations are theirs; neither scheduler is played.
"""

import threading
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from e2e.api_objects import add_crds, make
from e2e.control_plane import ControlPlane

LOOK_EVERY_S: Final = 0.1
VOLCANO_JOBS: Final = "/apis/batch.volcano.sh/v1alpha1"
VOLCANO_GROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1"
KAI_GROUPS: Final = "/apis/scheduling.run.ai/v2alpha2"
KAI_SCHEDULER: Final = "kai-scheduler"
KAI_GROUP_NAME: Final = "pod-group-name"
ENDED: Final = frozenset({"Succeeded", "Failed"})
Object = Mapping[str, Any]


def permissive_crds() -> Iterator[dict[str, Any]]:
    """Of every kind of theirs that users write."""
    for group, version, kind, plural, namespaced in (
        ("batch.volcano.sh", "v1alpha1", "Job", "jobs", True),
        ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", True),
        ("scheduling.volcano.sh", "v1beta1", "Queue", "queues", False),
        ("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", False),
        ("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups", True),
        ("scheduling.run.ai", "v2", "Queue", "queues", False),
        ("kai.scheduler", "v1alpha1", "Topology", "topologies", False),
    ):
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {
            "name": version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": anything},
            "subresources": {"status": {}},
        }
        scope = "Namespaced" if namespaced else "Cluster"
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "names": names, "scope": scope, "versions": [served]},
        }


@contextmanager
def played_controllers(plane: ControlPlane) -> Iterator[None]:
    """Play both while this is open; raises what they ran into."""
    add_crds(plane, permissive_crds())
    stopped, failures = threading.Event(), list[BaseException]()

    def play() -> None:
        try:
            while not stopped.wait(LOOK_EVERY_S):
                _look(plane)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=play, name="played-controllers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    if failures:
        raise failures[0]


def _look(plane: ControlPlane) -> None:
    """Once over everything; an API server that is away is asked again."""
    try:
        for job in plane.call("GET", f"{VOLCANO_JOBS}/jobs")["items"]:
            _play_job(plane, job)
        for pod in plane.call("GET", "/api/v1/pods")["items"]:
            if pod["spec"].get("schedulerName") == KAI_SCHEDULER:
                _play_grouper(plane, pod)
    except urllib.error.HTTPError as error:
        if error.code not in (404, 409, 429, 503):
            raise
    except OSError:
        return


# ---- Volcano ----------------------------------------------------------------------------------------------------


def _play_job(plane: ControlPlane, job: Object) -> None:
    meta = job["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    if meta.get("deletionTimestamp"):
        return
    pods = f"/api/v1/namespaces/{namespace}/pods"
    there = {
        pod["metadata"]["name"]: pod
        for pod in plane.call("GET", f"{pods}?labelSelector=volcano.sh/job-name={name}")["items"]
    }
    if not job.get("status", {}).get("state"):
        make(plane, f"{VOLCANO_GROUPS}/namespaces/{namespace}/podgroups", _volcano_group(job))
        for pod in _pods(job):
            if pod["metadata"]["name"] not in there:
                make(plane, pods, pod)
        _tell(plane, job, "Running")
    elif job["status"]["state"]["phase"] == "Running":
        phases = [pod["status"].get("phase") for pod in there.values()]
        if phases and all(phase in ENDED for phase in phases):
            _tell(plane, job, "Failed" if "Failed" in phases else "Completed")


def _tell(plane: ControlPlane, job: Object, phase: str) -> None:
    meta = job["metadata"]
    path = f"{VOLCANO_JOBS}/namespaces/{meta['namespace']}/jobs/{meta['name']}/status"
    plane.call("PATCH", path, {"status": {"state": {"phase": phase}}})


def _volcano_group(job: Object) -> dict[str, Any]:
    spec, meta = job["spec"], job["metadata"]
    wanted = {"minMember": spec.get("minAvailable") or sum(task["replicas"] for task in spec["tasks"])}
    for key in ("queue", "priorityClassName", "networkTopology"):
        if key in spec:
            wanted[key] = spec[key]
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": _group_name(job), "namespace": meta["namespace"], "ownerReferences": [_owner(job)]},
        "spec": wanted,
    }


def _group_name(job: Object) -> str:
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def _owner(what: Object) -> dict[str, Any]:
    meta = what["metadata"]
    named = {"apiVersion": what["apiVersion"], "kind": what["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}


def _pods(job: Object) -> Iterator[dict[str, Any]]:
    for number, task in enumerate(job["spec"]["tasks"]):
        for index in range(task["replicas"]):
            yield _pod(job, task, task.get("name") or f"default{number}", index)


def _pod(job: Object, task: Object, task_name: str, index: int) -> dict[str, Any]:
    meta, spec, template = job["metadata"], job["spec"], task["template"]
    own, pod_spec = template.get("metadata", {}), dict(template["spec"])
    said = {
        "volcano.sh/task-index": str(index),
        "volcano.sh/task-spec": task_name,
        "volcano.sh/job-name": meta["name"],
        "volcano.sh/queue-name": spec.get("queue", "default"),
    }
    labels = {**own.get("labels", {}), **said, "volcano.sh/job-namespace": meta["namespace"]}
    if "partitionPolicy" in task:
        labels["volcano.sh/partition-id"] = str(index // task["partitionPolicy"]["partitionSize"])
    annotations = {
        **own.get("annotations", {}),
        **said,
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": f"{meta['name']}-{task_name}",
        "scheduling.k8s.io/group-name": _group_name(job),
    }
    pod_spec.setdefault("schedulerName", spec.get("schedulerName", "volcano"))
    pod_spec.setdefault("restartPolicy", "OnFailure")
    if "priorityClassName" in spec:
        pod_spec.setdefault("priorityClassName", spec["priorityClassName"])
    pod_spec.setdefault("hostname", f"{meta['name']}-{task_name}-{index}")
    pod_spec.setdefault("subdomain", meta["name"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name']}-{task_name}-{index}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [_owner(job)],
        },
        "spec": pod_spec,
    }


# ---- KAI --------------------------------------------------------------------------------------------------------


def _play_grouper(plane: ControlPlane, pod: Object) -> None:
    meta = pod["metadata"]
    if KAI_GROUP_NAME in meta.get("annotations", {}) or not meta.get("ownerReferences"):
        return
    owner = meta["ownerReferences"][0]
    name = f"pg-{owner['name']}-{owner['uid']}"
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": meta["namespace"], "ownerReferences": [owner]},
        "spec": {"minMember": 1, "queue": meta.get("labels", {}).get("kai.scheduler/queue", "default")},
    }
    make(plane, f"{KAI_GROUPS}/namespaces/{meta['namespace']}/podgroups", group)
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
    plane.call("PATCH", path, {"metadata": {"annotations": {KAI_GROUP_NAME: name}}})
