"""The shape of a fleet file: what may be written, with meaning, unit and default of every field.

These models are the edge and nothing else: they check types and bounds, refuse what they do not know, and make the
JSON schema and the reference page. `fleet` turns them into what the product works with. The sections for operators
(flavors, queues, …) hold the same fields as the files of `hanse apply`, and are read by the same code, so they are
open here.
"""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

from hanse.agent.core.scores import TERMS_MAX, WEIGHT_MAX
from hanse.model.beside import NeedKind
from hanse.simcluster.spec import (
    LEVELS_MAX,
    NODES_MAX,
    PODS_PER_NODE,
    RUN_MS,
    START_JITTER_MS,
    START_MS,
    STOP_MS,
)
from hanse.up.fleet_dialects import DIALECTS
from hanse.up.fleet_gpus import GPU_MODELS, NO_GPU
from hanse.up.link_costs import checked_links

POOLS_MAX: Final = 1_000
GROUPS_MAX: Final = 32
ITEMS_MAX: Final = 1_000
LABELS_MAX: Final = 64
GPUS_PER_HOST_MAX: Final = 64
SECONDS_MAX: Final = 366 * 24 * 3600
COST_MAX: Final = 1_000_000


_NEEDS: Final = tuple(kind.name.lower() for kind in NeedKind if kind is not NeedKind.UNSPECIFIED)


def _one_of(known: Collection[str]) -> Any:
    """A text of a list; a near miss is told."""

    def check(value: str) -> str:
        if value in known:
            return value
        near = get_close_matches(value, known, n=1, cutoff=0.6)
        hint = f'; did you mean "{near[0]}"?' if near else f"; there are: {', '.join(known)}"
        raise ValueError(f'no "{value[:40]}"{hint}')

    schema = WithJsonSchema({"type": "string", "enum": list(known)})
    return Annotated[str, AfterValidator(check), schema]


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
LabelValue = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$", max_length=63)
]
LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$",
        max_length=317,
    ),
]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=LABELS_MAX)]
DeviceName = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?)?$", max_length=63)
]
Quantity = Annotated[str | int | float, Field(union_mode="left_to_right")]
Count = Annotated[int, Field(ge=1, le=NODES_MAX)]
Seconds = Annotated[float, Field(ge=0, le=SECONDS_MAX)]
Resource = Annotated[dict[str, Any], Field()]


class _Strict(BaseModel):
    """Nothing unknown, nothing converted that is not meant."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class BusyModel(_Strict):
    """Gangs of other people that run already."""

    fraction: Annotated[float, Field(ge=0, le=1)]
    """Part of the group's GPUs (of its hosts, if it has none) that is taken, 0 to 1."""
    pattern: _one_of(("gangs", "scattered")) = "gangs"  # type: ignore[valid-type]
    """`gangs` takes whole hosts side by side, some blocks more than others. `scattered` takes some GPUs of nearly
    every host: many are free in sum, and few hosts are whole."""
    whole_hosts: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Of a scattered pattern: part of the hosts that nobody uses."""
    seed: int = 0
    """Another seed takes other hosts."""


class TaintModel(_Strict):
    """A taint of every host of the group."""

    key: LabelKey
    """Key."""
    value: LabelValue = ""
    """Value."""
    effect: _one_of(("NoSchedule", "PreferNoSchedule", "NoExecute"))  # type: ignore[valid-type]
    """Effect."""


class LevelModel(_Strict):
    """One level of the group's topology."""

    name: Name
    """Short name, by which jobs ask for it: `block`, `rack`, `nvlink`, `host`, or any other."""
    key: LabelKey | None = None
    """Label that carries it. Default: what the pool's dialect says; in the generic one, a label made of the name."""
    count: Count | None = None
    """Domains of this level in each domain of the level above; hosts, of the last level. Left out where `sizes` is
    given."""
    prefix: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*$", max_length=16)] | None = None
    """Of the domains' names; numbers follow. Default: the first letter of `name`, so that racks are r00, r01, …"""


class DeviceGroupModel(_Strict):
    """GPUs of a host that share one PCIe root or switch."""

    numa: DeviceName = ""
    """NUMA node that they are in. Default: not known."""
    pcie: DeviceName = ""
    """PCIe root or switch that they share. Default: not known."""
    gpus: Annotated[int, Field(ge=1, le=64)]
    """How many of the host's GPUs; the groups have all of them together."""
    nics: Annotated[int, Field(ge=0, le=64)] = 0
    """Network interfaces beside them."""


class GroupModel(_Strict):
    """Equal hosts in a tree of domains."""

    name: Name = "nodes"
    """Name of the group, for messages and in node names where a pool has several groups."""
    node_prefix: Name | None = None
    """Of the node names, which go on with the names of the domains: `iowa` gives iowa-b7-r03-h11. Default: the
    pool's name, and the group's if there are several."""
    gpu: _one_of((*GPU_MODELS, NO_GPU)) = NO_GPU  # type: ignore[valid-type]
    """GPU model; it sets the usual labels and the defaults below."""
    gpus: Annotated[int, Field(ge=0, le=GPUS_PER_HOST_MAX)] | None = None
    """GPUs of a host. Default: as many as hosts of this model have."""
    cpu: Quantity | None = None
    """CPU of a host, as a Kubernetes quantity. Default: by model; 64 without GPUs."""
    memory: Quantity | None = None
    """Memory of a host, as a Kubernetes quantity. Default: by model; 256Gi without GPUs."""
    pods: Annotated[int, Field(ge=1, le=10_000)] = PODS_PER_NODE
    """Pods that a host takes."""
    resources: Annotated[dict[LabelKey, Quantity], Field(max_length=32)] = {}
    """What else a host offers, as Kubernetes quantities: `rdma/hca: 8`."""
    labels: Labels = {}
    """Labels of every host, beside those of model, region, zone and topology; they win over these."""
    taints: Annotated[list[TaintModel], Field(max_length=32)] = []
    """Taints of every host."""
    devices: Annotated[list[DeviceGroupModel], Field(max_length=64)] = []
    """The GPUs of a host by what they share. Default: the cluster does not tell."""
    levels: Annotated[list[LevelModel], Field(min_length=1, max_length=LEVELS_MAX)]
    """Topology, coarse to fine. The last level is the host."""
    sizes: list[Any] | None = None
    """A tree that is not even, as nested lists, one nesting per level above the host; the innermost numbers count
    hosts: `[[18, 18], [16]]` is a block of two racks of 18 and a block of one of 16."""
    busy: BusyModel | None = None
    """Gangs of other people. Default: none."""


class ScoreModel(_Strict):
    """One term of the score that decides between hosts which placement holds equal."""

    name: Name
    """Name by which people are told of it, such as `power`."""
    label: LabelKey
    """Label of the nodes that carries its number."""
    weight: Annotated[int, Field(ge=-WEIGHT_MAX, le=WEIGHT_MAX)] = 1
    """Above zero if more is better, below if less is."""


class PoolModel(_Strict):
    """One cluster: simulated in this process, or by a `hanse sim-cluster` elsewhere."""

    name: Name
    """Name of the pool."""
    region: LabelValue = ""
    """Region; also a label of every node."""
    zone: LabelValue = ""
    """Zone; also a label of every node."""
    labels: Labels = {}
    """Labels of the pool itself."""
    cost: Annotated[float, Field(ge=0, le=COST_MAX)] = 0
    """Price of a GPU-hour in your unit, to thousandths."""
    dialect: _one_of(tuple(DIALECTS)) = "generic"  # type: ignore[valid-type]
    """Whose labels the nodes carry."""
    scores: Annotated[list[ScoreModel], Field(max_length=TERMS_MAX)] = []
    """What decides between hosts that placement holds equal: power headroom, temperature, health."""
    groups: Annotated[list[GroupModel], Field(min_length=1, max_length=GROUPS_MAX)]
    """Node groups; their trees may differ in depth."""
    run_s: Seconds = RUN_MS / 1000
    """Seconds that a pod runs whose job does not say (`sleep N`, HANSE_SIM_RUNTIME_S)."""
    start_s: Seconds = START_MS / 1000
    """Seconds from the creation of a pod to its running."""
    start_jitter_s: Seconds = START_JITTER_MS / 1000
    """At most so many seconds are added to that, differently for each pod."""
    stop_s: Seconds = STOP_MS / 1000
    """Seconds that a pod takes to end when it is told to."""
    seed: int = 0
    """Another seed draws other jitter and other gangs of other people."""
    lacks: dict[_one_of(_NEEDS), Annotated[list[Name], Field(max_length=ITEMS_MAX)]] = {}  # type: ignore[valid-type]
    """What pods may name and the cluster does not have: `{secret: [hf-token]}`. Default: it has everything."""
    address: Annotated[str, StringConstraints(max_length=255)] = ""
    """HOST:PORT of a `hanse sim-cluster` that serves this pool. Default: the cluster runs inside `hanse up`."""


class FleetModel(_Strict):
    """A whole fleet, and what its operators have set up."""

    flavors: Annotated[list[Resource], Field(max_length=ITEMS_MAX)] = []
    """As the kind Flavor of `hanse apply`, without apiVersion and kind. `order` is the place in this list if it is
    not given."""
    cohorts: Annotated[list[Resource], Field(max_length=ITEMS_MAX)] = []
    """As the kind Cohort of `hanse apply`."""
    queues: Annotated[list[Resource], Field(max_length=ITEMS_MAX)] = []
    """As the kind Queue of `hanse apply`."""
    priority_classes: Annotated[list[Resource], Field(max_length=ITEMS_MAX)] = []
    """As the kind PriorityClass of `hanse apply`."""
    links: Annotated[list[str], Field(max_length=ITEMS_MAX), AfterValidator(checked_links)] = []
    """What it costs parts of one gang to talk between two pools or regions, less is better: `[us-east=eu-west:40]`.
    Unsaid it is 0 within a region, and 100 between others."""
    pools: Annotated[list[PoolModel], Field(min_length=1, max_length=POOLS_MAX)]
    """The clusters."""
