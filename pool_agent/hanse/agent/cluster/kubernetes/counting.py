"""The pods of a gang by phase, as the port counts them. Pure.

Before every pod of a gang was created, none has run, and those that exist are only preparation: they are told as
pending once somebody here has the order to start in hand, else not at all, so that the agent repeats the order.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.kubernetes.verdicts import OwnPod
from hanse.agent.cluster.port import GangKey, PodCounts, PodPhase, SetPlace

MISSING = "PodGone"


@dataclass(frozen=True, slots=True)
class Underway:
    """A start that somebody here carries out.

    Attributes:
        refusal: why the cluster does not take its pods, "" while it may.
    """

    refusal: str = ""


def counts_of(key: GangKey, stored: Stored | None, pods: Iterable[OwnPod], start: Underway | None) -> PodCounts:
    """How the pods of a gang are counted, whether or not it has a record."""
    if stored is None:
        return _counted(key, [pod for pod in pods if not pod.gated], 0, ())
    if stored.complete is not None:
        return _counted(key, [pod for pod in pods if pod.epoch == stored.complete], stored.pods, stored.record.sets)
    if start is None or not stored.record.started or stored.stopped:
        return PodCounts(key)
    if start.refusal:
        return PodCounts(key, failed=stored.pods, reason=start.refusal, infrastructure=True)
    return PodCounts(key, pending=stored.pods)


def _counted(key: GangKey, pods: list[OwnPod], wanted: int, sets: tuple[SetPlace, ...]) -> PodCounts:
    by_phase = dict.fromkeys(PodPhase, 0)
    for pod in pods:
        by_phase[pod.phase] += 1
    missing = max(0, wanted - len(pods))
    first = min(
        (pod for pod in pods if pod.ending.reason or pod.ending.exit_code),
        key=lambda pod: (pod.ending.at, pod.key.pod_set, pod.key.rank),
        default=None,
    )
    if first is not None:
        exit_code, reason, infrastructure = first.ending.exit_code, first.ending.reason, first.ending.infrastructure
    else:
        exit_code, reason, infrastructure = 0, MISSING if missing else "", missing > 0
    return PodCounts(
        key,
        by_phase[PodPhase.PENDING],
        by_phase[PodPhase.RUNNING],
        by_phase[PodPhase.SUCCEEDED],
        by_phase[PodPhase.FAILED],
        by_phase[PodPhase.STOPPING],
        missing,
        exit_code,
        reason,
        infrastructure,
        _ended_sets(pods, sets) if len(sets) > 1 else (),
    )


def _ended_sets(pods: list[OwnPod], sets: tuple[SetPlace, ...]) -> tuple[str, ...]:
    """The sets of a complete gang of which no pod occupies a node any more; none is created again."""
    occupying = {pod.key.pod_set for pod in pods if not pod.ended}
    return tuple(held.name for held in sets if held.name not in occupying)
