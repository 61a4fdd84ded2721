"""The pods of a gang that was started, as the port counts them. Pure.

Every place of the gang is counted once, whoever has it: a place of which no pod was let go yet is pending, one whose
pod is gone is missing. The object has the last word:

* a pod that has succeeded is told as running until its object says that it has ended, because another may follow it,
  and because an object may think otherwise. Kinds that never say so are taken at their pods' word;
* once the object has succeeded, so has every place, whatever became of its pod: controllers end pods when the job is
  done (workers after their launcher), and we end what is left;
* a pod that ended because somebody told it to go is told as stopping for a moment: a controller that has just ended
  its job does that, and its word is on the way;
* an object that has failed, or that somebody else removes, is the end of the gang as a whole.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hanse.agent.cluster.kubernetes.kinds import ENDLESS, End
from hanse.agent.cluster.kubernetes.roots import RootState
from hanse.agent.cluster.kubernetes.stored import Root, Stored
from hanse.agent.cluster.kubernetes.verdicts import Ending, OwnPod
from hanse.agent.cluster.port import GangKey, PodCounts, PodPhase

MISSING: Final = "PodGone"
BESIDE: Final = frozenset({"TrainingRuntime"})
"""Kinds that make no pods, and end with those that do."""

_ENDS: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of a gang beside its pods.

    Attributes:
        states: of its objects, by uid.
        late: why its first pods have not come, "" while they may.
        refused: whether the scheduler has refused a pod for too long.
        settled: whether a pod ended so long ago that its object would have said why.
    """

    states: Mapping[str, RootState]
    late: str
    refused: Callable[[OwnPod], bool]
    settled: Callable[[OwnPod], bool]


def makers(stored: Stored) -> list[Root]:
    """The objects that make pods."""
    return [root for root in stored.roots if root.kind not in BESIDE]


def outcome(stored: Stored, states: Mapping[str, RootState], pod_set: str = "") -> End | None:
    """How a gang has ended, or one of its sets, by the word of all objects that are asked; None while it has not."""
    asked = [root for root in makers(stored) if not pod_set or root.pod_set in ("", pod_set)]
    ends = [state.end for root in asked if (state := states.get(root.uid)) is not None]
    failed = next((end for end in ends if end is not None and not end.succeeded), None)
    if failed is not None:
        return failed
    return End(True) if len(ends) == len(asked) and all(ends) and ends else None


def removed(stored: Stored, states: Mapping[str, RootState]) -> str:
    """Which object somebody else has removed, for people; "" if none."""
    if stored.stopped:
        return ""
    for root in makers(stored):
        state = states.get(root.uid)
        if state is not None and (state.gone or state.leaving) and (state.end is None or not state.end.succeeded):
            return f"{root} was deleted from the cluster, and nobody who is asked here had ordered it"
    return ""


def tally(key: GangKey, stored: Stored, pods: Iterable[OwnPod], words: Words) -> PodCounts:
    """How the pods of a gang are counted."""
    by_place = {at: pod for pod in pods if (at := stored.place_of(pod.uid)) is not None}
    ends = {held.name: outcome(stored, words.states, held.name) for held in stored.record.sets}
    phases = dict.fromkeys(PodPhase, 0)
    missing = 0
    occupied: dict[int, int] = {}
    for number, held in enumerate(stored.record.sets):
        for place in range(len(held.nodes)):
            pod = by_place.get((number, place))
            let = bool(stored.let and stored.let[number][place])
            phase = _phase(stored, pod, let, ends[held.name], words)
            if phase is None:
                missing += 1
                continue
            phases[phase] += 1
            occupied[number] = occupied.get(number, 0) + (phase not in _ENDS)
    failure, infrastructure, exit_code, reason = _why(stored, by_place.values(), missing, words)
    sets = stored.record.sets
    over = tuple(h.name for n, h in enumerate(sets) if stored.let and all(stored.let[n]) and not occupied.get(n))
    return PodCounts(
        key,
        phases[PodPhase.PENDING],
        phases[PodPhase.RUNNING],
        phases[PodPhase.SUCCEEDED],
        phases[PodPhase.FAILED],
        phases[PodPhase.STOPPING],
        missing,
        exit_code,
        reason,
        infrastructure,
        over if len(sets) > 1 else (),
        failure,
    )


def _phase(stored: Stored, pod: OwnPod | None, let: bool, end: End | None, words: Words) -> PodPhase | None:
    """What a place is told as; None if its pod is gone."""
    succeeded = end is not None and end.succeeded
    if pod is None:
        if succeeded:
            return PodPhase.SUCCEEDED
        return None if let or stored.stopped else PodPhase.PENDING
    if pod.ended and succeeded:
        return PodPhase.SUCCEEDED
    if pod.phase is PodPhase.SUCCEEDED and end is None and not stored.stopped and not _is_endless(stored):
        return PodPhase.RUNNING
    if pod.phase is PodPhase.FAILED and not stored.stopped and end is None and _told_to_go(pod):
        return PodPhase.FAILED if words.settled(pod) else PodPhase.STOPPING
    return PodPhase.FAILED if _is_refused(pod, words) else pod.phase


def _is_endless(stored: Stored) -> bool:
    return all(root.kind in ENDLESS for root in makers(stored))


def _is_refused(pod: OwnPod, words: Words) -> bool:
    return not pod.ended and bool(pod.refusal) and words.refused(pod)


def _told_to_go(pod: OwnPod) -> bool:
    return not pod.ending.reason and not pod.ending.exit_code


def _why(stored: Stored, pods: Iterable[OwnPod], missing: int, words: Words) -> tuple[str, bool, int, str]:
    """Why the gang cannot go on as a whole, whose fault that is, exit code and reason of its first pod to fail."""
    endings = [_ending(pod, words) for pod in pods]
    first = min((end for end in endings if end.reason or end.exit_code), key=lambda end: end.at, default=None)
    lost = words.late or removed(stored, words.states)
    end = outcome(stored, words.states)
    failed = end.reason if end is not None and not end.succeeded else ""
    if first is not None:
        return lost or failed, first.infrastructure or bool(lost), first.exit_code, first.reason
    if lost:
        return lost, True, 0, MISSING if missing else ""
    if failed:
        return failed, False, 0, failed
    succeeded = end is not None
    return "", missing > 0 and not succeeded, 0, MISSING if missing and not succeeded else ""


def _ending(pod: OwnPod, words: Words) -> Ending:
    if _is_refused(pod, words):
        return Ending(0, pod.refusal, True)
    return pod.ending
