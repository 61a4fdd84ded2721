"""What a simulated cluster is made of: values only, the same whoever wrote them (a fleet file, a test, a bench).

A cluster is a list of node groups. A group is a tree of domains with equal hosts at its leaves, and the trees of
two groups may differ in depth: an H100 group with blocks and racks beside an NVL72 group that has racks alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hanse.model.devices import DeviceGroup
from hanse.model.resources import Resources
from hanse.model.selectors import Taint

NODES_MAX: Final = 60_000  # nodes of one cluster
LEVELS_MAX: Final = 8
PODS_PER_NODE: Final = 110  # the kubelet's default

RUN_MS: Final = 600_000
START_MS: Final = 2_000
START_JITTER_MS: Final = 1_000
STOP_MS: Final = 1_000
TICK_MS: Final = 25

Sizes = tuple[tuple[int, ...], ...]
"""A tree of domains, level by level: `sizes[d][i]` children of the i-th domain at depth d; `sizes[0]` has the root's.
The last level counts hosts."""

_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GroupLevel:
    """One level of a group's tree.

    Attributes:
        key: label that carries the domain's name.
        prefix: of the names of its domains: `r` gives r00, r01, …
    """

    key: str
    alias: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Busy:
    """Other gangs that run already.

    Attributes:
        fraction: of the group's GPUs (of its hosts, if it has none) that are taken, 0 to 1.
        scattered: some GPUs on nearly every host, so that the free ones are many and whole hosts are few; otherwise
            gangs of whole hosts, side by side in racks.
        whole_hosts: fraction of the hosts that a scattered pattern leaves alone.
    """

    fraction: float = 0.0
    scattered: bool = False
    whole_hosts: float = 0.05
    seed: int = 0


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal hosts in a tree of domains.

    Attributes:
        prefix: of the node names; `iowa` gives iowa-b7-r03-h11.
        levels: coarse to fine; the last one is the host.
        sizes: the tree; as many tuples as levels.
        labels: that all hosts share.
        allocatable: of one host, including `pods`.
        devices: GPUs of one host by what they share; () if the cluster does not tell.
    """

    prefix: str
    levels: tuple[GroupLevel, ...]
    sizes: Sizes
    allocatable: Resources
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    taints: tuple[Taint, ...] = ()
    busy: Busy = Busy()
    devices: tuple[DeviceGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take, in milliseconds.

    Attributes:
        start: from the creation of a pod to its running.
        start_jitter: added to it, for each pod another share, by seed and gang.
        run: of a program that does not say how long it runs.
        stop: that a program takes to end when it is told to, if its grace is not shorter.
        tick: due times are rounded up to a multiple of it, so that many of them are handled at once.
    """

    start: int = START_MS
    start_jitter: int = START_JITTER_MS
    run: int = RUN_MS
    stop: int = STOP_MS
    tick: int = TICK_MS


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """One simulated cluster.

    Attributes:
        lacks: what pods may name and it does not have, as `Secret hf-token`; everything else is there.
    """

    name: str
    groups: tuple[NodeGroup, ...]
    timing: Timing = Timing()
    seed: int = 0
    lacks: tuple[str, ...] = ()


def hosts_in(sizes: Sizes) -> int:
    """Hosts of a tree."""
    return sum(sizes[-1])


def uniform(counts: tuple[int, ...]) -> Sizes:
    """The tree in which every domain of a level has equally many children: (8, 16, 32) is 8 by 16 racks of 32."""
    domains = 1
    sizes: list[tuple[int, ...]] = []
    for count in counts:
        sizes.append((count,) * domains)
        domains *= count
    return tuple(sizes)
