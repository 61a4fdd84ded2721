"""RayCluster (`ray.io/v1`): a head and its worker groups; it runs until somebody cancels it."""

from collections.abc import Sequence
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft
from hanse.manifests.keys import Keys
from hanse.manifests.kinds.ray import ray_draft, read_cluster
from hanse.manifests.notes import audit
from hanse.manifests.registry import Kind, Submission


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    cluster = read_cluster(document.field.need("spec", "no spec; say what the pods are"), notes)
    keys = Keys(document.field.get("metadata"), notes, of_template=False)
    return [ray_draft(document, cluster.sets, keys, notes)]


KIND: Final = Kind("ray.io", "RayCluster", ("v1", "v1alpha1"), _read)
