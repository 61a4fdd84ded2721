"""The parts of API objects that the adapter reads, decoded from raw bodies.

Everything else in a body is skipped without being built: 5,000 nodes are 39 MB of JSON, and the official client's
model objects for them cost eighteen times as much. What is absent has its default; what has another type than the
API says is an error of the server.
"""

from typing import Any, Final, TypeVar

import msgspec

from hanse.agent.cluster.port import ClusterUnavailable

T = TypeVar("T")


class _Read(msgspec.Struct, rename="camel", frozen=True):
    pass


class OwnerReference(_Read, frozen=True):
    """An object that this one belongs to; of all of them the controller made it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(_Read, frozen=True):
    """Identity of an object; `deletion_timestamp` is set once it is to go."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []
    deletion_timestamp: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        """Who made it; None if nobody in the cluster did."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ListMeta(_Read, frozen=True):
    """Version of a list, and where its next page begins."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Condition(_Read, frozen=True):
    """One of an object's conditions."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class TaintObject(_Read, frozen=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(_Read, frozen=True):
    unschedulable: bool = False
    taints: list[TaintObject] = []


class NodeStatus(_Read, frozen=True):
    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []


class NodeObject(_Read, frozen=True):
    """A node."""

    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Requirements(_Read, frozen=True):
    """Requests and limits; a limit without a request is one."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class Container(_Read, frozen=True):
    name: str = ""
    restart_policy: str = ""
    resources: Requirements = Requirements()


class Gate(_Read, frozen=True):
    """Something that keeps a pod from being scheduled."""

    name: str


class SelectorTerm(_Read, frozen=True):
    """One of the alternatives of which a pod's node fulfils one; of its content only where it can be added to."""

    match_fields: list[msgspec.Raw] = []


class NodeSelectorObject(_Read, frozen=True):
    node_selector_terms: list[SelectorTerm] = []


class NodeAffinityObject(_Read, frozen=True):
    required: NodeSelectorObject | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class AffinityObject(_Read, frozen=True):
    """Where a pod may go."""

    node_affinity: NodeAffinityObject | None = None


class PodSpec(_Read, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    affinity: AffinityObject | None = None
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: dict[str, str] = {}
    resources: Requirements = Requirements()
    scheduling_gates: list[Gate] = []


class Terminated(_Read, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str = ""


class ContainerState(_Read, frozen=True):
    terminated: Terminated | None = None


class ContainerStatus(_Read, frozen=True):
    name: str = ""
    state: ContainerState = ContainerState()


class PodStatusObject(_Read, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []


class PodObject(_Read, frozen=True):
    """A pod."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatusObject = PodStatusObject()


class RootStatus(_Read, frozen=True):
    """What the kinds of jobs say of themselves, each in words of its own.

    Attributes:
        state: a word, or an object with one.
    """

    conditions: list[Condition] = []
    phase: str = ""
    state: Any = None
    reason: str = ""
    message: str = ""
    job_status: str = ""
    job_deployment_status: str = ""


class RootObject(_Read, frozen=True):
    """An object that makes pods."""

    metadata: Meta
    status: RootStatus = RootStatus()


class EventObject(_Read, frozen=True):
    """What somebody in the cluster wrote down about an object."""

    message: str = ""
    involved_object: Meta = Meta()


class EventItems(_Read, frozen=True):
    """A list of them, oldest first."""

    items: list[EventObject] | None = None


class ConfigObject(_Read, frozen=True):
    """A ConfigMap."""

    metadata: Meta
    data: dict[str, str] = {}


class AttributeObject(_Read, frozen=True):
    """What a driver says of a device: one of several types, of which two are read."""

    text: str = msgspec.field(default="", name="string")
    number: int | None = msgspec.field(default=None, name="int")


class DeviceObject(_Read, frozen=True):
    """A device that a driver offers."""

    attributes: dict[str, AttributeObject] = {}


class SlicePool(_Read, frozen=True):
    """Which devices a slice is part of, and how many slices there are of this generation."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(_Read, frozen=True):
    driver: str = ""
    node_name: str = ""
    pool: SlicePool = SlicePool()
    devices: list[DeviceObject] = []


class SliceObject(_Read, frozen=True):
    """A ResourceSlice."""

    metadata: Meta
    spec: SliceSpec = SliceSpec()


class PlainObject(_Read, frozen=True):
    """Any object, of which only the identity matters."""

    metadata: Meta = Meta()


class Items(_Read, frozen=True):
    """A page of a list, its items not decoded yet."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Refusal(_Read, frozen=True):
    """A `Status` object: why the server refuses."""

    code: int = 0
    reason: str = ""
    message: str = ""


class Cause(_Read, frozen=True):
    """One of the causes of a `Status`."""

    reason: str = ""
    message: str = ""


class Details(_Read, frozen=True):
    causes: list[Cause] = []


class End(_Read, frozen=True):
    """A `Status` object: how a command ended."""

    status: str = ""
    reason: str = ""
    message: str = ""
    details: Details = Details()


class WatchEvent(_Read, frozen=True):
    """One line of a watch; the object is decoded by type."""

    type: str
    object: msgspec.Raw


NODE: Final = msgspec.json.Decoder(NodeObject)
POD: Final = msgspec.json.Decoder(PodObject)
CONFIG: Final = msgspec.json.Decoder(ConfigObject)
SLICE: Final = msgspec.json.Decoder(SliceObject)
EVENTS: Final = msgspec.json.Decoder(EventItems)
ROOT: Final = msgspec.json.Decoder(RootObject)
PLAIN: Final = msgspec.json.Decoder(PlainObject)
ITEMS: Final = msgspec.json.Decoder(Items)
REFUSAL: Final = msgspec.json.Decoder(Refusal)
END: Final = msgspec.json.Decoder(End)
WATCH_EVENT: Final = msgspec.json.Decoder(WatchEvent)

Body = dict[str, Any]
"""An object to be sent, as JSON."""


def read(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """A decoded body. Raises ClusterUnavailable: an answer that cannot be read is none."""
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise ClusterUnavailable(f"the API server's answer cannot be read: {error}") from None
