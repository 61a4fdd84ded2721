"""What is to be done about the pods of a gang, from what is recorded and what is there. Pure.

A level: the same question is asked after every change, after a list, and by the operations of a write, so it does not
matter where an earlier agent stopped. Every chore names the pod by its uid, so what it does cannot hit another object
of the same name.

* A gated pod runs only once its gang is complete, and only if it was counted in then (its epoch is the one under
  which the gang became complete); any other gated pod is a late leftover and goes.
* A gang that was told to stop has no pod that is not leaving.
* A pod whose node is lost, and one that the scheduler does not take although its place is reserved, are given up.
* Of a gang that is forgotten nothing stays.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hanse.agent.cluster.kubernetes.names import OWN_SCHEDULER
from hanse.agent.cluster.kubernetes.stored import Root, Stored
from hanse.agent.cluster.kubernetes.verdicts import OwnPod
from hanse.model.ids import NodeName

GRACE_S: Final = 30
"""For pods that are left when their job is done."""


@dataclass(frozen=True, slots=True)
class Ungate:
    """Let it go to its node."""

    pod: OwnPod


@dataclass(frozen=True, slots=True)
class Delete:
    """Tell it to go; it stays visible when it has ended."""

    pod: OwnPod
    grace_s: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The scheduler refuses it: keep what it says, and make sure that it never runs."""

    pod: OwnPod


@dataclass(frozen=True, slots=True)
class Remove:
    """Let nothing remain of it."""

    pod: OwnPod


@dataclass(frozen=True, slots=True)
class LetGo:
    """Name its place, keep it until it is forgotten, require its node, and let it go."""

    pod: OwnPod
    pod_set: str
    rank: int
    node: NodeName


@dataclass(frozen=True, slots=True)
class Bind:
    """Give it its node; no scheduler will."""

    pod: OwnPod
    node: NodeName


Chore = Ungate | Delete | GiveUp | Remove | LetGo | Bind
Overdue = Callable[[OwnPod], bool]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the agent wants of a gang that has no record (any more).

    Attributes:
        namespace: of its Service.
        forget: nothing is to stay; else its pods are to end.
        roots: the objects that make its pods.
    """

    namespace: str = ""
    forget: bool = False
    grace_s: int = 0
    roots: tuple[Root, ...] = ()


def chores(
    stored: Stored | None, pods: Iterable[OwnPod], *, wish: Wish | None, lost: Overdue, refused: Overdue
) -> Iterator[Chore]:
    """What is to be done now.

    Args:
        wish: counts where there is no record.
        lost: whether the pod's node has been silent for too long.
        refused: whether the scheduler has refused the pod for too long.
    """
    for pod in pods:
        chore = _without_record(wish, pod, lost) if stored is None else _chore(stored, pod, lost, refused)
        if chore is not None:
            yield chore


def made_chores(stored: Stored, pods: Iterable[OwnPod], *, over: bool, lost: Overdue) -> Iterator[Chore]:
    """What is to be done now about pods that a controller makes. Those that were not let go do nothing, whatever
    becomes of the gang, and end with what made them.

    Args:
        over: the gang has ended by its object's word.
        lost: as in `chores`.
    """
    for pod in pods:
        at = stored.place_of(pod.uid)
        if at is None or pod.ended:
            continue
        if pod.bound and lost(pod):
            yield Remove(pod)
        elif stored.stopped or over:
            if not pod.leaving:
                yield Delete(pod, stored.grace_s if stored.stopped else GRACE_S)
        elif not pod.leaving:
            held = stored.record.sets[at[0]]
            node = held.nodes[at[1]]
            if pod.gated:
                yield LetGo(pod, held.name, held.first_rank + at[1], node)
            elif not pod.bound and pod.scheduler == OWN_SCHEDULER:
                yield Bind(pod, node)


def _without_record(wish: Wish | None, pod: OwnPod, lost: Overdue) -> Chore | None:
    if pod.owned and pod.gated:
        return None  # its controller would make another one; it goes with its object
    if pod.gated or (wish is not None and wish.forget):
        return Remove(pod)
    if pod.ended:
        return None
    if pod.bound and lost(pod):
        return Remove(pod)
    return Delete(pod, wish.grace_s) if wish is not None and not pod.leaving else None


def _chore(stored: Stored, pod: OwnPod, lost: Overdue, refused: Overdue) -> Chore | None:
    if pod.gated and stored.complete is not None and pod.epoch != stored.complete:
        return Remove(pod)
    if pod.ended:
        return None
    if pod.bound and lost(pod):
        return Remove(pod)
    if stored.stopped:
        return _to_stop(stored, pod)
    if stored.complete is None:
        return None
    if pod.gated:
        return Ungate(pod)
    return GiveUp(pod) if pod.refusal and refused(pod) else None


def _to_stop(stored: Stored, pod: OwnPod) -> Chore | None:
    if stored.complete is None:
        return Remove(pod)
    return None if pod.leaving else Delete(pod, stored.grace_s)
