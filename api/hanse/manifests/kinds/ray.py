"""What RayJob and RayCluster share: a head, and worker groups of replicas that may span several hosts.

A worker group of R replicas with `numOfHosts: H` is R times H pods. R is what KubeRay would start: the wish, kept
within minReplicas and maxReplicas. With autoscaling the gang needs only minReplicas (under KAI it does so whenever
they are given), and the head carries KubeRay's autoscaler beside its own containers. A group of no replicas has no
pods and becomes no pod set. KubeRay's labels for Volcano bring a network topology and a priority class.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet, begin, draft_set, hold_together
from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import Keys
from hanse.manifests.kinds.kubeflow import KAI_SCHEDULER, MANAGED_WHY, RESIZE_WHY, note_suspend
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pod_resources import container_request
from hanse.manifests.pods import read_pod
from hanse.manifests.topology import labelled_network
from hanse.model.resources import CPU, MEMORY, Resources

AUTOSCALER: Final = Resources({CPU: 500, MEMORY: 512 * 2**20})  # KubeRay's default for the container it adds
_HEAD: Final = "head"
_MODE: Final = "volcano.sh/network-topology-mode"
_TIER: Final = "volcano.sh/network-topology-highest-tier-allowed"
_PRIORITY: Final = "ray.io/priority-class-name"
_GANG: Final = "ray.io/gang-scheduling-enabled"
_CLUSTER_KEPT: Final = (
    "rayVersion",
    "upgradeStrategy",
    "authOptions",
    "headServiceAnnotations",
    "gcsFaultToleranceOptions",
    "historyServerOptions",
    "networkPolicy",
    "tlsOptions",
)
_HEAD_KEPT: Final = (
    "headService",
    "enableIngress",
    "ingressOptions",
    "resources",
    "labels",
    "rayStartParams",
    "serviceType",
)
_GROUP_MAPPED: Final = ("groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "template", "suspend")
_GROUP_KEPT: Final = ("rayStartParams", "resources", "labels", "scaleStrategy")
_HOSTS_WHY: Final = (
    "the hosts of a replica have consecutive ranks; to hold them in one domain, add Kueue's podset-slice annotations"
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The pod sets of a RayClusterSpec, head first."""

    sets: tuple[DraftSet, ...]

    def with_head_load(self, more: Resources) -> "Cluster":
        """The cluster with further containers in the head pod."""
        head, *workers = self.sets
        pod = replace(head.pod, resources=head.pod.resources.plus(more))
        return Cluster((replace(head, pod=pod), *workers))


def read_cluster(spec: Field, notes: Notes) -> Cluster:
    """The pods of a RayClusterSpec.

    Raises:
        InvalidArgument: counts or pod templates that make no sense.
    """
    audit(
        spec,
        notes,
        mapped=("headGroupSpec", "workerGroupSpecs", "enableInTreeAutoscaling", "autoscalerOptions", "suspend"),
        kept=_CLUSTER_KEPT,
        why={"managedBy": MANAGED_WHY},
    )
    note_suspend(spec, notes)
    scaling = spec.get("enableInTreeAutoscaling")
    autoscaled = scaling is not None and scaling.boolean()
    groups = spec.get("workerGroupSpecs")
    workers = [_group(item, notes, autoscaled=autoscaled) for item in groups.items()] if groups else []
    cluster = Cluster((_head(spec, notes), *(group for group in workers if group)))
    if not autoscaled:
        return cluster
    options = spec.get("autoscalerOptions")
    overridden = options is not None and options.get("resources") is not None
    return cluster.with_head_load(container_request(options, notes) if options and overridden else AUTOSCALER)


def _head(spec: Field, notes: Notes) -> DraftSet:
    head = spec.need("headGroupSpec", "no headGroupSpec; a Ray cluster has one head")
    audit(head, notes, mapped=("template",), kept=_HEAD_KEPT)
    pod = read_pod(head.need("template", "no pod template"), notes, main="ray-head")
    return draft_set(_HEAD, Placed(1, head), pod, head)


def _group(item: Field, notes: Notes, *, autoscaled: bool) -> DraftSet | None:
    why = {"idleTimeoutSeconds": RESIZE_WHY, "priority": RESIZE_WHY}
    audit(item, notes, mapped=_GROUP_MAPPED, kept=_GROUP_KEPT, why=why)
    name = item.need("groupName", "no groupName; every worker group needs one")
    pod = read_pod(item.need("template", "no pod template"), notes, main="ray-worker")
    least, replicas = _replicas(item, notes)
    hosts = item.get("numOfHosts")
    per_replica = hosts.at_least(1, "hosts of a replica") if hosts else 1
    suspended = item.get("suspend")
    if replicas.value == 0 or (suspended and suspended.boolean()):
        notes.unmapped(item, "the group starts no pods")
        return None
    pods = draft_set(name.word(), Placed(replicas.value * per_replica, replicas.field), pod, name)
    if hosts and per_replica > 1 and all(layer.value.size != per_replica for layer in pods.wishes.slices):
        notes.unmapped(hosts, _HOSTS_WHY)
    needed = least if autoscaled or (least.value and _is_kai(pods)) else replicas
    return replace(pods, minimum=Placed(needed.value * per_replica, needed.field))


def _replicas(item: Field, notes: Notes) -> tuple[Placed[int], Placed[int]]:
    """The fewest replicas, and those that are started; 0 and no upper limit are the defaults of the API."""
    wish, least, most = item.get("replicas"), item.get("minReplicas"), item.get("maxReplicas")
    fewest = Placed(least.at_least(0, "replicas"), least) if least else Placed(0, item)
    wanted = Placed(wish.at_least(0, "replicas"), wish) if wish else Placed(0, item)
    limit = most.at_least(0, "replicas") if most else None
    if limit is not None and most and limit < fewest.value:
        most.refuse("CONTRADICTION", f"{limit} is below minReplicas {fewest.value} in line {fewest.field.line}")
    if wanted.value < fewest.value:
        return fewest, fewest
    if limit is not None and most and wanted.value > limit:
        return fewest, Placed(limit, most)
    return fewest, wanted


def _is_kai(pods: DraftSet) -> bool:
    scheduler = pods.pod.spec.get("schedulerName")
    return scheduler is not None and scheduler.text() == KAI_SCHEDULER


def ray_draft(document: Document, sets: Sequence[DraftSet], keys: Keys, notes: Notes) -> Draft:
    """The draft of an object whose pods are those of a Ray cluster, with KubeRay's labels read."""
    mode, tier = keys.label(_MODE), keys.label(_TIER)
    keys.label(_GANG)
    draft = begin(document, notes, sets, keys, priority=keys.label(_PRIORITY))
    return hold_together(draft, labelled_network(mode, tier, notes), notes)
