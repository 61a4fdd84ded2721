"""The objects that a native gang is made of: one pod for each place, and a headless Service to find each other. Pure.

A pod is created with its node already required (by name, in `matchFields`, for which the scheduler looks at one node
instead of all) and with our gate, which keeps it from being scheduled until the whole gang is there. Requests equal
limits, so its class is Guaranteed. It has no rights in the API unless somebody gives it some.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from hanse.agent.cluster.kubernetes.names import (
    ATTEMPT,
    FEDERATION,
    FINALIZER,
    GATE,
    JOB,
    JOB_NAME,
    PART,
    POOL,
    PodKey,
    pod_labels,
    pod_name,
    service_name,
)
from hanse.agent.cluster.kubernetes.objects import Body, PodObject
from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.port import Epoch, GangKey, PodRun, SetPlace, StartPods
from hanse.model.ids import NodeName
from hanse.model.job import Volume, VolumeKind
from hanse.model.names import LABEL_CHARS_MAX
from hanse.model.resources import CPU, PODS, Resources
from hanse.model.selectors import Effect, Toleration

CONTAINER: Final = "main"
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

_EFFECTS: Final = {
    Effect.NO_SCHEDULE: "NoSchedule",
    Effect.PREFER_NO_SCHEDULE: "PreferNoSchedule",
    Effect.NO_EXECUTE: "NoExecute",
}


@dataclass(frozen=True, slots=True)
class Start:
    """An order to start a gang, and under whose name.

    Attributes:
        namespace: where its pods go.
    """

    order: StartPods
    stored: Stored
    federation: str
    pool: str
    epoch: Epoch
    namespace: str

    @property
    def key(self) -> GangKey:
        return self.order.key

    @property
    def finds_itself(self) -> bool:
        """Whether there are pods here that have to find each other, and need a Service for it."""
        return self.stored.pods > 1

    @property
    def world_size(self) -> int:
        """Pods of the whole job."""
        return self.order.world_size or self.stored.pods


@dataclass(frozen=True, slots=True)
class Place:
    """One pod that is to be created."""

    key: PodKey
    held: SetPlace
    set_number: int
    node: NodeName
    rank: int


def places(start: Start) -> Iterator[Place]:
    """Every pod of a gang, by set and rank."""
    passed = 0
    for number, held in enumerate(start.stored.record.sets):
        run = run_of(start.order, held.name)
        before = run.ranks_before if start.order.world_size and run is not None else passed - held.first_rank
        for rank, node in enumerate(held.nodes, held.first_rank):
            yield Place(PodKey(start.key, held.name, rank), held, number, node, before + rank)
        passed += len(held.nodes)


def run_of(order: StartPods, pod_set: str) -> PodRun | None:
    """What the pods of a set run; None if the order does not say."""
    return next((run for run in order.runs if run.pod_set == pod_set), None)


def why_not_startable(order: StartPods, stored: Stored) -> str:
    """Why no pod can be made of an order; "" if they can."""
    if order.manifest:
        whole = not order.key.part and order.world_size in (0, stored.pods)
        return "" if whole else "an object of its own cannot be split over pools; allow the job one pool"
    for held in stored.record.sets:
        run = run_of(order, held.name)
        if run is None or not run.image:
            return f"pod set {held.name!r} has no image; a job that is to run on a real cluster needs one"
    return ""


def main_container(found: PodObject) -> str:
    """The container that people mean who name none: ours, or the one that whoever made the pod has marked, or its
    first."""
    names = [container.name for container in found.spec.containers]
    marked = found.metadata.annotations.get(DEFAULT_CONTAINER, "")
    return next((name for name in (marked, CONTAINER) if name in names), names[0] if names else CONTAINER)


def service(start: Start) -> Body:
    """The headless Service of a gang; names resolve before the pods are ready, as they wait for each other."""
    gang = {
        FEDERATION: start.federation,
        JOB: start.key.job,
        ATTEMPT: str(start.key.attempt),
        PART: str(start.key.part),
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(start.key),
            "labels": {**gang, POOL: start.pool},
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": gang,
        },
    }


def pod(start: Start, place: Place) -> Body:
    """One pod of a gang, gated."""
    key, run = place.key, run_of(start.order, place.held.name)
    assert run is not None
    labels = pod_labels(key, federation=start.federation, pool=start.pool, epoch=start.epoch)
    volumes = [_volume(volume) for volume in run.volumes]
    container: Body = {
        "name": CONTAINER,
        "image": run.image,
        "env": _env(start, place, run),
        "resources": _resources(place.held.resources),
    }
    if run.command:
        container["command"] = list(run.command)
    if run.args:
        container["args"] = list(run.args)
    if volumes:
        container["volumeMounts"] = [_mount(volume) for volume in run.volumes]
    spec: Body = {
        "restartPolicy": "Never",
        "hostname": hostname(place.set_number, key),
        "schedulingGates": [{"name": GATE}],
        "affinity": {"nodeAffinity": _on(place.node)},
        "tolerations": [_toleration(toleration) for toleration in run.tolerations],
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": volumes,
    }
    if start.finds_itself:
        spec["subdomain"] = service_name(start.key)
    if start.order.duration_s:
        spec["activeDeadlineSeconds"] = start.order.duration_s
    meta = {
        "name": pod_name(key),
        "labels": labels,
        "annotations": {JOB_NAME: start.order.job_name},
        "finalizers": [FINALIZER],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def hostname(set_number: int, key: PodKey) -> str:
    """What a pod calls itself, and is called below the gang's Service."""
    name = f"{key.pod_set}-{key.rank}"
    return name if len(name) <= LABEL_CHARS_MAX else f"set{set_number}-{key.rank}"


def _env(start: Start, place: Place, run: PodRun) -> list[Body]:
    """Ours first: where a name is given twice Kubernetes takes the last, which is the user's."""
    ours = {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(start.world_size),
        "MASTER_ADDR": _master(start),
        "HANSE_JOB": start.key.job,
    }
    theirs = dict(run.env)
    return [{"name": name, "value": value} for name, value in {**ours, **theirs}.items()]


def _master(start: Start) -> str:
    """Address of the first pod of the first set, which a job in one pool knows as rank 0."""
    first = start.stored.record.sets[0]
    if not start.finds_itself:
        return "localhost"
    return f"{hostname(0, PodKey(start.key, first.name, first.first_rank))}.{service_name(start.key)}"


def _resources(amounts: Resources) -> Body:
    told = {name: f"{amount}m" if name == CPU else str(amount) for name, amount in amounts.items() if name != PODS}
    return {"requests": told, "limits": told}


def _on(node: NodeName) -> Body:
    by_name = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [by_name]}]}}


def _toleration(toleration: Toleration) -> Body:
    told: Body = {"operator": "Exists" if toleration.exists else "Equal"}
    if toleration.key:
        told["key"] = toleration.key
    if not toleration.exists:
        told["value"] = toleration.value
    if toleration.effect is not Effect.UNSPECIFIED:
        told["effect"] = _EFFECTS[toleration.effect]
    return told


def _volume(volume: Volume) -> Body:
    return {"name": volume.name, **_source(volume)}


def _source(volume: Volume) -> dict[str, Any]:
    match volume.kind:
        case VolumeKind.CONFIG_MAP:
            return {"configMap": {"name": volume.source}}
        case VolumeKind.SECRET:
            return {"secret": {"secretName": volume.source}}
        case VolumeKind.PERSISTENT_VOLUME_CLAIM:
            return {"persistentVolumeClaim": {"claimName": volume.source, "readOnly": volume.read_only}}
        case VolumeKind.HOST_PATH:
            return {"hostPath": {"path": volume.source}}
        case VolumeKind.EMPTY_DIR | VolumeKind.UNSPECIFIED:
            return {"emptyDir": {}}


def _mount(volume: Volume) -> Body:
    return {"name": volume.name, "mountPath": volume.mount_path, "readOnly": volume.read_only}
