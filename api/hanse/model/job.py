"""What a user asks for: a job, its pod sets, and where their pods may go. Immutable once accepted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, unique
from types import MappingProxyType

from hanse.model.beside import Companion, Need, NeedKind
from hanse.model.ids import FlavorName, QueueName
from hanse.model.resources import EMPTY, Resources
from hanse.model.selectors import Selector, Toleration

PODS_PER_JOB_MAX = 100_000
POD_SETS_PER_JOB_MAX = 16
SLICE_LAYERS_MAX = 3
GANG = "gang"  # what a group is called that is the whole gang, or has no name of its own
DEVICE_KINDS = ("numa", "pcie")
SAME_LABELS_MAX = 4
POOLS_PER_JOB_MAX = 8
SPEC_BYTES_MAX = 65_536
NAME_CHARS_MAX = 253

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One environment variable with a literal value."""

    name: str
    value: str = ""


@unique
class VolumeKind(IntEnum):
    """What a volume refers to; the content itself never travels with a job."""

    UNSPECIFIED = 0
    CONFIG_MAP = 1
    SECRET = 2
    PERSISTENT_VOLUME_CLAIM = 3
    HOST_PATH = 4
    EMPTY_DIR = 5


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume by reference: `source` names the ConfigMap, Secret, claim or path."""

    name: str
    kind: VolumeKind
    source: str = ""
    mount_path: str = ""
    read_only: bool = False


_NEEDED = {
    VolumeKind.SECRET: NeedKind.SECRET,
    VolumeKind.CONFIG_MAP: NeedKind.CONFIG_MAP,
    VolumeKind.PERSISTENT_VOLUME_CLAIM: NeedKind.PERSISTENT_VOLUME_CLAIM,
}


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What runs in each pod of a pod set."""

    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    volumes: tuple[Volume, ...] = ()

    @property
    def needs(self) -> frozenset[Need]:
        """What its volumes name."""
        named = ((_NEEDED.get(volume.kind), volume.source) for volume in self.volumes)
        return frozenset(Need(kind, name) for kind, name in named if kind is not None and name)


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive groups of `size` pods, each inside one domain of `level`.

    Attributes:
        exclusive: no other job may use the domain that holds the group.
        ragged: of the first layer: the pods need not divide into groups; the last group has what is left over.
        preferred: kept where that is possible; a gang is not refused for it.
    """

    size: int
    level: str
    exclusive: bool = False
    ragged: bool = False
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """At most `max_pods` pods of the set in any one domain of `level`; a domain lost is at most so much lost."""

    level: str
    max_pods: int


@dataclass(frozen=True, slots=True)
class Group:
    """Sets of a gang that name the same group are held by one domain of `level`, all of their pods together."""

    name: str
    level: str


@dataclass(frozen=True, slots=True)
class Devices:
    """The GPUs of one pod are of one group of its node's devices, which a node may or may not tell of.

    Attributes:
        kind: one of DEVICE_KINDS: a NUMA node, or one PCIe root or switch.
        nic: a network interface is in that group too.
    """

    kind: str
    nic: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """Where the pods of one set must, or should, be together.

    Attributes:
        required: level (label key or alias) of which one domain must hold the whole set; "" for none.
        preferred: level that should hold it; falls back level by level to coarser ones.
        slices: up to SLICE_LAYERS_MAX layers, coarse to fine; each size divides the one before.
        balanced: level over whose domains the pods are shared out as evenly as can be; "" for none.
        spread: how many pods one domain of a level may hold; None for any number.
        same: label keys; all pods of the gang whose sets name a key are on nodes with one value of it.
        group: the sets that one domain holds together with this one; None for no such sets.
        devices: what the GPUs of each pod share inside their node; None for nothing.
    """

    required: str = ""
    preferred: str = ""
    slices: tuple[Slice, ...] = ()
    balanced: str = ""
    spread: Spread | None = None
    same: tuple[str, ...] = ()
    group: Group | None = None
    devices: Devices | None = None

    @property
    def levels(self) -> tuple[tuple[str, str], ...]:
        """(where it stands in the spec, level) of every level that is named."""
        named = [("required", self.required), ("preferred", self.preferred), ("balanced", self.balanced)]
        named += [(f"slices[{i}].level", layer.level) for i, layer in enumerate(self.slices)]
        named += [("spread.level", self.spread.level)] if self.spread else []
        named += [("group.level", self.group.level)] if self.group else []
        return tuple((path, level) for path, level in named if level)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of a job with one template and a count.

    Attributes:
        min_count: pods without which the set is useless; equal to count unless the gang is elastic.
        resources: of one pod, as Kubernetes counts them.
        flavors: accepted, in order of preference; empty: any flavor the queue has quota for.
    """

    name: str
    count: int
    min_count: int
    resources: Resources = EMPTY
    flavors: tuple[FlavorName, ...] = ()
    selector: Selector = Selector()
    tolerations: tuple[Toleration, ...] = ()
    topology: Topology = Topology()
    template: PodTemplate = PodTemplate()


@unique
class OnInfrastructure(IntEnum):
    """What becomes of a job whose nodes or pods were lost through no fault of its own."""

    UNSPECIFIED = 0
    REQUEUE = 1
    FAIL = 2


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How often the owner's failures are retried; losses by infrastructure never count against it."""

    max_retries: int = 0
    on_infrastructure: OnInfrastructure = OnInfrastructure.REQUEUE


@unique
class OnPoolLost(IntEnum):
    """What becomes of a job whose pool is silent. MOVE is reserved, and refused at submit."""

    UNSPECIFIED = 0
    KEEP = 1
    MOVE = 2


@dataclass(frozen=True, slots=True)
class Manifest:
    """The foreign document that a job was imported from, kept as written."""

    kind: str
    api_version: str
    namespace: str
    text: str


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What the user asked for. Stored once, never changed.

    Attributes:
        duration_s: limit on the time from start to end, 0 for none.
        max_pools: over how many pools the gang may be split; 1 unless the owner allows more.
        start_skew_max_s: parts of a split gang start within this time of each other, or stop everywhere.
        needs: what must be in a cluster that is to run it, by name.
        companions: what travels with it.
    """

    name: str
    queue: QueueName
    pod_sets: tuple[PodSet, ...]
    priority_class: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    duration_s: int = 0
    restart: RestartPolicy = RestartPolicy()
    max_pools: int = 1
    start_skew_max_s: int = 60
    on_pool_lost: OnPoolLost = OnPoolLost.KEEP
    manifest: Manifest | None = None
    needs: tuple[Need, ...] = ()
    companions: tuple[Companion, ...] = ()

    @property
    def every_need(self) -> tuple[Need, ...]:
        """What must be in its cluster: what is said, and what volumes name, but for what travels with it."""
        found = set(self.needs).union(*(pod_set.template.needs for pod_set in self.pod_sets))
        brought = {Need(NeedKind.CONFIG_MAP, c.name) for c in self.companions if c.kind == "ConfigMap"}
        return tuple(sorted(found - brought))

    @property
    def pods(self) -> int:
        """Pods of the whole gang."""
        return sum(pod_set.count for pod_set in self.pod_sets)

    @property
    def gpus(self) -> int:
        """Whole accelerators of the whole gang."""
        return sum(pod_set.count * pod_set.resources.gpus for pod_set in self.pod_sets)
