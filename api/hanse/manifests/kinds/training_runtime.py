"""ClusterTrainingRuntime and TrainingRuntime (`trainer.kubeflow.org`): what a TrainJob beside them is made from."""

from collections.abc import Sequence
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft
from hanse.manifests.registry import Kind, Submission

GROUP: Final = "trainer.kubeflow.org"
VERSIONS: Final = ("v1alpha1",)
KINDS: Final = ("ClusterTrainingRuntime", "TrainingRuntime")


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    """Nothing by itself: the TrainJob takes it in."""
    return ()


CLUSTER_KIND: Final = Kind(GROUP, KINDS[0], VERSIONS, _read, beside=True)
KIND: Final = Kind(GROUP, KINDS[1], VERSIONS, _read, beside=True)
