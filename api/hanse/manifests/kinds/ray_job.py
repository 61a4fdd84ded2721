"""RayJob (`ray.io/v1`): a Ray cluster for one job, and what submits the job to it.

In SidecarMode the submitter is a container of the head. In K8sJobMode, the default, it is a pod of its own: Kueue
counts it, so under a Kueue queue it is a pod set; otherwise KubeRay starts it when the cluster runs, outside of the
gang, which would wait for ever for a pod that waits for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet, draft_set
from hanse.manifests.fields import Field, Placed
from hanse.manifests.keys import QUEUE_LABEL, Keys
from hanse.manifests.kinds.kubeflow import FINISHED_WHY, MANAGED_WHY, TIMEOUT_WHY, note_suspend, with_limits
from hanse.manifests.kinds.ray import Cluster, ray_draft, read_cluster
from hanse.manifests.notes import Notes, audit
from hanse.manifests.pods import Pod, read_pod
from hanse.manifests.registry import Kind, Submission
from hanse.model.job import PodTemplate
from hanse.model.resources import CPU, MEMORY, Resources
from hanse.model.selectors import Selector

SUBMITTER: Final = Resources({CPU: 500, MEMORY: 200 * 2**20})  # KubeRay's default
_SUBMITTER_NAME: Final = "submitter"
_MODES: Final = ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")
_MAPPED: Final = (
    "rayClusterSpec",
    "submissionMode",
    "submitterPodTemplate",
    "backoffLimit",
    "activeDeadlineSeconds",
    "suspend",
    "clusterSelector",
)
_KEPT: Final = (
    "entrypoint",
    "runtimeEnvYAML",
    "jobId",
    "metadata",
    "submitterConfig",
    "entrypointResources",
    "entrypointNumCpus",
    "entrypointNumGpus",
)
_WHY: Final = {
    "shutdownAfterJobFinishes": FINISHED_WHY,
    "ttlSecondsAfterFinished": FINISHED_WHY,
    "deletionStrategy": FINISHED_WHY,
    "preRunningDeadlineSeconds": TIMEOUT_WHY,
    "managedBy": MANAGED_WHY,
}
_OUTSIDE_WHY: Final = "the pod that submits the job is not of the gang; the cluster's own scheduler places it"


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; say what the job is")
    audit(spec, notes, mapped=_MAPPED, kept=_KEPT, why=_WHY)
    note_suspend(spec, notes)
    selector = spec.get("clusterSelector")
    if selector:
        selector.refuse("NOT_SUPPORTED", "a cluster that runs already has its places; submit the RayCluster itself")
    cluster = read_cluster(spec.need("rayClusterSpec", "no rayClusterSpec; say what the pods are"), notes)
    keys = Keys(document.field.get("metadata"), notes, of_template=False)
    sets = _with_submitter(spec, cluster, keys, notes)
    return [with_limits(ray_draft(document, sets, keys, notes), spec, retries="backoffLimit")]


def _with_submitter(spec: Field, cluster: Cluster, keys: Keys, notes: Notes) -> tuple[DraftSet, ...]:
    written, template = spec.get("submissionMode"), spec.get("submitterPodTemplate")
    mode = written.one_of(*_MODES) if written else _MODES[0]
    if mode == "SidecarMode":
        return cluster.with_head_load(SUBMITTER).sets
    if mode != "K8sJobMode":
        return cluster.sets
    if keys.label(QUEUE_LABEL) is None:
        notes.unmapped(template or written or spec.get("entrypoint") or spec, _OUTSIDE_WHY)
        return cluster.sets
    origin = template or written or spec
    pod = read_pod(template, notes) if template else _default_submitter(cluster, notes)
    return (*cluster.sets, draft_set(_SUBMITTER_NAME, Placed(1, origin), pod, origin))


def _default_submitter(cluster: Cluster, notes: Notes) -> Pod:
    head = cluster.sets[0].pod
    return replace(
        head,
        keys=Keys(None, notes, of_template=True),
        resources=SUBMITTER,
        selector=Selector(),
        tolerations=(),
        template=PodTemplate(image=head.template.image),
        priority_class=None,
    )


KIND: Final = Kind("ray.io", "RayJob", ("v1", "v1alpha1"), _read)
