"""The port to a cluster: what the agent needs of it, in terms that a Kubernetes API server can keep.

The agent owns no state of its own. What it must remember lives in the cluster: the *claim* (which agent epoch may
write, and the newest revision that was accepted) and one *gang record* for each attempt it holds. A record is
written before the first pod of its gang and carries the full placement (P7); it is kept, with the finished pods,
until the binding is gone (P12). Every write names the epoch of its writer, and the cluster refuses it when that is
not the claimed one (P8).

Rules that an adapter keeps:

* `write` applies its operations in order, each alone: after a crash any prefix may have happened, and a `StartPods`
  may have created only some of its pods. Each operation is idempotent, so the agent repeats what it is unsure of.
* A pod object stays visible until the agent forgets the gang (`ForgetGang`), also when it has finished, unless its
  node or somebody else removed it: then it is simply no longer listed.
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

from hanse.agent.core.inventory import NodeFacts
from hanse.model.ids import Attempt, FlavorName, JobId, NodeName, Part
from hanse.model.resources import Resources

WRITE_OPS_MAX = 1_000  # operations in one call of `write`
PORT_DEADLINE_S = 10.0
LOG_LINES_MAX = 10_000


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """The fencing token of an attachment: ordered by the store's incarnation, then by the attach's revision."""

    incarnation: int = 0
    revision: int = 0


@dataclass(frozen=True, slots=True, order=True)
class GangKey:
    """One part of one attempt of one job: the identity of a record and of its pods."""

    job: JobId
    attempt: Attempt
    part: Part


@dataclass(frozen=True, slots=True)
class Claim:
    """Who may write to this cluster.

    Attributes:
        cluster_uid: identity of the cluster itself, never changes.
        federation: which federation's agents may claim; "" before the first claim.
        epoch: the newest accepted epoch.
        accepted_revision: the newest store revision of a desired set that an agent accepted.
    """

    cluster_uid: str
    federation: str
    epoch: Epoch
    accepted_revision: int


@dataclass(frozen=True, slots=True)
class SetPlace:
    """Where the pods of one pod set go: `nodes[i]` runs rank `i` of this part's set.

    Attributes:
        name: of the pod set.
        first_rank: rank of the first pod here within the whole set; not 0 in later parts of a split gang.
        flavor: charged for these pods.
        resources: of one pod.
    """

    name: str
    first_rank: int
    nodes: tuple[NodeName, ...]
    flavor: FlavorName
    resources: Resources


@dataclass(frozen=True, slots=True)
class GangRecord:
    """The durable record of a gang that this cluster holds.

    Attributes:
        revision: store revision at which the binding was created.
        sets: the full placement.
        started: whether its pods were ever told to run; a record that is not started only holds its places.
        payload: opaque bytes of the agent (the binding), at most 64 KiB.
    """

    key: GangKey
    revision: int
    sets: tuple[SetPlace, ...]
    started: bool
    payload: bytes = b""


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
class PodCounts:
    """The pods of one gang by phase, as arrays would count them: cheap for gangs of thousands.

    `missing` are pods of the record that no longer exist although they were started.
    """

    gang: GangKey
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    stopping: int = 0
    missing: int = 0
    exit_code: int = 0
    reason: str = ""
    infrastructure: bool = False

    @property
    def existing(self) -> int:
        """Pods that still exist, finished ones included."""
        return self.pending + self.running + self.succeeded + self.failed + self.stopping

    @property
    def occupying(self) -> int:
        """Pods that still occupy their node."""
        return self.pending + self.running + self.stopping


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Everything at one version: the answer of `list`.

    Attributes:
        foreign: usage per node of pods that are not ours, terminating ones included.
        pods: one PodCounts per record that was started (all zero but `missing` if its pods are gone), and one per
            gang that has pods but no record (an orphan).
    """

    version: int
    claim: Claim
    nodes: tuple[NodeFacts, ...]
    foreign: tuple[tuple[NodeName, Resources], ...]
    records: tuple[GangRecord, ...]
    pods: tuple[PodCounts, ...]


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node is new or differs; `foreign` is its present foreign usage."""

    node: NodeFacts
    foreign: Resources


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was removed."""

    name: NodeName


@dataclass(frozen=True, slots=True)
class GangChanged:
    """The pods of a gang are now as counted here."""

    counts: PodCounts


ClusterEvent = NodeChanged | NodeGone | GangChanged


@dataclass(frozen=True, slots=True)
class HoldGang:
    """Write the record: the gang holds its places, nothing runs. Refused if another record has this key."""

    record: GangRecord


@dataclass(frozen=True, slots=True)
class PodRun:
    """What the pods of one set run.

    Attributes:
        command, args: as in the pod template.
        env: name and value pairs that every pod of the set gets, beside its RANK.
    """

    pod_set: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StartPods:
    """Mark the record started and create every pod that its placement names and that was never created.

    Attributes:
        namespace: where foreign kinds live; "" for the adapter's default.
        manifest: the user's own object, if the job was imported.
        duration_s: limit from start to end, 0 for none.
    """

    key: GangKey
    job_name: str
    namespace: str
    runs: tuple[PodRun, ...]
    manifest: str = ""
    duration_s: int = 0


@dataclass(frozen=True, slots=True)
class StopPods:
    """Begin to end every pod of the gang; they are gone when `occupying` is 0. Unknown gangs are fine."""

    key: GangKey
    grace_s: int = 30


@dataclass(frozen=True, slots=True)
class ForgetGang:
    """Remove the record and the finished pods. Refused while a pod still occupies its node."""

    key: GangKey


@dataclass(frozen=True, slots=True)
class AcceptRevision:
    """Remember that everything desired up to this store revision was accepted."""

    revision: int


ClusterWrite = HoldGang | StartPods | StopPods | ForgetGang | AcceptRevision


@dataclass(frozen=True, slots=True)
class Done:
    """The operation is in effect."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The cluster refuses this operation (a full node, an admission rule, a record that exists with other content)."""

    reason: str


WriteResult = Done | Rejected


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
        """Everything, at one version."""
        ...

    def watch(self, version: int) -> AsyncIterator[tuple[ClusterEvent, ...]]:
        """Changes after `version`, in batches, coalesced per object.

        Raises:
            WatchLost: list again.
        """
        ...

    async def write(self, epoch: Epoch, ops: Sequence[ClusterWrite]) -> tuple[WriteResult, ...]:
        """Apply the operations in order, each alone; one result each.

        Raises:
            Superseded: `epoch` is not the claimed one; nothing more of `ops` was done.
            ClusterUnavailable: any prefix of `ops` may be in effect.
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
