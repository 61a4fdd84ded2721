"""From counts to names: which domains and hosts a decision means.

Only order decides here, and it is always the same: of domains that the shape holds equal, and of hosts in one bin,
those with the best merit (see `scores`), then by name. The result is in the order of ranks: depth first, by path,
then by host name. Where the last slice is smaller, its place comes last at every level, or ranks counted off in
slices would cross domains.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from types import MappingProxyType
from typing import Final

import numpy as np

from hanse.agent.core.inventory import Inventory
from hanse.agent.core.places import HostRuns, Stretch
from hanse.agent.core.scores import Merit, mean_merit
from hanse.agent.core.topology import Domain, lowest
from hanse.model.ids import NodeName
from hanse.shape.domains import Branch, Leaf
from hanse.shape.levels import bin_number
from hanse.shape.take import Take, pods_of

_NO_STEPS: Final[Mapping[int, tuple[int, ...]]] = MappingProxyType({})
Runs = list[tuple[NodeName, int]]  # (node, pods) in the order of ranks
Spots = list[tuple[Domain, Take]]  # lowest domains with what is used of them, in the order of their paths


def hosts_alike(
    inventory: Inventory,
    takes: Iterable[tuple[int, Take]],
    steps: Mapping[int, tuple[int, ...]] = _NO_STEPS,
) -> HostRuns:
    """The hosts that takes below the roots of the inventory's shape mean; each with the number of its tree.

    Where all hosts of a domain are used there is nothing to choose, so those domains are read as one array.

    Args:
        steps: by tree, and there by depth from its coarsest domains on, what pods come in multiples of, but for the
            smaller slice; none for a set without one.
    """
    names: list[NodeName] = []
    pods: list[int] = []
    stretches: list[Stretch] = []
    for tree, take in takes:
        spots: Spots = []
        own_steps = steps.get(tree, ())
        _spots(inventory, inventory.roots[tree], take, spots, own_steps)
        whole = _whole_pods([(low, below) for low, below in spots if below.lens is not None])
        at = 0
        for low, below in spots:
            if below.lens is None:
                own = _some_pods(inventory, low, below)
            else:
                own = whole[at : at + len(low.names)]
                at += len(low.names)
            before = len(pods)
            pods.extend(filter(None, own))
            names.extend(compress(low.names, own))
            stretches.append((tree, low.path, len(pods) - before))
            if own_steps:
                _short_last(names, pods, before, own_steps[-1])
    return HostRuns(names, pods, stretches)


def _short_last(names: list[NodeName], pods: list[int], first: int, step: int) -> None:
    """Moves the host with the smaller slice behind the others, from a position on."""
    order = sorted(range(first, len(pods)), key=lambda at: pods[at] % step != 0)
    names[first:], pods[first:] = [names[at] for at in order], [pods[at] for at in order]


def _spots(inventory: Inventory, domain: Domain, take: Take, out: Spots, steps: tuple[int, ...]) -> None:
    if not take.kids:
        out.append((domain, take))
        return
    node = domain.node()
    assert isinstance(node, Branch)
    used: dict[int, int] = {}
    chosen: list[tuple[bool, str, Domain, Take]] = []
    for i, copies, below in take.kids:
        alike = domain.alike(node.kids[i][0].key)
        if inventory.scores and len(alike) > 1:
            alike = _best_first(inventory, alike)
        if len(alike) > copies:
            first = used.get(i, 0)
            used[i] = first + copies
            alike = alike[first : first + copies]
        short = bool(steps) and _is_short(below, steps)
        chosen.extend([(short, kid.name, kid, below) for kid in alike])
    if len(chosen) > 1:
        chosen.sort(key=_first)
    for _, _, kid, below in chosen:
        _spots(inventory, kid, below, out, steps[1:])


def _first(item: tuple[bool, str, Domain, Take]) -> tuple[bool, str]:
    return item[:2]


def _whole_pods(spots: Spots) -> list[int]:
    """Pods of every node of these domains, one after the other, where all hosts are used as far as they can be."""
    if not spots:
        return []
    lens = spots[0][1].lens
    assert lens is not None
    numbers = np.frombuffer(b"".join([low.numbers for low, _ in spots]), dtype=np.int64)
    pods: list[int] = lens.bins.pods[numbers].tolist()
    return pods


def _some_pods(inventory: Inventory, low: Domain, take: Take) -> list[int]:
    """Pods of every node of a lowest domain of which some hosts are used: of each bin the best, else the first."""
    node = low.node()
    assert isinstance(node, Leaf)
    wanted: dict[int, list[int]] = {}
    for i, hosts, pods in take.hosts:
        c, free, _ = node.bins[i]
        wanted.setdefault(bin_number(c, free), []).extend([pods] * hosts)
    out = [0] * len(low.names)
    order: Iterable[int] = range(len(out))
    if inventory.scores:
        order = sorted(order, key=lambda at: inventory.at(low.slots[at]).merit)
    for pods_of_bin in wanted.values():
        pods_of_bin.reverse()
    for at in order:
        left = wanted.get(low.numbers[at])
        if left:
            out[at] = left.pop()
    return out


def _is_short(take: Take, steps: tuple[int, ...]) -> bool:
    """Whether a domain holds the smaller slice."""
    return bool(steps) and pods_of(take) % steps[0] != 0


def runs_named(
    inventory: Inventory, root: Domain, take: Take, groups: list[list[int]], steps: tuple[int, ...] = ()
) -> Runs:
    """The same for a take over counted capacity: children by name, bins as lists of slots in `groups`, `steps` of
    one tree."""
    if not take.kids:
        return _hosts(take, inventory, groups, steps)
    names = sorted(root.kids)
    chosen = sorted([(_is_short(below, steps), names[i], at, below) for at, (i, _, below) in enumerate(take.kids)])
    return [
        run
        for _, name, _, below in chosen
        for run in runs_named(inventory, root.kids[name], below, groups, steps[1:])
    ]


def _names(inventory: Inventory, slots: Iterable[int]) -> list[NodeName]:
    """Hosts that are alike in everything that counts, the best ones first."""
    if not inventory.scores:
        return sorted([inventory.at(slot).name for slot in slots])
    nodes = [inventory.at(slot) for slot in slots]
    return [name for _, name in sorted([(node.merit, node.name) for node in nodes])]


def _best_first(inventory: Inventory, alike: list[Domain]) -> list[Domain]:
    """Domains that are alike, which come by name, the best ones first."""
    return sorted(alike, key=lambda domain: mean_merit(_merits(inventory, domain)))


def _merits(inventory: Inventory, domain: Domain) -> Iterator[Merit]:
    nodes = (inventory.at(slot) for low in lowest(domain) for slot in low.slots)
    return (node.merit for node in nodes if node.at is not None)


def _hosts(take: Take, inventory: Inventory, groups: list[list[int]], steps: tuple[int, ...]) -> Runs:
    used: dict[int, int] = {}
    runs: Runs = []
    for i, hosts, pods in take.hosts:
        first = used.get(i, 0)
        used[i] = first + hosts
        runs.extend([(name, pods) for name in _names(inventory, groups[i])[first : first + hosts]])
    runs.sort(key=lambda run: (bool(steps) and run[1] % steps[0] != 0, run))
    return runs
