"""Gangs of several pod sets: how far the placement is from the best, on pools small enough to try everything.

What a gang of several sets costs is what it uses all together: blocks, racks and hosts, in that order. Every set of
hosts is tried, the cheapest first, until all pods find room in one; required levels of the sets are kept. A pool has
up to two blocks of two racks of up to three hosts, with any number of GPUs free; a gang has two or three sets.

`by` says who answered: the exact search (`exact`), or beyond its limits the greedy, whose answer may meet a lower
bound (`certified`). `beyond_the_limit`: larger gangs on larger pools, which the greedy alone places; there the best
is what the exact search finds with its limits raised. Cases that even that does not decide are left out and counted.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from hanse.shape.arrangement import Arrangement, arrangement
from hanse.shape.ask import prepare
from hanse.shape.ground import ShapeGround, arranged
from hanse.shape.seat import usage
from hanse.shape.take import Take
from hanse.shape.together import Together

BLOCK_RACK: Final = LEVELS[1:]
Cost = tuple[int, int, int]  # blocks, racks, hosts
RAISED_PAIRS: Final = 800_000
RAISED_WORK: Final = 500_000_000


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
        "beyond_the_limit": _beyond(max(1, cases // 8), random.Random(seed)),
    }


def _measured(cases: int, rng: random.Random, *, least_gpus: int) -> JsonValue:
    seen = _Seen()
    while seen.cases < cases:
        hosts = _hosts(rng)
        wishes = [_wish(rng, least_gpus) for _ in range(rng.randint(2, 3))]
        best = _best(hosts, wishes)
        if best is not None:
            seen.look(_placed(hosts, wishes), best)
    return seen.told()


def _beyond(cases: int, rng: random.Random) -> JsonValue:
    """Gangs that the exact search does not take on, beside what it finds with its limits raised."""
    seen = _Seen()
    undecided = 0
    while seen.cases < cases:
        hosts = _hosts(rng, racks=4, most=8)
        wishes = [_wish(rng, GPUS + 1, pods) for pods in rng.choice(((24, 24), (12, 12, 12)))]
        pool, request = _pool(hosts), _request(wishes)
        asked = prepare(request, (FLAVOR,) * len(wishes))
        if arranged(pool.shape(), asked):
            continue
        raised = Together(ShapeGround(pool.shape(), asked.sets), asked.sets, pairs=RAISED_PAIRS, work=RAISED_WORK)
        found = raised.found()
        if found is None or not found.proven:
            undecided += not raised.refused
            continue
        counts = arrangement(raised, found, asked.sets).take.takes
        seen.look(_placed(hosts, wishes), _used(counts))
    return {**seen.told(), "undecided": undecided}


def _used(takes: Sequence[tuple[int, Take]]) -> Cost:
    ((_, take),) = takes
    blocks, racks, hosts = usage(take, len(BLOCK_RACK))
    return blocks, racks, hosts


@dataclass(slots=True)
class _Seen:
    """Cases with what was placed beside the best."""

    cases: int = 0
    refused: int = 0
    optimal: int = 0
    excess: list[int] = field(default_factory=lambda: [0, 0, 0])
    by: Counter[str] = field(default_factory=Counter)

    def look(self, placed: "tuple[Cost, str] | None", best: Cost) -> None:
        """One case more."""
        self.cases += 1
        if placed is None:
            self.refused += 1
            return
        got, how = placed
        self.by[how] += 1
        self.optimal += got == best
        self.excess = [total + a - b for total, a, b in zip(self.excess, got, best, strict=True)]

    def told(self) -> dict[str, JsonValue]:
        """For `raw`."""
        solved = max(1, self.cases - self.refused)
        names = ("blocks", "racks", "hosts")
        return {
            "cases": self.cases,
            "refused_though_possible": self.refused,
            "by": dict(self.by),
            "share_optimal": self.optimal / max(1, self.cases),
            "mean_excess": {name: total / solved for name, total in zip(names, self.excess, strict=True)},
        }


def _wish(rng: random.Random, least_gpus: int, pods: int = 5) -> Wish:
    while True:
        wish = Wish(rng.randint(1, pods), rng.choice((1, 2, 4, 8)), rng.choice((-1, -1, 0, 1)))
        if wish.pods * wish.gpus >= least_gpus:
            return wish


def _hosts(rng: random.Random, racks: int = 2, most: int = 3) -> list[Host]:
    out: list[Host] = []
    for block in range(rng.randint(1, 2)):
        for rack in range(rng.randint(1, racks)):
            for host in range(rng.randint(1, most)):
                free = rng.choice((GPUS, rng.randint(0, GPUS)))
                out.append(Host(f"n{block}{rack}{host}", (f"b{block}", f"r{rack}"), free))
    return out


def _pool(hosts: list[Host]) -> Inventory:
    inventory = Inventory([Flavor(FLAVOR, 0)], [BLOCK_RACK])
    for host in hosts:
        labels = {level.key: name for level, name in zip(BLOCK_RACK, host.path, strict=True)}
        inventory.set_node(NodeFacts(NodeName(host.name), labels, (), HOSTS[0]))
        if host.free < GPUS:
            inventory.hold(NodeName(host.name), {PIECE: GPUS - host.free})
    return inventory


def _request(wishes: list[Wish]) -> GangRequest:
    return GangRequest(tuple(
        SetRequest(
            w.pods, w.pods, Resources({NVIDIA_GPU: w.gpus}), (FLAVOR,), Selector(), (),
            Topology(BLOCK_RACK[w.depth].alias if w.depth >= 0 else ""),
        )
        for w in wishes
    ))  # fmt: skip


def _placed(hosts: list[Host], wishes: list[Wish]) -> tuple[Cost, str] | None:
    """What the placement costs, and who answered; None for a refusal."""
    inventory, request = _pool(hosts), _request(wishes)
    flavors = (FLAVOR,) * len(wishes)
    found = place(inventory, request, flavors)
    if not isinstance(found, Placement):
        return None
    used = set(found.nodes)
    cost = _cost([host for host in hosts if host.name in used])
    asked = prepare(request, flavors)
    exact = arranged(inventory.shape(), asked)
    if isinstance(exact, Arrangement) and exact.proven:
        return cost, "exact"
    least = Together(ShapeGround(inventory.shape(), asked.sets), asked.sets).least()
    return cost, "certified" if cost == least else "greedy"


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
