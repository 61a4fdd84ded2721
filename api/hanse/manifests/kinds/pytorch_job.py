"""PyTorchJob (`kubeflow.org/v1`): one master at most and workers; KAI's segments cut the workers into slices."""

from dataclasses import replace
from typing import Final

from hanse.manifests.drafts import DraftSet
from hanse.manifests.kinds.kubeflow import Replicas, training_kind
from hanse.manifests.topology import kai_segments

_REPLICAS: Final = Replicas(
    key="pytorchReplicaSpecs", types=("Master", "Worker"), container="pytorch", single=frozenset(("Master",))
)


def _segmented(pod_set: DraftSet) -> DraftSet:
    wishes = pod_set.wishes
    for segment in kai_segments(pod_set.pod.keys, pod_set.count.value) if pod_set.name == "worker" else ():
        wishes = wishes.also_slice(segment)
    return replace(pod_set, wishes=wishes)


KIND: Final = training_kind("PyTorchJob", _REPLICAS, kept=("nprocPerNode",), elastic=True, shape=_segmented)
