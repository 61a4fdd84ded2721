"""What is to be done about the pods of a gang, from what is recorded and what is there. Pure.

A level: the same question is asked after every change, after a list, and by the operations of a write, so it does not
matter where an earlier agent stopped. Every chore names the pod by its uid, so what it does cannot hit another object
of the same name.

* A pod is let go once the record names it, and never before; any other does nothing, whatever becomes of the gang,
  and ends with what made it.
* A gang that was told to stop, or has ended by its object's word, has no pod that is not leaving.
* A pod whose node is lost is removed.
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
class Delete:
    """Tell it to go; it stays visible when it has ended."""

    pod: OwnPod
    grace_s: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Let nothing remain of it."""

    pod: OwnPod


@dataclass(frozen=True, slots=True)
class LetGo:
    """Name its place, keep it until it is forgotten, require its node, and let it go.

    One that no scheduler binds gets its node at once.
    """

    pod: OwnPod
    pod_set: str
    rank: int
    node: NodeName


@dataclass(frozen=True, slots=True)
class Bind:
    """Give it its node; no scheduler will."""

    pod: OwnPod
    node: NodeName


Chore = Delete | Remove | LetGo | Bind
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


def chores(stored: Stored, pods: Iterable[OwnPod], *, over: bool, lost: Overdue) -> Iterator[Chore]:
    """What is to be done now about the pods of a gang.

    Args:
        over: the gang has ended by its object's word.
        lost: whether the pod's node has been silent for too long.
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


def leftover_chores(wish: Wish | None, pods: Iterable[OwnPod], *, lost: Overdue) -> Iterator[Chore]:
    """What is to be done now about pods of a gang without a record. One that is gated goes with what made it, which
    would only make another one."""
    for pod in pods:
        if pod.gated:
            continue
        if (wish is not None and wish.forget) or (not pod.ended and pod.bound and lost(pod)):
            yield Remove(pod)
        elif wish is not None and not (pod.ended or pod.leaving):
            yield Delete(pod, wish.grace_s)
