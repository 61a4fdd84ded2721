"""Which of the pods that a controller has made takes which place of its gang. Pure.

Pods come gated, in any order, and their makers say which they are (`clues`). A gang's first pods are let go together,
once every one that is to be there has come: consecutive ranks take consecutive places. A set that is made late takes
its places as its pods come. From then on a place belongs to the pod that has it: another pod for the same rank, which
a controller makes after a failure, gets none and stays gated, because a gang that has lost a pod is taken back whole.
Only where a Job has more completions than pods at a time, one that has succeeded is followed in its place.
"""

from collections.abc import Iterable, Mapping, Sequence

from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.kubernetes.verdicts import OwnPod
from hanse.agent.cluster.port import PodPhase, SetPlace

Place = tuple[int, int]


def next_places(stored: Stored, pods: Iterable[OwnPod]) -> dict[Place, OwnPod]:
    """The pods that are to be let go next, by set and place; none while the gang still waits for some."""
    there = list(pods)
    waiting = _by_set(stored, [pod for pod in there if _waits(stored, pod)])
    ended = {pod.uid for pod in there if pod.phase is PodPhase.SUCCEEDED}
    found: dict[Place, OwnPod] = {}
    for number, held in enumerate(stored.record.sets):
        taken = stored.let[number] if stored.let else ("",) * len(held.nodes)
        come = waiting.get(number, [])
        if held.name in stored.late:
            found |= _late(number, taken, come)
        elif any(taken):
            found |= _followers(stored, number, there, come, ended)
        elif len(come) >= len(held.nodes):
            found |= {(number, place): pod for place, pod in enumerate(come[: len(held.nodes)])}
        else:
            return {}
    return found


def wanting(stored: Stored, pods: Iterable[OwnPod]) -> tuple[int, int]:
    """How many of a gang's first pods have come, and how many are to."""
    waiting = _by_set(stored, [pod for pod in pods if _waits(stored, pod)])
    first = [(n, held) for n, held in enumerate(stored.record.sets) if held.name not in stored.late]
    come = sum(min(len(waiting.get(number, ())), len(held.nodes)) for number, held in first)
    return come, sum(len(held.nodes) for _, held in first)


def _waits(stored: Stored, pod: OwnPod) -> bool:
    return pod.gated and not pod.leaving and not pod.ended and stored.place_of(pod.uid) is None


def _by_set(stored: Stored, pods: Sequence[OwnPod]) -> dict[int, list[OwnPod]]:
    """Pods by the number of their set, in order; of several for one index the newest counts."""
    numbers = {held.name: number for number, held in enumerate(stored.record.sets)}
    found: dict[int, dict[object, OwnPod]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.clue.index, pod.clue.name)):
        number = _number(pod.clue.pod_set, numbers)
        if number is None:
            continue
        known = found.setdefault(number, {})
        which = pod.clue.index or pod.uid
        if which not in known or known[which].version < pod.version:
            known[which] = pod
    return {number: list(known.values()) for number, known in found.items()}


def _number(hints: Sequence[str], numbers: Mapping[str, int]) -> int | None:
    """A set by what its maker calls it; one that wraps several jobs puts their names before it."""
    for hint in hints:
        if hint in numbers:
            return numbers[hint]
    for hint in hints:
        ending = [number for name, number in numbers.items() if name.endswith(f"-{hint}")]
        if len(ending) == 1:
            return ending[0]
    return 0 if len(numbers) == 1 else None


def _late(number: int, taken: Sequence[str], come: Sequence[OwnPod]) -> dict[Place, OwnPod]:
    free = [place for place, token in enumerate(taken) if not token]
    found: dict[Place, OwnPod] = {}
    for pod in come:
        at = pod.clue.index[-1] if len(pod.clue.index) == 1 else -1
        place = at if at in free else free[0] if free else -1
        if place < 0:
            break
        free.remove(place)
        found[number, place] = pod
    return found


def _followers(
    stored: Stored, number: int, there: Sequence[OwnPod], come: Sequence[OwnPod], ended: set[str]
) -> dict[Place, OwnPod]:
    if not stored.follows or not come:
        return {}
    free = sorted(
        place
        for pod in there
        if pod.uid in ended and (at := stored.place_of(pod.uid)) is not None and at[0] == number
        for place in at[1:]
    )
    return {(number, place): pod for place, pod in zip(free, come, strict=False)}


def name_of(sets: Sequence[SetPlace], at: Place) -> tuple[str, int]:
    """Set name and rank of a place."""
    held = sets[at[0]]
    return held.name, held.first_rank + at[1]
