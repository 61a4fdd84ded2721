"""PyTorchJob (`kubeflow.org/v1`): one master at most and workers; KAI's segments cut the workers into slices."""

from dataclasses import replace
from typing import Final

from hanse.manifests.drafts import DraftSet
from hanse.manifests.kinds.kubeflow import Replicas, training_kind
from hanse.manifests.topology import kai_segment

_REPLICAS: Final = Replicas(
    key="pytorchReplicaSpecs", types=("Master", "Worker"), container="pytorch", single=frozenset(("Master",))
)


def _segmented(pod_set: DraftSet) -> DraftSet:
    segment = kai_segment(pod_set.pod.keys) if pod_set.name == "worker" else None
    return replace(pod_set, wishes=pod_set.wishes.also_slice(segment)) if segment else pod_set


KIND: Final = training_kind("PyTorchJob", _REPLICAS, kept=("nprocPerNode",), elastic=True, shape=_segmented)
