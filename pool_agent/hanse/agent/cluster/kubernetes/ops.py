"""What an operation of the port does to a gang's record, and what is to follow. Pure.

Operations of one write are done in rounds: one request for each ledger, then their pods. Within a round each gang's
operations are folded in their order; a new round begins where an operation must see what an earlier one has done to
the cluster: for the acceptance of a revision, which goes before whatever follows it, and for forgetting a gang that
was touched in the same round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, unique

from hanse.agent.cluster.kubernetes.pods import why_not_startable
from hanse.agent.cluster.kubernetes.stored import Stored
from hanse.agent.cluster.kubernetes.verdicts import OwnPod
from hanse.agent.cluster.port import (
    PAYLOAD_BYTES_MAX,
    AcceptRevision,
    ClusterWrite,
    Done,
    ForgetGang,
    GangKey,
    HoldGang,
    Rejected,
    StartPods,
    StopPods,
    WriteResult,
)

GangWrite = HoldGang | StartPods | StopPods | ForgetGang


@unique
class Act(IntEnum):
    """What follows a decision once it is written."""

    NOTHING = 0
    START = 1
    STOP = 2
    FORGET = 3


@dataclass(frozen=True, slots=True)
class Decision:
    """The record as it is to be, the answer, and what follows."""

    stored: Stored | None
    result: WriteResult
    act: Act = Act.NOTHING


def key_of(op: GangWrite) -> GangKey:
    """Which gang an operation is about."""
    return op.record.key if isinstance(op, HoldGang) else op.key


def rounds(ops: Sequence[ClusterWrite]) -> Iterator[list[int]]:
    """Positions of the operations that are done together, in order."""
    together: list[int] = []
    touched: dict[GangKey, bool] = {}
    for at, op in enumerate(ops):
        alone = isinstance(op, AcceptRevision)
        clashes = not alone and _clashes(op, touched)
        if together and (alone or clashes):
            yield together
            together, touched = [], {}
        together.append(at)
        if isinstance(op, AcceptRevision):
            yield together
            together, touched = [], {}
        else:
            touched[key_of(op)] = isinstance(op, ForgetGang)
    if together:
        yield together


def _clashes(op: ClusterWrite, touched: dict[GangKey, bool]) -> bool:
    assert not isinstance(op, AcceptRevision)
    forgotten = touched.get(key_of(op))
    return forgotten is not None and (forgotten or isinstance(op, ForgetGang))


def decide(op: GangWrite, stored: Stored | None, pods: Sequence[OwnPod], namespace: str) -> Decision:
    """What an operation comes to.

    Args:
        pods: of the gang, as far as they are known; what has ended has ended for good.
        namespace: where pods go that are started now.
    """
    match op:
        case HoldGang():
            return _hold(op, stored, pods)
        case StartPods():
            return _start(op, stored, namespace)
        case StopPods():
            kept = None if stored is None else replace(stored, stopped=True, grace_s=max(0, op.grace_s))
            return Decision(kept, Done(), Act.STOP)
        case ForgetGang():
            return _forget(stored, pods)


def _hold(op: HoldGang, stored: Stored | None, pods: Sequence[OwnPod]) -> Decision:
    if stored is not None:
        same = replace(stored.record, started=False) == op.record
        return Decision(stored, Done() if same else Rejected("another record of this gang exists"))
    if any(not pod.gated for pod in pods):
        return Decision(None, Rejected("pods of this gang exist without a record"))
    if len(op.record.payload) > PAYLOAD_BYTES_MAX:
        return Decision(None, Rejected(f"payload of {len(op.record.payload)} bytes; at most {PAYLOAD_BYTES_MAX}"))
    return Decision(Stored(op.record), Done())


def _start(op: StartPods, stored: Stored | None, namespace: str) -> Decision:
    if stored is None:
        return Decision(None, Rejected("no record of this gang"))
    if stored.launched:
        return Decision(stored, Done())
    if stored.stopped:
        return Decision(stored, Rejected("the gang was told to stop"))
    why = why_not_startable(op, stored)
    if why:
        return Decision(stored, Rejected(why))
    return Decision(stored.started(namespace), Done(), Act.START)


def _forget(stored: Stored | None, pods: Sequence[OwnPod]) -> Decision:
    """A pod that was let go may occupy its node, also if it looks gated; no other pod of a gang with a record can."""
    if stored is None:
        occupying = sum(1 for pod in pods if not (pod.ended or pod.gated))
    else:
        occupying = sum(1 for pod in pods if not pod.ended and stored.place_of(pod.uid) is not None)
    if stored is not None and stored.launched and not (stored.stopped or stored.let):
        return Decision(stored, Rejected(f"its {stored.pods} pods are about to run; stop it first"))
    if occupying:
        return Decision(stored, Rejected(f"{occupying} pods still occupy their nodes"))
    return Decision(None, Done(), Act.FORGET)
