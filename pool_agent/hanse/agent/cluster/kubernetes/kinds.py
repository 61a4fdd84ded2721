"""What kinds of objects jobs are in a cluster: where they are served, and how each says that it has ended. Pure.

A kind is served under its lower-case plural, as all of these are. The words for an end are each kind's own; a kind
that has none (a Ray cluster, a LeaderWorkerSet) runs until its pods have ended or it is told to stop.
"""

from dataclasses import dataclass
from typing import Final

from hanse.agent.cluster.kubernetes.objects import RootObject, RootStatus
from hanse.agent.cluster.port import DEADLINE_EXCEEDED

REASON_CHARS_MAX: Final = 300

JOB: Final = ("batch/v1", "Job")
POD: Final = ("v1", "Pod")
KNOWN: Final = (
    JOB,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("kubeflow.org/v1", "TFJob"),
    ("kubeflow.org/v1", "XGBoostJob"),
    ("kubeflow.org/v1", "PaddleJob"),
    ("kubeflow.org/v1", "JAXJob"),
    ("kubeflow.org/v2beta1", "MPIJob"),
    ("kubeflow.org/v1", "MPIJob"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("ray.io/v1", "RayJob"),
    ("ray.io/v1", "RayCluster"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("workload.codeflare.dev/v1beta2", "AppWrapper"),
)
"""API version and kind of everything that a job may be in a cluster, pods aside."""

ENDLESS: Final = frozenset({"Pod", "RayCluster", "LeaderWorkerSet"})
"""Kinds that never say that they have ended; their pods do."""

_SUCCEEDED: Final = frozenset({"Complete", "Completed", "Succeeded"})
_FAILED: Final = frozenset({"Failed"})
_PHASES: Final = {
    "Completed": True,
    "Succeeded": True,
    "Complete": True,
    "SUCCEEDED": True,
    "Failed": False,
    "FAILED": False,
    "STOPPED": False,
    "Aborted": False,
    "Terminated": False,
}


@dataclass(frozen=True, slots=True)
class End:
    """How an object ended; the reason is for people, and "" where it succeeded."""

    succeeded: bool
    reason: str = ""


def folder_of(api_version: str, kind: str, namespace: str = "") -> str:
    """Where objects of a kind are: those of one namespace, or all of them."""
    base = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{base}{within}/{kind.lower()}s"


def end_of(kind: str, found: RootObject) -> End | None:
    """How an object has ended by its own word; None while it has not."""
    if kind in ENDLESS:
        return None
    status = found.status
    for condition in status.conditions:
        if condition.status == "True" and condition.type in _SUCCEEDED:
            return End(True)
        if condition.status == "True" and condition.type in _FAILED:
            return End(False, _said(condition.reason, condition.message))
    return _by_phase(status)


def _by_phase(status: RootStatus) -> End | None:
    """Kinds that have a word for how they are instead of conditions."""
    state = status.state.get("phase", "") if isinstance(status.state, dict) else ""
    for word in (status.job_status, status.job_deployment_status, status.phase, state):
        succeeded = _PHASES.get(word)
        if succeeded is not None:
            return End(succeeded, "" if succeeded else _said(status.reason or word, status.message))
    return None


def _said(reason: str, message: str) -> str:
    if DEADLINE_EXCEEDED in reason:
        return DEADLINE_EXCEEDED
    line = " ".join(f"{reason}: {message}".split()).strip(": ") or "it says that it has failed"
    return line if len(line) <= REASON_CHARS_MAX else line[: REASON_CHARS_MAX - 1] + "…"
