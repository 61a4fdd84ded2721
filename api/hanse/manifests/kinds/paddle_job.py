"""PaddleJob (`kubeflow.org/v1`): masters and workers, elastic or not."""

from typing import Final

from hanse.manifests.kinds.kubeflow import Replicas, training_kind

KIND: Final = training_kind(
    "PaddleJob", Replicas("paddleReplicaSpecs", ("Master", "Worker"), container="paddle"), elastic=True
)
