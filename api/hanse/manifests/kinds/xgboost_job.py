"""XGBoostJob (`kubeflow.org/v1`): a master and workers."""

from typing import Final

from hanse.manifests.kinds.kubeflow import Replicas, training_kind

KIND: Final = training_kind(
    "XGBoostJob",
    Replicas("xgbReplicaSpecs", ("Master", "Worker"), container="xgboost", single=frozenset(("Master",))),
)
