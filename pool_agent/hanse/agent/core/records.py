"""What a cluster remembers for its agent, tells it, and can be told: the values that cross the port to a cluster.

They are here, below the port, because the pure core decides with them: it reads records and pod counts, and answers
with operations. `hanse.agent.cluster.port` says what an adapter promises about them.
"""

from dataclasses import dataclass
from typing import Final

from hanse.agent.core.facts import NodeFacts
from hanse.model.beside import Companion, Need
from hanse.model.fence import Epoch, GangKey
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Volume
from hanse.model.resources import Resources
from hanse.model.selectors import Toleration

PAYLOAD_BYTES_MAX: Final = 65_536
"""Of one gang record."""

DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
"""`PodCounts.reason` of pods that the cluster ended because `StartPods.duration_s` was over; Kubernetes' word."""


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


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The pods of one gang by phase, as arrays would count them: cheap for gangs of thousands.

    Attributes:
        missing: pods of the record that no longer exist although they were started.
        ended_sets: names of the pod sets of which every pod was created and none occupies its node any more: they
            succeeded, failed or are gone, and nothing brings them back. Always empty of a gang of one set, where the
            numbers say it.
        failure: why the gang cannot go on as a whole, whatever its pods say; "" while it can.
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
    ended_sets: tuple[str, ...] = ()
    failure: str = ""

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
        volumes: by reference; what they name must be in the cluster.
        tolerations: of taints that the placement took into account.
        ranks_before: pods of the whole job, in all its pools, that come before rank 0 of this set.
    """

    pod_set: str
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    volumes: tuple[Volume, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ranks_before: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What must be in the cluster before a gang may come.

    Attributes:
        namespace: that the job names, "" if it names none.
        queue: of the job, by which the adapter chooses a namespace then.
    """

    namespace: str
    queue: str
    needs: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class StartPods:
    """Mark the record started and create every pod that its placement names and that was never created.

    Attributes:
        namespace: where foreign kinds live; "" for the adapter's choice.
        queue: of the job, by which an adapter chooses a namespace.
        companions: objects that are created beside the pods, ahead of them.
        manifest: the user's own object, if the job was imported.
        duration_s: limit from start to end, 0 for none.
        world_size: pods of the whole job, in all its pools; 0 if they are those of this gang.
    """

    key: GangKey
    job_name: str
    namespace: str
    runs: tuple[PodRun, ...]
    manifest: str = ""
    duration_s: int = 0
    world_size: int = 0
    queue: str = ""
    companions: tuple[Companion, ...] = ()


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
    """The cluster refuses this operation: a full node, an admission rule, a record that exists with other content."""

    reason: str


WriteResult = Done | Rejected
