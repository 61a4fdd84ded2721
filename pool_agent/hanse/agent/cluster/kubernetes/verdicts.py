"""What one of our pods is doing, and why it ended: an API object as one small value. Pure.

* A pod that is to go and has no node will never run: it has ended, although its phase still says Pending.
* A pod that is to go and has a node occupies it until its phase says that it has ended, or it is gone.
* Whose fault: the kubelet's and the control plane's reasons (`OutOfcpu`, `NodeShutdown`, a disruption) are the
  infrastructure's; `DeadlineExceeded` and exit codes are the program's. A pod that ended because it was told to go
  has no reason of its own; who told it is known elsewhere.
"""

from dataclasses import dataclass

from hanse.agent.cluster.kubernetes.clues import Clue, clue_of
from hanse.agent.cluster.kubernetes.names import FINALIZER, GATE, RANKS_BEFORE, PodKey
from hanse.agent.cluster.kubernetes.objects import AffinityObject, PodObject, Terminated
from hanse.agent.cluster.port import DEADLINE_EXCEEDED, ClusterUnavailable, PodPhase, PodStatus
from hanse.model.ids import NodeName

REASON_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a pod failed; all empty if it did not, or if it was only told to go."""

    exit_code: int = 0
    reason: str = ""
    infrastructure: bool = False
    at: str = ""


@dataclass(frozen=True, slots=True)
class OwnPod:
    """One of our pods.

    Attributes:
        version: of the object, as a number.
        gate: position of our gate among its scheduling gates, -1 if it is gone.
        kept: our finalizer is on it.
        leaving: it was told to go.
        bound: it has a node.
        refusal: what the scheduler says against it, "" if nothing.
        clue: where it belongs, as whoever made it says.
        scheduler: which one is to bind it.
        affinity: which nodes it may have, as far as it can be added to.
        finalizers: how many keep it.
        ranks_before: pods of its job that come before rank 0 of its set, None where nobody asks for that.
    """

    key: PodKey
    uid: str
    version: int
    name: str
    namespace: str
    node: NodeName
    phase: PodPhase
    gate: int
    kept: bool
    leaving: bool
    refusal: str
    ending: Ending
    clue: Clue = Clue()
    scheduler: str = ""
    affinity: AffinityObject | None = None
    finalizers: int = 0
    ranks_before: int | None = None

    @property
    def bound(self) -> bool:
        return bool(self.node)

    @property
    def gated(self) -> bool:
        """Whether it waits for its gang, and will not run before it is let."""
        return self.gate >= 0

    @property
    def ended(self) -> bool:
        """Whether it occupies nothing and never will."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    def status(self) -> PodStatus:
        """As the port tells it."""
        end = self.ending
        gang, pod_set, rank = self.key
        return PodStatus(
            gang, pod_set, rank, self.node, self.phase, end.exit_code, end.reason, infrastructure=end.infrastructure
        )


def own_pod_of(key: PodKey, pod: PodObject) -> OwnPod:
    """A pod of ours as a value."""
    meta = pod.metadata
    phase = _phase(pod)
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    return OwnPod(
        key,
        meta.uid,
        version_of(meta.resource_version),
        meta.name,
        meta.namespace,
        NodeName(pod.spec.node_name),
        phase,
        gates.index(GATE) if GATE in gates else -1,
        FINALIZER in meta.finalizers,
        bool(meta.deletion_timestamp),
        _refusal(pod),
        _ending(pod) if phase is PodPhase.FAILED else Ending(),
        clue_of(meta),
        pod.spec.scheduler_name,
        pod.spec.affinity,
        len(meta.finalizers),
        _number(meta.annotations.get(RANKS_BEFORE, "")),
    )


def _number(text: str) -> int | None:
    return int(text) if text.removeprefix("-").isdecimal() else None


def version_of(text: str) -> int:
    """A resource version as a number; they grow within one cluster. Raises ClusterUnavailable if it is none."""
    if text and not text.isdecimal():
        raise ClusterUnavailable(f"{text[:40]!r} is no version of an object that this API server could have given")
    return int(text or "0")


def _phase(pod: PodObject) -> PodPhase:
    match pod.status.phase:
        case "Succeeded":
            return PodPhase.SUCCEEDED
        case "Failed":
            return PodPhase.FAILED
    if pod.metadata.deletion_timestamp:
        return PodPhase.STOPPING if pod.spec.node_name else PodPhase.FAILED
    return PodPhase.PENDING if pod.status.phase in ("Pending", "") else PodPhase.RUNNING


def _refusal(pod: PodObject) -> str:
    """The scheduler's words; a pod that is gated, bound or leaving is not refused."""
    if pod.spec.node_name or pod.spec.scheduling_gates or pod.metadata.deletion_timestamp:
        return ""
    for condition in pod.status.conditions:
        if (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable"):
            return _cut(f"{condition.reason}: {condition.message}")
    return ""


def _ending(pod: PodObject) -> Ending:
    status = pod.status
    exited = _first_failure(pod)
    at = exited.finished_at if exited is not None else pod.metadata.deletion_timestamp
    if status.reason == DEADLINE_EXCEEDED:
        return Ending(0, DEADLINE_EXCEEDED, False, at)
    for condition in status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return Ending(0, _cut(f"{condition.reason}: {condition.message}"), True, at)
    if status.reason:
        return Ending(0, _cut(f"{status.reason}: {status.message}"), True, at)
    if pod.metadata.deletion_timestamp or exited is None:
        return Ending(at=at)
    return Ending(exited.exit_code, exited.reason or "Error", False, at)


def _first_failure(pod: PodObject) -> Terminated | None:
    for container in pod.status.container_statuses:
        exited = container.state.terminated
        if exited is not None and exited.exit_code:
            return exited
    return None


def _cut(text: str) -> str:
    line = " ".join(text.split()).rstrip(": ")
    return line if len(line) <= REASON_CHARS_MAX else line[: REASON_CHARS_MAX - 1] + "…"
