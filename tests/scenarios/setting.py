"""What exists when a story begins: clusters, flavors, queues, priorities, made from the commands of its setting."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from hanse.model.beside import Need, NeedKind
from hanse.model.devices import DeviceGroup
from hanse.model.ids import FlavorName, PoolName, QueueName, queue_uid
from hanse.model.placement import Level
from hanse.model.queue import Cohort, Flavor, FlavorQuota, PriorityClass, Queue
from hanse.model.resources import PODS, Resources
from hanse.model.selectors import Effect, Operator, Requirement, Taint
from hanse.simcluster.spec import ClusterSpec, GroupLevel, NodeGroup, Sizes, Timing, uniform
from hanse.store import keys
from hanse.store.contract import Put
from hanse.store.schema import CohortValue, FlavorValue, PriorityValue, QueueValue, encode
from tests.scenarios.words import Line, Misread, amounts, seconds
from tests.sim.fleet import Fleet
from tests.sim.swarm import Swarm

MODEL_LABEL: Final = "nvidia.com/gpu.product"
HOST: Final = GroupLevel("kubernetes.io/hostname", "host", "h")
LEVELS: Final = {name: GroupLevel(f"example.com/{name}", name, name[0]) for name in ("zone", "block", "rack")}
HOST_PREFIXES: Final = "hijklmno"
TREES: Final = {"hosts": (), "racks": ("rack",), "blocks": ("block", "rack"), "zones": ("zone", "block", "rack")}
PODS_PER_HOST: Final = 110
FOR_EVER_MS: Final = 10 * 365 * 24 * 3_600_000
TIMING: Final = Timing(start=500, start_jitter=0, run=FOR_EVER_MS, stop=500, tick=25)
"""Pods run until somebody ends them, unless their job says how long it runs."""
CALM: Final = Swarm(replicas=1, store_lag_s=0, watch_lag_s=0, link_lag_s=0, bus_lag_s=0, cluster_lag_s=0)
UNLIMITED: Final = "unlimited"
DEFAULT_FLAVOR: Final = "gpu"
DEFAULT_QUEUE: Final = "team"


@dataclass(frozen=True, slots=True)
class Setting(Fleet):
    """A fleet with everything that a story says of it.

    Attributes:
        absent: pools whose agents are not started.
    """

    flavors: tuple[Flavor, ...] = ()
    priorities: tuple[PriorityClass, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    levels: dict[PoolName, tuple[Level, ...]] = field(default_factory=dict)
    costs: dict[PoolName, int] = field(default_factory=dict)
    regions: dict[PoolName, str] = field(default_factory=dict)
    absent: frozenset[PoolName] = frozenset()
    swarm: Swarm = CALM

    def settings(self) -> tuple[Put, ...]:
        """See Fleet."""
        queues = (Put(keys.queue(q.name), encode(QueueValue.of(q, created_ms=0))) for q in self.queues)
        flavors = (Put(keys.flavor(f.name), encode(FlavorValue.of(f))) for f in self.flavors)
        classes = (Put(keys.priority(p.name), encode(PriorityValue(p.value, p.default))) for p in self.priorities)
        cohorts = (Put(keys.cohort(c.name), encode(CohortValue.of(c))) for c in self.cohorts)
        return (*cohorts, *queues, *flavors, *classes)


VERBS: Final = ("pool", "flavor", "queue", "priority", "replicas")


def setting_of(lines: Iterable[Line]) -> Setting:
    """The setting that these commands describe; what they leave out is as simple as can be."""
    given = tuple(lines)
    pools: dict[str, list[Line]] = {}
    for line in given:
        if line.verb == "pool":
            pools.setdefault(line.word(0, "a name"), []).append(line)
    flavors = tuple(flavor_of(line, i) for i, line in enumerate(_of(given, "flavor"))) or (
        Flavor(FlavorName(DEFAULT_FLAVOR), 0),
    )
    queues = tuple(_queue(line, flavors) for line in _of(given, "queue")) or (
        _queue(Line(0, "queue", (DEFAULT_QUEUE,), {}), flavors),
    )
    cohorts = tuple(dict.fromkeys(q.cohort for q in queues if q.cohort))
    return Setting(
        clusters=tuple(_cluster(name, groups) for name, groups in pools.items()),
        queues=queues,
        flavors=flavors,
        priorities=tuple(_priority(line) for line in _of(given, "priority")),
        cohorts=tuple(Cohort(name) for name in cohorts),
        levels={PoolName(name): _levels(groups[0]) for name, groups in pools.items()},
        costs={PoolName(name): groups[0].integer("cost", 0) for name, groups in pools.items()},
        regions={PoolName(name): groups[0].named.get("region", "") for name, groups in pools.items()},
        absent=frozenset(PoolName(name) for name, groups in pools.items() if groups[0].has("absent")),
        swarm=_swarm(given),
    )


def _of(lines: Iterable[Line], verb: str) -> list[Line]:
    return [line for line in lines if line.verb == verb]


def _swarm(lines: tuple[Line, ...]) -> Swarm:
    swarm = CALM
    for line in _of(lines, "replicas"):
        swarm = replace(swarm, replicas=int(line.word(0, "a number")))
    return swarm


def changed_weather(swarm: Swarm, line: Line) -> Swarm:
    """The weather with other values; `calm` takes all faults away."""
    if line.has("calm"):
        swarm = replace(CALM, replicas=swarm.replicas)
    known = {f.name for f in fields(Swarm)}
    new: dict[str, Any] = {}  # Any: fields of several types
    for name, text in line.named.items():
        if name not in known:
            raise Misread(f"line {line.number}: the weather has no {name}")
        new[name] = seconds(text) if text[-1].isalpha() else float(text)
    return replace(swarm, **new)


# ---- pools --------------------------------------------------------------------------------------------------


def _tree(line: Line) -> str:
    found = [name for name in TREES if name in line.named]
    if len(found) != 1:
        raise Misread(f"line {line.number}: a pool needs one of {', '.join(TREES)}")
    return found[0]


def _levels(line: Line) -> tuple[Level, ...]:
    return levels_of(TREES[_tree(line)])


def levels_of(names: Iterable[str]) -> tuple[Level, ...]:
    """Topology levels, coarse to fine."""
    return tuple(Level(LEVELS[name].key, name) for name in names)


def _cluster(name: str, groups: list[Line]) -> ClusterSpec:
    lacks = tuple(str(need) for need in needs_of(groups[0], "lacks"))
    grouped = tuple(_group(name, number, line) for number, line in enumerate(groups))
    return ClusterSpec(name, grouped, TIMING, lacks=lacks)


def needs_of(line: Line, name: str) -> tuple[Need, ...]:
    """`secret:hf-token,config_map:conf`."""
    pairs = (word.partition(":") for word in line.listed(name))
    return tuple(Need(NeedKind[kind.upper()], what) for kind, _, what in pairs)


def _group(pool: str, number: int, line: Line) -> NodeGroup:
    model = line.named.get("model", "")
    host = replace(HOST, prefix=HOST_PREFIXES[number])
    resources = dict(line.resources().items())
    if not resources:
        resources = dict(amounts({"gpus": "8"}).items())
    return NodeGroup(
        prefix=pool,
        levels=(*[LEVELS[name] for name in TREES[_tree(line)]], host),
        sizes=_sizes(line.named[_tree(line)]),
        allocatable=Resources({PODS: PODS_PER_HOST, **resources}),
        labels={**({MODEL_LABEL: model} if model else {}), **line.prefixed("label.")},
        taints=tuple(taint_of(text) for text in line.listed("taint")),
        devices=_devices(line.named.get("roots", "")),
    )


def _devices(text: str) -> tuple[DeviceGroup, ...]:
    """`2n,2/4`: two PCIe roots of two GPUs, the first with a NIC, in one NUMA node; one of four in another."""
    numas = [numa.split(",") for numa in text.split("/")] if text else []
    return tuple(
        DeviceGroup(str(numa), f"pci{numa}{at}", int(root.rstrip("n")), int(root.endswith("n")))
        for numa, roots in enumerate(numas)
        for at, root in enumerate(roots)
    )


def _sizes(text: str) -> Sizes:
    """`2x4x8`: equal branches. `4,2/3`: two blocks, of racks with 4 and 2 hosts, and of one with 3."""
    if "," not in text and "/" not in text:
        return uniform(tuple(int(part) for part in text.split("x")))
    blocks = [tuple(int(hosts) for hosts in block.split(",")) for block in text.split("/")]
    leaves = tuple(hosts for block in blocks for hosts in block)
    racks = tuple(len(block) for block in blocks)
    return ((len(racks),), racks, leaves) if "/" in text else (racks, leaves)


def taint_of(text: str) -> Taint:
    """`key`, `key=value`, `key=value:NoExecute`."""
    head, _, effect = text.partition(":")
    key, _, value = head.partition("=")
    effects = {"": Effect.NO_SCHEDULE, "NoSchedule": Effect.NO_SCHEDULE, "NoExecute": Effect.NO_EXECUTE}
    return Taint(key, value, effects[effect])


# ---- flavors, queues, priorities ----------------------------------------------------------------------------


def flavor_of(line: Line, order: int) -> Flavor:
    """A flavor by labels, by model if none is named, or of any host."""
    name = line.word(0, "a name")
    labels = dict(line.named) or {MODEL_LABEL: name}
    requirements = tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels.items())
    return Flavor(FlavorName(name), order, () if line.has("any") else requirements)


def _queue(line: Line, flavors: tuple[Flavor, ...]) -> Queue:
    name = line.word(0, "a name")
    named = {f.name: line.named[f.name] for f in flavors if f.name in line.named}
    if not named:
        named = {f.name: UNLIMITED for f in flavors}
    uid = queue_uid("operator", "sim", name)
    quotas = tuple(quota_of(flavor, text) for flavor, text in named.items())
    return Queue(uid, QueueName(name), line.named.get("cohort", ""), quotas)


def quota_of(flavor: str, text: str) -> FlavorQuota:
    """`64`: GPUs. `cpu:40,nvidia.com/gpu:8`: amounts. `unlimited`: no resource is limited."""
    if text == UNLIMITED:
        return FlavorQuota(FlavorName(flavor), Resources())
    if text.isdigit():
        return FlavorQuota(FlavorName(flavor), amounts({"gpus": text}))
    pairs = (pair.rsplit(":", 1) for pair in text.split(","))
    return FlavorQuota(FlavorName(flavor), amounts(dict(pairs)))


def _priority(line: Line) -> PriorityClass:
    return PriorityClass(line.word(0, "a name"), int(line.word(1, "a value")), default=line.has("default"))
