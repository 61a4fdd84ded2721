"""PyTorchJob (`kubeflow.org/v1`): one master at most and workers; KAI's segments cut the workers into slices."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet
from hanse.manifests.kinds.kubeflow import Replicas, kubeflow_draft, read_replicas
from hanse.manifests.notes import audit
from hanse.manifests.registry import Kind, Submission
from hanse.manifests.topology import kai_segment

_REPLICAS: Final = Replicas(
    key="pytorchReplicaSpecs",
    types=("Master", "Worker"),
    single=frozenset(("Master",)),
    container="pytorch",
)


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; say what the job is")
    audit(
        spec,
        notes,
        mapped=("pytorchReplicaSpecs", "runPolicy", "elasticPolicy"),
        kept=("nprocPerNode",),
    )
    sets = [_segmented(pod_set) for pod_set in read_replicas(spec, _REPLICAS, notes)]
    return [kubeflow_draft(document, notes, sets, spec.get("runPolicy"), spec.get("elasticPolicy"))]


def _segmented(pod_set: DraftSet) -> DraftSet:
    segment = kai_segment(pod_set.pod.keys) if pod_set.name == "worker" else None
    return replace(pod_set, wishes=pod_set.wishes.also_slice(segment)) if segment else pod_set


KIND: Final = Kind("kubeflow.org", "PyTorchJob", ("v1",), _read)
