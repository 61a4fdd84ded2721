"""PodGroup (`scheduling.x-k8s.io/v1alpha1`, the coscheduling plugin): a minimum, and nothing more."""

from collections.abc import Sequence
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.groups import Group, begin_group, members
from hanse.manifests.kinds.kubeflow import SUMS_WHY, TIMEOUT_WHY
from hanse.manifests.notes import audit
from hanse.manifests.registry import Kind, Submission


def _read(document: Document, submission: Submission) -> Sequence[Group]:
    notes = submission.notes
    spec = document.field.get("spec")
    if spec:
        why = {"minResources": SUMS_WHY, "scheduleTimeoutSeconds": TIMEOUT_WHY}
        audit(spec, notes, mapped=("minMember",), why=why)
    return [begin_group(document, notes, minimum=members(spec))]


KIND: Final = Kind("scheduling.x-k8s.io", "PodGroup", ("v1alpha1",), _read)
