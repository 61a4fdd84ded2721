"""The objects that a native gang is made of: an Indexed Job for each pod set, and a headless Service. Pure.

Pods find each other by the Service, where a pod is called by its Job's name and its index. Requests equal limits, so
their class is Guaranteed. They have no rights in the API unless somebody gives them some. Beside RANK, WORLD_SIZE and
MASTER_ADDR they get what torchrun (`PET_…`) and JAX read of themselves.
"""

from dataclasses import dataclass
from typing import Any, Final

from hanse.agent.cluster.kubernetes.kinds import JOB
from hanse.agent.cluster.kubernetes.names import (
    GLOBAL_RANK,
    JOB_NAME,
    POD_SET,
    POOL,
    RANKS_BEFORE,
    gang_labels,
    job_name,
    service_name,
)
from hanse.agent.cluster.kubernetes.objects import Body, PodObject
from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.port import Epoch, GangKey, PodRun, SetPlace, StartPods
from hanse.model.job import Volume, VolumeKind
from hanse.model.resources import CPU, PODS, Resources
from hanse.model.selectors import Effect, Toleration

MASTER_PORT: Final = 29_500
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
    labels = gang_labels(start.key, federation=start.federation, pool=start.pool)
    gang = {name: value for name, value in labels.items() if name != POOL}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(start.key),
            "labels": labels,
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": gang,
        },
    }


def jobs(start: Start) -> list[Body]:
    """An Indexed Job for each pod set of a native job; what every object of ours has is not in them yet.

    A pod that fails is not made again, and stops no other: what becomes of the gang is decided above.
    """
    return [_job(start, number, held) for number, held in enumerate(start.stored.record.sets)]


def _job(start: Start, number: int, held: SetPlace) -> Body:
    run = run_of(start.order, held.name)
    assert run is not None
    pods = len(held.nodes)
    name = job_name(start.key, number, held.name, pods)
    meta = {
        "labels": {POD_SET: held.name},
        "annotations": {JOB_NAME: start.order.job_name, RANKS_BEFORE: str(_ranks_before(start, number, run))},
    }
    spec = {
        "completionMode": "Indexed",
        "parallelism": pods,
        "completions": pods,
        "backoffLimitPerIndex": 0,
        "template": {"metadata": meta, "spec": _pod(start, held, run, name)},
    }
    named = {"name": name, "labels": {POD_SET: held.name}}
    return {"apiVersion": JOB[0], "kind": JOB[1], "metadata": named, "spec": spec}


def _ranks_before(start: Start, number: int, run: PodRun) -> int:
    """Pods of the whole job before rank 0 of a set."""
    if start.order.world_size:
        return run.ranks_before
    sets = start.stored.record.sets
    return sum(len(held.nodes) for held in sets[:number]) - sets[number].first_rank


def _pod(start: Start, held: SetPlace, run: PodRun, host: str) -> Body:
    volumes = [_volume(volume) for volume in run.volumes]
    container: Body = {
        "name": CONTAINER,
        "image": run.image,
        "env": _env(start, run, host),
        "resources": _resources(held.resources),
    }
    if run.command:
        container["command"] = list(run.command)
    if run.args:
        container["args"] = list(run.args)
    if volumes:
        container["volumeMounts"] = [_mount(volume) for volume in run.volumes]
    spec: Body = {
        "restartPolicy": "Never",
        "tolerations": [_toleration(toleration) for toleration in run.tolerations],
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": volumes,
    }
    if start.finds_itself:
        spec["subdomain"] = service_name(start.key)
    return spec


def _env(start: Start, run: PodRun, host: str) -> list[Body]:
    """Ours first: where a name is given twice Kubernetes takes the last, which is the user's. The rank is told by a
    label that a pod gets with its place."""
    rank: Body = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{GLOBAL_RANK}']"}}}
    master, world = _master(start), str(start.world_size)
    ours: dict[str, Body] = {
        "RANK": rank,
        "WORLD_SIZE": {"value": world},
        "MASTER_ADDR": {"value": master},
        "MASTER_PORT": {"value": str(MASTER_PORT)},
        "HANSE_JOB": {"value": start.key.job},
        "HANSE_SET_HOST": {"value": host},
        "PET_NNODES": {"value": world},
        "PET_NODE_RANK": rank,
        "PET_MASTER_ADDR": {"value": master},
        "PET_MASTER_PORT": {"value": str(MASTER_PORT)},
        "JAX_COORDINATOR_ADDRESS": {"value": f"{master}:{MASTER_PORT}"},
        "JAX_NUM_PROCESSES": {"value": world},
        "JAX_PROCESS_ID": rank,
    }
    theirs: dict[str, Body] = {name: {"value": value} for name, value in run.env}
    return [{"name": name, **told} for name, told in {**ours, **theirs}.items()]


def _master(start: Start) -> str:
    """Address of the first pod of the first set, which a job in one pool knows as rank 0."""
    first = start.stored.record.sets[0]
    if not start.finds_itself:
        return "localhost"
    return f"{job_name(start.key, 0, first.name, len(first.nodes))}-0.{service_name(start.key)}"


def _resources(amounts: Resources) -> Body:
    told = {name: f"{amount}m" if name == CPU else str(amount) for name, amount in amounts.items() if name != PODS}
    return {"requests": told, "limits": told}


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
