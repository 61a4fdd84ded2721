"""A gang on named nodes, and holding it in an inventory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, overload

from hanse.agent.core.devices import UNKNOWN, OnDevice, chosen
from hanse.agent.core.groups import shared_out
from hanse.agent.core.inventory import Inventory
from hanse.model.ids import FlavorName, NodeName
from hanse.model.job import Devices
from hanse.model.placement import DOMAINS_LISTED_MAX, LevelUse, NodePlace, PartPlacement
from hanse.model.request import GangRequest
from hanse.model.resources import GPU_MILLI, Resources
from hanse.shape.ask import SetAsk, prepare
from hanse.shape.classes import whole_pod
from hanse.shape.lens import ladder
from hanse.shape.limits import HOST_ALIAS
from hanse.shape.seat import exclusive_depths


class HostUse(NamedTuple):
    """Consecutive ranks of one set on one node; `path` are its domains, coarse to fine."""

    node: NodeName
    path: tuple[str, ...]
    first_rank: int
    pods: int


Stretch = tuple[int, tuple[str, ...], int]  # tree (-1: not known), path of a lowest domain, hosts one after the other


class HostRuns(Sequence[HostUse]):
    """The hosts of a set in the order of ranks, written down one by one only when somebody asks.

    Attributes:
        names, pods: of each host.
        stretches: where they are.
    """

    __slots__ = ("_uses", "names", "pods", "stretches")

    def __init__(self, names: list[NodeName], pods: list[int], stretches: list[Stretch]) -> None:
        self.names = names
        self.pods = pods
        self.stretches = stretches
        self._uses: tuple[HostUse, ...] | None = None

    @property
    def uses(self) -> tuple[HostUse, ...]:
        """One by one."""
        if self._uses is None:
            paths = [path for _, path, hosts in self.stretches for _ in range(hosts)]
            ranks = accumulate(self.pods, initial=0)
            self._uses = tuple(map(HostUse, self.names, paths, ranks, self.pods))
        return self._uses

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> HostUse: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[HostUse, ...]: ...
    def __getitem__(self, at: int | slice) -> HostUse | tuple[HostUse, ...]:
        return self.uses[at]

    def __iter__(self) -> Iterator[HostUse]:
        return iter(self.uses)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, HostRuns):
            return (self.names, self.pods) == (other.names, other.pods) and self.uses == other.uses
        return isinstance(other, tuple) and self.uses == other

    def __hash__(self) -> int:
        return hash(self.uses)

    def __repr__(self) -> str:
        return repr(self.uses)


@dataclass(frozen=True, slots=True)
class SetPlacement:
    """Where one pod set goes.

    Attributes:
        set_index: position of the set in the request.
        pod: what one pod uses of its node.
        hosts: in the order of ranks.
        reserved: (node, resources) that an exclusive set takes beside its pods.
        devices: for each rank the device of its node that a share is of, or the group of devices that its GPUs are
            in (see `groups`); () for other pods.
    """

    set_index: int
    flavor: FlavorName
    pod: Resources
    hosts: Sequence[HostUse]
    reserved: tuple[tuple[NodeName, Resources], ...] = ()
    devices: tuple[int, ...] = ()

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The node of each rank."""
        return tuple([use.node for use in self.hosts for _ in range(use.pods)])

    def usage(self) -> Iterator[tuple[Resources, list[tuple[NodeName, int]]]]:
        """(what one pod uses, (node, pods)) to hold; a node may come more than once."""
        uses = whole_pod(self.pod)
        if self.devices:
            for name, device in zip(self.nodes, self.devices, strict=True):
                yield OnDevice(uses, device), [(name, 1)]
        else:
            yield uses, _runs(self.hosts)
        for name, amount in self.reserved:
            yield amount, [(name, 1)]

    def places(self, pod_set: str, first_rank: int = 0) -> tuple[NodePlace, ...]:
        """Node-level detail, for an answer on demand; ranks count from `first_rank`."""
        return tuple(
            NodePlace(use.node, pod_set, tuple(range(at, at + use.pods)), use.path)
            for use in self.hosts
            for at in (first_rank + use.first_rank,)
        )


def _runs(hosts: Sequence[HostUse]) -> list[tuple[NodeName, int]]:
    if isinstance(hosts, HostRuns):
        return list(zip(hosts.names, hosts.pods, strict=True))
    return [(use.node, use.pods) for use in hosts]


@dataclass(frozen=True, slots=True)
class Placement:
    """A whole gang on nodes.

    Attributes:
        sets: one per pod set that has pods, in the order of the request.
        part: what is reported upward.
        note: which preferred slice layers were kept, for people.
    """

    sets: tuple[SetPlacement, ...]
    part: PartPlacement
    note: str = ""

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """Every node that runs a pod, once, by name."""
        return tuple(sorted({use.node for s in self.sets for use in s.hosts}))

    def usage(self) -> Iterator[tuple[Resources, list[tuple[NodeName, int]]]]:
        """(what one pod uses, (node, pods)) to hold; a node may come more than once."""
        for s in self.sets:
            yield from s.usage()


def recorded(
    inventory: Inventory,
    request: GangRequest,
    flavors: tuple[FlavorName, ...],
    nodes: Sequence[Sequence[NodeName]],
) -> Placement:
    """The placement that a gang record tells of, before it is held.

    Args:
        nodes: for each set of the request, the node of each rank.
    """
    ask = prepare(request, flavors)
    sets: list[SetPlacement] = []
    for i, s in zip(ask.index, ask.sets, strict=True):
        runs: list[tuple[NodeName, int]] = []
        for name in nodes[i]:
            if runs and runs[-1][0] == name:
                runs[-1] = (name, runs[-1][1] + 1)
            else:
                runs.append((name, 1))
        sets.append(set_placement(inventory, i, s, runs))
    return Placement(tuple(sets), part_of(inventory, tuple(sets)))


def set_placement(
    inventory: Inventory,
    index: int,
    s: SetAsk,
    runs: Sequence[tuple[NodeName, int]],
    devices: Sequence[int] = (),
) -> SetPlacement:
    """One set on (node, pods) in the order of ranks, with what it reserves.

    Args:
        devices: see SetPlacement; those that are not said are chosen here.
    """
    hosts = _located(inventory, runs)
    on = on_devices(inventory, s.pod, hosts, devices)
    if s.devices is not None and not on:
        on = _in_groups(inventory, s.devices, s.gpus, hosts)
    return SetPlacement(index, s.flavor, s.pod, hosts, _reserved(inventory, s, hosts), on)


def set_on_hosts(inventory: Inventory, index: int, s: SetAsk, hosts: HostRuns) -> SetPlacement:
    """One set on hosts that are located already."""
    on = on_devices(inventory, s.pod, hosts)
    return SetPlacement(index, s.flavor, s.pod, hosts, _reserved(inventory, s, hosts), on)


def _located(inventory: Inventory, runs: Sequence[tuple[NodeName, int]]) -> HostRuns:
    stretches: list[Stretch] = []
    last: tuple[str, ...] | None = None
    for name, _ in runs:
        node = inventory.node(name)
        path = () if node is None else node.path
        if path is last:  # neighbours share the tuple
            stretches[-1] = (*stretches[-1][:2], stretches[-1][2] + 1)
        else:
            stretches.append((-1 if node is None else node.tree, path, 1))
        last = path
    return HostRuns([name for name, _ in runs], [pods for _, pods in runs], stretches)


def on_devices(
    inventory: Inventory, pod: Resources, hosts: Sequence[HostUse], said: Sequence[int] = ()
) -> tuple[int, ...]:
    """For each rank its device, () for pods without a share. Where `said` has none, the device is chosen.

    Of pods with whole GPUs, `said` are their groups of devices; where it does not say all of them, none is known.
    """
    milli = pod[GPU_MILLI]
    if not milli:
        return tuple(said) if said and len(said) == sum(use.pods for use in hosts) else ()
    ranks: dict[NodeName, list[int]] = {}
    for use in hosts:
        ranks.setdefault(use.node, []).extend(range(use.first_rank, use.first_rank + use.pods))
    pods = sum(use.pods for use in hosts)
    out = [UNKNOWN] * pods if len(said) != pods else list(said)
    for name, mine in ranks.items():
        for rank, device in zip(mine, chosen(inventory.shared(name), milli, [out[r] for r in mine]), strict=True):
            out[rank] = device
    return tuple(out)


def _in_groups(inventory: Inventory, wish: Devices, gpus: int, hosts: Sequence[HostUse]) -> tuple[int, ...]:
    """For each rank the group of devices that is chosen for it, UNKNOWN where its node has none with room."""
    out: list[int] = []
    for use in hosts:
        node = inventory.node(use.node)
        out.extend(shared_out([] if node is None else node.group_rooms(wish), gpus, use.pods))
    return tuple(out)


def _reserved(inventory: Inventory, s: SetAsk, hosts: Sequence[HostUse]) -> tuple[tuple[NodeName, Resources], ...]:
    """Every GPU of the domains that the set has for itself, without those of its own pods."""
    if not s.exclusive:
        return ()
    depths = exclusive_depths([ladder(levels) for levels in inventory.trees], s)
    if all(depth < 0 for depth in depths):
        return ()
    pods: dict[NodeName, int] = {}
    for use in hosts:
        pods[use.node] = pods.get(use.node, 0) + use.pods
    taken: dict[NodeName, Resources] = {}
    for name in pods:
        node = inventory.node(name)
        if node is None or node.domain is None or depths[node.tree] < 0:
            continue
        for slot in inventory.around(node, depths[node.tree]):
            other = inventory.at(slot)
            if other.cls is not None and other.cls.gpu:
                left = other.raw_free_gpus - pods.get(other.name, 0) * s.pod[other.cls.gpu]
                if left > 0:
                    taken[other.name] = Resources({other.cls.gpu: left})
    return tuple(sorted(taken.items(), key=lambda item: item[0]))


def part_of(inventory: Inventory, sets: tuple[SetPlacement, ...]) -> PartPlacement:
    """Counts and domains by level: what may be told above the agent."""
    domains: dict[str, dict[tuple[str, ...], None]] = {}
    hosts: set[NodeName] = set()
    pods = 0
    for s in sets:
        own = s.hosts if isinstance(s.hosts, HostRuns) else _located(inventory, _runs(s.hosts))
        hosts.update(own.names)
        pods += sum(own.pods)
        for tree, path, _ in own.stretches:
            levels = inventory.trees[tree] if tree >= 0 else ()
            for depth, level in enumerate(levels):
                domains.setdefault(level.alias, {})[path[: depth + 1]] = None
    uses = [_use(alias, sorted(paths)) for alias, paths in domains.items()]
    uses.append(LevelUse(HOST_ALIAS, len(hosts), ()))
    flavors = tuple(dict.fromkeys(s.flavor for s in sets))
    return PartPlacement(flavors, pods, tuple(uses))


def _use(alias: str, paths: list[tuple[str, ...]]) -> LevelUse:
    return LevelUse(alias, len(paths), tuple(["/".join(path) for path in paths[:DOMAINS_LISTED_MAX]]))
