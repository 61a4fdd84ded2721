"""TFJob (`kubeflow.org/v1`): chief, master, parameter servers, workers, evaluator."""

from typing import Final

from hanse.manifests.kinds.kubeflow import RESIZE_WHY, Replicas, training_kind

KIND: Final = training_kind(
    "TFJob",
    Replicas(
        key="tfReplicaSpecs",
        types=("Chief", "Master", "PS", "Worker", "Evaluator"),
        container="tensorflow",
        single=frozenset(("Chief", "Master")),
    ),
    why={
        "enableDynamicWorker": RESIZE_WHY,
        "successPolicy": "a job has succeeded when all of its pods have",
    },
)
