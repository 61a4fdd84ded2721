"""A job's objects as they are created: kind, name and fields of a user's own kept, and every pod gated. Pure.

What is changed, and nothing else:

* every pod template gets our gate, and our labels, which say whose the pods are;
* what another scheduler would act on is taken off (queue labels and gang annotations of Kueue, Volcano, KAI and
  others, exclusive topologies that JobSet and LeaderWorkerSet would see to themselves), and listed in an annotation:
  a job has one master;
* the name of a scheduler that is not there is replaced, and listed;
* what would keep the object's controller from working (`suspend`, `managedBy`) or remove the object when it has
  ended (`ttlSecondsAfterFinished`, `shutdownAfterJobFinishes`), since Hanse decides both.

A LeaderWorkerSet of several replicas is as many jobs; each is created as a set of one replica under its own name.
A TrainJob gets its runtime as an object of its namespace, because the pod templates are in there.

What pods ask for, and so their class of quality of service, their CPUs and their RuntimeClass are not touched.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hanse.agent.cluster.kubernetes.facts import usage_of
from hanse.agent.cluster.kubernetes.names import (
    FINALIZER,
    GATE,
    JOB_NAME,
    OBJECT,
    OWN_SCHEDULER,
    POD_SET,
    REMOVED,
    gang_labels,
    object_text,
)
from hanse.agent.cluster.kubernetes.objects import POD, Body, read
from hanse.agent.cluster.kubernetes.pods import Start, jobs
from hanse.manifests import plain_documents
from hanse.model.errors import InvalidArgument
from hanse.model.resources import PODS

RUNTIME: Final = "TrainingRuntime"
_RUNTIMES: Final = frozenset({RUNTIME, "ClusterTrainingRuntime"})
_SUBMITTER: Final = "submitter"
_META_DROPPED: Final = (
    "uid resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds finalizers "
    "ownerReferences managedFields selfLink generateName"
).split()
_FOREIGN: Final = (
    "kueue.x-k8s.io/",
    "kai.scheduler/",
    "volcano.sh/",
    "scheduling.volcano.sh/",
    "scheduling.k8s.io/group-name",
    "scheduling.x-k8s.io/",
    "gang.scheduling.koordinator.sh/",
    "pod-group.scheduling.sigs.k8s.io/",
    "scheduling.koordinator.sh/",
    "yunikorn.apache.org/",
    "godel.bytedance.com/",
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
    "ray.io/gang-scheduling-enabled",
    "ray.io/scheduler-name",
)
"""Beginnings of keys by which another scheduler, or a controller in a scheduler's place, is asked for something."""

_OTHERS: Final = ("suspend", "managedBy", "ttlSecondsAfterFinished", "shutdownAfterJobFinishes")
_WHOLE_TEMPLATES: Final = frozenset({"Job", "JobSet", "LeaderWorkerSet"})
"""Kinds whose templates are pods as they are; others are completed by what makes pods of them."""

_NO_DEADLINE: Final = frozenset({"LeaderWorkerSet"})
"""Kinds whose pods come from StatefulSets, which forbid a deadline."""


@dataclass(frozen=True, slots=True)
class Adapted:
    """What is created for a job.

    Attributes:
        bodies: objects, in the order in which they are created.
        pods: specs of the pods that are made of them, one of each template.
        late, follows: as in the gang's record.
        changed: what was taken off or replaced, for people.
    """

    bodies: tuple[Body, ...]
    pods: tuple[Body, ...]
    late: tuple[str, ...]
    follows: bool
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a cluster has, as far as pods ask for it.

    Attributes:
        schedulers: names of those that are there; the first binds what asks for another one.
        direct: pods are bound by the agent itself where that is possible.
    """

    schedulers: tuple[str, ...] = ("default-scheduler",)
    direct: bool = False


def adapted(start: Start, terms: Terms) -> Adapted:
    """The objects of a job: as it was submitted, or those of a native one.

    Raises:
        InvalidArgument: the manifest cannot be created; the message says what to do.
    """
    adapting = _Adapting(start, terms)
    if not start.order.manifest:
        return adapting.made([adapting.whole(body) for body in jobs(start)])
    documents = [one for one in plain_documents(start.order.manifest) if isinstance(one, dict)]
    if not documents:
        raise InvalidArgument("the job's manifest is empty; submit it again")
    main = copy.deepcopy(documents[0])
    kind = main.get("kind", "")
    if kind == "Pod":
        return adapting.made(adapting.pods([copy.deepcopy(one) for one in documents if one.get("kind") == "Pod"]))
    if kind == "LeaderWorkerSet":
        main["metadata"]["name"] = start.order.job_name
        main.setdefault("spec", {})["replicas"] = 1
    bodies = []
    if kind == "TrainJob":
        bodies.append(adapting.runtime(main, documents[1:]))
    bodies.append(adapting.whole(main))
    return adapting.made(bodies)


@dataclass(slots=True)
class _Adapting:
    """One job's objects while they are adapted."""

    start: Start
    terms: Terms
    late: list[str] = field(default_factory=list)
    follows: bool = False
    changed: list[str] = field(default_factory=list)
    templates: list[Body] = field(default_factory=list)

    def made(self, bodies: list[Body]) -> Adapted:
        """The outcome; the list of what was changed stands on the last object."""
        changed = tuple(dict.fromkeys(self.changed))
        if changed:
            bodies[-1]["metadata"]["annotations"][REMOVED] = json.dumps(changed)
        pods = [spec for at, spec in enumerate(self.templates) if spec not in self.templates[:at]]
        return Adapted(tuple(bodies), tuple(pods), tuple(dict.fromkeys(self.late)), self.follows, changed)

    @property
    def _labels(self) -> dict[str, str]:
        return gang_labels(self.start.key, federation=self.start.federation, pool=self.start.pool)

    @property
    def _sets(self) -> frozenset[str]:
        return frozenset(held.name for held in self.start.stored.record.sets)

    def whole(self, body: Body, name: str = "") -> Body:
        """An object with everything that an object of ours has."""
        self._open(body)
        meta = _table(body, "metadata")
        for key in _META_DROPPED:
            meta.pop(key, None)
        body.pop("status", None)
        meta["name"], meta["namespace"] = name or meta.get("name", ""), self.start.namespace
        meta["labels"] = {**(meta.get("labels") or {}), **self._labels}
        said = {JOB_NAME: self.start.order.job_name, OBJECT: object_text(meta["namespace"], meta["name"])}
        meta["annotations"] = {**(meta.get("annotations") or {}), **said}
        meta["finalizers"] = [FINALIZER]
        return body

    def pods(self, bodies: list[Body]) -> list[Body]:
        """Pods that nobody's controller makes: each is of the first set that asks for the same and has room."""
        room = {held.name: len(held.nodes) for held in self.start.stored.record.sets}
        for body in bodies:
            asks = _without_pods(usage_of(read(POD, json.dumps({**body, "metadata": {}}).encode())))
            alike = [
                held.name
                for held in self.start.stored.record.sets
                if room[held.name] and _without_pods(held.resources) == asks
            ]
            name = alike[0] if alike else next((name for name, left in room.items() if left), "")
            self.whole(body)
            body["metadata"]["labels"][POD_SET] = name
            room[name] = room.get(name, 0) - 1
        return bodies

    def runtime(self, job: Body, others: list[Body]) -> Body:
        """The runtime of a TrainJob, for this job alone, and the job's reference to it."""
        reference = _table(_table(job, "spec"), "runtimeRef")
        wanted = (reference.get("kind", "ClusterTrainingRuntime"), reference.get("name", ""))
        found = next(
            (o for o in others if (o.get("kind"), _table(o, "metadata").get("name")) == wanted),
            None,
        )
        if found is None:
            raise InvalidArgument(f"spec.runtimeRef: the {wanted[0]} {wanted[1]!r} is not in the manifest; add it")
        key = self.start.key
        name = f"hanse-{key.job}-{key.attempt}"
        made = copy.deepcopy(found)
        made["kind"] = RUNTIME
        self.changed.append(f"spec.runtimeRef={wanted[0]}/{wanted[1]}")
        job["spec"]["runtimeRef"] = {"apiGroup": "trainer.kubeflow.org", "kind": RUNTIME, "name": name}
        return self.whole(made, name)

    # ---- inside an object ---------------------------------------------------------------------------------

    def _open(self, body: Body) -> None:
        """An object, or one that stands inside of another."""
        kind, spec = str(body.get("kind", "")), _table(body, "spec")
        self._strip(_table(body, "metadata"), "metadata")
        for owner in (spec, _table(spec, "runPolicy"), _table(spec, "rayClusterSpec")):
            self._free(owner)
        if "schedulerName" in spec and "containers" not in spec:
            self._schedule(spec, "spec.schedulerName", self.terms.schedulers)
        if kind == "RayJob":
            self._submitter(spec)
        self.late += [name for name in _late(kind, spec) if name in self._sets]
        self.follows = self.follows or _follows(kind, spec)
        if kind == "Job" and "tasks" in spec:
            self._drop(spec, "queue")
        self._drop(_table(_table(spec, "runPolicy"), "schedulingPolicy"), "queue")
        if kind == "Pod":
            self._template(body, kind)
        else:
            self._walk(spec, kind)

    def _drop(self, owner: Body, key: str) -> None:
        if key in owner:
            self.changed.append(f"{key}={owner.pop(key)}")

    def _free(self, owner: Body) -> None:
        for key in _OTHERS:
            if owner.get(key) not in (None, False):
                self.changed.append(f"{key}={owner[key]}")
            owner.pop(key, None)

    def _walk(self, node: Any, kind: str, key: str = "") -> None:
        """Every pod template below, and every object that is wrapped."""
        if isinstance(node, list):
            for item in node:
                self._walk(item, kind, key)
        if not isinstance(node, dict) or key == "runtimePatches":
            return
        if "apiVersion" in node and "kind" in node and "spec" in node:
            self._open(node)
            return
        spec = node.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            self._template(node, kind)
            return
        if "metadata" in node and isinstance(spec, dict):
            self._strip(_table(node, "metadata"), "metadata")
        for name, below in node.items():
            if name != "submitterPodTemplate" or _SUBMITTER in self._sets:
                self._walk(below, kind, name)

    def _template(self, template: Body, kind: str) -> None:
        meta, spec = _table(template, "metadata"), template["spec"]
        self._strip(meta, "template.metadata")
        meta["labels"] = {**(meta.get("labels") or {}), **self._labels}
        spec["schedulingGates"] = [{"name": GATE}]
        spec.pop("nodeName", None)
        direct = self.terms.direct and not _needs_scheduler(spec)
        self._schedule(spec, "schedulerName", (OWN_SCHEDULER,) if direct else self.terms.schedulers)
        if self.start.order.duration_s and kind not in _NO_DEADLINE:
            spec.setdefault("activeDeadlineSeconds", self.start.order.duration_s)
        if kind in _WHOLE_TEMPLATES:
            self.templates.append(spec)

    def _schedule(self, spec: Body, path: str, there: tuple[str, ...]) -> None:
        named = spec.get("schedulerName") or ""
        if named in there or (not named and there[0] == "default-scheduler"):
            return
        if named:
            self.changed.append(f"{path}={named}")
        spec["schedulerName"] = there[0]

    def _strip(self, meta: Body, path: str) -> None:
        for part in ("labels", "annotations"):
            found = _table(meta, part)
            for key in [key for key in found if key.startswith(_FOREIGN)]:
                self.changed.append(f"{path}.{part}[{key}]={found.pop(key)}")

    def _submitter(self, spec: Body) -> None:
        """KubeRay's own template for what submits the job, where that is a pod of the gang and nobody wrote one."""
        if _SUBMITTER not in self._sets or "submitterPodTemplate" in spec:
            return
        head = spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
        asks = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
        container = {"name": "ray-job-submitter", "image": head.get("image", ""), "resources": asks}
        spec["submitterPodTemplate"] = {"spec": {"restartPolicy": "Never", "containers": [container]}}


def _without_pods(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if name != PODS and amount}


def _table(owner: Body, key: str) -> Body:
    """A mapping inside of another one; an empty one that belongs to nobody if there is none."""
    if key == "metadata" and not isinstance(owner.get(key), dict):
        owner[key] = {}
    found = owner.get(key)
    return found if isinstance(found, dict) else {}


def _needs_scheduler(spec: Mapping[str, Any]) -> bool:
    """Whether a pod has something that only a scheduler allocates: claims of devices, volumes that may be unbound."""
    volumes = spec.get("volumes") or ()
    return bool(spec.get("resourceClaims")) or any(
        "persistentVolumeClaim" in volume or "ephemeral" in volume for volume in volumes if isinstance(volume, dict)
    )


def _follows(kind: str, spec: Mapping[str, Any]) -> bool:
    """Whether a Job starts further pods when the first have succeeded."""
    jobs = [spec] if kind == "Job" else [job["template"]["spec"] for job in _items(spec, "replicatedJobs")]
    return any((job.get("completions") or 0) > job.get("parallelism", 1) for job in jobs)


def _items(spec: Mapping[str, Any], *path: str) -> Iterator[Any]:
    found: Any = spec
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    yield from found if isinstance(found, list) else ()


def _late(kind: str, spec: Mapping[str, Any]) -> list[str]:
    """Pod sets that a controller makes after others have begun, or ended."""
    find = _LATE.get(kind)
    return find(spec) if find is not None else []


def _late_in_job_set(spec: Mapping[str, Any]) -> list[str]:
    jobs = list(_items(spec, "replicatedJobs"))
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    return [str(job["name"]) for at, job in enumerate(jobs) if job.get("dependsOn") or (in_order and at)]


def _late_in_runtime(spec: Mapping[str, Any]) -> list[str]:
    template = spec.get("template")
    return _late_in_job_set(template.get("spec") or {}) if isinstance(template, dict) else []


def _late_in_mpi_job(spec: Mapping[str, Any]) -> list[str]:
    return ["launcher"] if spec.get("launcherCreationPolicy") == "WaitForWorkersReady" else []


def _late_in_leader_worker_set(spec: Mapping[str, Any]) -> list[str]:
    return ["worker", "main"] if spec.get("startupPolicy") == "LeaderReady" else []


def _late_in_volcano_job(spec: Mapping[str, Any]) -> list[str]:
    return [str(task.get("name", "")) for task in _items(spec, "tasks") if task.get("dependsOn")]


_LATE: Final[Mapping[str, Callable[[Mapping[str, Any]], list[str]]]] = {
    "JobSet": _late_in_job_set,
    RUNTIME: _late_in_runtime,
    "MPIJob": _late_in_mpi_job,
    "LeaderWorkerSet": _late_in_leader_worker_set,
    "Job": _late_in_volcano_job,
    "RayJob": lambda spec: [_SUBMITTER],
}
