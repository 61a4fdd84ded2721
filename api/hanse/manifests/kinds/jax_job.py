"""JAXJob (`kubeflow.org/v1`): workers, the first of which coordinates."""

from typing import Final

from hanse.manifests.kinds.kubeflow import Replicas, training_kind

KIND: Final = training_kind("JAXJob", Replicas("jaxReplicaSpecs", ("Worker",), container="jax"))
