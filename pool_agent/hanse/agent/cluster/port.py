"""The port to a cluster: what the agent needs of it, in terms that a Kubernetes API server can keep.

The agent owns no state of its own. What it must remember lives in the cluster: the *claim* (which agent epoch may
write, and the newest revision that was accepted) and one *gang record* for each attempt it holds. A record is
written before the first pod of its gang and carries the full placement (P7); it is kept, with the finished pods,
until the binding is gone (P12). Every write names the epoch of its writer, and the cluster refuses it when that is
not the claimed one (P8).

Rules that an adapter keeps:

* `write` applies its operations each alone: those on one gang in their order, an accepted revision before whatever
  follows it, those on different gangs in any order. After a crash some may have happened and others not, and a
  `StartPods` may have created only some of its pods. Each is idempotent, so the agent repeats what it is unsure of.
* What was started goes on without its agent once its pods run. Until then it may need one that watches.
* A pod object stays visible until the agent forgets the gang (`ForgetGang`), also when it has finished, unless its
  node or somebody else removed it: then it is simply no longer listed.
* A start that is refused leaves the gang's record, and nothing of it runs; whether the record says that it was
  started is the adapter's. The agent stops and forgets such a gang. Other operations of the call are not touched.
* Pods of a node that is not ready, or of which nobody hears, are told as they were seen last. They are gone when the
  cluster says so, and an adapter that gives them up by itself removes them from the cluster first.
* Counts name the pod sets that have ended (`PodCounts.ended_sets`), as seen from their pods. A set that was named is
  named in every later list and count, also by another port of the cluster: others may have its places by then.
* Watching is a hint (level, not edge): `watch` tells that something changed and what it is now; a lost watch is
  answered with `WatchLost`, and the agent lists again.
* What carries another federation's label, or none, is foreign: it is counted as usage and never touched.

Rejected: one call per pod. A gang of 512 would cost 512 round trips on the simulated cluster and could not be
batched by an adapter that has a better way.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Protocol

from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.records import (
    DEADLINE_EXCEEDED,
    PAYLOAD_BYTES_MAX,
    AcceptRevision,
    Claim,
    ClusterEvent,
    ClusterState,
    ClusterWrite,
    Done,
    ForgetGang,
    GangChanged,
    GangRecord,
    HoldGang,
    NodeChanged,
    NodeGone,
    PodCounts,
    PodRun,
    Rejected,
    SetPlace,
    StartPods,
    StopPods,
    Wanted,
    WriteResult,
)
from hanse.model.detail import ExecInput
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import NodeName

__all__ = [
    "DEADLINE_EXCEEDED",
    "LOG_LINES_MAX",
    "PAYLOAD_BYTES_MAX",
    "PORT_DEADLINE_S",
    "WRITE_OPS_MAX",
    "AcceptRevision",
    "Claim",
    "ClusterEvent",
    "ClusterPort",
    "ClusterState",
    "ClusterUnavailable",
    "ClusterWrite",
    "Done",
    "Epoch",
    "ExecInput",
    "ExecOutput",
    "ForgetGang",
    "GangChanged",
    "GangKey",
    "GangRecord",
    "HoldGang",
    "NodeChanged",
    "NodeFacts",
    "NodeGone",
    "PodCommand",
    "PodCounts",
    "PodPhase",
    "PodRun",
    "PodStatus",
    "Rejected",
    "SetPlace",
    "StartPods",
    "StopPods",
    "Superseded",
    "Wanted",
    "WatchLost",
    "WriteResult",
]

WRITE_OPS_MAX = 1_000  # operations in one call of `write`
PORT_DEADLINE_S = 10.0
LOG_LINES_MAX = 10_000


@unique
class PodPhase(IntEnum):
    """What a pod is doing. STOPPING still occupies its node."""

    UNSPECIFIED = 0
    PENDING = 1
    RUNNING = 2
    SUCCEEDED = 3
    FAILED = 4
    STOPPING = 5


@dataclass(frozen=True, slots=True)
class PodStatus:
    """One of our pods.

    Attributes:
        exit_code: of a FAILED pod.
        reason: why it failed, for people.
        infrastructure: it failed because of its node, not of its program.
    """

    gang: GangKey
    pod_set: str
    rank: int
    node: NodeName
    phase: PodPhase
    exit_code: int = 0
    reason: str = ""
    infrastructure: bool = False


@dataclass(frozen=True, slots=True)
class PodCommand:
    """A command to be run in one pod, without a shell in between.

    Attributes:
        words: the program and its arguments.
        tty: it has a terminal.
    """

    gang: GangKey
    pod_set: str
    rank: int
    words: tuple[str, ...]
    tty: bool = False


@dataclass(frozen=True, slots=True)
class ExecOutput:
    """What a command wrote, or, last of all, how it ended. The first one is empty: the command has begun."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int | None = None


class Superseded(Exception):
    """A newer epoch has claimed the cluster: this agent must write no more, and attach anew."""


class WatchLost(Exception):
    """The watch broke or is too old: list again."""


class ClusterUnavailable(Exception):
    """The cluster did not answer in time; what was asked may or may not have happened."""


class ClusterPort(Protocol):
    """A cluster. Every method ends within PORT_DEADLINE_S or raises ClusterUnavailable."""

    async def read_claim(self) -> Claim:
        """The present claim."""
        ...

    async def claim(self, federation: str, epoch: Epoch, revision: int) -> Claim:
        """Make `epoch` the only one that may write, and `revision` the accepted one.

        Refused unless `epoch` is newer than the present one (equal is allowed to the same federation: a repeated
        call), the federation is the same or none, and `revision` is not older within one incarnation.

        Raises:
            Superseded: the claim is newer, or belongs to another federation.
        """
        ...

    async def list(self) -> ClusterState:
        """Everything, at one version.

        If no node has changed since the list before, `nodes` may be the very same object: who keeps what it made of
        them need not look at them again.
        """
        ...

    async def nodes(self) -> tuple[NodeFacts, ...]:
        """The nodes and their labels, for who wants to know what kind of cluster it is.

        Their devices may be left out, and no watch goes on from there.
        """
        ...

    def watch(self, version: int) -> AsyncIterator[tuple[ClusterEvent, ...]]:
        """Changes after `version`, in batches, coalesced per object.

        Raises:
            WatchLost: list again.
        """
        ...

    async def write(self, epoch: Epoch, ops: Sequence[ClusterWrite]) -> tuple[WriteResult, ...]:
        """Apply the operations, each alone; one result each, in order.

        Raises:
            Superseded: `epoch` is not the claimed one; nothing more of `ops` was done.
            ClusterUnavailable: any of `ops` may be in effect.
        """
        ...

    async def lacking(self, wanted: Wanted) -> tuple[str, ...]:
        """What is not in the cluster of what is wanted, each in words; what nobody can tell is taken to be there.

        A promise for now only: what is there may go the moment after.
        """
        ...

    async def pods(self, key: GangKey) -> tuple[PodStatus, ...]:
        """The pods of one gang, by set and rank: node-level detail on demand."""
        ...

    def logs(
        self, key: GangKey, *, pod_set: str, rank: int, follow: bool, tail: int
    ) -> AsyncIterator[tuple[str, ...]]:
        """Lines of one pod's log, oldest first, in batches; ends when the pod has ended or `follow` is false."""
        ...

    def exec(self, command: PodCommand, stdin: AsyncIterator[ExecInput] | None) -> AsyncIterator[ExecOutput]:
        """Run a command; ends with its exit code. Inputs are taken as fast as
        it reads them, and outputs are not read faster than they are taken here. Who stops to iterate ends the
        session; whether that ends the command is the cluster's.

        Raises (while iterated):
            NotFound: there is no such pod.
            FailedPrecondition: it does not run, or the cluster will not run the command.
            ClusterUnavailable: the cluster does not answer, or the session broke; the command may run on.
        """
        ...
