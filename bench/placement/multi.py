"""Gangs of several pod sets: how far the placement is from the best, on pools small enough to try everything.

What a gang of several sets costs is what it uses all together: blocks, racks and hosts, in that order. Every set of
hosts is tried, the cheapest first, until all pods find room in one; required levels of the sets are kept. A pool has
up to two blocks of two racks of up to three hosts, with any number of GPUs free; a gang has two or three sets.

Sets of one host or less are placed by the fragmentation score, which may prefer a broken host of its own to one that
the gang uses anyway; so gangs of which every set needs more than one host are told apart.
"""

import random
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from bench.contract import JsonValue
from bench.placement.hard import PIECE
from bench.placement.pool import FLAVOR, GPUS, HOSTS, LEVELS
from hanse.agent.core.facts import NodeFacts
from hanse.agent.core.inventory import Inventory
from hanse.agent.core.placement import Placement, place
from hanse.model.ids import NodeName
from hanse.model.job import Topology
from hanse.model.queue import Flavor
from hanse.model.request import GangRequest, SetRequest
from hanse.model.resources import NVIDIA_GPU, Resources
from hanse.model.selectors import Selector

BLOCK_RACK: Final = LEVELS[1:]
Cost = tuple[int, int, int]  # blocks, racks, hosts


@dataclass(frozen=True, slots=True)
class Host:
    """One host: its name, its block and rack, GPUs that are free."""

    name: str
    path: tuple[str, str]
    free: int


@dataclass(frozen=True, slots=True)
class Wish:
    """One set: pods, GPUs of each, and the level of which one domain must hold it (0 block, 1 rack, -1 none)."""

    pods: int
    gpus: int
    depth: int


def measure(cases: int, seed: int) -> JsonValue:
    """Random cases that some arrangement solves: how many the placement solves, and at which cost."""
    return {
        "any_sets": _measured(cases, random.Random(seed), least_gpus=1),
        "each_set_over_one_host": _measured(cases, random.Random(seed), least_gpus=GPUS + 1),
    }


def _measured(cases: int, rng: random.Random, *, least_gpus: int) -> JsonValue:
    solved = optimal = refused = 0
    excess = [0, 0, 0]
    looked = 0
    while looked < cases:
        hosts = _hosts(rng)
        wishes = [_wish(rng, least_gpus) for _ in range(rng.randint(2, 3))]
        best = _best(hosts, wishes)
        if best is None:
            continue
        looked += 1
        got = _placed(hosts, wishes)
        if got is None:
            refused += 1
            continue
        solved += 1
        optimal += got == best
        excess = [total + a - b for total, a, b in zip(excess, got, best, strict=True)]
    names = ("blocks", "racks", "hosts")
    return {
        "cases": cases,
        "refused_though_possible": refused,
        "share_optimal": optimal / cases,
        "mean_excess": {name: total / max(1, solved) for name, total in zip(names, excess, strict=True)},
    }


def _wish(rng: random.Random, least_gpus: int) -> Wish:
    while True:
        wish = Wish(rng.randint(1, 5), rng.choice((1, 2, 4, 8)), rng.choice((-1, -1, 0, 1)))
        if wish.pods * wish.gpus >= least_gpus:
            return wish


def _hosts(rng: random.Random) -> list[Host]:
    out: list[Host] = []
    for block in range(rng.randint(1, 2)):
        for rack in range(rng.randint(1, 2)):
            for host in range(rng.randint(1, 3)):
                free = rng.choice((GPUS, rng.randint(0, GPUS)))
                out.append(Host(f"n{block}{rack}{host}", (f"b{block}", f"r{rack}"), free))
    return out


def _placed(hosts: list[Host], wishes: list[Wish]) -> Cost | None:
    inventory = Inventory([Flavor(FLAVOR, 0)], [BLOCK_RACK])
    for host in hosts:
        labels = {level.key: name for level, name in zip(BLOCK_RACK, host.path, strict=True)}
        inventory.set_node(NodeFacts(NodeName(host.name), labels, (), HOSTS[0]))
        if host.free < GPUS:
            inventory.hold(NodeName(host.name), {PIECE: GPUS - host.free})
    sets = tuple(
        SetRequest(
            w.pods, w.pods, Resources({NVIDIA_GPU: w.gpus}), (FLAVOR,), Selector(), (),
            Topology(BLOCK_RACK[w.depth].alias if w.depth >= 0 else ""),
        )
        for w in wishes
    )  # fmt: skip
    found = place(inventory, GangRequest(sets), (FLAVOR,) * len(sets))
    if not isinstance(found, Placement):
        return None
    used = set(found.nodes)
    return _cost([host for host in hosts if host.name in used])


def _cost(hosts: list[Host]) -> Cost:
    return len({h.path[0] for h in hosts}), len({h.path for h in hosts}), len(hosts)


def _best(hosts: list[Host], wishes: list[Wish]) -> Cost | None:
    """The least cost at which all pods find room, None if they do nowhere."""
    choices = [list(some) for many in range(1, len(hosts) + 1) for some in combinations(hosts, many)]
    for some in sorted(choices, key=_cost):
        if _holds([host.free for host in some], [host.path for host in some], wishes):
            return _cost(some)
    return None


def _holds(free: list[int], paths: list[tuple[str, str]], wishes: list[Wish]) -> bool:
    """Whether these hosts hold all sets, by trying every way to share each set out."""
    if not wishes:
        return True
    if sum(free) < sum(wish.pods * wish.gpus for wish in wishes):
        return False
    wish = wishes[0]
    domains = {path[: wish.depth + 1] for path in paths}
    return any(
        _share(
            free, [at for at, path in enumerate(paths) if path[: wish.depth + 1] == domain], wish.pods, paths, wishes
        )
        for domain in sorted(domains)
    )


def _share(free: list[int], inside: list[int], pods: int, paths: list[tuple[str, str]], wishes: list[Wish]) -> bool:
    if not pods:
        return _holds(free, paths, wishes[1:])
    gpus = wishes[0].gpus
    if sum(free[at] // gpus for at in inside) < pods:
        return False
    at = inside[0]
    for here in range(min(pods, free[at] // gpus), -1, -1):
        left = [*free[:at], free[at] - here * gpus, *free[at + 1 :]]
        if _share(left, inside[1:], pods - here, paths, wishes):
            return True
    return False
