"""Which pod set and rank a pod says it has, in the words of whoever made it. Pure.

    batch/v1 Job, JobSet            completion index; a JobSet's also the index of its Job
    Kubeflow's operators            replica type, job role and replica index
    LeaderWorkerSet                 worker index; the leader is 0
    KubeRay                         node type and group; the indexes of replica and host where there are several hosts
    Volcano                         task and task index

Indexes put pods in order and need not begin at 0: what one counts from, another counts from after its leader.
"""

from dataclasses import dataclass
from typing import Final

from hanse.agent.cluster.kubernetes.names import POD_SET, RANK
from hanse.agent.cluster.kubernetes.objects import Meta

COMPLETION: Final = "batch.kubernetes.io/job-completion-index"
_JOBSET: Final = "jobset.sigs.k8s.io/"
_KUBEFLOW: Final = "training.kubeflow.org/"
_LWS: Final = "leaderworkerset.sigs.k8s.io/"
_RAY: Final = "ray.io/"
_VOLCANO: Final = "volcano.sh/"


@dataclass(frozen=True, slots=True, order=True)
class Clue:
    """Where a pod belongs.

    Attributes:
        pod_set: as its maker calls it, in order of likelihood; () if it does not say.
        index: puts the pods of a set in order; () if it does not say.
        name: does so where nothing else does.
    """

    pod_set: tuple[str, ...] = ()
    index: tuple[int, ...] = ()
    name: str = ""


def clue_of(meta: Meta) -> Clue:
    """What a pod's labels and annotations say."""
    pod_set, index = _told(meta)
    return Clue(pod_set, index, meta.name)


def _told(meta: Meta) -> tuple[tuple[str, ...], tuple[int, ...]]:
    said = {**meta.annotations, **meta.labels}
    if POD_SET in said:
        return (said[POD_SET],), _numbers(said, RANK) or _numbers(said, COMPLETION)
    if _LWS + "worker-index" in said:
        at = _numbers(said, _LWS + "worker-index")
        return ("leader" if at == (0,) else "worker", "main"), at
    if _RAY + "node-type" in said:
        return _ray(said)
    if _KUBEFLOW + "job-role" in said or _KUBEFLOW + "replica-type" in said:
        names = (said.get(_KUBEFLOW + "replica-type", ""), said.get(_KUBEFLOW + "job-role", ""))
        return tuple(name.lower() for name in names if name), _numbers(said, _KUBEFLOW + "replica-index")
    if _JOBSET + "replicatedjob-name" in said:
        at = (*_numbers(said, _JOBSET + "job-index"), *_numbers(said, COMPLETION))
        return (said[_JOBSET + "replicatedjob-name"],), at
    if _VOLCANO + "task-spec" in said:
        return (said[_VOLCANO + "task-spec"],), _numbers(said, _VOLCANO + "task-index")
    if said.get("ray.io/rayjob-name") or said.get("app.kubernetes.io/created-by") == "kuberay-operator":
        return ("submitter",), ()
    return (), _numbers(said, COMPLETION)


def _ray(said: dict[str, str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    kind = said[_RAY + "node-type"]
    if kind != "worker":
        return ("head" if kind == "head" else "submitter",), ()
    at = (*_numbers(said, _RAY + "worker-group-replica-index"), *_numbers(said, _RAY + "replica-host-index"))
    return (said.get(_RAY + "group", ""),), at


def _numbers(said: dict[str, str], key: str) -> tuple[int, ...]:
    text = said.get(key, "")
    return (int(text),) if text.isdecimal() else ()
