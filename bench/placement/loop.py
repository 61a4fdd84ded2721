"""The plain loop: the same gang placed as one would write it down first, to compare with.

It looks at every node, sums what fits by domain, takes the domain with the least to spare, and fills its hosts from
the fullest on; slices are filled domain by domain. It does not look for the fewest hosts over all domains, explains
nothing and breaks ties by luck. Its nodes are tuples that are ready before the clock starts.
"""

from typing import NamedTuple

from bench.placement.pool import LEVELS
from hanse.agent.core.inventory import Inventory
from hanse.model.request import GangRequest

DEPTHS = {level.alias: depth for depth, level in enumerate(LEVELS)}


class Spot(NamedTuple):
    """One node."""

    name: str
    path: tuple[str, ...]
    free: int


def spots(inventory: Inventory) -> list[Spot]:
    """Every node that takes pods."""
    return [Spot(node.name, node.path, node.free_gpus) for node in inventory if node.at is not None]


def place_in_a_loop(nodes: list[Spot], request: GangRequest) -> list[tuple[str, int]] | None:
    """(node, pods), None if there is no room."""
    (s,) = request.sets
    topology = s.topology
    sizes = {x.level: x.size for x in topology.slices}
    host = sizes.get("host", 1)
    most = {node.name: node.free // s.resources.gpus // host * host for node in nodes}
    if not topology.slices:
        for level in (topology.required or topology.preferred, "block", "zone", ""):
            found = _in_one(nodes, most, level, s.count)
            if found is not None or topology.required:
                return found
        return None
    return _in_slices(nodes, most, sizes, s.count)


def _in_one(nodes: list[Spot], most: dict[str, int], level: str, count: int) -> list[tuple[str, int]] | None:
    room: dict[tuple[str, ...], int] = {}
    depth = DEPTHS[level] + 1 if level else 0
    for node in nodes:
        key = node.path[:depth]
        room[key] = room.get(key, 0) + most[node.name]
    fitting = [(pods, key) for key, pods in room.items() if pods >= count]
    if not fitting:
        return None
    _, best = min(fitting)
    return _filled([node for node in nodes if node.path[:depth] == best], most, count)


def _filled(nodes: list[Spot], most: dict[str, int], count: int) -> list[tuple[str, int]]:
    out: list[tuple[str, int]] = []
    for node in sorted(nodes, key=lambda node: (-most[node.name], node.name)):
        pods = min(most[node.name], count)
        if pods == 0:
            break
        out.append((node.name, pods))
        count -= pods
    return out


def _in_slices(
    nodes: list[Spot], most: dict[str, int], sizes: dict[str, int], count: int
) -> list[tuple[str, int]] | None:
    inner, outer = sizes.get("rack", 1), sizes.get("block", 1)
    racks: dict[tuple[str, ...], list[Spot]] = {}
    for node in nodes:
        racks.setdefault(node.path, []).append(node)
    blocks: dict[tuple[str, ...], list[tuple[int, tuple[str, ...]]]] = {}
    for path, inside in racks.items():
        room = sum(most[node.name] for node in inside) // inner * inner
        blocks.setdefault(path[:2], []).append((room, path))
    held = sorted(((sum(room for room, _ in kids) // outer * outer, kids) for kids in blocks.values()), reverse=True)
    out: list[tuple[str, int]] = []
    for room, kids in held:
        here = min(room, count)
        count -= here
        for fit, path in sorted(kids, reverse=True):
            pods = min(fit, here)
            if pods:
                out.extend(_filled(racks[path], most, pods))
                here -= pods
    return None if count else out
