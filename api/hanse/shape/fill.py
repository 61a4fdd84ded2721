"""Pods without GPUs, more than one host of them: they fill what is broken already.

Hosts are filled one after the other in this order: how many kinds of whole things a pod there breaks (see `single`);
then lowest domain by lowest domain, those with the fewest whole hosts first and of these the roomiest, so that few
domains are touched; then hosts with the fewest free GPUs. A required level, or a preferred one that some domain can
serve, first narrows the choice to the domain with the fewest whole hosts.
"""

from typing import NamedTuple

from hanse.shape.capacity import Cap
from hanse.shape.solve import inside_one
from hanse.shape.take import Found, Take


class _Spot(NamedTuple):
    """Hosts of one bin; sorted as a tuple, so the order of the fields is the rule."""

    broken: int
    whole_hosts: int
    less_room: int
    path: tuple[int, ...]
    free: int
    full: int
    bin: int
    hosts: int
    most: int


def filled(cap: Cap, n: int, depth: int) -> Found:
    """n pods inside one domain `depth` levels below the children of `cap` (-1: anywhere in it).

    Some domain there must hold n.
    """
    if depth >= 0:
        fitting = [(kid.whole_hosts, kid.fit, i) for i, (kid, _) in enumerate(cap.kids) if kid.peak[depth] >= n]
        at = min(fitting)[2]
        kid = cap.kids[at][0]
        found = filled(kid, n, depth - 1)
        return Found(inside_one(found.cost, kid.fit), Take((), ((at, 1, found.take),)))
    spots: list[_Spot] = []
    _spots(cap, (), 1, spots)
    used: list[tuple[tuple[int, ...], int, int, int]] = []
    for spot in sorted(spots):
        hosts = min(spot.hosts, n // spot.most)
        if hosts:
            used.append((spot.path, spot.bin, hosts, spot.most))
            n -= hosts * spot.most
        if n and hosts < spot.hosts:
            used.append((spot.path, spot.bin, 1, n))
            n = 0
        if not n:
            break
    return _built(cap, used)


def _spots(cap: Cap, path: tuple[int, ...], breaks: int, out: list[_Spot]) -> None:
    if not cap.kids:
        for most, hosts, i, free, full in cap.hist:
            broken = breaks if 0 < full == free else 0
            out.append(_Spot(broken, cap.whole_hosts, -cap.fit, path, free, full, i, hosts, most))
        return
    for i, (kid, copies) in enumerate(cap.kids):
        for copy in range(copies if kid.fit else 0):
            _spots(kid, (*path, i, copy), breaks + kid.whole, out)


def _built(cap: Cap, used: list[tuple[tuple[int, ...], int, int, int]]) -> Found:
    """The hosts of each path as one take, copy by copy."""
    if not cap.kids:
        caps = {i: most for most, _, i, _, _ in cap.hist}
        cost = (sum([h for _, _, h, _ in used]), sum([caps[i] * h for _, i, h, _ in used]))
        return Found(cost, Take(tuple([(i, hosts, pods) for _, i, hosts, pods in used])))
    inside: dict[tuple[int, ...], list[tuple[tuple[int, ...], int, int, int]]] = {}
    for path, i, hosts, pods in used:
        inside.setdefault(path[:2], []).append((path[2:], i, hosts, pods))
    total: tuple[int, ...] = (0,) * (2 * cap.height)
    kids: list[tuple[int, int, Take]] = []
    for (i, _), below in sorted(inside.items()):
        kid = cap.kids[i][0]
        found = _built(kid, below)
        total = tuple([a + b for a, b in zip(total, inside_one(found.cost, kid.fit), strict=True)])
        kids.append((i, 1, found.take))
    return Found(total, Take((), tuple(kids)))
