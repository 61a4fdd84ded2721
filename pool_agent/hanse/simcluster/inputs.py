"""What can be done to a simulated cluster, as values: the only way in, and what its journal is made of.

The engine is a function of its spec, its inputs and their times. A journal of inputs therefore restores it
exactly, and nothing that follows from them (a pod that begins to run, a pod that ends) needs to be written down.

Nodes are indexes, packed as little-endian int32; the journal's header says which names they stand for.
"""

from typing import Final, NamedTuple

import msgspec
import numpy as np

from hanse.model.ids import Attempt, JobId, Part
from hanse.simcluster.nodes import Indexes

PAYLOAD_BYTES_MAX: Final = 65_536
INDEX_TYPE: Final = np.dtype("<i4")
DEFAULT_MS: Final = -1  # "as the cluster's timing says"


def pack(nodes: Indexes) -> bytes:
    """Indexes as bytes."""
    return nodes.astype(INDEX_TYPE, copy=False).tobytes()


def unpack(raw: bytes) -> Indexes:
    """Bytes as indexes; read-only."""
    return np.frombuffer(raw, dtype=INDEX_TYPE)


class GangId(NamedTuple):
    """One part of one attempt of one job."""

    job: JobId
    attempt: Attempt
    part: Part


class EpochId(NamedTuple):
    """A fencing token; ordered."""

    incarnation: int
    revision: int


class HeldSet(msgspec.Struct, frozen=True, array_like=True):
    """Where the pods of one set go: the i-th node runs rank `first_rank` + i. Amounts are of one pod."""

    name: str
    first_rank: int
    flavor: str
    nodes: bytes
    resources: dict[str, int]


class Program(msgspec.Struct, frozen=True, array_like=True):
    """What the pods of one set do, as far as a simulation cares; DEFAULT_MS where the job does not say.

    Attributes:
        title: image and command, for the log's first line.
    """

    pod_set: str
    run_ms: int = DEFAULT_MS
    start_ms: int = DEFAULT_MS
    exit_code: int = 0
    title: str = ""


class Claim(msgspec.Struct, frozen=True, array_like=True, tag="claim"):
    """An epoch claims the cluster; already found to be acceptable."""

    federation: str
    epoch: EpochId
    accepted_revision: int


class Hold(msgspec.Struct, frozen=True, array_like=True, tag="hold"):
    """Write a gang's record. Its pods are numbered set by set, in rank order."""

    gang: GangId
    revision: int
    sets: tuple[HeldSet, ...]
    payload: bytes = b""


class Start(msgspec.Struct, frozen=True, array_like=True, tag="start"):
    """Create the pods of a gang that were never created.

    Attributes:
        duration_ms: limit from the first start to the end, 0 for none.
        pods_max: create only so many in all, the first by set and rank; 0 for no such limit. This is how a crash in
            the middle of creating pods looks.
    """

    gang: GangId
    job_name: str
    programs: tuple[Program, ...]
    duration_ms: int = 0
    pods_max: int = 0


class Stop(msgspec.Struct, frozen=True, array_like=True, tag="stop"):
    """Begin to end the pods of a gang."""

    gang: GangId
    grace_ms: int


class Forget(msgspec.Struct, frozen=True, array_like=True, tag="forget"):
    """Remove a record and the finished pods."""

    gang: GangId


class Accept(msgspec.Struct, frozen=True, array_like=True, tag="accept"):
    """Remember an accepted store revision."""

    revision: int


class FailNodes(msgspec.Struct, frozen=True, array_like=True, tag="fail"):
    """Machines die; with `remove` they are not listed any more either."""

    nodes: bytes
    remove: bool = False


class RestoreNodes(msgspec.Struct, frozen=True, array_like=True, tag="restore"):
    """Machines come back as new."""

    nodes: bytes


class AddedTaint(msgspec.Struct, frozen=True, array_like=True):
    """A taint; `effect` is the number of hanse.model.selectors.Effect."""

    key: str
    value: str
    effect: int


class MarkNodes(msgspec.Struct, frozen=True, array_like=True, tag="mark"):
    """Nodes report something else; None leaves a value alone."""

    nodes: bytes
    cordoned: bool | None = None
    ready: bool | None = None
    healthy: bool | None = None
    add_taints: tuple[AddedTaint, ...] = ()
    remove_taint_keys: tuple[str, ...] = ()
    allocatable: dict[str, int] = {}


class AddForeign(msgspec.Struct, frozen=True, array_like=True, tag="foreign"):
    """Pods of somebody else begin, one on each node (a node may occur more than once); `life_ms` 0 is for ever."""

    name: str
    nodes: bytes
    resources: dict[str, int]
    life_ms: int = 0


class RemoveForeign(msgspec.Struct, frozen=True, array_like=True, tag="unforeign"):
    """They end, after a grace in which they still occupy their nodes."""

    name: str
    grace_ms: int = 0


class LoseRecord(msgspec.Struct, frozen=True, array_like=True, tag="norecord"):
    """Somebody deleted a gang's record: its pods are orphans."""

    gang: GangId


class RemovePods(msgspec.Struct, frozen=True, array_like=True, tag="nopods"):
    """Somebody deleted pods, finished or not, by their number in the gang."""

    gang: GangId
    pods: bytes


AgentInput = Hold | Start | Stop | Forget | Accept
OperatorInput = FailNodes | RestoreNodes | MarkNodes | AddForeign | RemoveForeign | LoseRecord | RemovePods
Input = Claim | AgentInput | OperatorInput
