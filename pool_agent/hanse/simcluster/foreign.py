"""Pods of somebody else: what runs on a shared cluster before, beside and after our own.

Two patterns. *Gangs* take whole hosts side by side: whole racks first, then part of one rack, as other people's
training runs do. *Scattered* takes some GPUs on nearly every host, as years of small jobs leave behind: the sum of
what is free is large, and a gang of whole hosts finds hardly any.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from hanse.model.resources import GPU_RESOURCES, PODS, Resources
from hanse.simcluster.gang import FOR_EVER_MS
from hanse.simcluster.nodes import Indexes, NodeTable
from hanse.simcluster.spec import ClusterSpec, NodeGroup

GANG_HOSTS: Final = (8, 16, 32, 64, 128)  # sizes of other people's gangs
UNEVENNESS: Final = 0.5  # how far racks stray from the order of their top domains: 0 fills one after the other


@dataclass(slots=True)
class ForeignGang:
    """Equal pods of somebody else.

    Attributes:
        nodes: one entry per pod; a node may occur more than once.
        resources: of one pod.
        due_ms: when it ends; FOR_EVER_MS if never.
        serial: order of creation.
    """

    name: str
    nodes: Indexes
    resources: Resources
    due_ms: int = FOR_EVER_MS
    serial: int = 0


def generate(spec: ClusterSpec, table: NodeTable) -> Iterator[ForeignGang]:
    """What the spec says is busy, the same for equal specs."""
    for number, group in enumerate(spec.groups):
        if group.busy.fraction > 0:
            members = [i for i, owner in enumerate(table.group_of) if owner == number]
            rng = random.Random(f"{spec.seed}/{group.busy.seed}/{group.prefix}")
            pattern = _scattered if group.busy.scattered and _gpu_name(group) else _gangs
            yield from pattern(group, members, table, rng)


def _gpu_name(group: NodeGroup) -> str:
    return next((name for name in GPU_RESOURCES if group.allocatable[name]), "")


def share(group: NodeGroup, gpus: int) -> Resources:
    """What a pod with some of a host's GPUs takes of the rest: its share, one of an HCA at least."""
    whole = group.allocatable
    total = max(1, whole[_gpu_name(group)])
    parts = {name: amount * gpus // total for name, amount in whole.items() if name != PODS}
    return Resources(parts)


def _gangs(group: NodeGroup, members: list[int], table: NodeTable, rng: random.Random) -> Iterator[ForeignGang]:
    """Whole hosts, rack after rack, some top domains before others: a fleet is never equally full."""
    racks: dict[tuple[str, ...], list[int]] = {}
    for node in members:
        racks.setdefault(table.paths[node][:-1], []).append(node)
    favour = {top: rng.random() for top in sorted({table.paths[node][0] for node in members})}
    order = sorted(racks, key=lambda rack: favour[table.paths[racks[rack][0]][0]] + UNEVENNESS * rng.random())
    hosts = [node for rack in order for node in racks[rack]][: round(group.busy.fraction * len(members))]
    whole = share(group, group.allocatable[_gpu_name(group)]) if _gpu_name(group) else _all_of(group)
    number = 0
    while hosts:
        size = rng.choice(GANG_HOSTS)
        taken, hosts = hosts[:size], hosts[size:]
        yield ForeignGang(_name(group, number), np.array(sorted(taken), dtype=np.int32), whole)
        number += 1


def _all_of(group: NodeGroup) -> Resources:
    return Resources({name: amount for name, amount in group.allocatable.items() if name != PODS})


def _scattered(group: NodeGroup, members: list[int], table: NodeTable, rng: random.Random) -> Iterator[ForeignGang]:
    """Parts of hosts: a few hosts stay whole, the others lose GPUs one by one until the sum is right."""
    per_host = group.allocatable[_gpu_name(group)]
    hosts = list(members)
    rng.shuffle(hosts)
    spared = min(round(group.busy.whole_hosts * len(hosts)), len(hosts) - 1)
    used = dict.fromkeys(hosts[spared:], 1)
    left = round(group.busy.fraction * len(members) * per_host) - len(used)
    open_hosts = [host for host in used if per_host > 1]
    while left > 0 and open_hosts:
        slot = rng.randrange(len(open_hosts))
        host = open_hosts[slot]
        used[host] += 1
        left -= 1
        if used[host] >= per_host:
            open_hosts[slot] = open_hosts[-1]
            open_hosts.pop()
    for gpus in range(1, per_host + 1):
        nodes = sorted(host for host, taken in used.items() if taken == gpus)
        if nodes:
            yield ForeignGang(_name(group, gpus), np.array(nodes, dtype=np.int32), share(group, gpus))


def _name(group: NodeGroup, number: int) -> str:
    return f"{group.prefix}/other-{number}"
