"""MPIJob (`kubeflow.org/v2beta1`, and `v1` of the training operator): one launcher and workers.

With `launcherCreationPolicy: WaitForWorkersReady` the launcher does not exist until the workers run. A gang that
waited for it would wait for ever, so the minimum is then the workers alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hanse.manifests.documents import Document
from hanse.manifests.drafts import Draft, DraftSet
from hanse.manifests.fields import Field, Placed
from hanse.manifests.kinds.kubeflow import FINISHED_WHY, Replicas, kubeflow_draft, read_replicas
from hanse.manifests.notes import audit
from hanse.manifests.registry import Kind, Submission

_REPLICAS: Final = Replicas(
    key="mpiReplicaSpecs", types=("Launcher", "Worker"), container="mpi", single=frozenset(("Launcher",))
)
_KEPT: Final = ("slotsPerWorker", "sshAuthMountPath", "mpiImplementation", "runLauncherAsWorker", "mainContainer")


def _read(document: Document, submission: Submission) -> Sequence[Draft]:
    notes = submission.notes
    audit(document.field, notes, mapped=("apiVersion", "kind", "metadata", "spec"), kept=("status",))
    spec = document.field.need("spec", "no spec; say what the job is")
    audit(
        spec,
        notes,
        mapped=("mpiReplicaSpecs", "runPolicy", "launcherCreationPolicy"),
        kept=_KEPT,
        why={"cleanPodPolicy": FINISHED_WHY},
    )
    sets = read_replicas(spec, _REPLICAS, notes)
    if sets[0].name != "launcher":
        spec.need("mpiReplicaSpecs").refuse("MISSING", "no Launcher; an MPIJob has exactly 1")
    return [kubeflow_draft(document, notes, _awaited(spec, sets), spec.get("runPolicy"), None)]


def _awaited(spec: Field, sets: Sequence[DraftSet]) -> list[DraftSet]:
    policy = spec.get("launcherCreationPolicy")
    if policy is None or policy.one_of("AtStartup", "WaitForWorkersReady") == "AtStartup" or len(sets) < 2:
        return list(sets)
    launcher, workers = sets
    return [replace(launcher, minimum=Placed(0, policy)), replace(workers, minimum=workers.count)]


KIND: Final = Kind("kubeflow.org", "MPIJob", ("v2beta1", "v1"), _read)
