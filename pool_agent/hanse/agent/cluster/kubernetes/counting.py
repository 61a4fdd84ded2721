"""The pods of a gang before it is known what makes them, as the port counts them. Pure.

Until then none has run, and what exists is only preparation: they are told as pending once somebody here has the
order to start in hand, else not at all, so that the agent repeats the order. From then on `tallying` counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.kubernetes.verdicts import OwnPod
from hanse.agent.cluster.port import GangKey, PodCounts, PodPhase


@dataclass(frozen=True, slots=True)
class Underway:
    """A start that somebody here carries out.

    Attributes:
        refusal: why the cluster does not take its pods, "" while it may.
    """

    refusal: str = ""


def counts_of(key: GangKey, stored: Stored | None, pods: Iterable[OwnPod], start: Underway | None) -> PodCounts:
    """How the pods of a gang are counted that has no record, or none that says what makes them."""
    if stored is None:
        return _counted(key, [pod for pod in pods if not pod.gated])
    if start is None or not stored.record.started or stored.stopped:
        return PodCounts(key)
    if start.refusal:
        return PodCounts(key, failed=stored.pods, reason=start.refusal, infrastructure=True)
    return PodCounts(key, pending=stored.pods)


def _counted(key: GangKey, pods: list[OwnPod]) -> PodCounts:
    phases = dict.fromkeys(PodPhase, 0)
    for pod in pods:
        phases[pod.phase] += 1
    return PodCounts(
        key,
        phases[PodPhase.PENDING],
        phases[PodPhase.RUNNING],
        phases[PodPhase.SUCCEEDED],
        phases[PodPhase.FAILED],
        phases[PodPhase.STOPPING],
    )
